"""judge: what it glues together, and a large vocabulary in reasonable time."""

import json
import time
from dataclasses import asdict

import numpy as np
import pytest

from harness.counts import count_sequences
from harness.law import LawBuilder
from harness.stats import Evidence, combine, judge
from harness.stats.power import min_detectable

from .laws import biased, draw, null, random_law, sampler, stream


def test_right_sampler_passes_and_wrong_one_does_not():
    law = null("B")
    right = judge(law, sampler(law)(100_000, stream("right")), 1e-6, stream("u"))
    wrong = judge(law, sampler(biased("B", "move"))(100_000, stream("wrong")), 1e-6, stream("u"))
    assert (right.biased, wrong.biased) == (False, True)
    assert wrong.where[0].prefix == []
    assert right.n == wrong.n == 100_000
    assert [part.test for part in right.evidence] == ["support", "cells", "chi-square", "pearson"]
    assert right.where


def test_p_value_is_that_of_the_evidence_and_decides():
    law = null("A")
    found = judge(law, sampler(biased("A", "temp"))(20_000, stream("near")), 1e-3, stream("u"))
    assert found.p_value == combine(found.evidence)
    assert found.biased == (found.p_value <= found.alpha)


def test_everything_goes_into_json():
    law = random_law(stream("json"))
    text = json.dumps(asdict(judge(law, draw(law, 500, stream("json draws")), 1e-6, stream("u"))), allow_nan=False)
    assert "chi-square" in text


def test_extra_layers_decide_too():
    law = null("A")
    draws = sampler(law)(1000, stream("extra"))
    bugs = Evidence("bugs", 1e-12, True, 0.2)
    assert judge(law, draws, 1e-6, stream("u"), extra=[bugs]).biased
    with pytest.raises(ValueError, match="sum to"):
        judge(law, draws, 1e-6, stream("u"), extra=[bugs, Evidence("more", 0.5, True, 0.3)])


def test_rule_none_ignores_how_often_prefixes_occur():
    """A sampler that stops more often than the law says is lossless all the same."""
    builder = LawBuilder(2)
    root = builder.add(-1, -1, 0, 1.0, np.array([0.6, 0.4]))
    builder.add(root, 0, 1, 0.6, np.array([0.3, 0.7]))
    law = builder.build()
    shy = count_sequences(np.array([[0, -1], [0, 0], [0, 1], [1, -1]]), np.array([30_000, 9_000, 21_000, 40_000]))
    assert judge(law, shy, 1e-6, stream("u")).biased
    free = judge(law, shy, 1e-6, stream("u"), conditional=True)
    assert not free.biased
    assert free.certified_tv < 0.05
    assert "pearson" not in [part.test for part in free.evidence]


def test_no_draws_pass_without_a_claim():
    found = judge(null("A"), count_sequences(np.zeros((0, 1), np.int64)), 1e-6, stream("u"))
    assert (found.p_value, found.biased, found.certified_tv, found.where) == (1.0, False, 1.0, [])


@pytest.mark.parametrize("alpha", [0.0, 1.0, float("nan")])
def test_alpha_out_of_range(alpha):
    with pytest.raises(ValueError, match="alpha"):
        judge(null("A"), sampler(null("A"))(10, stream("range")), alpha, stream("u"))


@pytest.mark.slow
def test_large_vocabulary_is_judged_in_seconds():
    """V = 152,064 at 64 prefixes, 10 million cells: a second at most on an idle core, five allowed."""
    rng, builder, kept = stream("large"), LawBuilder(5), []
    for m in range(64):
        logits = rng.normal(0, 2.5, 152_064)
        logits[:3] += 8
        row = np.exp(logits - logits.max())
        row /= row.sum()
        parent, token = ((m - 1) // 3, (m - 1) % 3) if m else (-1, -1)
        reach = kept[parent][0] * kept[parent][1][token] if m else 1.0
        kept.append((reach, row))
        builder.add(parent, token, m, reach, row)
    law = builder.build()
    draws = draw(law, 10**6, rng)
    started = time.process_time()
    assert not judge(law, draws, 1e-8, rng).biased
    judged = time.process_time()
    assert min_detectable(law, 10**6, 1e-8)["move"] < 0.005
    assert judged - started < 5
    assert time.process_time() - judged < 5
