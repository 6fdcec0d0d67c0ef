"""Tree shapes as parent arrays, and tokens for their nodes.

A shape is an int64 array `parents` of length `nodes` (at least 1): ``parents[0] == -1`` for the root and
``0 <= parents[i] < i`` for every other node. Siblings are in the order of their numbers. ``SHAPES`` holds every shape
under its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

__all__ = ["SHAPES", "TokenChoice", "sibling_tokens"]

Ints: TypeAlias = npt.NDArray[np.int64]
Probs: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = Callable[[np.random.Generator, int], Ints]
TokenChoice: TypeAlias = Literal["top", "sampled", "uniform", "unlikely"]

MAX_WIDTH = 5
"""Most children of a node of a wide random tree."""

FLOOR = 0.1
"""Share of the uniform law in tokens chosen "sampled", so that impossible tokens are drafted too."""


def chain(rng: np.random.Generator, nodes: int) -> Ints:
    """Every node follows the one before: a linear draft."""
    return np.arange(-1, nodes - 1)


def star(rng: np.random.Generator, nodes: int) -> Ints:
    """All drafts are children of the root."""
    return _rooted(np.zeros(nodes - 1, dtype=np.int64))


def binary(rng: np.random.Generator, nodes: int) -> Ints:
    """Complete tree with two children a node, the last level filled from the left."""
    return _rooted(np.arange(nodes - 1) // 2)


def ternary(rng: np.random.Generator, nodes: int) -> Ints:
    """Complete tree with three children a node, the last level filled from the left."""
    return _rooted(np.arange(nodes - 1) // 3)


def comb(rng: np.random.Generator, nodes: int) -> Ints:
    """Spine of the odd nodes with a leaf beside each, as its next sibling."""
    node = np.arange(1, nodes)
    return _rooted(np.maximum(node - 3 + node % 2, 0))


def random_recursive(rng: np.random.Generator, nodes: int) -> Ints:
    """Every node's parent is uniform over the nodes before it: a few nodes with many children, leaves at all depths."""
    return _rooted(rng.integers(0, np.arange(1, nodes)))


def wide_random(rng: np.random.Generator, nodes: int) -> Ints:
    """Breadth first, each node with 1 to 5 children until the nodes are spent."""
    children = rng.integers(1, MAX_WIDTH + 1, nodes)
    return _rooted(np.repeat(np.arange(nodes), children)[: nodes - 1])


def _rooted(parents: Ints) -> Ints:
    return np.concatenate([[-1], parents])


SHAPES: dict[str, Shape] = {
    "chain": chain,
    "star": star,
    "binary": binary,
    "ternary": ternary,
    "comb": comb,
    "random-recursive": random_recursive,
    "wide-random": wide_random,
}


def sibling_tokens(rng: np.random.Generator, parents: Ints, p: Probs, *, by: TokenChoice) -> Ints:
    """Choose a token for every node, distinct among siblings, from the law row of its parent.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    parents : ndarray of int64, shape [nodes]
        Parent of each node, -1 for the root.
    p : ndarray of float64, shape [nodes, vocab]
        Target probabilities; row i is the law of what follows node i.
    by : {"top", "sampled", "uniform", "unlikely"}
        How children are chosen: the most likely tokens, most likely first; drawn without replacement from the law
        mixed with 10% uniform; drawn uniformly without replacement; the least likely tokens, impossible ones first.
        Equals are taken in random order.

    Returns
    -------
    ndarray of int64, shape [nodes]
        Tokens. The root's, committed before, is uniform. With two drafts or more, "sampled" and "uniform" trees hold
        the tokens 0 and ``vocab - 1`` at random nodes; the other two choices leave the edges of the vocabulary to `p`.

    Raises
    ------
    ValueError
        Where a node has more children than there are tokens, `p` has another number of rows than `parents` has nodes,
        or `by` is none of the four.
    """
    if by not in get_args(TokenChoice):
        raise ValueError(f"by must be one of {', '.join(get_args(TokenChoice))}, got {by!r}")
    nodes, vocab = p.shape
    if len(parents) != nodes:
        raise ValueError(f"p must have one row a node, got {nodes} rows for {len(parents)} nodes")
    widths = np.bincount(parents[1:], minlength=nodes)
    if widths.max() > vocab:
        raise ValueError(
            f"node {widths.argmax()} has {widths.max()} children but there are only {vocab} tokens to tell them apart"
        )
    tokens = np.empty(nodes, dtype=np.int64)
    tokens[0] = rng.integers(vocab)
    for parent in np.flatnonzero(widths):
        tokens[parents == parent] = _choose(rng, p[parent], int(widths[parent]), by)
    if by in ("sampled", "uniform") and nodes > 2:
        _seat_edges(rng, parents, tokens, vocab)
    return tokens


def _choose(rng: np.random.Generator, law: Probs, count: int, by: TokenChoice) -> Ints:
    vocab = law.size
    if by == "uniform":
        return rng.choice(vocab, count, replace=False)
    if by == "sampled":
        return rng.choice(vocab, count, replace=False, p=(1 - FLOOR) * law / law.sum() + FLOOR / vocab)
    return np.lexsort((rng.random(vocab), -law if by == "top" else law))[:count]


def _seat_edges(rng: np.random.Generator, parents: Ints, tokens: Ints, vocab: int) -> None:
    """Put token 0 at a random draft and the last token at another, in exchange with a sibling that has it; in place."""
    for edge, node in zip((0, vocab - 1), 1 + rng.choice(len(tokens) - 1, 2, replace=False), strict=True):
        tokens[(parents == parents[node]) & (tokens == edge)] = tokens[node]
        tokens[node] = edge
