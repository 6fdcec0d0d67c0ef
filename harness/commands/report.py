"""Command ``chitree report``: the reports of a run, from its results.json; and those that a gate writes at its end."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from ..errors import Unavailable, UsageError

if TYPE_CHECKING:
    from ..results import Results

__all__ = ["report", "write_reports"]

SUMMARY = "GITHUB_STEP_SUMMARY"
_FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)
STDOUT = Path("-")


@click.command()
@click.argument("results", metavar="RESULTS", type=click.Path(path_type=Path))
@click.option("--html", "html_file", type=_FILE, default=None, help="Write one self-contained HTML file; - for stdout.")
@click.option("--markdown", "markdown_file", type=_FILE, default=None, help="Write Markdown, for a pull request.")
@click.option("--junit", "junit_file", type=_FILE, default=None, help="Write JUnit XML, for CI systems.")
def report(results: Path, html_file: Path | None, markdown_file: Path | None, junit_file: Path | None) -> int:
    """Rebuild reports from RESULTS, a results.json or its folder; without an option, report.html beside it."""
    from reports import html, junit, printable, unfinished_lines

    from ..results import read

    source = results / "results.json" if results.is_dir() else results
    found = read(source)
    if html_file is None and markdown_file is None and junit_file is None:
        html_file = source.with_name("report.html")
    writers: tuple[tuple[str, Path | None, Callable[[Results, Path], None]], ...] = (
        ("--html", html_file, html),
        ("--markdown", markdown_file, _markdown),
        ("--junit", junit_file, junit),
    )
    spoken = STDOUT in (html_file, markdown_file, junit_file)
    for option, path, write in writers:
        if path == STDOUT:
            _print(found, write)
        elif path is not None:
            if path.exists() and path.samefile(source):
                raise UsageError(f"{option} {path}: this is the results file itself; name another one")
            try:
                write(found, path)
            except OSError as error:
                raise UsageError(f"{option} {path}: cannot be written: {error.strerror}") from None
            if path.name != "stdout":
                click.echo(printable(f"{option[2:]}: {path}"), err=spoken)
    for line in unfinished_lines(found, shlex.quote(str(source.parent))):
        click.echo(printable(line), err=spoken)
    return 0


def _print(results: Results, write: Callable[[Results, Path], None]) -> None:
    """Write a report to stdout."""
    with TemporaryDirectory(prefix="chitree-report-") as folder:
        write(results, Path(folder, "report"))
        click.echo(Path(folder, "report").read_bytes(), nl=False)


def write_reports(results: Results, out: Path) -> list[str]:
    """Write report.html and junit.xml into ``out`` and Markdown to the job's summary, where there is one.

    Returns lines that say what was written, or why it was not: a report that fails never takes the verdict with it.
    """
    from reports import html, junit, markdown

    lines = []
    for name, path, write in (("report", out / "report.html", html), ("junit", out / "junit.xml", junit)):
        try:
            write(results, path)
            lines.append(f"{name}: {path}")
        except Unavailable as error:
            lines.append(f"{name}: not written: {error}")
        except OSError as error:
            lines.append(f"{name}: {path} cannot be written: {error.strerror}")
        except Exception as error:  # whatever is wrong with a report, the verdict stands
            lines.append(f"{name}: not written: {type(error).__name__}: {error}")
    summary = os.environ.get(SUMMARY)
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as stream:
                stream.write(markdown(results) + "\n")
        except OSError as error:
            lines.append(f"summary: {SUMMARY} cannot be written: {error.strerror}")
    return lines


def _markdown(results: Results, path: Path) -> None:
    from reports import markdown

    path.write_text(markdown(results), encoding="utf-8")
