"""What a verified step means for the sequences: one derivation of it for greedy and sampling, and one commit.

Whatever verified a step, the same five things follow from the tokens it emitted, and all that comes after, committing,
freeing KV and taking hidden states, rests on these alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .drafting import Drafted
from .kvcache import PagedCache

__all__ = ["Cut", "Verified", "committed", "compact", "cut", "verified"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Verified:
    """What follows from the tokens that a step emitted, a row a request.

    Parameters
    ----------
    accepted_per_req : int64 [B, W - 1]
        Accepted drafts as nodes, in order, without the root; -1 beyond.
    kept_per_req : int64 [B, W]
        Nodes whose KV and hidden states stay: the root, then the accepted drafts; -1 beyond.
    commit_lens_cpu : int64 [B]
        Tokens to commit: accepted drafts and one more.
    new_verified_list : int64 [B]
        The one more: the last token of the commit and root of the next tree; it has no KV yet.
    num_accepted_drafts_per_req_cpu : int64 [B]
        Accepted drafts.
    astray : bool [B]
        The step went on after a token that continues no path of the tree: there is no KV for what followed, and the
        sequence ends with that token, as ``new_verified_list``.
    """

    accepted_per_req: Ints
    kept_per_req: Ints
    commit_lens_cpu: Ints
    new_verified_list: Ints
    num_accepted_drafts_per_req_cpu: Ints
    astray: Bools


def verified(drafted: Drafted, tokens: Ints) -> Verified:
    """Return what follows from emitted ``tokens``, int64 [B, W], -1 beyond the end of each row.

    The accepted nodes are the path of these tokens; a node of two children of one token may have to be gone back to.
    """
    batch, width = tokens.shape
    lengths = (tokens >= 0).sum(axis=1)
    kept = np.full((batch, width), -1, np.int64)
    kept[:, 0] = 0
    live = np.flatnonzero(lengths > 1)
    for step in range(1, width):
        wanted = tokens[live, step - 1]
        child = drafted.next_token[live, kept[live, step - 1]]
        other = np.flatnonzero((child >= 0) & (drafted.candidates[live, child] != wanted))
        while len(other):
            child[other] = drafted.next_sibling[live[other], child[other]]
            rest = (child[other] >= 0) & (drafted.candidates[live[other], child[other]] != wanted[other])
            other = other[rest]
        kept[live, step] = child
        live = live[(child >= 0) & (lengths[live] > step + 1)]
    for row in np.flatnonzero((kept >= 0).sum(axis=1) < lengths):  # few: repeated siblings, and steps gone astray
        path = _path(drafted, int(row), tokens[row, : lengths[row] - 1].tolist())
        kept[row] = -1
        kept[row, : len(path)] = path
    count = (kept >= 0).sum(axis=1)
    return Verified(kept[:, 1:], kept, count, tokens[np.arange(batch), count - 1], count - 1, count < lengths)


def _path(drafted: Drafted, row: int, tokens: list[int]) -> list[int]:
    """Return the nodes of the longest path from the root that has these tokens, the root first."""
    best, stack = [0], [[0]]
    while stack:
        path = stack.pop()
        if len(path) > len(best):
            best = path
        if len(path) > len(tokens):
            return path
        child = int(drafted.next_token[row, path[-1]])
        while child >= 0:
            if drafted.candidates[row, child] == tokens[len(path) - 1]:
                stack.append([*path, child])
            child = int(drafted.next_sibling[row, child])
    return best


def committed(drafted: Drafted, step: Verified) -> Ints:
    """Return the tokens that a step commits, int64 [B, W + 1], of which the first ``commit_lens_cpu`` count."""
    batch, width = step.kept_per_req.shape
    rows = np.arange(batch)
    tokens = np.zeros((batch, max(width, step.accepted_per_req.shape[1]) + 1), np.int64)
    drafts = step.accepted_per_req
    tokens[:, : drafts.shape[1]] = np.where(drafts >= 0, drafted.candidates[rows[:, None], drafts], 0)
    tokens[rows, step.num_accepted_drafts_per_req_cpu] = step.new_verified_list
    return tokens


@dataclass(frozen=True, eq=False)
class Cut:
    """How much of a step's commit a sequence takes, int64 [B], and whether it ends there, bool [B]."""

    lengths: Ints
    ends: Bools


def cut(tokens: Ints, lengths: Ints, eos: Ints, room: Ints) -> Cut:
    """Return where sequences end: at the first ``eos`` token, wherever in the commit it is, or where there is no room.

    Parameters
    ----------
    tokens : int64 [B, K]
        What is committed; the first ``lengths`` [B] count.
    eos : int64 [B]
        The token that ends the sequence, -1 for none.
    room : int64 [B]
        Tokens that the sequence may still take.
    """
    here = np.arange(tokens.shape[1])
    stop = (tokens == eos[:, None]) & (here < lengths[:, None])
    at = np.where(stop.any(axis=1), stop.argmax(axis=1) + 1, tokens.shape[1] + 1)
    taken = np.minimum(np.minimum(lengths, at), room)
    return Cut(taken, (at <= taken) | (taken >= room))


def compact(cache: PagedCache, rows: Ints, base: Ints, kept: Ints, counts: Ints) -> None:
    """Bring the KV of the kept nodes to the front and free what is behind them.

    Node i of a row was written at offset ``base`` [B] + i; the first ``counts`` [B] of the nodes ``kept`` [B, W] come
    to stand at ``base``, in the order of their path.
    """
    place = np.arange(kept.shape[1])
    real = (place < counts[:, None]) & (kept >= 0)
    cache.move(rows, base[:, None] + kept, base[:, None] + place, real & (kept != place))
    cache.truncate(rows, base + counts)
