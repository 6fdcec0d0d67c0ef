"""The certificate: its figures, its coverage, and the distance against a plain loop."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.counts import count_sequences, prefix_counts
from harness.stats.certificate import certified_tv, certified_tv_next_token, distance
from harness.stats.outcomes import outcome_law, outcomes_of

from .laws import biased, draw, null, random_law, sampler, stream


def loop_outcomes(law):
    """Probability of every whole sequence, by walking the law."""
    found = {}
    for m in range(law.size):
        for t in range(law.vocab):
            goes_on = sum(law.reach[c] for c in range(1, law.size) if law.parent[c] == m and law.token[c] == t)
            found[(*law.prefix(m), t)] = law.reach[m] * law.rows[m, t] - goes_on
    return found


def tv(one, other):
    return 0.5 * float(np.abs(outcome_law(one) - outcome_law(other)).sum())


@given(st.integers(0, 2**32), st.integers(1, 500))
@settings(max_examples=40, deadline=None)
def test_distance_agrees_with_a_plain_loop(seed, n):
    rng = np.random.default_rng(seed)
    law = random_law(rng)
    sequences = draw(law.with_rows(np.full_like(law.rows, 1 / law.vocab)), n, rng)
    want = loop_outcomes(law)
    seen = {}
    for row, count in zip(sequences.tokens, sequences.counts, strict=True):
        seen[tuple(row[row >= 0])] = count / n
    half_l1 = 0.5 * sum(abs(seen.get(key, 0.0) - want.get(key, 0.0)) for key in {*seen, *want})
    assert distance(law, sequences) == pytest.approx(half_l1)
    _, _, probability = outcomes_of(law, sequences)
    assert probability == pytest.approx([want.get(key, 0.0) for key in seen])


def test_outcomes_sum_to_one():
    assert outcome_law(null("B")).sum() == pytest.approx(1.0)
    assert outcome_law(random_law(stream("outcomes"))).sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("name", "figure"), [("A", 0.0038), ("B", 0.0062), ("C", 0.0112)])
def test_figures_at_a_million_draws(name, figure):
    law, rng = null(name), stream(f"certificate {name}")
    sample = sampler(law)
    mean = np.mean([certified_tv(law, sample(10**6, rng)) for _ in range(12)])
    assert mean == pytest.approx(figure, rel=0.04)


@pytest.mark.parametrize("bias", ["move", "leak", "temp", "swap"])
@pytest.mark.parametrize("n", [100, 10_000])
def test_bound_holds_for_biased_samplers(bias, n):
    """At miss = 0.05 the bound may fail in 5 % of runs; 200 runs allow what 5 % exceeds with probability 1e-9."""
    law, wrong = null("B"), biased("B", bias)
    sample, rng, far = sampler(wrong), stream(f"cover {bias} {n}"), tv(law, wrong)
    draws = [sample(n, rng) for _ in range(200)]
    whole = sum(certified_tv(law, x, 0.05) < far for x in draws)
    by_token = sum(certified_tv_next_token(law, prefix_counts(law, x), 0.05) < far for x in draws)
    assert max(whole, by_token) <= 31


def test_impossible_sequences_count_in_full():
    law = random_law(stream("certificate strays"), vocab=4, depth=2)
    outside = count_sequences(np.array([[int(np.argmin(law.rows[0])), 0, 0]] * 10))
    assert distance(law, outside) == pytest.approx(1.0)
    assert certified_tv(law, outside) == 1.0
    assert certified_tv_next_token(law, prefix_counts(law, outside)) == 1.0


def test_next_token_bound_of_one_step_is_the_whole_one():
    law = null("A")
    sequences = sampler(law)(50_000, stream("one step"))
    both = certified_tv(law, sequences), certified_tv_next_token(law, prefix_counts(law, sequences))
    assert both[0] == pytest.approx(both[1])
    assert both[0] - distance(law, sequences) == pytest.approx(math.sqrt(math.log(1e6) / 100_000))


def test_no_draws_certify_nothing():
    law = null("B")
    none = count_sequences(np.zeros((0, 3), np.int64))
    assert certified_tv(law, none) == certified_tv_next_token(law, prefix_counts(law, none)) == 1.0
