"""Verifiers that break at some sizes alone, or late, in suite standard: what runs stands, and no limit is exceeded."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from cases.catalogue import suite
from harness.gate import GateOptions, gate
from harness.results import SamplerResult
from harness.supervisor import Limits

HERE = Path(__file__).resolve().parent
BREAKERS = HERE.parent / "gate" / "breakers.py"

pytestmark = pytest.mark.slow


def run(plugin: str, *cases: str, shrink: int = 4, limits: Limits | None = None) -> SamplerResult:
    options = GateOptions((plugin,), cases=cases, workers=1, threads=1, shrink=shrink, limits=limits or Limits())
    results = gate(suite("standard"), options)
    assert results.exit_code == 3
    return results.samplers[0]


def verdicts(sampler: SamplerResult) -> dict[str, str]:
    """Return the verdict of each group, of which all cases agree."""
    found: dict[str, set[str]] = {}
    for case in sampler.cases:
        found.setdefault(case.group, set()).add(case.verdict)
    return {group: "+".join(sorted(both)) for group, both in found.items()}


def test_crash_where_v_is_no_multiple_of_four() -> None:
    """V = 6 and V = 4098 break; V = 4, 16 and 4100 are judged."""
    names = [f"target-only/{group}" for group in ("tiny-1", "tiny-2", "small-0", "wide-0", "wide-1")]
    sampler = run(f"{HERE / 'plugins.py'}:AbortsUnlessMultipleOfFour", *(f"{name}/*" for name in names))
    assert list(verdicts(sampler).items()) == list(
        zip(names, ["broken", "pass", "pass", "pass", "broken"], strict=True)
    )
    reasons = {case.reason for case in sampler.cases if case.verdict == "broken"}
    assert len(reasons) == 2
    assert all("the worker was killed by SIGABRT" in (reason or "") for reason in reasons)


def test_hang_in_a_later_call() -> None:
    """What was drawn before counts for nothing, the rest is skipped, and all is over within the limit of a call."""
    names = [f"target-only/{group}" for group in ("tiny-1", "tiny-2", "small-0")]
    began = time.monotonic()
    sampler = run(f"{BREAKERS}:HangsInCall50", *(f"{name}/*" for name in names), shrink=0, limits=Limits(call=3.0))
    assert time.monotonic() - began < 60.0
    assert verdicts(sampler) == dict(zip(names, ["broken", "skipped", "skipped"], strict=True))
    assert (sampler.cases[0].reason or "").startswith(f"call 50 of group {names[0]} did not return within")


@pytest.mark.parametrize("most", [1 << 20, 64 << 20])
def test_flood_without_end(most: int) -> None:
    sampler = run(f"{BREAKERS}:FloodsForEver", "target-only/tiny-1/*", shrink=0, limits=Limits(output=most))
    reason = f"call 1 of group target-only/tiny-1: it printed more than {most >> 20} MiB"
    assert {(case.verdict, case.reason) for case in sampler.cases} == {("broken", reason)}
