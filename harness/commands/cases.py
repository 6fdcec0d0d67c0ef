"""Command ``chitree cases``: list cases, draw one with its laws, write one as a file."""

from __future__ import annotations

import click

from ..errors import UsageError

__all__ = ["cases"]

WIDTH = 1 << 14
"""Columns of a drawing: the terminal wraps what is too long, nothing is cut."""


@click.command()
@click.argument("names", nargs=-1, metavar="[GLOB|FILE.json]...")
@click.option("--suite", "suite_name", default="standard", show_default=True, metavar="smoke|standard|deep")
@click.option("--rule", "rule_name", default=None, help="Only cases of this rule.")
@click.option("--show", default=None, metavar="NAME|FILE.json", help="Draw the tree of a case with its laws.")
@click.option("--export", default=None, metavar="NAME|FILE.json", help="Print a case as a JSON case file.")
@click.option("--schema", is_flag=True, help="Print the JSON schema of case files.")
def cases(
    names: tuple[str, ...],
    suite_name: str,
    rule_name: str | None,
    show: str | None,
    export: str | None,
    schema: bool,
) -> int:
    """List the cases of a suite, those whose name matches a GLOB, or those of case files."""
    asked = [name for name, given in (("--show", show), ("--export", export), ("--schema", schema)) if given]
    if len(asked) > 1 or (asked and (names or rule_name)):
        raise UsageError(f"{asked[0]} stands alone, got {', '.join([*asked[1:], *names]) or '--rule'} too")
    if schema:
        _print_schema()
    elif export is not None:
        _print_file(export, suite_name)
    elif show is not None:
        _draw(show, suite_name)
    else:
        _list(names, suite_name, rule_name)
    return 0


def _print_schema() -> None:
    import msgspec

    from ..casefile import schema

    click.echo(msgspec.json.format(msgspec.json.encode(schema()), indent=2))


def _print_file(name: str, suite_name: str) -> None:
    from ..casefile import dump
    from .named import named, origin

    case = named(name, suite_name)
    click.echo(dump(case).decode(), nl=False)
    if note := origin(case, name, suite_name):
        click.echo(f"{case.name}: {note}", err=True)


def _draw(name: str, suite_name: str) -> None:
    from ..display import stdout
    from ..drawing import drawn
    from ..rules import exact_law
    from .named import coins_of, named, origin

    case = named(name, suite_name)
    picture, console = drawn(case, exact_law(case, name)), stdout()
    console.width = WIDTH
    console.print(picture, soft_wrap=True)
    for line in coins_of(name, suite_name, case):
        console.print(line, soft_wrap=True)
    if note := origin(case, name, suite_name):
        console.print(note, soft_wrap=True)


def _list(names: tuple[str, ...], suite_name: str, rule_name: str | None) -> None:
    """Print a line a case, columns as wide as they must be."""
    from cases.catalogue import suite

    from ..display import stdout
    from ..rules import rule
    from ..selection import select

    selection = select(suite(suite_name), names, option="")
    entries = selection.entries
    if rule_name is not None:
        known = rule(rule_name).name
        entries = [entry for entry in entries if entry.rule == known]
        if not entries:
            raise UsageError(f"--rule {rule_name} matches no case of those asked for")
    rows: list[tuple[str, ...]] = [("case", "rule", "V", "N", "S", "draws", "thresholds")]
    for entry in entries:
        sizes = (f"{size:,}" for size in (entry.vocab, entry.nodes, entry.depth_limit, entry.n))
        thresholds = "-" if min(entry.thresholds) >= 1 else "{:g} {:g}".format(*entry.thresholds)
        shared = (entry.rule, *sizes, thresholds)
        rows += [(name, *shared) for name in entry.names if name in selection.names[entry.name]]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        left = (text.ljust(width) for text, width in zip(row[:2], widths[:2], strict=True))
        right = (text.rjust(width) for text, width in zip(row[2:], widths[2:], strict=True))
        lines.append("  ".join((*left, *right)))
    lines.append(f"{len(rows) - 1} case{'' if len(rows) == 2 else 's'}")
    stdout().print("\n".join(lines), soft_wrap=True)
