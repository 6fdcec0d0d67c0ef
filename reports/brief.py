"""The verdict of a run in a few lines, as for the end of other tests' output."""

from __future__ import annotations

from harness.results import CaseResult, Results, SamplerResult

from .deviation import describe, figure, printable
from .summary import draws, worst_figures
from .terminal import headline

__all__ = ["brief"]

FAILED_CASES = 10


def brief(results: Results) -> list[str]:
    """Return the verdict, what each sampler could have hidden at worst, and what failed."""
    lines = [headline(results).plain]
    for sampler in results.samplers:
        lines += _sampler(sampler)
    return [printable(line) for line in lines]


def _sampler(sampler: SamplerResult) -> list[str]:
    where = f"runs on {sampler.runs_on}" if sampler.runs_on else "runs on nothing here"
    lines = [f"{sampler.name}: {sampler.verdict}, {where}, {draws(sampler)} draws a case"]
    if sampler.shrink.get("k"):
        lines.append(f"  n / 2^{sampler.shrink['k']} draws a case: {sampler.shrink['reason']}")
    if sampler.reason:
        lines.append(f"  {sampler.reason}")
    worst = {name: value for name, value in worst_figures(sampler).items() if value is not None}
    if worst:
        seen = ", ".join(f"{name} {figure(worst[name])}" for name in ("move", "leak", "temperature") if name in worst)
        lines.append(f"  seen with 90% power in every case: {seen}" if seen else "  no bias could have been seen")
    failed = [case for case in sampler.cases if case.verdict not in ("pass", "skipped")]
    lines += [f"  {_case(case)}" for case in failed[:FAILED_CASES]]
    if len(failed) > FAILED_CASES:
        lines.append(f"  and {len(failed) - FAILED_CASES} more cases")
    for test in sampler.suite_tests:
        if test.get("biased"):
            lines.append(f"  over all cases: {test['test']}: p = {figure(test.get('p_value'))}: {test.get('says', '')}")
    return lines


def _case(case: CaseResult) -> str:
    if case.where and case.verdict != "broken":
        return f"{case.case}: {case.verdict}: {describe(case.where[0])}"
    return f"{case.case}: {case.verdict}: {case.reason or f'p = {figure(case.p_value)}'}"
