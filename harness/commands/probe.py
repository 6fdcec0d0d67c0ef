"""Command ``chitree probe``: the law of a coin-driven sampler, measured, against the exact one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import UsageError

if TYPE_CHECKING:
    from ..case import Case
    from ..probing import Probed
    from ..samplers.base import Claims

__all__ = ["probe"]


@click.command()
@click.option("--sampler", "sampler_name", required=True, metavar="NAME|MODULE:ATTR|FILE.py:ATTR")
@click.option("--case", "case_name", default=None, metavar="NAME|FILE.json", help="Default: one of its rule, V = 16.")
@click.option("--rule", "rule_name", default=None, help="Of the default case, where a sampler has several rules.")
@click.option("--suite", "suite_name", default="standard", show_default=True, metavar="smoke|standard|deep")
@click.option("--seed", default=0, show_default=True, help="Of every random stream.")
@click.option(
    "--sweep", type=int, default=None, metavar="NODE", help="Ask all 2^24 values of each coin that decides there."
)
@click.option("--json", "as_json", is_flag=True, help="The measured law and all its stretches as JSON.")
def probe(
    sampler_name: str,
    case_name: str | None,
    rule_name: str | None,
    suite_name: str,
    seed: int,
    sweep: int | None,
    as_json: bool,
) -> int:
    """Measure the law of a sampler all of whose randomness is its coins, and compare it with the exact law.

    For every emitted prefix: with what probability the step goes on with a draft (accepted) or ends with a token
    (last), the difference in coins of 2^24, how far rounding may part the two, and how many steps would have to be
    drawn for a standard error of one coin there. Exit code 1 where they are further apart.
    """
    from ..probing import run_probe

    def chosen(claims: Claims) -> Case:
        return _case(claims, case_name, rule_name, suite_name)

    found = run_probe(sampler_name, chosen, suite_name, seed, sweep)
    if as_json:
        _print_json(found)
    else:
        _print_text(found)
    return 1 if found.judgement.verdict == "biased" else 3 if found.judgement.verdict == "skipped" else 0


def _case(claims: Claims, name: str | None, rule_name: str | None, suite_name: str) -> Case:
    """Return the case that is asked for: one of a rule that the sampler claims."""
    from cases.probes import default_case

    from ..rules import rule
    from .named import named

    if name is not None:
        if rule_name is not None:
            raise UsageError("--rule is for the default case; leave it or --case out")
        case = named(name, suite_name)
        if case.rule not in claims.rules:
            raise UsageError(
                f"--case {name}: its rule is {case.rule}, the sampler's is {' or '.join(claims.rules)}; name another"
            )
        return case
    if rule_name is not None and rule(rule_name).name not in claims.rules:
        raise UsageError(f"--rule {rule_name}: the sampler's is {' or '.join(claims.rules)}")
    wanted = rule_name or ("target-only" if "target-only" in claims.rules else claims.rules[0])
    found = default_case(wanted)
    if found is None:
        raise UsageError(f"rule {wanted} cannot be probed: its laws hold over the drafts' own randomness only")
    return found


def _print_json(found: Probed) -> None:
    import msgspec

    click.echo(msgspec.json.format(msgspec.json.encode(found.as_json()), indent=1).decode())


def _print_text(found: Probed) -> None:
    from rich.table import Table
    from rich.text import Text

    from reports import printable

    from ..display import stdout
    from ..drawing import heading

    console, judgement = stdout(), found.judgement
    console.print(Text.assemble((printable(found.sampler), "bold"), f"  runs on {found.runs_on}"))
    if found.versions:
        versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
        console.print(f"versions: {printable(versions)}", soft_wrap=True)
    for text in heading(found.subject.case):
        console.print(text, soft_wrap=True)
    grid = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("after", "node", "token", "comes"):
        grid.add_column(column, no_wrap=True)
    for column in ("exact", "measured", "coins apart", "bound", "draws for the same"):
        grid.add_column(column, justify="right", no_wrap=True)
    for row in found.rows:
        style = "bold red" if row["deviates"] else ""
        after = " ".join(map(str, row["prefix"])) or "-"
        cells: tuple[Any, ...] = (after, row["node"], row["token"], row["kind"])
        figures = (f"{row['expected']:.8f}", f"{row['observed']:.8f}", f"{row['coins']:+.2f}", f"{row['bound']:.2f}")
        grid.add_row(*map(str, cells), *figures, f"{row['draws']:.1e}", style=style)
    console.print(grid, soft_wrap=True)
    for line in found.summary():
        console.print(printable(line), soft_wrap=True)
    style = {"pass": "green", "biased": "bold red", "known": "cyan", "fixed": "cyan"}.get(judgement.verdict, "yellow")
    reason = f": {judgement.reason}" if judgement.reason else ""
    console.print(Text(printable(f"{judgement.verdict.upper()}{reason}"), style), soft_wrap=True)
