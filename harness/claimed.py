"""The law of a case for a sampler of given claims: what it reads of a request decides which law is its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .law import Law, Undecided
from .margins import claimed_rows
from .redraw import next_state
from .rules import rule
from .samplers.base import Claims

__all__ = ["Unstated", "claimed_law", "first_token"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TOKEN_DECIDES = ("plain", "greedy", "sampler-match", "target-only")
"""Rules under which a step goes on after an emitted token exactly where a child has it."""


class Unstated(Exception):
    """No law of a case can be stated for a sampler; the text says why."""


def claimed_law(case: Case, claims: Claims) -> Law:
    """Return the exact law of ``case`` for a sampler of these ``claims``.

    A sampler that takes probabilities is given its law; one that takes logits has the law of the semantics it claims,
    with undecided tokens where rounding can move one across a cut.

    Raises
    ------
    Unstated
        Where no law can be stated, saying why.
    """
    of = rule(case.rule)
    if claims.semantics is None:
        return of.law(case)
    given = claimed_rows(case.target_logits, case.params, claims.semantics)
    law = of.law(case, given.rows)
    if not given.undecided.any():
        return law
    if min(case.threshold_single, case.threshold_acc) < 1.0:
        raise Unstated("thresholds below 1 and tokens that rounding decides: no law can be stated")
    return replace(law, undecided=Undecided(given.undecided[_rows_of(case, law)], case.rule in TOKEN_DECIDES))


def first_token(case: Case, claims: Claims) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the law of the first emitted token alone, float64 [V], and which tokens are undecided in it, bool [V].

    Quicker than the whole law: at thresholds of 1 every rule emits it by the target's law. Where no law can be stated,
    all tokens are undecided.
    """
    lossless = min(case.threshold_single, case.threshold_acc) >= 1.0
    if lossless and claims.semantics is not None:
        given = claimed_rows(case.target_logits[:1], case.params, claims.semantics)
        return given.rows[0], given.undecided[0]
    if lossless:
        row = case.target_probs[0].astype(np.float64)
        return row / row.sum(), np.zeros(case.vocab, bool)
    try:
        law = claimed_law(case, claims)
    except Unstated:
        return np.full(case.vocab, 1.0 / case.vocab), np.ones(case.vocab, bool)
    return law.rows[0], np.zeros(case.vocab, bool) if law.undecided is None else law.undecided.tokens[0]


def _rows_of(case: Case, law: Law) -> Ints:
    """Return the law row of the case that each prefix of its law has, int64 [M]."""
    if case.draft is None:
        return law.node
    states = np.zeros(law.size, np.int64)
    for m in range(1, law.size):
        states[m] = next_state(int(states[law.parent[m]]), int(law.token[m]), case.states)
    return states
