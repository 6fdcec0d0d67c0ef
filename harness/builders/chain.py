"""DFlash's linear drafts: one token a depth, from laws that a drafter predicts for a whole block at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..draw import draw
from ..tree import Tree
from .weighted import WeightedTree

__all__ = ["argmax_chain", "sampled_chain"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def argmax_chain(laws: ArrayLike, root: int) -> WeightedTree:
    """Return the chain of the likeliest token of each law, float [D, V]; of equals the lowest."""
    q = _checked(laws)
    return _chain(q, root, q.argmax(axis=1))


def sampled_chain(laws: ArrayLike, root: int, coins: NDArray[np.floating]) -> WeightedTree:
    """Return the chain of a token drawn from each law, float [D, V], by inversion with ``coins`` [D] in [0, 1)."""
    q = _checked(laws)
    if np.shape(coins) != (len(q),):
        raise ValueError(f"coins must have shape ({len(q)},), got {np.shape(coins)}")
    return _chain(q, root, draw(q, np.asarray(coins)))


def _checked(laws: ArrayLike) -> Floats:
    q = np.asarray(laws, np.float64)
    if q.ndim != 2 or not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError(f"laws must be probabilities [D, V], got shape {q.shape}")
    return q


def _chain(q: Floats, root: int, tokens: Ints) -> WeightedTree:
    with np.errstate(divide="ignore"):
        weights = np.log(q[np.arange(len(q)), tokens])
    tree = Tree(np.concatenate([[root], tokens]), np.arange(-1, len(q)))
    return WeightedTree(tree, np.concatenate([[0.0], np.cumsum(weights)]))
