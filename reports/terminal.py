"""The verdict in a terminal: a table of all cases with what each could have seen, and below it what failed, where."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby

from rich.console import Console
from rich.segment import Segments
from rich.table import Table
from rich.text import Text

from harness.results import SLIP, CaseResult, Results, SamplerResult

from .deviation import describe, places, printable
from .sight import least_seen, sightless
from .summary import worst_figures
from .unfinished import go_on, heading, judged, progress

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
LEGEND = (
    "TV <= certified; move, leak, temp.: smallest bias seen with 90% power; "
    "-: does not apply; unseen: of no size seen at this n"
)


COIN_LEGEND = "steps with fixed coins, whose outcomes are known exactly: nothing of alpha is spent; -: does not apply"


def table(results: Results, console: Console, *, verbose: bool = False) -> None:
    """Print the verdicts of ``results``; ``verbose`` lists the most deviating tokens of passing cases too."""
    for sampler in results.samplers:
        _sampler(sampler, console, verbose, judged(results, sampler))
        console.print()
    console.print(headline(results))
    if go_on(results):
        console.print(go_on(results))


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
    run += ", fresh memory poisoned" * results.poison
    done = progress(results)
    parts = ", ".join(filter(None, (done, parts)))
    style = STYLES["broken" if done and results.verdict == "pass" else results.verdict]
    return Text(f"{heading(results)}: {parts or 'no case ran'} ({run})", style)


def _sampler(sampler: SamplerResult, console: Console, verbose: bool, so_far: str) -> None:
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
    for entry in sampler.not_tried:
        if entry.get("kind") == SLIP:
            say(f"note: {SLIP} {entry.get('reason')}", STYLES["broken"])
    if sampler.cases:
        # A narrow terminal breaks the lines of the table itself rather than lose figures.
        wide = console.options.update_width(max(console.width, WIDTH))
        console.print(Segments(console.render(_grid(sampler.cases), wide)), soft_wrap=True, end="")
        random = [case for case in sampler.cases if case.random]
        say(f"p against alpha {random[0].alpha:.2g}; {LEGEND}" if random else COIN_LEGEND, "dim")
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
    worst = _worst(sampler)
    if so_far:
        say(f"unfinished: {so_far}", STYLES["broken"])
    elif worst and sampler.verdict == "pass":
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
            figures = [*map(_figure, (case.p_value, case.certified_tv))]
            figures += [least_seen(case, bias, _figure) for bias in ("move", "leak", "temperature")]
            said = Text(case.verdict, STYLES[case.verdict])
            grid.add_row(f"  {printable(case.case)}", said, f"{case.n:,}", *figures)
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
    beside = f"; {case.reason}" if case.reason and case.verdict != "biased" else ""
    say(f"{case.case}: {case.verdict}, {figures}{beside}", STYLES[case.verdict])
    if case.reason and not beside:
        say(case.reason, indent=4)
    for row in places(case)[:WHERE_ROWS]:
        say(describe(row), indent=4)
    for entry in case.diagnosis:
        if entry.get("fits"):
            say(f"fits: {entry.get('bug')}", indent=4)
    if case.verdict == "biased":
        _command(case.reproduce, console)


def _command(command: str, console: Console) -> None:
    """Print a command line, whole, so that it can be copied."""
    console.print(Text(f"    {printable(command)}", "dim"), soft_wrap=True)


def _worst(sampler: SamplerResult) -> str:
    """Say in one line what a pass could have missed at worst."""
    drawn = sum(case.random for case in sampler.cases)
    worst, unseen = worst_figures(sampler), sightless(sampler)
    seen = []
    for bias in ("move", "leak"):
        if worst[bias] is not None:
            none = f" ({_cases(unseen[bias])} see{'s' * (unseen[bias] == 1)} none)" if bias in unseen else ""
            seen.append(f"{bias} {_figure(worst[bias])}{none}")
        elif bias in unseen:
            seen.append(f"no {bias}")
    if "temperature" in unseen:
        seen.append(f"no temperature error in {_cases(unseen['temperature'])}")
    certified = "" if worst["certified_tv"] is None else f"certified TV <= {_figure(worst['certified_tv'])}"
    parts = filter(None, (f"seen with 90% power: {', '.join(seen)}" if seen else "", certified))
    return f"at worst over {_cases(drawn)}: {'; '.join(parts)}" if drawn else ""


def _cases(count: int) -> str:
    return f"{count} case{'s' * (count != 1)}"


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
