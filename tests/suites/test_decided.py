"""Cuts of the filters fall where rounding decides nothing, but in the cases made for that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases.cuts import clear_cuts, readings
from distributions import TARGETS, exact_probs
from harness.filters import SEMANTICS, SamplingParams
from harness.margins import claimed_rows

from .measure import both_suites, entries, every_rule

P = SamplingParams
OWN = ("boundaries", "ties-at-0")
"""Groups whose cases are about boundaries."""
EXACT = replace(SEMANTICS["sequential"], name="exact", top_k_ties="exact")


@both_suites
@every_rule
def test_no_token_is_undecided_below_4096(name: str, rule: str) -> None:
    """For a sampler that takes float32 logits and claims any of the named semantics, or exactly k tokens."""
    for entry in entries(name, rule):
        if entry.vocab >= 4096 or entry.name.endswith(OWN):
            continue
        for case in entry.group.cases:
            for semantics in (*SEMANTICS.values(), EXACT):
                undecided = claimed_rows(case.target_logits, case.params, semantics).undecided
                assert not undecided.any(), f"{case.name} under {semantics.name}"


@pytest.mark.parametrize("rule", ["plain", "target-only"])
def test_boundary_cases_have_some(rule: str) -> None:
    ours = [entry for entry in entries("smoke", rule) if entry.name.endswith(OWN)]
    assert len(ours) == 2
    for entry in ours:
        assert any(
            claimed_rows(case.target_logits, case.params, SEMANTICS["sequential"]).undecided.any()
            for case in entry.group.cases
        )


PARAMS = (P(top_k=4), P(top_p=0.75), P(min_p=0.25), P(0.6, 5, 0.7, 0.1), P(1.7, 3, 0.5, 0.3), P(0.0), P(1e-3))


@pytest.mark.parametrize("family", ["ties", "near-ties", "dyadic", "zipf"])
@pytest.mark.parametrize("params", PARAMS, ids=str)
def test_clearing(family: str, params: SamplingParams) -> None:
    rng = np.random.default_rng(5)
    logits = TARGETS[family].make(rng, 40, 16)
    probs = exact_probs(logits) if TARGETS[family].exact else None
    before, was = logits.copy(), None if probs is None else probs.copy()
    clear_cuts(logits, probs, params)
    for asked in readings(params):
        assert not claimed_rows(logits, *asked).undecided.any()
    possible = np.isfinite(before)
    if probs is None:
        assert (np.isfinite(logits) == possible).all()
        lowered = before[possible] - logits[possible]
        assert lowered.min() >= 0
        assert lowered.max() < 0.5  # a few times the gap
        assert (np.take_along_axis(logits, before.argmax(axis=1)[:, None], axis=1)[:, 0] == logits.max(axis=1)).all()
    else:
        assert was is not None
        assert (probs * 4096 == np.round(probs * 4096)).all()
        assert (probs.sum(axis=1) == 1.0).all()
        assert np.abs(probs - was).max() <= 64 / 4096
        with np.errstate(divide="ignore"):
            np.testing.assert_array_equal(logits, np.log(probs))


def test_ties_at_a_cut_by_rank_are_left() -> None:
    """Which tokens stay is then a matter of what is claimed, and rounding has no say in it."""
    logits = np.log(np.array([[0.3, 0.2, 0.2, 0.2, 0.1]], np.float32))
    before = logits.copy()
    clear_cuts(logits, None, P(top_k=2))
    np.testing.assert_array_equal(logits, before)


def test_what_is_clear_is_left() -> None:
    logits = TARGETS["zipf"].make(np.random.default_rng(1), 8, 16)
    before = logits.copy()
    for params in (P(), P(0.6), P(1.7), P(top_k=4), P(top_p=0.8)):
        clear_cuts(logits, None, params)
    np.testing.assert_array_equal(logits, before)
