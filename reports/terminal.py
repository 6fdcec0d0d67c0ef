"""The verdict in a terminal: a table of all cases with what each could have seen, and below it what failed, where."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from harness.results import CaseResult, Results, SamplerResult

from .deviation import describe, printable

__all__ = ["headline", "table"]

STYLES = {
    "pass": "green",
    "biased": "bold red",
    "broken": "bold yellow",
    "skipped": "dim",
    "known": "cyan",
    "fixed": "cyan",
}
WIDTH = 100
WHERE_ROWS = 3
LEGEND = "p against alpha {alpha:.2g}; TV <= certified; move, leak, temp.: smallest bias seen with 90% power"


def table(results: Results, console: Console, *, verbose: bool = False) -> None:
    """Print the verdicts of ``results``; ``verbose`` lists the most deviating tokens of passing cases too."""
    for sampler in results.samplers:
        _sampler(sampler, console, verbose)
        console.print()
    console.print(headline(results))


def headline(results: Results) -> Text:
    """Return the run's verdict, with how many cases came out how."""
    cases = [case for sampler in results.samplers for case in sampler.cases]
    counts = {verdict: sum(case.verdict == verdict for case in cases) for verdict in STYLES}
    parts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    broken = sum(not sampler.cases for sampler in results.samplers)
    if broken:
        parts += f"{', ' if parts else ''}{broken} sampler{'s' * (broken > 1)} without a case that ran"
    failed = sum(bool(test.get("biased")) for sampler in results.samplers for test in sampler.suite_tests)
    if failed:
        parts += f"{', ' if parts else ''}{failed} test{'s' * (failed > 1)} over all cases failed"
    run = f"suite {results.suite}, alpha {results.alpha:g} a sampler, seed {results.seed}"
    return Text(f"{results.verdict.upper()}: {parts or 'no case ran'} ({run})", STYLES[results.verdict])


def _sampler(sampler: SamplerResult, console: Console, verbose: bool) -> None:
    width = min(console.width, WIDTH)

    def say(text: str, style: str = "", indent: int = 2) -> None:
        console.print(Text(_wrapped(printable(text), width, indent), style))

    console.print(Text.assemble((printable(sampler.name), "bold"), f"  runs on {sampler.runs_on or 'nothing here'}"))
    if sampler.versions:
        say("versions: " + ", ".join(f"{name} {version}" for name, version in sampler.versions.items()))
    if sampler.shrink.get("k"):
        say(f"n / 2^{sampler.shrink['k']} draws a case: {sampler.shrink['reason']}")
    if sampler.reason:
        say(f"{sampler.verdict}: {sampler.reason}", STYLES[sampler.verdict])
    if sampler.cases:
        # A narrow terminal breaks the lines of the table itself rather than lose figures.
        wide = console.options.update_width(max(console.width, WIDTH))
        console.print(Segments(console.render(_grid(sampler.cases), wide)), soft_wrap=True, end="")
        say(LEGEND.format(alpha=sampler.cases[0].alpha), "dim")
    for group, cases in _without_draws(sampler.cases):
        say(f"{group}: {cases[0].verdict}: {cases[0].reason or 'no reason given'}", STYLES[cases[0].verdict])
        if cases[0].verdict == "broken":
            _command(cases[0].reproduce, console)
    for case in sampler.cases:
        if case.verdict not in ("skipped", "broken") and (case.verdict != "pass" or verbose):
            _case(case, say, console)
    for test in sampler.suite_tests:
        if test.get("biased"):
            figures = f"p = {_figure(test['p_value'])} at alpha {_figure(test.get('alpha'))}"
            say(f"all cases together, {test['test']}: {figures}; {test.get('says', 'biased')}", STYLES["biased"])
    worst = _worst(sampler.cases)
    if worst and sampler.verdict == "pass":
        say(worst)


def _grid(cases: Iterable[CaseResult]) -> Table:
    """Return the table of the cases; those of a group that have no draws share a row."""
    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("  case", "verdict"):
        grid.add_column(column, no_wrap=True)
    for column in ("n", "p", "TV <=", "move", "leak", "temp."):
        grid.add_column(column, justify="right", no_wrap=True)
    for drawn, some in groupby(cases, key=lambda case: case.n > 0):
        for group, members in [] if drawn else _without_draws(some):
            verdict = members[0].verdict
            grid.add_row(f"  {group}", Text(verdict, STYLES[verdict]), *"------")
        for case in some if drawn else ():
            least = case.min_detectable
            figures = (case.p_value, case.certified_tv, least.move, least.leak, least.temperature)
            said = Text(case.verdict, STYLES[case.verdict])
            grid.add_row(f"  {printable(case.case)}", said, f"{case.n:,}", *map(_figure, figures))
    return grid


def _without_draws(cases: Iterable[CaseResult]) -> Iterator[tuple[str, list[CaseResult]]]:
    """Yield the cases that have no draws: those of a group with equal reasons together, under a name for them."""
    idle = [case for case in cases if not case.n]
    for (group, _, _), members in groupby(idle, key=lambda case: (case.group, case.verdict, case.reason)):
        same = list(members)
        yield f"{printable(group)} ({len(same)} case{'s' * (len(same) > 1)})", same


def _case(case: CaseResult, say: Callable[..., None], console: Console) -> None:
    if case.verdict == "pass" and not case.where:
        return
    figures = f"p = {_figure(case.p_value)} at alpha {case.alpha:.2g}, n = {case.n:,}"
    say(f"{case.case}: {case.verdict}, {figures}{f'; {case.reason}' if case.reason else ''}", STYLES[case.verdict])
    for row in case.where[:WHERE_ROWS]:
        say(describe(row), indent=4)
    if case.verdict == "biased":
        _command(case.reproduce, console)


def _command(command: str, console: Console) -> None:
    """Print a command line, whole, so that it can be copied."""
    console.print(Text(f"    {printable(command)}", "dim"), soft_wrap=True)


def _worst(cases: Iterable[CaseResult]) -> str:
    """Say in one line what a pass could have missed at worst."""
    drawn = [case for case in cases if case.random]

    def largest(what: str, value: Callable[[CaseResult], float | None]) -> str:
        found = [figure for figure in map(value, drawn) if figure is not None]
        return f"{what} {max(found):.2g}" if found else ""

    move = largest("move", lambda case: case.min_detectable.move)
    leak = largest("leak", lambda case: case.min_detectable.leak)
    certified = largest("certified TV <=", lambda case: case.certified_tv)
    seen = ", ".join(filter(None, (move, leak)))
    parts = filter(None, (f"seen with 90% power: {seen}" if seen else "", certified))
    return f"at worst over {len(drawn)} case{'s' * (len(drawn) > 1)}: {'; '.join(parts)}" if drawn else ""


def _wrapped(text: str, width: int, indent: int) -> str:
    return textwrap.fill(
        text,
        max(width, 40),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + 2),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2g}"
