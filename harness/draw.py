"""Drawing tokens from rows of weights by inversion."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["draw", "without_replacement"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_BLOCK = 1 << 21
"""Entries worked on at once: 16 MiB in float64, which stays in the cache of most machines."""


def draw(rows: Floats, coins: NDArray[np.floating]) -> Ints:
    """Draw one token from each row of weights, float64 [B, V], by inversion with ``coins`` [B] in [0, 1); int64 [B].

    The token is the first whose running sum exceeds coin * total, so that a token of weight 0 never comes.
    """
    tokens = np.empty(len(rows), np.int64)
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        running = np.cumsum(rows[part], axis=1)
        mark = coins[part].astype(np.float64) * running[:, -1]
        tokens[part] = (running <= mark[:, None]).sum(axis=1)
    return tokens


def without_replacement(rows: Floats, count: int, rng: np.random.Generator) -> Ints:
    """Draw ``count`` different tokens from each row of weights [B, V], one after the other; int64 [B, count].

    The Gumbel top-k trick: the largest of log weight + Gumbel noise, in order, are the successive draws (Kool et al.,
    arXiv 1903.06059). Each row needs that many tokens of positive weight.
    """
    with np.errstate(divide="ignore"):
        keys = np.log(rows) + rng.gumbel(size=rows.shape)
    best: Ints = np.argsort(-keys, axis=1)[:, :count]
    return best
