"""Exact laws of the rules against enumeration of every draft assignment and every decision."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.case import Case
from harness.filters import SamplingParams
from harness.law import Law
from harness.rules import RULES
from harness.tree import Tree

from .build import DRAFTED, drafted_cases, fixed_cases, redrawn
from .oracles import (
    Outcomes,
    by_argmax,
    by_block,
    by_match,
    by_rejection,
    emitted_law,
    fractions,
    lengths,
    prefixes,
    state_after,
)

enumerated = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
quick = settings(max_examples=50, deadline=None)


def brute_force(case: Case) -> Outcomes:
    return emitted_law(case, by_block if case.rule == "block" else by_rejection)


def assert_law_is(law: Law, tree: Tree, expected: Outcomes) -> None:
    """Check every number of a law against P(emitted sequence)."""
    assert sum(expected.values()) == 1
    known = prefixes(expected)
    found = {tuple(law.prefix(m)): m for m in range(law.size)}
    assert len(found) == law.size
    assert all(known[prefix][1] < 1e-12 for prefix in known.keys() - found.keys())
    for prefix, m in found.items():
        assert law.find(prefix) == m
        assert tree.depth[law.node[m]] == len(prefix)
        assert abs(law.rows[m].sum() - 1) < 1e-12
        if prefix not in known:  # rounding may leave a trace of what cannot be accepted
            assert law.reach[m] < 1e-12
            continue
        emit, reach, row = known[prefix]
        assert abs(law.emit[m] - emit) < 1e-12
        assert abs(law.reach[m] - reach) < 1e-12
        np.testing.assert_allclose(law.rows[m], [float(row.get(t, 0)) for t in range(law.vocab)], rtol=0, atol=1e-12)
        assert [t for t in range(law.vocab) if law.rows[m, t] > 0] == sorted(row)
    m, token = np.indices((law.size, law.vocab))
    ends = law.outcome(m, token)
    for prefix, m in found.items():
        for token in range(law.vocab):
            assert abs(ends[m, token] - expected.get((*prefix, token), 0)) < 1e-12
    np.testing.assert_allclose(law.lengths, lengths(expected, law.depth_limit), rtol=0, atol=1e-12)


def assert_lossless(case: Case, expected: Outcomes) -> None:
    """Given any prefix that is continued, the next token follows the target's law there: exactly, in fractions."""
    target = fractions(case.target_probs)
    for prefix, (_, _, row) in prefixes(expected).items():
        p = target[state_after(prefix, len(target))]
        assert {token: share for token, share in enumerate(p) if share} == row


def check_drafted(case: Case) -> Outcomes:
    expected = brute_force(case)
    law = RULES[case.rule].law(case)
    assert_law_is(law, case.tree, expected)
    assert_lossless(case, expected)
    target = case.law_rows
    for m in range(law.size):
        np.testing.assert_allclose(law.rows[m], target[state_after(law.prefix(m), len(target))], rtol=0, atol=1e-12)
    return expected


@pytest.mark.parametrize("rule", DRAFTED)
def test_law_is_that_of_all_drafts_and_coins(rule: str) -> None:
    @enumerated
    @given(drafted_cases(rule))
    def check(case: Case) -> None:
        check_drafted(case)

    check()


@quick
@given(fixed_cases("sampler-match"))
def test_sampler_match_is_that_of_all_draws(case: Case) -> None:
    expected = by_match(case)
    law = RULES["sampler-match"].law(case)
    assert_law_is(law, case.tree, expected)
    target = fractions(case.target_probs)
    for prefix, (_, _, row) in prefixes(expected).items():  # lossless, at the node that the prefix leads to
        m = law.find(prefix)
        assert [int(case.tree.tokens[node]) for node in case.tree.path(int(law.node[m]))[1:]] == list(prefix)
        assert {token: share for token, share in enumerate(target[law.node[m]]) if share} == row


@quick
@given(fixed_cases("greedy"))
def test_greedy_has_one_outcome(case: Case) -> None:
    assert_law_is(RULES["greedy"].law(case), case.tree, {by_argmax(case): Fraction(1)})


