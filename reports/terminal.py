"""The verdict in a terminal: a table of all cases with what each could have seen, and below it what failed, where."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from harness.results import CaseResult, Results, SamplerResult

__all__ = ["table"]

STYLES = {
    "pass": "green",
    "biased": "bold red",
    "broken": "bold yellow",
    "skipped": "dim",
    "known": "cyan",
    "fixed": "cyan",
}
WHERE_ROWS = 3


def table(results: Results, console: Console, *, verbose: bool = False) -> None:
    """Print the verdicts of ``results``; ``verbose`` lists the most deviating tokens of passing cases too."""
    for sampler in results.samplers:
        console.print(Group(*_sampler(sampler, verbose)))
    console.print(_verdict(results))


def _sampler(sampler: SamplerResult, verbose: bool) -> Iterator[RenderableType]:
    versions = ", ".join(f"{name} {version}" for name, version in sampler.versions.items())
    title = Text.assemble((sampler.name, "bold"), f"  runs on {sampler.runs_on}", f"  ({versions})" if versions else "")
    if sampler.shrink.get("k"):
        title.append(f"  n / 2^{sampler.shrink['k']}: {sampler.shrink['reason']}")
    yield title
    if sampler.reason:
        yield Text(f"  {sampler.verdict}: {sampler.reason}", STYLES[sampler.verdict])
    if not sampler.cases:
        return
    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    for column in ("case", "verdict"):
        grid.add_column(column, no_wrap=True)
    for column in ("n", "p", "TV <=", "sees move", "leak", "temp."):
        grid.add_column(column, justify="right", no_wrap=True)
    for case in sampler.cases:
        least = case.min_detectable
        figures = (case.p_value, case.certified_tv, least.move, least.leak, least.temperature)
        grid.add_row(
            Text(f"  {case.case}"), Text(case.verdict, STYLES[case.verdict]), f"{case.n:,}", *map(_figure, figures)
        )
    yield grid
    for case in sampler.cases:
        if case.verdict in ("biased", "broken") or verbose:
            yield Group(*_case(case))


def _case(case: CaseResult) -> Iterator[RenderableType]:
    if case.verdict == "pass" and not case.where:
        return
    yield Text.assemble((f"  {case.case}: {case.verdict}", STYLES[case.verdict]), f"  {case.reason or ''}")
    for row in case.where[:WHERE_ROWS]:
        prefix = " ".join(map(str, row.prefix)) or "the root"
        yield Text(
            f"    after {prefix} (node {row.node}) token {row.token}: expected {row.expected:.4g}, "
            f"observed {row.observed:.4g}, p = {row.p_value:.2g}"
        )
    if case.verdict in ("biased", "broken"):
        yield Text(f"    {case.reproduce}", "dim")


def _verdict(results: Results) -> Text:
    cases = [case for sampler in results.samplers for case in sampler.cases]
    counts = {verdict: sum(case.verdict == verdict for case in cases) for verdict in STYLES}
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    run = f"alpha {results.alpha:g} a sampler, seed {results.seed}"
    return Text(f"{results.verdict.upper()}: {parts or 'no case ran'} ({run})", STYLES[results.verdict])


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
