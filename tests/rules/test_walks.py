"""Reference walks against plain loops on the same coins, and their sampled laws against the exact ones."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.case import Case
from harness.counts import SequenceCounts
from harness.groups import Group, Plan
from harness.law import Law
from harness.request import Request
from harness.rules import RULES
from harness.stats import judge
from harness.validate import Expected, emitted

from .build import DRAFTED, SHAPE_OF, drafted_cases, named_group, one_call, redrawn, sample, sequences_of
from .oracles import WALKS, Step, by_block, by_rejection, emitted_law, generator

quick = settings(max_examples=30, deadline=None)

LEAST_P = 1e-6


def rows_by_loop(request: Request, rule: str) -> tuple[list[list[int]], list[list[int]]]:
    """Tokens and nodes of every row, as lists without padding."""
    walked = [WALKS[rule](Step.of(request, b)) for b in range(request.batch)]
    return [tokens for tokens, _ in walked], [nodes for _, nodes in walked]


def assert_walk_is_the_loop(request: Request, rule: str) -> Counter[int]:
    """Compare row by row; return how often each length came."""
    tokens, nodes = rows_by_loop(request, rule)
    result = RULES[rule].walk(request)
    shape = (request.batch, request.depth_limit)
    assert result.nodes is not None
    assert result.tokens.dtype == result.lengths.dtype == result.nodes.dtype == np.int64
    assert result.tokens.shape == result.nodes.shape == shape
    for b in range(request.batch):
        padding = [-1] * (request.depth_limit - len(tokens[b]))
        assert result.tokens[b].tolist() == tokens[b] + padding
        assert result.nodes[b].tolist() == nodes[b] + padding
        assert result.lengths[b] == len(tokens[b]) == len(nodes[b])
    emitted(result, Expected.of(request))
    return Counter(map(len, tokens))


@pytest.mark.parametrize("rule", WALKS)
def test_walk_is_the_loop(rule: str) -> None:
    group = named_group(rule)
    seen: Counter[int] = Counter()
    for seed in range(3):
        seen += assert_walk_is_the_loop(one_call(group, 128, seed=seed)[0], rule)
    assert len(seen) > 1


@pytest.mark.parametrize("rule", DRAFTED)
def test_walk_is_the_loop_on_any_case(rule: str) -> None:
    """Of equal rows, zeros and ties: the loop's own rounding may differ on a tie only, so coins are kept off ties."""

    @quick
    @given(drafted_cases(rule), st.integers(0, 999))
    def check(case: Case, seed: int) -> None:
        request, _ = one_call(Group("one", (case,)), 32, seed=seed)
        request.coins[:] = (np.floor(request.coins * 2.0**20) + 0.31) / 2.0**20
        request.final_coins[:] = (np.floor(request.final_coins * 2.0**20) + 0.31) / 2.0**20
        assert_walk_is_the_loop(request, rule)

    check()


@pytest.mark.parametrize("coin", [0.0, 1 - 2.0**-24])
@pytest.mark.parametrize("rule", DRAFTED)
def test_walk_at_the_ends_of_the_coins(rule: str, coin: float) -> None:
    """No token without mass, no draft beyond what its law allows, whatever the coins."""

    @quick
    @given(drafted_cases(rule))
    def check(case: Case) -> None:
        request, _ = one_call(Group("one", (case,)), 8)
        request.coins[:] = coin
        request.final_coins[:] = coin
        assert_walk_is_the_loop(request, rule)
        possible = sequences_of(RULES[rule].law(case))
        result = RULES[rule].walk(request)
        for tokens, length in zip(result.tokens.tolist(), result.lengths.tolist(), strict=True):
            assert tuple(tokens[:length]) in possible

    check()


