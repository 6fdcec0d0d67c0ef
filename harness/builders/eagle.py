"""EAGLE's tree: at each step the k best nodes get k children each, and the best of all that were drafted are kept.

The drafter emits what :mod:`harness.simt.build_tree` describes: candidates by their number, those kept in
``selected_index``, and in ``parent_list`` what each row of k candidates was drafted after.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tree import Tree
from .weighted import WeightedTree

__all__ = ["EagleDraft", "eagle"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class EagleDraft:
    """What EAGLE's drafter hands to the kernel that builds the tree of N nodes.

    Parameters
    ----------
    topk, depth : int
        Candidates a node, and steps.
    parent_list : int64 [topk * (depth - 1) + 1], empty where depth is 1
        -1 for the root, then the numbers of the ``topk`` best candidates of each step but the last.
    selected_index : int64 [N - 1]
        Numbers of the candidates that are in the tree, ascending.
    tokens : int64 [N - 1]
        Their tokens.
    scores : float64 [N - 1]
        Their probabilities, each that of its whole path.
    """

    topk: int
    depth: int
    parent_list: Ints
    selected_index: Ints
    tokens: Ints
    scores: Floats

    def tree(self, root: int) -> WeightedTree:
        """Return the tree below a root of this token: nodes by their candidates' numbers, siblings likewise.

        Raises
        ------
        ValueError
            Where a candidate is selected and its parent is not.
        """
        node = {int(number): place for place, number in enumerate(self.selected_index, 1)}
        parents = [-1]
        for number in self.selected_index.tolist():
            row = number // self.topk
            above = int(self.parent_list[row]) if row else None
            if above is not None and above not in node:
                raise ValueError(f"candidate {number} is selected, but its parent {above} is not")
            parents.append(0 if above is None else node[above])
        with np.errstate(divide="ignore"):
            weights = np.log(np.concatenate([[1.0], self.scores]))
        return WeightedTree(Tree(np.concatenate([[root], self.tokens]), np.array(parents)), weights)


def eagle(law: Callable[[tuple[int, ...]], NDArray[np.floating]], topk: int, depth: int, nodes: int) -> EagleDraft:
    """Draft ``depth`` steps of ``topk`` candidates a node, and keep the best ``nodes`` - 1.

    Parameters
    ----------
    law : callable
        Takes the tokens drafted after the root, returns the draft law of the next, float [V].
    topk : int
        At least 1, at most V.
    depth : int
        Steps, at least 1.
    nodes : int
        Nodes of the tree, the root included; at most 1 + topk + (depth - 1) * topk^2.

    Returns
    -------
    EagleDraft
        Of equally likely tokens of a law the lower is taken first, and of equally likely candidates the one of the
        lower number, so that a node never comes without its parent. PyTorch's top-k, which production takes, promises
        neither.

    Raises
    ------
    ValueError
        For sizes out of range.
    """
    most = topk + (depth - 1) * topk * topk
    if topk < 1 or depth < 1 or not 1 <= nodes <= most + 1:
        raise ValueError(f"need topk, depth >= 1 and nodes in 1..{most + 1}, got {topk}, {depth}, {nodes}")
    numbers: list[int] = []
    paths: list[tuple[int, ...]] = []
    scores: list[float] = []
    frontier: list[int | None] = [None]
    parent_list = [-1]
    for step in range(depth):
        first = len(numbers)
        for parent in frontier:
            path, score = ((), 1.0) if parent is None else (paths[parent], scores[parent])
            q = np.asarray(law(path), np.float64)
            if topk > len(q):
                raise ValueError(f"topk must be at most V={len(q)}, got {topk}")
            for token in np.argsort(-q, kind="stable")[:topk].tolist():
                numbers.append(len(numbers))
                paths.append((*path, token))
                scores.append(score * float(q[token]))
        if step < depth - 1:
            frontier = list(_best(scores[first:], topk, first))
            parent_list += [number for number in frontier if number is not None]
    selected = sorted(_best(scores, nodes - 1, 0))
    return EagleDraft(
        topk,
        depth,
        np.array(parent_list if depth > 1 else [], np.int64),
        np.array(selected, np.int64),
        np.array([paths[number][-1] for number in selected], np.int64),
        np.array([scores[number] for number in selected], np.float64),
    )


def _best(scores: list[float], count: int, first: int) -> list[int]:
    """Return the numbers of the best ``count`` candidates, best first, the lower number first among equals."""
    order = sorted(range(len(scores)), key=lambda place: (-scores[place], place))
    return [first + place for place in order[:count]]