# ---- by hand: the corners one by one

CHAIN = [-1, 0, 1]
STAR = [-1, 0, 0]
BUSHY = [-1, 0, 0, 1, 2, 2]

CORNERS: dict[str, tuple[Any, Any]] = {
    "equal": ([[1, 2, 1], [3, 1, 0]], [[1, 2, 1], [3, 1, 0]]),
    "equal but for rounding": ([[1, 1, 1], [3, 3, 1]], [[1 / 3, 1 / 3, 1 / 3], [3 / 7, 3 / 7, 1 / 7]]),
    "disjoint": ([[0, 0, 1], [0, 0, 1]], [[1, 3, 0], [2, 1, 0]]),
    "target has zeros": ([[0, 1, 3], [2, 0, 1]], [[1, 1, 1], [1, 2, 1]]),
    "draft has zeros": ([[1, 1, 3], [2, 1, 1]], [[0, 1, 1], [1, 0, 2]]),
    "both have zeros": ([[1, 0, 3], [0, 1, 1]], [[0, 1, 1], [1, 1, 0]]),
    "equal then not": ([[1, 1, 2], [3, 1, 0]], [[1, 1, 2], [1, 3, 1]]),
    "greedy target": ([[0, 0, 1], [1, 0, 0]], [[1, 1, 1], [1, 2, 1]]),
    "far apart": ([[1e-6, 1e-6, 1], [1, 1e-7, 1e-6]], [[1, 1, 1e-6], [1e-6, 1, 1]]),
}


@pytest.mark.parametrize("corner", CORNERS)
@pytest.mark.parametrize("rule", DRAFTED)
def test_corners(rule: str, corner: str) -> None:
    p, q = CORNERS[corner]
    for parents in ([-1], CHAIN, [-1, 0, 1, 2]) if rule in ("rejection", "block") else ([-1], CHAIN, STAR, BUSHY):
        for limit in (1, 2, 3, 5):
            check_drafted(redrawn(rule, parents, p, q, depth_limit=limit, nodes=len(parents) + 2))


@pytest.mark.parametrize("rule", ["rejection", "rejection-replacement", "block"])
def test_a_draft_that_is_certain(rule: str) -> None:
    for p in ([[2, 1]], [[1, 0]], [[0, 1]]):
        check_drafted(redrawn(rule, CHAIN, p, [[1, 0]]))


def test_nothing_impossible_is_a_prefix() -> None:
    """A draft without target mass is never accepted: no prefix of the law holds it, not even with a trace of reach."""
    p = [[0.0, 1, 2, 3, 5, 7, 11]] * 3
    q = [[1.0, 1 / 3, 1 / 7, 1 / 9, 1 / 11, 1 / 13, 1 / 17], [3.0, 1, 1, 1, 1, 1, 1], [1.0, 0.1, 0.7, 0.3, 0.2, 0.9, 1]]
    for rule in DRAFTED:
        law = RULES[rule].law(redrawn(rule, [-1, 0, 1, 2], p, q))
        assert not any(0 in law.prefix(m) for m in range(law.size))
        assert (law.emit > 0).all()


@quick
@given(st.sampled_from(DRAFTED).flatmap(drafted_cases), st.integers(1, 3))
def test_padding_and_numbers_of_nodes_change_nothing(case: Case, padding: int) -> None:
    law = RULES[case.rule].law(case)
    new = [0, *range(len(case.tree) - 1, 0, -1)]
    other = Case(
        "other",
        case.rule,
        case.tree.renumbered(new),
        case.logits,
        SamplingParams(),
        case.depth_limit,
        case.nodes + padding,
        probs=case.probs,
        draft=case.draft,
        replacement=case.replacement,
    )
    renumbered = RULES[case.rule].law(other)
    assert [law.prefix(m) for m in range(law.size)] == [renumbered.prefix(m) for m in range(law.size)]
    np.testing.assert_allclose(renumbered.reach, law.reach, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(renumbered.rows, law.rows)
