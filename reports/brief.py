"""The verdict of a run in a few lines, as for the end of other tests' output."""

from __future__ import annotations

from harness.results import SLIP, CaseResult, Results, SamplerResult

from .deviation import figure, printable, top
from .sight import sightless
from .summary import draws, worst_figures
from .terminal import headline
from .unfinished import go_on, judged

__all__ = ["brief"]

FAILED_CASES = 10


def brief(results: Results) -> list[str]:
    """Return the verdict, what each sampler could have hidden at worst, and what failed."""
    lines = [headline(results).plain, *filter(None, [go_on(results)])]
    for sampler in results.samplers:
        lines += _sampler(sampler, judged(results, sampler))
    return [printable(line) for line in lines]


def _sampler(sampler: SamplerResult, so_far: str) -> list[str]:
    where = f"runs on {sampler.runs_on}" if sampler.runs_on else "runs on nothing here"
    drawn = sum(case.random for case in sampler.cases)
    verdict = f"unfinished, {so_far}" if so_far and sampler.verdict == "pass" else sampler.verdict
    lines = [f"{sampler.name}: {verdict}, {where}, {draws(sampler)} draws a case"]
    if sampler.shrink.get("k"):
        lines.append(f"  n / 2^{sampler.shrink['k']} draws a case: {sampler.shrink['reason']}")
    if sampler.reason:
        lines.append(f"  {sampler.reason}")
    lines += [f"  note: {SLIP} {entry.get('reason')}" for entry in sampler.not_tried if entry.get("kind") == SLIP]
    worst, unseen = worst_figures(sampler), sightless(sampler)
    if worst["certified_tv"] is not None:
        kinds = [name for name in ("move", "leak", "temperature") if worst[name] is not None]
        seen = "seen with 90% power, at worst: " + ", ".join(f"{name} {figure(worst[name])}" for name in kinds)
        lines.append(f"  {seen if kinds else 'no bias could have been seen'}")
        none = ", ".join(f"no {name} in {count}" for name, count in unseen.items())
        lines += [f"  not seen, however large: {none} of {drawn} cases"] if none else []
    failed = [case for case in sampler.cases if case.verdict not in ("pass", "skipped")]
    lines += [f"  {_case(case)}" for case in failed[:FAILED_CASES]]
    if len(failed) > FAILED_CASES:
        lines.append(f"  and {len(failed) - FAILED_CASES} more cases")
    for test in sampler.suite_tests:
        if test.get("biased"):
            lines.append(f"  over all cases: {test['test']}: p = {figure(test.get('p_value'))}: {test.get('says', '')}")
    return lines


def _case(case: CaseResult) -> str:
    return f"{case.case}: {case.verdict}: {top(case) or f'p = {figure(case.p_value)}'}"
