"""Hypothesis strategies for laws, drafts and trees; needs the `test` extra.

Everything shrinks towards few tokens, few nodes, small whole weights and generators of seed 0.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from distributions.drafts import DRAFTS, Draft
from distributions.shapes import SHAPES
from distributions.targets import TARGETS, UNIT, Target

__all__ = [
    "drafts",
    "generators",
    "logits",
    "ordered_trees",
    "parents",
    "probabilities",
    "targets",
    "trees",
]

Ints: TypeAlias = npt.NDArray[np.int64]
Probs: TypeAlias = npt.NDArray[np.float64]
Floats: TypeAlias = npt.NDArray[np.float32]


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Fresh generators, shrinking towards seed 0."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def targets(vocab: int | None = None) -> st.SearchStrategy[Target]:
    """Target families, those defined for `vocab` tokens where it is given."""
    return st.sampled_from([t for t in TARGETS.values() if vocab is None or t.min_vocab <= vocab <= t.max_vocab])


def drafts() -> st.SearchStrategy[Draft]:
    """Draft laws."""
    return st.sampled_from(list(DRAFTS.values()))


def logits(nodes: int, vocab: int) -> st.SearchStrategy[Floats]:
    """Target logits, float32 ``[nodes, vocab]``: by hand (whole numbers, moderate floats, -inf) or a family's draw.

    Every row has a finite entry; rows may be alike.
    """
    small = st.integers(-4, 4).map(float)
    moderate = st.floats(-60, 60, width=32)
    by_hand = hnp.arrays(np.float32, (nodes, vocab), elements=st.one_of(small, st.just(-np.inf), moderate)).map(_finite)
    if vocab < 2:
        return by_hand
    by_family = st.builds(lambda target, rng: target.make(rng, nodes, vocab), targets(vocab), generators())
    return st.one_of(by_hand, by_family)


def probabilities(vocab: int, *, exact: bool | None = None) -> st.SearchStrategy[Probs]:
    """Laws over `vocab` tokens, float64 ``[vocab]`` that sums to 1, with zeros.

    Parameters
    ----------
    vocab : int
        Number of tokens, at least 1.
    exact : bool, optional
        True for multiples of 1/4096 only (for these the sum is exact), False for laws normalised in float64 only.
    """
    weight = st.one_of(st.integers(0, 4).map(float), st.floats(0, 1, allow_subnormal=False))
    weights = hnp.arrays(np.float64, vocab, elements=weight).map(_positive)
    rounded, plain = weights.map(_to_dyadic), weights.map(lambda w: w / w.sum())
    return st.one_of(rounded, plain) if exact is None else rounded if exact else plain


def parents(max_nodes: int, *, max_children: int | None = None) -> st.SearchStrategy[Ints]:
    """Parent arrays of 1 to `max_nodes` nodes, by hand or from ``SHAPES``; at most `max_children` >= 1 each."""
    width = max_nodes if max_children is None else max_children
    by_shape = st.builds(
        lambda shape, rng, nodes: shape(rng, nodes),
        st.sampled_from(list(SHAPES.values())),
        generators(),
        st.integers(1, max_nodes),
    )
    return st.one_of(_grown(max_nodes, width), by_shape.map(lambda tree: _trimmed(tree, width)))


@st.composite
def trees(draw: st.DrawFn, *, max_nodes: int = 12, vocab: int = 8) -> tuple[Ints, Ints]:
    """Draw trees as ``(parents, tokens)``, int64 ``[nodes]`` both, with tokens distinct among siblings.

    Parameters
    ----------
    draw : callable
        Supplied by Hypothesis.
    max_nodes : int
        Most nodes, the root included.
    vocab : int
        Number of tokens, and so the most children of a node.
    """
    tree = draw(parents(max_nodes, max_children=vocab))
    tokens = np.empty(len(tree), dtype=np.int64)
    for parent in np.unique(tree):
        siblings = np.flatnonzero(tree == parent)
        distinct = st.lists(st.sampled_from(range(vocab)), unique=True, min_size=siblings.size, max_size=siblings.size)
        tokens[siblings] = draw(distinct)
    return tree, tokens


@st.composite
def ordered_trees(draw: st.DrawFn, *, max_nodes: int = 12, vocab: int = 8) -> tuple[Ints, Ints, Ints]:
    """Draw trees as ``(parents, tokens, places)`` where siblings are in any order, not only that of their numbers.

    ``places`` is int64 ``[nodes]``: a node's place among its siblings, 0 for the first; 0 for the root. The other two
    and the arguments are those of `trees`; shrinks towards siblings in the order of their numbers.
    """
    tree, tokens = draw(trees(max_nodes=max_nodes, vocab=vocab))
    places = np.empty(len(tree), dtype=np.int64)
    for parent in np.unique(tree):
        siblings = np.flatnonzero(tree == parent)
        places[siblings] = draw(st.permutations(range(siblings.size)))
    return tree, tokens, places


@st.composite
def _grown(draw: st.DrawFn, max_nodes: int, width: int) -> Ints:
    """Draw a tree node by node, each below one that has room left."""
    tree, room = [-1], {0: width}
    for node in range(1, draw(st.integers(1, max_nodes))):
        parent = draw(st.sampled_from(sorted(room)))
        room[parent] -= 1
        if not room[parent]:
            del room[parent]
        tree.append(parent)
        room[node] = width
    return np.array(tree, dtype=np.int64)


def _trimmed(tree: Ints, width: int) -> Ints:
    """Cut the array before the first node that is one child too many; what is left is a tree."""
    places = np.tril(tree[:, None] == tree, -1).sum(axis=1)
    return tree[: len(tree) if places.max() < width else int(np.argmax(places >= width))]


def _finite(rows: Floats) -> Floats:
    """Mend rows without a finite entry: their first token becomes the only possible one."""
    rows[np.isneginf(rows).all(axis=1), 0] = 0
    return rows


def _positive(weights: Probs) -> Probs:
    """Mend weights that are zero throughout: the first token takes all."""
    weights[0] += not weights.any()
    return weights


def _to_dyadic(weights: Probs) -> Probs:
    """Round to multiples of 1/4096 by largest remainder, so that the whole still sums to 1."""
    quotas = UNIT * (weights / weights.sum())
    counts = np.floor(quotas)
    left = int(UNIT - counts.sum())
    counts[np.argsort(counts - quotas, kind="stable")[:left]] += 1
    law: Probs = counts / UNIT
    return law
