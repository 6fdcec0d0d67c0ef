"""Drafts that are drawn afresh for every row, and laws that are functions of the token path.

The rejection rules are lossless only where the drafts come from the draft law, so each row draws its own. The law after
a prefix must then exist for every prefix: a case has R law rows, and a path of tokens leads from one to the next by a
fixed hash (a Markov chain of R states, the root in state 0).
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from .draw import draw, without_replacement
from .tree import Tree

__all__ = ["POSITIONAL", "next_state", "redraw"]

Ints = NDArray[np.int64]


Numbers = TypeVar("Numbers", int, Ints)

POSITIONAL = 17
"""A number of states with which the next one is a function of the state alone: the token's factor is 0 modulo it."""


def next_state(state: Numbers, token: Numbers, states: int) -> Numbers:
    """Return the state after ``token`` in ``state``; arguments broadcast, states lie in [0, states)."""
    return (state * 31 + token * POSITIONAL + 1) % states


def redraw(
    rng: np.random.Generator, tree: Tree, draft: NDArray[np.float32], rows: int, replacement: bool
) -> tuple[Ints, Ints]:
    """Draw the tokens of ``tree`` for each of ``rows`` rows from a draft law of R states, float32 [R, V].

    Siblings are drawn independently of each other, or without replacement.

    Returns
    -------
    tokens, states : int64 [rows, n]
        Of each node; the root keeps its token and has state 0.
    """
    tokens = np.tile(tree.tokens, (rows, 1))
    states = np.zeros_like(tokens)
    support = np.flatnonzero(draft.any(axis=0))  # of all states: few tokens, where V is large
    weights = draft[:, support].astype(np.float64)
    for node in tree.order:
        children = list(tree.children[node])
        if not children:
            continue
        law = weights[states[:, node]]
        if replacement:
            drawn = np.stack([draw(law, rng.random(rows)) for _ in children], axis=1)
        else:
            drawn = without_replacement(law, len(children), rng)
        tokens[:, children] = support[drawn]
        states[:, children] = next_state(states[:, [node]], tokens[:, children], len(draft))
    return tokens, states
