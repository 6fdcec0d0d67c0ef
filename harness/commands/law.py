"""Command ``chitree law``: the exact law of a case."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..case import Case
    from ..decode.sequences import SequenceCase
    from ..law import Law

__all__ = ["law"]

MOST_LINES = 100
"""Prefixes that the text form shows."""

LINES_AT_ONCE = 256


@click.command()
@click.argument("name", metavar="CASE|FILE.json")
@click.option("--suite", "suite_name", default="standard", show_default=True, metavar="smoke|standard|deep")
@click.option("--json", "as_json", is_flag=True, help="The whole law as JSON.")
def law(name: str, suite_name: str, as_json: bool) -> int:
    """Print the exact law of a case: per prefix the next-token probabilities and reach, and the number of tokens.

    Of a case of many steps it is the law of the decoded sequences, and a node is a number of tokens.

    With --json one object: case, rule, vocab, depth_limit; lengths, where entry k is P(k tokens are emitted), k from 0
    to depth_limit; and prefixes, the empty one first and none before its parent, each an object of prefix (tokens),
    node (where the walk stands), reach (P(the prefix is emitted and another token follows)) and next (P(token | that
    happens), by token, impossible ones left out).
    """
    from .named import named_law, origin

    case, exact = named_law(name, suite_name)
    if as_json:
        _print_json(case, exact)
    else:
        _print_text(case, exact)
    if note := origin(case, name, suite_name):
        click.echo(f"{case.name}: {note}" if as_json else note, err=as_json)
    return 0


def _print_json(case: Case | SequenceCase, exact: Law) -> None:
    """Print the law, a prefix a line."""
    import msgspec

    head = {"case": case.name, "rule": case.rule, "vocab": case.vocab, "depth_limit": exact.depth_limit}
    opened = msgspec.json.encode({**head, "lengths": exact.lengths.tolist()}).decode()
    click.echo(f'{opened[:-1]},"prefixes":[')
    for start in range(0, exact.size, LINES_AT_ONCE):
        stop = min(start + LINES_AT_ONCE, exact.size)
        click.echo(",\n".join(_line(exact, m) for m in range(start, stop)) + ("," if stop < exact.size else "]}"))


def _line(exact: Law, m: int) -> str:
    import msgspec
    import numpy as np

    possible = np.flatnonzero(exact.rows[m])
    tokens = map(str, possible.tolist())
    line = {
        "prefix": exact.prefix(m),
        "node": int(exact.node[m]),
        "reach": float(exact.reach[m]),
        "next": dict(zip(tokens, exact.rows[m, possible].tolist(), strict=True)),
    }
    return msgspec.json.encode(line).decode()


def _print_text(case: Case | SequenceCase, exact: Law) -> None:
    from ..display import stdout
    from ..drawing import figure, heading, lengths, next_tokens

    console = stdout()
    for text in (*heading(case), lengths(exact)):
        console.print(text, soft_wrap=True)
    for m in range(min(exact.size, MOST_LINES)):
        prefix = "after " + " ".join(map(str, exact.prefix(m))) if m else "at the root"
        line = f"{prefix}  node {exact.node[m]}  reach {figure(exact.reach[m])}  next {next_tokens(exact.rows[m])}"
        console.print(line, soft_wrap=True)
    if exact.size > MOST_LINES:
        console.print(f"... {exact.size - MOST_LINES} more prefixes; --json has them all")
