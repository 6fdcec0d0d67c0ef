"""A draft tree and how likely its drafter holds each node to be."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..tree import Tree

__all__ = ["WeightedTree"]

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedTree:
    """A tree with cumulative log probabilities.

    Parameters
    ----------
    tree : Tree
    log_weights : float64 [n]
        Log probability, under the draft, of the tokens from the root to each node; 0 for the root, -inf where a draft
        is impossible.

    Raises
    ------
    ValueError
        Where there is not one weight a node, or a node is likelier than its parent.
    """

    tree: Tree
    log_weights: Floats

    def __post_init__(self) -> None:
        weights = np.asarray(self.log_weights, np.float64)
        object.__setattr__(self, "log_weights", weights)
        if weights.shape != (len(self.tree),):
            raise ValueError(f"log_weights must have shape ({len(self.tree)},), got {weights.shape}")
        wrong = np.flatnonzero(~(weights[1:] <= weights[self.tree.parents[1:]])) + 1
        if len(wrong):
            raise ValueError(f"node {wrong[0]} cannot be likelier than its parent, got {weights[wrong[0]]:g}")

    def by_weight(self) -> WeightedTree:
        """Return the same tree with siblings by descending weight; of equal ones the lower token first."""
        tokens, weights = self.tree.tokens, self.log_weights
        children = [sorted(listed, key=lambda n: (-weights[n], tokens[n], n)) for listed in self.tree.children]
        return WeightedTree(self.tree.reordered(children), weights)
