"""Layer L1 against a plain loop, and its exact size by enumeration."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.counts import PrefixCounts, count_sequences, prefix_counts
from harness.law import LawBuilder
from harness.stats.cells import cell_counts, cells, two_sided
from harness.stats.localise import where
from harness.stats.support import support

from .laws import biased, draw, null, random_law, sampler, stream


def one_step(row):
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, np.asarray(row, float))
    return builder.build()


def loop_p_value(k, n, p):
    """Two-sided exact binomial p-value, one cell at a time."""
    return min(1.0, 2 * min(stats.binom.cdf(k, n, p), stats.binom.sf(k - 1, n, p)))


def loop_cells(law, counts, conditional):
    """Layer L1 by a plain loop over every cell of every prefix."""
    seen = {(m, t): c for m, t, c in zip(counts.prefix, counts.token, counts.count, strict=True)}
    by_depth = {}
    for m in range(law.size):
        for t in range(law.vocab):
            if law.rows[m, t] > 0 and law.reach[m] > 0:
                n, scale = (counts.reached[m], 1.0) if conditional else (counts.n, law.reach[m])
                p = min(1.0, scale * law.rows[m, t])
                by_depth.setdefault(law.depth[m], []).append(loop_p_value(seen.get((m, t), 0), n, p))
    return min(1.0, min(min(ps) * len(ps) * len(by_depth) for ps in by_depth.values()))


@given(st.integers(0, 2**32), st.integers(0, 300), st.booleans(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_agrees_with_a_plain_loop(seed, n, wrong, conditional):
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    source = law.with_rows(np.roll(law.rows, 1, axis=0)) if wrong and law.size > 1 else law
    counts = prefix_counts(law, draw(source, n, rng) if n else count_sequences(np.zeros((0, 1), np.int64)))
    evidence = cells(law, counts, conditional=conditional)
    assert evidence.test == "cells"
    assert evidence.p_value == pytest.approx(loop_cells(law, counts, conditional), rel=1e-9, abs=1e-300)


@given(st.integers(0, 2**32), st.integers(1, 300))
@settings(max_examples=40, deadline=None)
def test_ranking_agrees_with_a_plain_loop(seed, n):
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    source = law.with_rows(np.roll(law.rows, 1, axis=0))
    counts = prefix_counts(law, draw(source, n, rng))
    rows = where(law, counts, limit=10**6)
    seen = {(m, t): c for m, t, c in zip(counts.prefix, counts.token, counts.count, strict=True)}
    for row in rows:
        m = law.find(row.prefix)
        times, count = int(counts.reached[m]), seen.get((m, row.token), 0)
        if row.kind != "cell":
            assert (row.p_value, row.expected) == (0.0, 0.0)
            continue
        assert row.node == law.node[m]
        assert row.expected == law.rows[m, row.token] > 0
        assert row.observed == pytest.approx(count / times)
        assert row.p_value == pytest.approx(loop_p_value(count, times, row.expected), rel=1e-9)
    assert [row.p_value for row in rows] == sorted(row.p_value for row in rows)
    assert len({(*row.prefix, -1, row.token, row.kind) for row in rows}) == len(rows)
    listed = {(law.find(row.prefix), row.token) for row in rows}
    assert listed >= {cell for cell in seen if law.rows[cell] > 0}


def exact_tails(k, n, p):
    """P(N <= k) and P(N >= k) in rational arithmetic."""
    p = Fraction(p)
    mass = [math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)]
    return float(sum(mass[: k + 1])), float(sum(mass[k:]))


@pytest.mark.parametrize("p", [1e-12, 1e-3, 0.3, 0.5, 0.97, 1 - 1e-9])
@pytest.mark.parametrize("n", [1, 7, 30])
def test_tails_agree_with_rational_arithmetic(n, p):
    for k in range(n + 1):
        lower, upper = exact_tails(k, n, p)
        got = float(two_sided(np.array([k]), n, np.array([p]))[0])
        assert got == pytest.approx(min(1.0, 2 * min(lower, upper)), rel=1e-10)


@pytest.mark.parametrize("row", [(0.5, 0.3, 0.2), (0.9, 0.09, 0.01), (1 / 3, 1 / 3, 1 / 3), (0.98, 0.02, 0.0)])
@pytest.mark.parametrize("n", [1, 2, 5, 14])
def test_size_is_exact_by_enumeration(row, n):
    """P(p_value <= t) <= t for every attainable t, summed over every possible count."""
    law = one_step(row)
    outcomes = []
    for counts in itertools.product(range(n + 1), repeat=3):
        chance = stats.multinomial.pmf(counts, n, row) if sum(counts) == n else 0.0
        if chance > 0:
            token = np.flatnonzero(counts)
            table = PrefixCounts(n, np.array([n]), np.zeros_like(token), token, np.array(counts)[token], [])
            outcomes.append((cells(law, table).p_value, chance))
    below = np.cumsum([chance for _, chance in sorted(outcomes)])
    levels = np.array(sorted(p for p, _ in outcomes))
    last = np.append(levels[1:] > levels[:-1], True)  # ties belong together
    assert np.all(below[last] <= levels[last] + 1e-12)


def test_counts_possible_cells_per_depth():
    law = random_law(stream("cell counts"))
    want = [np.count_nonzero(law.rows[law.depth == d]) for d in range(law.depth.max() + 1)]
    assert list(cell_counts(law)) == want


def test_no_draws_say_nothing():
    law = null("B")
    counts = prefix_counts(law, count_sequences(np.zeros((0, 3), np.int64)))
    assert cells(law, counts).p_value == 1.0
    assert where(law, counts) == []


def test_strays_fail_support_and_come_first():
    law = one_step((0.7, 0.3, 0.0))
    counts = prefix_counts(law, count_sequences(np.array([[0]] * 5 + [[1]] * 40 + [[2]])))
    assert support(counts).p_value == 0.0
    top = where(law, counts)[0]
    assert (top.token, top.p_value, top.expected, top.kind) == (2, 0.0, 0.0, "token")
    assert top.observed == pytest.approx(1 / 46)


def test_a_missing_token_is_seen_though_never_observed():
    law = one_step((0.5, 0.3, 0.2))
    counts = prefix_counts(law, count_sequences(np.array([[0]] * 50 + [[1]] * 50)))
    evidence = cells(law, counts)
    assert evidence.detail["token"] == 2
    assert evidence.p_value == pytest.approx(3 * 2 * 0.8**100)
    assert where(law, counts)[0].token == 2


def test_ranking_separates_p_values_that_underflow():
    law = one_step((0.5, 0.25, 0.25))
    counts = prefix_counts(law, count_sequences(np.array([[0], [1], [2]]), np.array([10**6, 10**6, 2 * 10**6])))
    rows = where(law, counts)
    assert [row.p_value for row in rows[:2]] == [0.0, 0.0]
    assert rows[0].token == 2


@pytest.mark.parametrize(("bias", "least"), [("move", 0.9), ("leak", 0.97), ("swap", 0.95)])
def test_top_row_is_the_faulty_node_before_the_gate_fires(bias, least):
    """Law B at n = 30,000: statistics.md names .96, 1.0 and .99; 100 runs, so a little below each is asked for."""
    law, wrong = null("B"), biased("B", bias)
    (faulty,) = np.flatnonzero(np.any(np.abs(law.rows - wrong.rows) > 1e-12, axis=1))
    sample, rng = sampler(wrong), stream(f"localise {bias}")
    runs = 100
    right = 0
    for _ in range(runs):
        top = where(law, prefix_counts(law, sample(30_000, rng)), limit=1)[0]
        m = law.find(top.prefix)
        right += m == faulty and abs(law.rows[m, top.token] - wrong.rows[m, top.token]) > 1e-12
    assert right >= stats.binom.ppf(1e-6, runs, least)
