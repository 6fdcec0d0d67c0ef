"""Outcomes: whole emitted sequences, each the cell of its last token with nothing after it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..counts import SequenceCounts
from ..law import Law

__all__ = ["outcome_law", "outcomes_of"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def outcome_law(law: Law) -> Floats:
    """P(exactly prefix m followed by token x is emitted), float64 [M, V]; sums to 1."""
    table: Floats = law.reach[:, None] * law.rows
    parent, token = law.parent[1:], law.token[1:]  # every (parent, token) pair occurs once
    table[parent, token] -= law.reach[1:]
    return np.maximum(table, 0.0, out=table)


def outcomes_of(law: Law, sequences: SequenceCounts) -> tuple[Ints, Ints, Floats]:
    """Prefix index, last token and probability of each sequence, [K] each; tokens lie within [0, V), lengths from 1 on.

    The index is -1 and the probability 0 where the law cannot emit what comes before the last token.
    """
    tokens, lengths = sequences.tokens, sequences.lengths
    at = np.zeros(len(lengths), np.int64)
    for step in range(tokens.shape[1] - 1):
        goes_on = (lengths > step + 1) & (at >= 0)
        at[goes_on] = law.children(at[goes_on], tokens[goes_on, step])
    last = tokens[np.arange(len(lengths)), lengths - 1]
    probability = np.zeros(len(at))
    known = at >= 0
    probability[known] = law.outcome(at[known], last[known])
    return at, last, probability
