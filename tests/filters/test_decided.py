"""Tests given that a decided token comes hold whatever a sampler does with the others, and still see what is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.case import Case
from harness.claimed import Unstated, claimed_law
from harness.counts import SequenceCounts, count_sequences, prefix_counts
from harness.filters import SEMANTICS, SamplingParams
from harness.groups import Group, Plan
from harness.law import Law
from harness.margins import claimed_rows
from harness.rules import RULES
from harness.samplers.base import Claims
from harness.stats.decided import decided, undecided_mass
from harness.stats.power import min_detectable
from harness.stats.verdict import judge
from harness.tree import Tree

LOGITS = np.log([[0.4, 0.2, 0.15, 0.15, 0.1], [0.3, 0.3, 0.2, 0.1, 0.1], [0.3, 0.3, 0.3, 0.05, 0.05]]).astype(
    np.float32
)
PARAMS = SamplingParams(top_p=0.6)
TREE = Tree(np.array([0, 0, 1]), np.array([-1, 0, 0]))


def claims(rule: str) -> Claims:
    return Claims((rule,), "logits", semantics=SEMANTICS["sequential"])


def case(rule: str = "target-only", **changes: object) -> Case:
    """At the root tokens 0 and 1 reach 0.6, so that rounding decides on 2 and 3; at node 1 on 2, at node 2 on ties."""
    return Case(**{"name": "x", "rule": rule, "tree": TREE, "logits": LOGITS, "params": PARAMS, **changes})  # type: ignore[arg-type]


def emit(rng: np.random.Generator, law: Law, n: int, lose: float) -> np.ndarray:
    """Sequences of a sampler that drops all undecided tokens of a row with probability ``lose``, each time anew."""
    assert law.undecided is not None
    tokens = np.full((n, law.depth_limit), -1)
    for row in tokens:
        m = 0
        for step in range(law.depth_limit):
            p = law.rows[m].copy()
            if rng.random() < lose and not law.undecided.tokens[m][p > 0].all():
                p[law.undecided.tokens[m]] = 0
            row[step] = rng.choice(len(p), p=p / p.sum())
            m = int(law.children(np.array([m]), row[[step]])[0])
            if m < 0:
                break
    return tokens


def test_the_law() -> None:
    law = claimed_law(case(), claims("target-only"))
    assert law.undecided is not None
    assert law.undecided.stops_known
    root = law.undecided.tokens[0]
    assert root.tolist() == [False, False, True, True, False]
    np.testing.assert_allclose(law.rows[0], np.array([0.4, 0.2, 0.15, 0.15, 0]) / 0.9, rtol=1e-6)
    np.testing.assert_allclose(law.decided.rows[0], [2 / 3, 1 / 3, 0, 0, 0], rtol=1e-6)
    assert law.decided.reach[0] == pytest.approx(0.6 / 0.9, rel=1e-6)
    assert law.decided.decided is law.decided
    assert claimed_law(case(), Claims(("target-only",))).undecided is None
    assert claimed_law(case(params=SamplingParams()), claims("target-only")).undecided is None


@pytest.mark.parametrize("lose", [0.0, 0.5, 1.0])
def test_right_samplers_pass_whatever_they_lose(lose: float) -> None:
    law = claimed_law(case(), claims("target-only"))
    p_values = []
    for seed in range(120):
        rng = np.random.default_rng(seed)
        sequences = count_sequences(emit(rng, law, 300, lose))
        p_values.append(judge(law, sequences, 1e-3, rng).p_value)
    p = np.array(p_values)
    assert (p <= 0.05).mean() <= 0.12  # 120 draws at 0.05: beyond 0.12 at 1e-3
    assert p.min() > 1e-5


def test_a_shift_among_decided_tokens_is_seen() -> None:
    law = claimed_law(case(), claims("target-only"))
    wrong = law.rows.copy()
    wrong[0, :2] = wrong[0, 1::-1]
    rng = np.random.default_rng(0)
    sequences = count_sequences(emit(rng, replace(law, rows=wrong), 2000, 0.5))
    judgement = judge(law, sequences, 1e-6, rng)
    assert judgement.biased
    assert judgement.where[0].prefix == []
    assert judgement.where[0].token in (0, 1)


def test_an_impossible_token_is_one_still() -> None:
    law = claimed_law(case(), claims("target-only"))
    tokens = emit(np.random.default_rng(0), law, 100, 0.5)
    tokens[0] = [4, -1]
    assert judge(law, count_sequences(tokens), 1e-6, np.random.default_rng(1)).biased


def test_a_stop_at_a_child_counts_as_a_trial() -> None:
    law = claimed_law(case(), claims("target-only"))
    tokens = emit(np.random.default_rng(0), law, 500, 0.5)
    counts = prefix_counts(law, count_sequences(tokens))
    tokens[tokens[:, 0] == 0, 1] = -1
    stopped = prefix_counts(law, count_sequences(tokens))
    child = law.find([0])
    assert stopped.reached[child] == 0
    assert decided(law, stopped)[1].reached[child] == counts.reached[child]
    assert judge(law, count_sequences(tokens), 1e-6, np.random.default_rng(1)).biased


def test_mass_and_power_are_reported() -> None:
    law = claimed_law(case(), claims("target-only"))
    tokens = emit(np.random.default_rng(0), law, 500, 0.0)
    mass = undecided_mass(law, prefix_counts(law, count_sequences(tokens)))
    assert mass is not None
    assert mass["mass"] > 0.3 / 0.9
    assert mass["observed"] > 100
    found = min_detectable(law, 100_000, 1e-6)
    assert found["move"] is not None
    assert found["move"] < 0.05
    assert found["leak"] is not None


def test_thresholds_below_one_leave_nothing_to_state() -> None:
    with pytest.raises(Unstated, match="thresholds below 1"):
        claimed_law(case(threshold_acc=0.5), claims("target-only"))
    claimed_law(case(threshold_acc=0.5, params=SamplingParams()), claims("target-only"))


@pytest.mark.parametrize("rule", ["rejection", "block", "none-chain"])
def test_drafts_drawn_from_a_law(rule: str) -> None:
    """A right sampler that loses the undecided tokens in every other step: it passes, though it accepts otherwise."""
    draft = np.array([[0.3, 0.3, 0.2, 0.1, 0.1]] * 3, np.float32)
    chain = Tree(np.zeros(3, np.int64), np.array([-1, 0, 1]))
    made = case(rule, tree=chain, draft=draft)
    law = claimed_law(made, claims(rule))
    assert law.undecided is not None
    assert not law.undecided.stops_known
    assert not (law.undecided.tokens & (law.rows <= 0)).any()
    wide = claimed_rows(LOGITS, PARAMS, SEMANTICS["sequential"])
    narrow = np.where(wide.undecided, 0, wide.rows)
    narrow[2, :2] = 1  # two of the three ties
    counts = []
    for name, rows in (("wide", wide.rows), ("narrow", narrow)):
        probs = (rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)
        own = Group(name, (replace(made, name=name, probs=probs, params=SamplingParams()),))
        plan = Plan(own, "test", 0, 1 << 14)
        for number in range(8):
            counts.append(count_sequences(RULES[rule].walk(plan.call(number)[0]).tokens))
    sequences = SequenceCounts.merge(counts)
    assert sequences.n >= 4096
    assert not judge(law, sequences, 1e-3, np.random.default_rng(0)).biased
