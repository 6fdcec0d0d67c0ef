"""DDTree's lists, one entry a request, to the links of SGLang's verify kernels and back.

DDTree emits for each request the parent of each node, for each node a map from a child's token to the child, and each
node's cumulative log probability.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..tree import Tree
from .weighted import WeightedTree

__all__ = ["Links", "links_of", "lists_of"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Links:
    """Trees of B requests in N nodes each, as a :class:`harness.Request` has them; int64 [B, N] but for the last.

    Nodes beyond ``node_count`` int64 [B] are padding: token 0, linked from nowhere. Local node numbers in the links,
    -1 for none; ``retrieve_index`` holds global ones, b * N + i.
    """

    candidates: Ints
    retrieve_index: Ints
    retrieve_next_token: Ints
    retrieve_next_sibling: Ints
    node_count: Ints

    @classmethod
    def of(cls, trees: Sequence[Tree], nodes: int | None = None) -> Links:
        """Return the links of ``trees`` in as many ``nodes``, or in as many as the largest has."""
        size = max((len(tree) for tree in trees), default=1) if nodes is None else nodes
        candidates = np.zeros((len(trees), size), np.int64)
        first, sibling = np.full((2, len(trees), size), -1, np.int64)
        for b, tree in enumerate(trees):
            first[b], sibling[b] = tree.links(size)
            candidates[b, : len(tree)] = tree.tokens
        index = np.arange(candidates.size, dtype=np.int64).reshape(candidates.shape)
        return cls(candidates, index, first, sibling, np.array([len(tree) for tree in trees], np.int64))

    def trees(self) -> list[Tree]:
        """Return the trees, siblings in the order of the links; a ValueError says where they are none."""
        rows = zip(self.candidates, self.retrieve_next_token, self.retrieve_next_sibling, strict=True)
        return [Tree.from_links(*row) for row in rows]


def links_of(
    roots: Sequence[int],
    parents_per_req: Sequence[ArrayLike],
    child_maps_per_req: Sequence[Sequence[Mapping[int, int]]],
    log_weights_per_req: Sequence[ArrayLike] | None = None,
    nodes: int | None = None,
) -> Links:
    """Return the links of trees given as DDTree emits them.

    Parameters
    ----------
    roots : sequence of int, B of them
        Token of each root.
    parents_per_req : sequence of B arrays int [n]
        Parent of each node, -1 for the root, which is node 0; other nodes in any numbering.
    child_maps_per_req : sequence of B sequences of n mappings
        From the token of a child to the child.
    log_weights_per_req : sequence of B arrays float [n], or None
        Siblings are linked by descending weight, equal ones by ascending token; None: in the order of the maps.
    nodes : int or None
        N; None for as many as the largest tree has.

    Raises
    ------
    ValueError
        Where lengths differ, parents and maps tell of different trees, or a tree does not fit.
    """
    weights = [None] * len(roots) if log_weights_per_req is None else log_weights_per_req
    if not len(roots) == len(parents_per_req) == len(child_maps_per_req) == len(weights):
        lengths = (len(roots), len(parents_per_req), len(child_maps_per_req), len(weights))
        raise ValueError(f"need a root, parents, child maps and weights for each request, got {lengths} of them")
    trees = []
    for b, (root, parents, maps) in enumerate(zip(roots, parents_per_req, child_maps_per_req, strict=True)):
        tree = Tree.from_child_maps(root, maps)
        if tree.parents.tolist() != np.asarray(parents).tolist():
            raise ValueError(f"request {b}: the child maps say parents {tree.parents.tolist()}, got {parents}")
        given = weights[b]
        trees.append(tree if given is None else WeightedTree(tree, np.asarray(given)).by_weight().tree)
    return Links.of(trees, nodes)


def lists_of(links: Links) -> tuple[list[list[int]], list[list[dict[int, int]]]]:
    """Return the parents and the child maps of each request, the maps in the order of the links.

    Raises
    ------
    ValueError
        Where the links are no tree, or siblings have one token.
    """
    trees = links.trees()
    return [tree.parents.tolist() for tree in trees], [tree.child_maps() for tree in trees]
