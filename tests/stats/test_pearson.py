"""Pearson: pooling, agreement with a plain loop, and the reason why it does not decide."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.counts import count_sequences
from harness.law import LawBuilder
from harness.stats.pearson import pearson

from .laws import draw, null, random_law, sampler, stream
from .test_certificate import loop_outcomes


@given(st.integers(0, 2**32), st.integers(60, 3000))
@settings(max_examples=40, deadline=None)
def test_agrees_with_a_plain_loop(seed, n):
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    sequences = draw(law, n, rng)
    seen = {tuple(row[row >= 0]): c for row, c in zip(sequences.tokens, sequences.counts, strict=True)}
    cells = [(n * p, seen.get(key, 0)) for key, p in loop_outcomes(law).items()]
    alone = sorted(cell for cell in cells if cell[0] >= 25)
    pool = (sum(e for e, _ in cells if e < 25), n - sum(o for _, o in alone))
    if pool[0] >= 25:
        alone.append(pool)
    else:
        alone[0] = (alone[0][0] + pool[0], alone[0][1] + pool[1])
    got = pearson(law, sequences)
    assert (got.test, got.decides, got.share) == ("pearson", False, 0.0)
    assert got.detail["cells"] == len(alone)
    if len(alone) < 2:
        assert got.p_value is None
        return
    x2 = sum((o - e) ** 2 / e for e, o in alone)
    g = 2 * sum(o * np.log(o / e) for e, o in alone if o)
    assert got.p_value == pytest.approx(stats.chi2.sf(x2, len(alone) - 1), rel=1e-6)
    assert got.detail["g_p_value"] == pytest.approx(stats.chi2.sf(g, len(alone) - 1), rel=1e-6)


def test_impossible_sequences_count_in_the_pool():
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, np.array([0.5, 0.5, 0.0]))
    law = builder.build()
    fair = count_sequences(np.array([[0], [1]]), np.array([500, 500]))
    stray = count_sequences(np.array([[0], [1], [2]]), np.array([450, 450, 100]))
    assert pearson(law, fair).p_value == pytest.approx(1.0)
    # Expected 500 and 500; observed 450 and, with the impossible ones, 550: X^2 = 10 on one degree of freedom.
    assert pearson(law, stray).p_value == pytest.approx(stats.chi2.sf(10, 1))


def test_unpooled_on_law_b_alarms_more_than_a_tenth_of_the_time():
    """13 % false alarms at a nominal 1e-4 in the design; the share depends on n, its order of magnitude does not."""
    law = null("B")
    sample, rng = sampler(law), stream("unpooled B")
    runs = 150
    alarms = sum(pearson(law, sample(10_000, rng), pooled_at=0.0).p_value <= 1e-4 for _ in range(runs))
    assert alarms >= stats.binom.ppf(1e-6, runs, 0.05)


def actual_over_nominal(expected, nominal):
    """Return false alarms over nominal, exactly, of one cell of this expected count against a likely rest (df = 1)."""
    n = 10**9
    p = expected / n
    deviation = np.sqrt(stats.chi2.isf(nominal, 1) * n * p * (1 - p))
    low, high = np.ceil(expected - deviation), np.floor(expected + deviation)
    return (stats.binom.cdf(low - 1, n, p) + stats.binom.sf(high, n, p)) / nominal


def test_false_alarms_grow_as_alpha_falls_and_shrink_with_the_expected_count():
    at_5, at_25, at_100 = ([actual_over_nominal(e, a) for a in (1e-4, 1e-6, 1e-9)] for e in (5, 25, 100))
    assert at_5[0] > 2
    assert at_5[2] > 100
    for larger, smaller in ((at_5, at_25), (at_25, at_100)):
        assert all(a > b for a, b in zip(larger[1:], smaller[1:], strict=True))
    assert at_25[2] > 2 > 1
