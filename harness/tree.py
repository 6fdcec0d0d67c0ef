"""Draft trees and their encodings.

A tree has nodes 0..n-1 in any numbering, 0 the root (the last committed token). Encodings: parents, child maps, and
the first-child / next-sibling links that SGLang's tree kernels read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Tree"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree:
    """A draft tree of n nodes.

    Parameters
    ----------
    tokens : int64 [n]
        Token of each node; that of the root is the last committed one.
    parents : int64 [n]
        Parent of each node, -1 for the root, which is node 0.
    children : tuple of n tuples of int
        Children of each node in sibling order, the order in which a verifier that cares tries them. Left out: by
        ascending node number.

    Raises
    ------
    ValueError
        Where this is no tree: a cycle, a second root, a child listed at the wrong parent.
    """

    tokens: Ints
    parents: Ints
    children: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        tokens = np.asarray(self.tokens, np.int64)
        parents = np.asarray(self.parents, np.int64)
        object.__setattr__(self, "tokens", tokens)
        object.__setattr__(self, "parents", parents)
        if tokens.ndim != 1 or tokens.shape != parents.shape or not len(tokens):
            raise ValueError(f"tokens and parents must be one row of equal length, got {tokens.shape}, {parents.shape}")
        if parents[0] != -1:
            raise ValueError(f"node 0 is the root: its parent must be -1, got {parents[0]}")
        outside = np.flatnonzero((parents[1:] < 0) | (parents[1:] >= len(parents))) + 1
        if len(outside):
            raise ValueError(f"parent of node {outside[0]} is {parents[outside[0]]}, not a node of this tree")
        if not self.children:
            lists: list[list[int]] = [[] for _ in parents]
            for node in range(1, len(parents)):
                lists[parents[node]].append(node)
            object.__setattr__(self, "children", tuple(map(tuple, lists)))
        if len(self.children) != len(parents):
            raise ValueError(f"children has {len(self.children)} entries for {len(parents)} nodes")
        for node, listed in enumerate(self.children):
            if sorted(listed) != np.flatnonzero(parents == node).tolist():
                raise ValueError(f"children of node {node} are {sorted(listed)}, but its parents say otherwise")
        if len(self.order) != len(parents):
            stray = sorted(set(range(len(parents))) - set(self.order))
            raise ValueError(f"nodes {stray} are not reachable from the root: there is a cycle")

    def __len__(self) -> int:
        return len(self.tokens)

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Nodes from the root down, parents first, siblings in their order."""
        order = [0]
        for node in order:
            order.extend(self.children[node])
        return tuple(order)

    @cached_property
    def depth(self) -> Ints:
        """Depth of each node, int64 [n]; 0 for the root."""
        depth = np.zeros(len(self), np.int64)
        for node in self.order[1:]:
            depth[node] = depth[self.parents[node]] + 1
        return depth

    def path(self, node: int) -> list[int]:
        """Nodes from the root to ``node``, both included."""
        path = [node]
        while path[-1] != 0:
            path.append(int(self.parents[path[-1]]))
        return path[::-1]

    def child_tokens(self, node: int) -> list[int]:
        """Tokens of a node's children, in sibling order."""
        return [int(self.tokens[child]) for child in self.children[node]]

    @property
    def has_distinct_siblings(self) -> bool:
        """True where no two children of a node have the same token."""
        return all(len(set(self.child_tokens(node))) == len(listed) for node, listed in enumerate(self.children))

    def reordered(self, children: Sequence[Sequence[int]]) -> Tree:
        """Return the same tree with another sibling order."""
        return Tree(self.tokens, self.parents, tuple(map(tuple, children)))

    def renumbered(self, new: ArrayLike) -> Tree:
        """Return the same tree with node i called ``new[i]``; ``new`` is a permutation that leaves the root at 0."""
        to = np.asarray(new, np.int64)
        if sorted(to.tolist()) != list(range(len(self))) or to[0] != 0:
            raise ValueError("new must be a permutation of the nodes with new[0] == 0")
        old = np.argsort(to)
        parents = np.where(self.parents[old] < 0, -1, to[self.parents[old]])
        children = tuple(tuple(int(to[child]) for child in self.children[node]) for node in old)
        return Tree(self.tokens[old], parents, children)

    # ---- links: first child and next sibling, local node numbers, -1 for none (SGLang's tree kernels)

    def links(self, nodes: int | None = None) -> tuple[Ints, Ints]:
        """Return ``(retrieve_next_token, retrieve_next_sibling)``, each int64 [nodes], -1 for none and for padding."""
        size = len(self) if nodes is None else nodes
        if size < len(self):
            raise ValueError(f"a tree of {len(self)} nodes does not fit into {size}")
        first, sibling = np.full(size, -1, np.int64), np.full(size, -1, np.int64)
        for node, listed in enumerate(self.children):
            if listed:
                first[node] = listed[0]
                sibling[list(listed[:-1])] = listed[1:]
        return first, sibling

    @classmethod
    def from_links(cls, tokens: ArrayLike, next_token: ArrayLike, next_sibling: ArrayLike) -> Tree:
        """Return the tree of first-child / next-sibling links, each int64 [N]; nodes linked from nowhere are padding.

        Raises
        ------
        ValueError
            Where a node is linked twice, a link leaves the array, padding stands before a real node, or lengths differ.
        """
        first, sibling = np.asarray(next_token, np.int64), np.asarray(next_sibling, np.int64)
        if first.ndim != 1 or first.shape != sibling.shape or not len(first):
            raise ValueError(f"links must be two rows of equal length, got {first.shape}, {sibling.shape}")
        parents = np.full(len(first), -1, np.int64)
        children: list[list[int]] = [[] for _ in first]
        seen, queue = {0}, [0]
        for node in queue:
            child = int(first[node])
            while child != -1:
                if not 0 <= child < len(first) or child in seen:
                    raise ValueError(f"the links lead to node {child} twice or out of the {len(first)} nodes")
                seen.add(child)
                queue.append(child)
                parents[child] = node
                children[node].append(child)
                child = int(sibling[child])
        size = len(seen)
        if max(seen) != size - 1:
            raise ValueError("padding must come after the real nodes")
        return cls(np.asarray(tokens, np.int64)[:size], parents[:size], tuple(map(tuple, children[:size])))

    # ---- child maps: token -> node for each node (DDTree)

    def child_maps(self) -> list[dict[int, int]]:
        """Return one map a node from a child's token to the child, in sibling order; siblings must be distinct."""
        if not self.has_distinct_siblings:
            raise ValueError("child maps need distinct sibling tokens")
        return [{int(self.tokens[child]): child for child in listed} for listed in self.children]

    @classmethod
    def from_child_maps(cls, root: int, maps: Sequence[Mapping[int, int]]) -> Tree:
        """Return the tree of one child map a node; ``root`` is the root's token."""
        tokens, parents = np.full(len(maps), root, np.int64), np.full(len(maps), -1, np.int64)
        for node, children in enumerate(maps):
            for token, child in children.items():
                if not 0 < child < len(maps):
                    raise ValueError(f"child {child} of node {node} is not one of the {len(maps)} nodes")
                tokens[child], parents[child] = token, node
        return cls(tokens, parents, tuple(tuple(children.values()) for children in maps))
