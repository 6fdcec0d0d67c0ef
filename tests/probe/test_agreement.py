"""The law that was probed and the draws of the same sampler agree, for every built-in sampler driven by coins.

Draws of each case are held against the measured law by the gate's own tests, at an alpha of 1e-6 a case: a right pair
fails in less than one run of 10,000, over all cases here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cases.probes import probe_groups
from harness.counts import SequenceCounts, count_sequences
from harness.probegroup import Caller, ProbeGroup, ProbePlan
from harness.request import Request
from harness.rules import rule
from harness.samplers.registry import SAMPLERS
from harness.stats.verdict import judge
from harness.streams import coins, stream
from harness.validate import Expected, emitted

from .asking import measured

DRAWS = 4096
ALPHA = 1e-6
BUILT_IN = [
    (name, known_rule)
    for name, known in SAMPLERS.items()
    if known.claims.coins and known.runs_on != "gpu" and known.claims.takes == "probs" and not known.claims.chains
    for known_rule in known.claims.rules
    if known_rule != "none-chain"
]


def draws(plan: ProbePlan, verifier: Any, rows: int) -> list[SequenceCounts]:
    """Return the counts of each case with fresh coins, its drafts held as they were for the probe."""

    def verify(call: str, request: Request) -> np.ndarray:
        expected = Expected.of(request)
        return emitted(verifier.verify(request), expected)

    caller = Caller(plan, verify, rows=256)
    size, nodes = len(plan.group), plan.group.nodes
    rng = stream("agreement", plan.group.name)
    which = np.repeat(np.arange(size), rows)
    uniforms = (coins(rng, size * rows, nodes + 1).astype(np.float64) * 2**24).astype(np.int64)
    tokens = caller(which, uniforms)
    return [count_sequences(tokens[which == g]) for g in range(size)]


@pytest.mark.parametrize(("kernel", "of"), BUILT_IN, indirect=["kernel"])
def test_probed_and_sampled_law_agree(kernel: str, of: str) -> None:
    known = SAMPLERS[kernel]
    groups = [group for group in probe_groups("smoke") if group.rule == of and not group.outside]
    wanted = ("dyadic", "lossy", "drafted", "argmax")
    for group in (group for group in groups if group.name.endswith(wanted)):
        some = ProbeGroup(group.name, group.cases[:2])
        verifier = known.make(of)
        plan, found = measured(some, verifier, known.claims)
        sampled = draws(plan, verifier, DRAWS if known.runs_on == "cpu" else DRAWS // 2)
        for case, one, counts in zip(some.cases, found, sampled, strict=True):
            law = one.law(case.vocab, case.depth_limit)
            rng = stream("agreement", kernel, case.name)
            judgement = judge(law, counts, ALPHA, rng, conditional=rule(of).lossless_only, nodes=case.nodes)
            assert not judgement.biased, (case.name, judgement.where[:3])


def test_disagreement_is_seen() -> None:
    """The same test fails where the draws are those of another sampler."""
    group = next(group for group in probe_groups("smoke") if group.name == "probe/target-only/dyadic")
    some = replace(group, cases=group.cases[:1])
    known = SAMPLERS["reference"]
    plan, (one,) = measured(some, known.make("target-only"), known.claims)
    (counts,) = draws(plan, known.make("sampler-match"), DRAWS)
    case = some.cases[0]
    law = one.law(case.vocab, case.depth_limit)
    assert not judge(law, counts, ALPHA, stream("a"), conditional=False, nodes=case.nodes).biased

    class Hotter:
        """Draws from laws that are flatter."""

        def verify(self, request: Request) -> Any:
            request.target_probs = np.sqrt(request.target_probs)
            request.target_probs /= request.target_probs.sum(axis=2, keepdims=True)
            return known.make("target-only").verify(request)

    (other,) = draws(plan, Hotter(), DRAWS)
    assert judge(law, other, ALPHA, stream("a"), conditional=False, nodes=case.nodes).biased
