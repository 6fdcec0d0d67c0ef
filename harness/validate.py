"""Is what a verifier returned a result at all? What is not is broken; whether it is biased is another question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import ChitreeError, told
from .request import Request

__all__ = ["BrokenResult", "Expected", "drafted", "emitted"]

Ints = NDArray[np.int64]

MOST_COLUMNS = 4096
"""Columns of tokens that are looked at: a step that goes on beyond is too long for any tree, whatever it emits."""
NAN_SEARCH = 1 << 20
"""Entries of an array of no integer dtype that are searched for NaN."""


class BrokenResult(ChitreeError):
    """A verifier returned something that is no result; the text says what was expected and what came."""

    exit_code = 3


@dataclass(frozen=True, eq=False)
class Expected:
    """What of a request a result is checked against; copies, since a verifier may overwrite the request."""

    candidates: Ints
    parents: Ints
    node_count: Ints
    depth_limit: int
    vocab: int

    @classmethod
    def of(cls, request: Request) -> Expected:
        """Return what a result of ``request`` is checked against."""
        copies = (request.candidates.copy(), request.parents.copy(), request.node_count.copy())
        return cls(*copies, request.depth_limit, request.vocab)


def emitted(result: Any, request: Expected) -> Ints:
    """Return the emitted tokens of each request, int64 [B, W], -1 beyond the end of each.

    W is at most 1 + max(S, N): a longer step is cut, since it is biased however it goes on. What is checked is a copy,
    which the verifier cannot change any more.

    Raises
    ------
    BrokenResult
        A field is missing, has a float dtype or a wrong shape, a token lies outside [0, V), a length below 1 or beyond
        the array, or the nodes are no path or disagree with the tokens.
    """
    batch, vocab, limit = len(request.candidates), request.vocab, request.depth_limit
    tokens = _integers(result, "tokens")
    given = _integers(result, "lengths")
    if tokens.ndim != 2 or tokens.shape[0] != batch or tokens.shape[1] < limit:
        raise BrokenResult(f"tokens must have shape [{batch}, {limit}] or wider, got {list(tokens.shape)}")
    if given.shape != (batch,):
        raise BrokenResult(f"lengths must have shape [{batch}], got {list(given.shape)}")
    width, given = tokens.shape[1], given.copy()
    bad = (given < 1) | (given > width)
    if bad.any():
        row = int(bad.argmax())
        raise BrokenResult(f"lengths must lie in [1, {width}], got {given[row]} in row {row}")
    lengths: Ints = given.astype(np.int64)
    longest = 1 + max(limit, request.candidates.shape[1])
    width = min(width, max(longest, min(int(lengths.max(initial=0)), MOST_COLUMNS)))
    tokens = tokens[:, :width].copy()
    beyond = np.arange(width) >= lengths[:, None]
    outside = ((tokens < 0) | (tokens >= vocab)) & ~beyond
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise BrokenResult(f"tokens must lie in [0, {vocab}), got {tokens[row, column]} in row {row}, column {column}")
    kept: Ints = np.where(beyond, -1, tokens.astype(np.int64))[:, :longest]  # signed first: -1 is no uint8
    if getattr(result, "nodes", None) is not None:
        _check_nodes(_integers(result, "nodes"), kept, lengths, request)
    return kept


def drafted(drafts: Any, request: Expected) -> Ints:
    """Return the drafts that a sampler drew for each request, int64 [B, N - 1]; what padding got is arbitrary.

    Raises
    ------
    BrokenResult
        They have a float dtype or a wrong shape, or one lies outside [0, V).
    """
    if drafts is None:
        raise BrokenResult("draft must return an integer array [B, N - 1], got None")
    array = _integer_array(drafts, "drafts")
    shape, vocab = (len(request.candidates), request.candidates.shape[1] - 1), request.vocab
    if array.shape != shape:
        raise BrokenResult(f"drafts must have shape {list(shape)}, got {list(array.shape)}")
    array = array.copy()
    real = np.arange(shape[1]) < request.node_count[:, None] - 1
    outside = ((array < 0) | (array >= vocab)) & real
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise BrokenResult(f"drafts must lie in [0, {vocab}), got {array[row, column]} in row {row}, column {column}")
    return array.astype(np.int64)


def _integers(result: Any, name: str) -> NDArray[np.integer[Any]]:
    value = getattr(result, name, None)
    if value is None:
        raise BrokenResult(f"verify must return harness.Result(tokens=..., lengths=...): {name} is missing")
    return _integer_array(value, name)


def _integer_array(value: Any, name: str) -> NDArray[np.integer[Any]]:
    try:
        array = np.asarray(_on_the_cpu(value, name))
    except BrokenResult:
        raise
    except Exception as why:  # whatever a tensor or the sampler's own class has against it
        raise BrokenResult(f"{name} must be an array: {_reason(why)}") from None
    if array.dtype.kind not in "iu":
        what = f"{name} must be of an integer dtype, got {array.dtype}"
        if np.issubdtype(array.dtype, np.floating) and np.isnan(array.flat[:NAN_SEARCH]).any():
            what += " with NaN in it"
        raise BrokenResult(what)
    return array


def _reason(error: Exception) -> str:
    return told(lambda: f"{type(error).__name__}: {error}", "an error without text")


def _on_the_cpu(value: Any, name: str) -> Any:
    """Return a torch tensor, wherever it lives, as an array; everything else as it is."""
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    if str(tensor.dtype) == "torch.bfloat16":  # which NumPy has not
        raise BrokenResult(f"{name} must be of an integer dtype, got bfloat16")
    return tensor.numpy()


def _check_nodes(nodes: NDArray[np.integer[Any]], tokens: Ints, lengths: Ints, request: Expected) -> None:
    """Check that nodes are a path from the root, one node for each emitted token's predecessor, of those tokens."""
    batch, count = request.candidates.shape
    least = max(request.depth_limit, int(lengths.max()))
    if nodes.ndim != 2 or nodes.shape[0] != batch or nodes.shape[1] < least:
        raise BrokenResult(f"nodes must have shape [{batch}, {least}] or wider, got {list(nodes.shape)}")
    width = min(nodes.shape[1], tokens.shape[1])
    path = nodes[:, :width].astype(np.int64)
    real = np.arange(width) < lengths[:, None]
    if (path[:, 0] != 0).any():
        row = int((path[:, 0] != 0).argmax())
        raise BrokenResult(f"nodes must begin with the root, node 0, got {path[row, 0]} in row {row}")
    outside = ((path < 0) | (path >= count)) & real
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise BrokenResult(f"nodes must lie in [0, {count}), got {path[row, column]} in row {row}, column {column}")
    path = np.where(real, path, 0)
    rows = np.arange(batch)[:, None]
    inner = real[:, 1:]
    padding = path[:, 1:] >= request.node_count[:, None]  # linked from nowhere: its tokens are judged, not its parent
    parent = request.parents[rows, path[:, 1:]]
    apart = inner & ~padding & (parent != path[:, :-1])
    if apart.any():
        row, column = np.argwhere(apart)[0]
        raise BrokenResult(
            f"nodes must be a path from the root: in row {row}, node {path[row, column + 1]} does not follow node "
            f"{path[row, column]}"
        )
    other = inner & (request.candidates[rows, path[:, 1:]] != tokens[:, : width - 1])
    if other.any():
        row, column = np.argwhere(other)[0]
        raise BrokenResult(
            f"tokens must be those of the accepted nodes: in row {row}, column {column} is token "
            f"{tokens[row, column]}, but node {path[row, column + 1]} has "
            f"{request.candidates[row, path[row, column + 1]]}"
        )
