"""A group probed in this process, with any verifier."""

from __future__ import annotations

from typing import Any

from harness.groups import Group
from harness.measured import Measured
from harness.probegroup import ProbeGroup, ProbePlan, probed
from harness.probejudge import ProbeJudgement, judge_probe
from harness.request import Request
from harness.samplers.base import Claims
from harness.validate import Expected, emitted

__all__ = ["judged", "measured"]


def measured(
    group: ProbeGroup | Group, verifier: Any, claims: Claims | None = None, seed: int = 0
) -> tuple[ProbePlan, list[Measured]]:
    """Return the plan and what was measured of each case."""
    given = claims or Claims.of(verifier)
    plan = ProbePlan(group.group if isinstance(group, ProbeGroup) else group, "tests", seed, 1)

    def verify(call: str, request: Request) -> Any:
        expected = Expected.of(request)
        return emitted(verifier.verify(request), expected)

    return plan, probed(plan, given, verify)


def judged(group: ProbeGroup | Group, verifier: Any, claims: Claims | None = None) -> dict[str, ProbeJudgement]:
    """Return the judgement on each case, by its name without that of the group."""
    given = claims or Claims.of(verifier)
    plan, found = measured(group, verifier, given)
    return {
        subject.case.name.removeprefix(f"{group.name}/"): judge_probe(subject, one)
        for subject, one in zip(plan.subjects(given), found, strict=True)
    }
