"""DDTree: the likeliest nodes under a draft law that is a product over depths.

A drafter that predicts a whole block at once gives a law for each depth, whatever stands before; the probability of a
node is the product of its path's. The heap holds, of each node already taken, its first child and its next sibling,
which are the likeliest of what it leads to, so that what is taken next is the likeliest of all that is left.
"""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import ArrayLike

from ..tree import Tree
from .weighted import WeightedTree

__all__ = ["ddtree"]


def ddtree(laws: ArrayLike, root: int, nodes: int, *, width: int | None = None) -> WeightedTree:
    """Return the tree of the ``nodes`` - 1 likeliest drafts.

    Parameters
    ----------
    laws : float [D, V]
        Draft law at each depth, depth 1 first.
    root : int
        Token of the root.
    nodes : int
        Most nodes, the root included. Fewer are taken where no draft of positive probability is left.
    width : int or None
        Candidates of a depth, its likeliest tokens; None for all.

    Returns
    -------
    WeightedTree
        Nodes in the order in which the heap gave them, siblings by descending weight. Of equally likely nodes the
        shallower comes first, then that of the lower rank in its depth's law, then the lower token; ranks are by
        descending probability, of equals the lower token first.

    Raises
    ------
    ValueError
        For laws that are not [D, V] or hold anything but probabilities, fewer than one node, or no candidates.
    """
    q = np.asarray(laws, np.float64)
    if q.ndim != 2 or not ((q >= 0.0) & (q <= 1.0)).all():
        raise ValueError(f"laws must be probabilities [D, V], got shape {q.shape}")
    if nodes < 1 or (width is not None and width < 1):
        raise ValueError(f"nodes and width must be at least 1, got {nodes} and {width}")
    ranked = np.argsort(-q, axis=1, kind="stable")[:, :width]
    with np.errstate(divide="ignore"):
        log_q = np.log(np.take_along_axis(q, ranked, axis=1))
    tokens, parents, weights, depths = [root], [-1], [0.0], [0]
    heap: list[tuple[float, int, int, int, int]] = []

    def push(parent: int, rank: int) -> None:
        """Put the candidate of this rank below a node into the heap, where there is one."""
        depth = depths[parent]
        if depth < len(q) and rank < ranked.shape[1] and log_q[depth, rank] > -np.inf:
            weight = weights[parent] + float(log_q[depth, rank])
            heapq.heappush(heap, (-weight, depth + 1, rank, int(ranked[depth, rank]), parent))

    push(0, 0)
    while heap and len(tokens) < nodes:
        negated, depth, rank, token, parent = heapq.heappop(heap)
        tokens.append(token)
        parents.append(parent)
        weights.append(-negated)
        depths.append(depth)
        push(parent, rank + 1)
        push(len(tokens) - 1, 0)
    return WeightedTree(Tree(np.array(tokens), np.array(parents)), np.array(weights))
