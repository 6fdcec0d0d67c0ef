"""Layer L2: the chain against a plain loop, exact normality of its scores, robustness at the extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.counts import count_sequences, prefix_counts
from harness.law import LawBuilder
from harness.stats.chisquare import chain, chi_square, normal_scores

from .laws import draw, null, random_law, sampler, stream


def loop_chain(law, n):
    """(prefix, token, probability given that no earlier cell came) of every test of the chain, by plain loops."""
    tests = []
    for m in range(law.size):
        if n * law.reach[m] < 1:
            continue
        order = sorted(range(law.vocab), key=lambda t: (-law.rows[m, t], t))
        alone = [t for t in order if n * law.reach[m] * law.rows[m, t] >= 1]
        for j, t in enumerate(alone):
            rest = sum(law.rows[m, u] for u in range(law.vocab) if u not in alone[:j])
            after = sum(law.rows[m, u] for u in range(law.vocab) if u not in alone[: j + 1])
            if after > 0:
                tests.append((m, t, law.rows[m, t] / rest))
    return tests


@given(st.integers(0, 2**32), st.integers(1, 2000))
@settings(max_examples=60, deadline=None)
def test_chain_agrees_with_a_plain_loop(seed, n):
    law = random_law(np.random.default_rng(seed))
    got = chain(law, n)
    at, column = np.nonzero(got.tested)
    want = loop_chain(law, n)
    assert got.df == len(want)
    assert list(zip(got.prefix[at], got.token[at, column], strict=True)) == [(m, t) for m, t, _ in want]
    assert got.ratio[at, column] == pytest.approx([ratio for _, _, ratio in want])


@given(st.integers(0, 2**32), st.integers(1, 2000))
@settings(max_examples=40, deadline=None)
def test_statistic_agrees_with_a_plain_loop(seed, n):
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    counts = prefix_counts(law, draw(law, n, rng))
    got = chi_square(law, counts, np.random.default_rng(seed))
    seen = {(m, t): c for m, t, c in zip(counts.prefix, counts.token, counts.count, strict=True)}
    k, left, p = [], [], []
    taken = {}
    for m, t, ratio in loop_chain(law, n):
        k.append(seen.get((m, t), 0))
        left.append(counts.reached[m] - taken.get(m, 0))
        p.append(ratio)
        taken[m] = taken.get(m, 0) + k[-1]
    if not k:
        assert got.p_value == 1.0
        return
    z = normal_scores(np.array(k), np.array(left), np.array(p), np.random.default_rng(seed))
    p_sum = stats.chi2.sf(np.sum(z**2), len(z))
    p_max = 1 - (1 - 2 * stats.norm.sf(np.max(np.abs(z)))) ** len(z)
    assert got.p_value == pytest.approx(min(1, 2 * min(p_sum, p_max)), rel=1e-6, abs=1e-13)


@pytest.mark.parametrize(("trials", "p"), [(0, 0.3), (1, 0.3), (3, 1e-3), (40, 0.5), (10**6, 2e-6), (10**6, 0.7)])
def test_scores_are_exactly_normal(trials, p):
    """Kolmogorov-Smirnov at 1e-9 on 20,000 scores."""
    rng = stream(f"scores {trials} {p}")
    size = 20_000
    z = normal_scores(rng.binomial(trials, p, size), np.full(size, trials), np.full(size, p), rng)
    assert stats.kstest(z, "norm").pvalue > 1e-9


@given(st.integers(0, 60), st.integers(0, 60), st.floats(1e-12, 1 - 1e-12), st.integers(0, 2**32))
@settings(max_examples=100, deadline=None)
def test_score_lies_within_its_count_interval(k, more, p, seed):
    n = k + more
    z = float(normal_scores(np.array([k]), np.array([n]), np.array([p]), np.random.default_rng(seed))[0])
    slack = 1e-9 * (1 + abs(z))
    low, high = stats.norm.isf(stats.binom.sf(k - 1, n, p)), stats.norm.ppf(stats.binom.cdf(k, n, p))
    assert np.clip(low, -37.5, 37.5) - slack <= z <= np.clip(high, -37.5, 37.5) + slack or abs(z) > 37.5


def test_scores_stay_finite_far_out():
    k = np.array([0, 10**6, 500_000, 30, 0])
    n = np.array([10**6, 10**6, 10**6, 30, 30])
    p = np.array([0.5, 0.5, 0.01, 1e-12, 1.0])
    z = normal_scores(k, n, p, stream("far out"))
    assert np.all(np.isfinite(z))
    assert np.all(np.abs(z) > 20)
    assert list(np.sign(z)) == [-1, 1, 1, 1, -1]


def test_scores_keep_their_precision_in_the_tails():
    """At |z| near 30 a 1 - p cancellation would give infinity; normal and binomial tails must still match."""
    n, p = 10**6, 0.5
    k = np.array([500_000 - 15_000, 500_000 + 15_000])
    z = normal_scores(k, np.full(2, n), np.full(2, p), stream("tails"))
    assert z == pytest.approx([-30.0, 30.0], abs=0.05)


def test_impossible_tokens_do_not_break_it():
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, np.array([0.5, 0.3, 0.2, 0.0, 0.0]))
    law = builder.build()
    free = law.with_rows(np.full_like(law.rows, 1 / law.vocab))
    counts = prefix_counts(law, draw(free, 3000, stream("strays drawn")))
    assert counts.strays
    assert 0.0 <= chi_square(law, counts, stream("strays u")).p_value < 1e-6


def test_same_seed_same_result_and_seed_is_logged():
    law = null("B")
    counts = prefix_counts(law, sampler(law)(20_000, stream("repeat")))
    first = chi_square(law, counts, np.random.default_rng([7, 8]))
    again = chi_square(law, counts, np.random.default_rng([7, 8]))
    assert first == again
    assert first.detail["rng"] == {"bit_generator": "PCG64", "entropy": "[7, 8]", "spawn_key": []}


def test_uniforms_drawn_depend_on_law_and_n_only():
    law = null("B")
    after = []
    for name in ("one", "two"):
        rng = np.random.default_rng(1)
        chi_square(law, prefix_counts(law, sampler(law)(20_000, stream(name))), rng)
        after.append(rng.random())
    assert after[0] == after[1]


def test_no_draws_say_nothing():
    law = null("A")
    counts = prefix_counts(law, count_sequences(np.zeros((0, 1), np.int64)))
    assert chi_square(law, counts, stream("none")).p_value == 1.0
