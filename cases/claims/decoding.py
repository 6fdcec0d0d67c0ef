"""Claims about the commit: one for greedy and sampling (3), and right whatever was accepted (8)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.counts import count_sequences
from harness.decode.commit import Verified, verified
from harness.decode.decoder import Decoder, Parts, verifying
from harness.decode.drafting import Drafted
from harness.decode.sequences import SequenceGroup, SequencePlan
from harness.samplers.base import Verifier
from harness.stats.verdict import Judgement, judge
from harness.streams import stream

from ..sequences import sequence_groups
from .common import ALPHA, kernel_of

__all__ = ["Mixed", "Shared", "batches_of_every_acceptance", "commit_is_shared", "sequences_decoded"]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Shared:
    """Claim 3: steps at temperature 0 whose five intermediates were compared, and how many differ."""

    steps: int
    differ: int
    sequences: int
    sequences_differ: int


def commit_is_shared(name: str, n: int = 1 << 8) -> Shared:
    """Claim 3: the commit can be shared; greedy and sampling verify lead to the same intermediates."""
    steps = differ = sequences = sequences_differ = 0
    for made in groups("greedy"):
        greedy, rows = recorded(made, kernel_of("sglang-tree-greedy", "greedy"), n)
        sampled, others = recorded(made, kernel_of(name), n)
        for one, other in zip(greedy, sampled, strict=True):
            steps += len(one.commit_lens_cpu)
            differ += int((~_same(one, other)).sum())
        sequences += len(rows)
        sequences_differ += int((rows != others).any(axis=1).sum())
    return Shared(steps, differ, sequences, sequences_differ)


def _same(one: Verified, other: Verified) -> NDArray[np.bool_]:
    """Return the rows in which all five intermediates are equal, bool [B]."""
    width = min(one.kept_per_req.shape[1], other.kept_per_req.shape[1])
    same: NDArray[np.bool_] = (one.kept_per_req[:, :width] == other.kept_per_req[:, :width]).all(axis=1)
    same &= (one.accepted_per_req[:, : width - 1] == other.accepted_per_req[:, : width - 1]).all(axis=1)
    for field in ("commit_lens_cpu", "new_verified_list", "num_accepted_drafts_per_req_cpu"):
        same &= getattr(one, field) == getattr(other, field)
    return same


def groups(rule: str) -> list[SequenceGroup]:
    """Return the suites' groups of many steps of a rule: DDTree, EAGLE and chain."""
    return [entry.group for entry in sequence_groups(1 << 12) if entry.rule == rule]


def recorded(made: SequenceGroup, verifier: Verifier, n: int) -> tuple[list[Verified], Ints]:
    """Decode ``n`` sequences a case; return the intermediates of every step, and the sequences."""
    steps: list[Verified] = []

    def keeping(drafted: Drafted, tokens: Ints) -> Verified:
        steps.append(verified(drafted, tokens))
        return steps[-1]

    decoder, plan = Decoder(made, verifying(verifier), Parts(verified=keeping)), SequencePlan(made, "claims", 0, n)
    rows = []
    for number in range(plan.calls):
        found = decoder.decode(plan.batch(number))
        if found.faults:
            raise AssertionError(f"group {made.name}: {found.first}")
        rows.append(found.tokens)
    return steps, np.concatenate(rows)


@dataclass(frozen=True)
class Mixed:
    """Claim 8: steps of batches in which some rows accepted nothing, some all, and some a part.

    ``batches`` counts the calls of verify that had all three; ``faults`` what KV, hidden states and pages say; the
    sequences of these runs were judged by their law.
    """

    nothing: int
    part: int
    all: int
    batches: int
    biased: int
    certified_tv: float


def batches_of_every_acceptance(name: str, n: int = 1 << 11) -> Mixed:
    """Claim 8: no draft accepted, all of them, and some, in one batch commit rightly."""
    nothing = part = everything = batches = biased = 0
    worst = 0.0
    for made in groups("target-only"):
        steps, rows = recorded(made, kernel_of(name), n)
        for step in steps:
            count = step.num_accepted_drafts_per_req_cpu
            kinds = [int((count == 0).sum()), 0, int((count == made.depth_limit - 1).sum())]
            kinds[1] = len(count) - kinds[0] - kinds[2]
            nothing, part, everything = nothing + kinds[0], part + kinds[1], everything + kinds[2]
            batches += all(kinds)
        for judgement in judged_sequences(made, rows, n):
            biased += judgement.biased
            worst = max(worst, judgement.certified_tv)
    return Mixed(nothing, part, everything, batches, biased, worst)


def judged_sequences(made: SequenceGroup, rows: Ints, n: int) -> list[Judgement]:
    """Judge what :func:`recorded` decoded, case by case."""
    plan = SequencePlan(made, "claims", 0, n)
    which = np.concatenate([plan.batch(number).which for number in range(plan.calls)])
    return [
        judge(case.law(), count_sequences(rows[which == g]), ALPHA, stream("claims", case.name), nodes=case.nodes)
        for g, case in enumerate(made.cases)
    ]


def sequences_decoded(name: str, drafts: str, n: int) -> list[Judgement]:
    """Decode ``n`` sequences of each case of a group of many steps with the kernel, and judge them."""
    (made,) = (made for made in groups("target-only") if made.name.endswith(drafts))
    _, rows = recorded(made, kernel_of(name), n)
    return judged_sequences(made, rows, n)