@pytest.mark.parametrize("rule", DRAFTED)
def test_a_coin_equal_to_the_chance_rejects(rule: str) -> None:
    """Accepted is coin < p/q: half of all coins where p/q is 1/2, so a coin of 1/2 is not, the one below it is."""
    case = redrawn(rule, [-1, 0], [[1, 3]], [[1, 1]])
    request, _ = one_call(Group("one", (case,)), 64)
    drafted = request.candidates[:, 1]
    for coin, lowest in ((0.5, 1), (0.5 - 2.0**-24, 2)):
        request.coins[:] = coin
        lengths = RULES[rule].walk(request).lengths
        assert set(drafted) == {0, 1}
        assert set(lengths[drafted == 0]) == {lowest}
        assert set(lengths[drafted == 1]) == {2}


@pytest.mark.parametrize("rule", DRAFTED)
def test_laws_of_float32_that_do_not_sum_to_one(rule: str) -> None:
    """What a sampler gets is rounded: walk and law both mean the row divided by its sum."""
    rng = generator(f"rounded {rule}")
    for _ in range(4):
        p, q = rng.dirichlet(np.ones(7), 3), rng.dirichlet(np.ones(7), 3)
        case = redrawn(rule, [-1, 0, 1], p.tolist(), q.tolist())
        assert case.probs is not None
        assert case.draft is not None
        case = replace(case, probs=case.probs * np.float32(1 + 3e-6), draft=case.draft * np.float32(1 - 3e-6))
        assert_walk_is_the_loop(one_call(Group("one", (case,)), 64)[0], rule)
        np.testing.assert_allclose(RULES[rule].law(case).rows.sum(axis=1), 1, rtol=0, atol=1e-12)


# ---- sampled laws


def lengths_p_value(law: Law, sequences: SequenceCounts) -> float:
    """Chi-square on lengths; a length that cannot come and did is a p-value of 0."""
    observed = np.bincount(sequences.lengths, weights=sequences.counts, minlength=len(law.lengths))
    expected = law.lengths * sequences.n
    if observed[expected < 1e-9 * sequences.n].any():
        return 0.0
    rare = (expected < 5) & (expected > 0)
    often = expected >= 5
    cells = [*zip(observed[often], expected[often], strict=True)]
    if rare.any():
        cells.append((observed[rare].sum(), expected[rare].sum()))
    if len(cells) < 2:
        return 1.0
    found, wanted = map(np.array, zip(*cells, strict=True))
    return float(stats.chisquare(found, wanted * (found.sum() / wanted.sum())).pvalue)


@pytest.mark.parametrize("rule", SHAPE_OF)
def test_sampled_law_is_the_exact_law(rule: str) -> None:
    plan = Plan(named_group(rule), "rules", 0, 1 << 14)
    assert plan.calls > 1
    for case, sequences in zip(plan.group.cases, sample(plan), strict=True):
        assert sequences.n == 1 << 14
        law = RULES[rule].law(case)
        verdict = judge(law, sequences, LEAST_P, generator(f"judge {case.name}"))
        assert verdict.p_value > LEAST_P, (case.name, verdict.evidence)
        assert lengths_p_value(law, sequences) > LEAST_P, case.name


@pytest.mark.parametrize("rule", DRAFTED)
def test_outcomes_of_a_small_case_are_chi_square(rule: str) -> None:
    """Whole sequences against the enumerated law, by the textbook's test: neither the harness's law nor its judge."""
    parents = [-1, 0, 1] if rule in ("rejection", "block") else [-1, 0, 0, 1]
    case = redrawn(rule, parents, [[1, 2, 5], [3, 1, 1]], [[4, 2, 1], [1, 1, 2]], nodes=5)
    (sequences,) = sample(Plan(Group("small", (case,)), "rules", 0, 1 << 15))
    law = emitted_law(case, by_block if rule == "block" else by_rejection)
    seen = {
        tuple(token for token in tokens if token >= 0): count
        for tokens, count in zip(sequences.tokens.tolist(), sequences.counts.tolist(), strict=True)
    }
    assert seen.keys() <= law.keys()
    assert min(law.values()) * sequences.n > 5
    observed = np.array([seen.get(key, 0) for key in law])
    expected = np.array([float(share) for share in law.values()])
    assert stats.chisquare(observed, expected / expected.sum() * sequences.n).pvalue > LEAST_P
