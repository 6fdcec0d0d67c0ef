"""Draft trees of a decode, tabulated by state: a tree depends on the last two tokens, which is all there is to know.

Trees of given tokens come from a builder, one for each state. Where a rule wants its drafts drawn from the draft law,
the shape is the same in all states and the tokens are drawn for every row: each position of a chain from its own law,
which knows nothing of the tokens drawn before (what a drafter gives that predicts a whole block at once), or each node
from the law after its parent, siblings independently or without replacement.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..draw import draw
from ..tree import Tree
from .markov import marginals, state

__all__ = ["Drafted", "Drawn", "TreeTable", "draft_laws", "draw_drafts", "law_index"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

Drawn = Literal["given", "position", "replacement", "no-replacement"]
"""Drafts are the tokens of the trees; or drawn: by position, or siblings independently or without replacement."""


@dataclass(frozen=True, eq=False)
class TreeTable:
    """Trees by state, R of them, in N nodes: int64 [R, N] each, ``node_count`` int64 [R]; encodings as of a request."""

    tokens: Ints
    parents: Ints
    next_token: Ints
    next_sibling: Ints
    depth: Ints
    node_count: Ints

    @classmethod
    def of(cls, trees: Sequence[Tree], nodes: int) -> TreeTable:
        """Return the table of ``trees``; columns beyond a tree are padding: token 0, depth 0, parent -1."""
        tokens, depth = np.zeros((2, len(trees), nodes), np.int64)
        parents, first, sibling = np.full((3, len(trees), nodes), -1, np.int64)
        for r, tree in enumerate(trees):
            real = slice(len(tree))
            tokens[r, real], parents[r, real], depth[r, real] = tree.tokens, tree.parents, tree.depth
            first[r], sibling[r] = tree.links(nodes)
        return cls(tokens, parents, first, sibling, depth, np.array([len(tree) for tree in trees], np.int64))

    @classmethod
    def stack(cls, tables: Sequence[TreeTable]) -> TreeTable:
        """Return the tables one below the other."""
        names = ("tokens", "parents", "next_token", "next_sibling", "depth", "node_count")
        return cls(*(np.concatenate([getattr(table, name) for table in tables]) for name in names))

    @cached_property
    def deepest(self) -> int:
        """Depth of the deepest node."""
        return int(self.depth.max())


@dataclass(frozen=True, eq=False)
class Drafted:
    """The draft trees of one step, a row a request, int64 [B, N]; ``node_count`` int64 [B]."""

    candidates: Ints
    parents: Ints
    next_token: Ints
    next_sibling: Ints
    depth: Ints
    node_count: Ints


def draft_laws(draft: Floats, how: Drawn, tree: Tree) -> Singles:
    """Return the laws that drafts are drawn from, float32 [R, V], R as :func:`law_index` has it.

    ``draft`` is float64 [V^2, V], the draft model's law in each state, ``tree`` the shape.
    """
    if how != "position":
        return draft.astype(np.float32)
    laws: Singles = marginals(draft, len(tree))[:, tree.depth].reshape(-1, draft.shape[1]).astype(np.float32)
    return laws


def law_index(how: Drawn, root: Ints, states: Ints) -> Ints:
    """Return the row of the draft laws at each node, int64 [B, N].

    ``root`` int64 [B] is the state at the root, ``states`` int64 [B, N] that at each node.
    """
    if how != "position":
        return states
    nodes = states.shape[1]
    index: Ints = root[:, None] * nodes + np.arange(nodes)
    return index


def draw_drafts(how: Drawn, tree: Tree, laws: Floats, root: Ints, offset: Ints, noise: Floats) -> Ints:
    """Draw the tokens of ``tree`` for each row, int64 [B, n]; that of the root is left at its last token.

    Parameters
    ----------
    how : Drawn
        Any but "given".
    laws : float64 [R, V]
        Those of :func:`draft_laws`, of all cases one below the other.
    root : int64 [B]
        State at the root of each row, of V^2.
    offset : int64 [B]
        Where the laws of the row's case begin.
    noise : float64 [B, n]
        Uniforms in [0, 1): that of a node draws its token.
    """
    vocab = laws.shape[1]
    tokens = np.zeros((len(root), len(tree)), np.int64)
    tokens[:, 0] = root % vocab
    states = np.tile(root[:, None], (1, len(tree)))
    for node in tree.order:
        children = list(tree.children[node])
        if not children:
            continue
        rows = laws[offset + (root * len(tree) + node if how == "position" else states[:, node])]
        for child in children:
            tokens[:, child] = draw(rows, noise[:, child])
            if how == "no-replacement":
                rows[np.arange(len(rows)), tokens[:, child]] = 0.0
        states[:, children] = state(tokens[:, [node]], tokens[:, children], vocab)
    return tokens
