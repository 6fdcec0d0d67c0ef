"""What a verifier is given, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from .dtypes import Dtype

__all__ = ["Gather", "Request", "Result", "TorchRequest"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Gather:
    """Rows of a table, gathered when first asked for: ``table`` [R, V] at ``index`` [B, N] gives [B, N, V]."""

    table: Singles
    index: Ints


class Rows:
    """A [B, N, V] field of a request; a Gather given for it is carried out on first use, into a fresh array."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._slot = f"_{name}"

    def __get__(self, request: Any, owner: type | None = None) -> Any:
        if request is None:
            raise AttributeError(self._slot)  # no default: the dataclass field is required
        value = request.__dict__[self._slot]
        if isinstance(value, Gather):
            value = value.table[value.index]
            request.__dict__[self._slot] = value
        return value

    def __set__(self, request: Any, value: Any) -> None:
        request.__dict__[self._slot] = value


@dataclass(eq=False, kw_only=True)
class Request:
    """A batch of B verification requests over N nodes and V tokens; S is the depth limit.

    All arrays are fresh: a verifier may overwrite them. Columns of ``candidates`` beyond ``node_count`` are padding:
    token 0, linked from nowhere, with finite arbitrary law rows. ``retrieve_index`` holds global rows b*N + i, the two
    links local nodes, -1 for none. ``target_probs`` are the laws after temperature, top-k, top-p and min-p;
    ``target_logits`` the raw ones. Coins are multiples of 2^-24 in [0, 1).
    """

    candidates: Ints
    """int64 [B, N]: token of each node; column 0 is the root, the last committed token."""
    parents: Ints
    """int64 [B, N]: parent node; -1 for the root and for padding."""
    node_count: Ints
    """int64 [B]: real nodes."""
    retrieve_index: Ints
    """int64 [B, N]: global row of a node's logits."""
    retrieve_next_token: Ints
    """int64 [B, N]: first child."""
    retrieve_next_sibling: Ints
    """int64 [B, N]: next sibling."""
    depth_limit: int
    """S: at most S - 1 drafts are accepted."""
    target_logits: Any = Rows()
    """float32 [B, N, V]: finite or -inf, one finite a row at least; row i is the law of what follows node i."""
    target_probs: Any = Rows()
    """float32 [B, N, V]: the same after the filters."""
    draft_probs: Any = Rows()
    """float32 [B, N, V] or None: the law that node i's children were drawn from, for the rejection rules."""
    temperature: Singles
    """float32 [B]; 0 means greedy."""
    top_k: Ints
    """int64 [B]; V means off."""
    top_p: Singles
    """float32 [B]."""
    min_p: Singles
    """float32 [B]."""
    threshold_single: float
    """1.0 is lossless; below 1 for rule target-only alone."""
    threshold_acc: float
    """1.0 is lossless; below 1 for rule target-only alone."""
    coins: Singles
    """float32 [B, N]: the coin of each node."""
    final_coins: Singles
    """float32 [B]: the coin of the last token."""
    seed: int
    """Fresh for each call, 0 <= seed < 2^31."""
    seeds: Ints
    """int64 [B]: seed of each request, below 2^31."""
    positions: Ints
    """int64 [B]: sequence length of each request."""
    dtype: Dtype = "float32"
    """Format that the values of the law rows are exact in; tensors of them have it."""

    @property
    def batch(self) -> int:
        """B."""
        return int(self.candidates.shape[0])

    @property
    def nodes(self) -> int:
        """N."""
        return int(self.candidates.shape[1])

    @property
    def vocab(self) -> int:
        """V."""
        rows = self.__dict__["_target_probs"]
        return int(rows.table.shape[-1] if isinstance(rows, Gather) else rows.shape[-1])

    def take(self, rows: Ints) -> Request:
        """Return a request of these rows, int64 [K], of this one; rows may come several times, links stay theirs."""
        values: dict[str, Any] = {}
        for entry in fields(self):
            value = self.__dict__.get(f"_{entry.name}", self.__dict__.get(entry.name))
            if isinstance(value, Gather):
                value = Gather(value.table, value.index[rows])
            elif isinstance(value, np.ndarray):
                value = value[rows]
            values[entry.name] = value
        values["retrieve_index"] = np.arange(len(rows) * self.nodes, dtype=np.int64).reshape(len(rows), self.nodes)
        return Request(**values)

    def torch(self, device: str = "cpu") -> TorchRequest:
        """Return the same request with every array a torch tensor on ``device``; needs torch.

        Law rows have the format of the request, the other floats float32.
        """
        import torch

        values: dict[str, Any] = {}
        for entry in fields(self):
            value = getattr(self, entry.name)
            values[entry.name] = torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value
        for name in ("target_logits", "target_probs", "draft_probs"):
            if values[name] is not None:
                values[name] = values[name].to(getattr(torch, self.dtype))
        return TorchRequest(values)


class TorchRequest:
    """A request whose arrays are torch tensors; the fields are those of :class:`Request`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a request has no field {name!r}; it has {', '.join(self.__dict__)}")


Array = TypeVar("Array")


@dataclass(eq=False)
class Result(Generic[Array]):
    """What a verifier emitted; NumPy arrays or torch tensors on any device.

    ``tokens`` integer [B, S] or wider: emitted tokens left to right, the accepted drafts and then the final token, -1
    beyond ``lengths``. ``lengths`` integer [B]: accepted drafts + 1. ``nodes``, optional, integer [B, S] or wider:
    accepted nodes, the root first, -1 beyond.
    """

    tokens: Array
    lengths: Array
    nodes: Array | None = None
