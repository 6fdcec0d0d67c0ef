"""What a run shows while it goes on, and at its end: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from .results import Results
from .sweep import GroupRun

__all__ = ["Display", "stdout"]

PLAIN_WIDTH = 120


class _Console(Console):
    """A console that lets a run go on when nobody reads its output any more (``| head``)."""

    def on_broken_pipe(self) -> None:
        """Print nothing from now on; rich would exit with code 1, which here means bias."""
        self.quiet = True
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def stdout() -> Console:
    """Return the console of stdout: as wide as the terminal, of a fixed width elsewhere, and no markup in texts."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names that the terminal's encoding has not
    console = _Console(highlight=False, markup=False, emoji=False)
    return console if console.is_terminal else _Console(highlight=False, markup=False, emoji=False, width=PLAIN_WIDTH)


class Display:
    """Shows progress and verdict; colours and bars on a terminal only, NO_COLOR obeyed."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        self._console = stdout()
        self._quiet = quiet
        self._verbose = verbose
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}

    def progress(self, sampler: str, run: GroupRun | None, done: int, groups: int) -> None:
        """Say that ``done`` of ``groups`` of a sampler are judged; ``run`` is the last one, None at the start."""
        if self._quiet:
            return
        if self._console.is_terminal:
            self._move(sampler, done, groups)
        elif run is not None:
            from reports import printable

            outcome = run.broken or run.skipped or f"{run.seconds:.1f} s"
            line = f"{sampler}: {done}/{groups} {run.plan.group.name}: {outcome}"
            self._console.print(printable(line), soft_wrap=True)

    def _move(self, sampler: str, done: int, groups: int) -> None:
        from reports import printable

        if self._bar is None:
            columns = (
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
            )
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
        if sampler not in self._tasks:
            self._tasks[sampler] = self._bar.add_task(printable(sampler), total=groups)
        self._bar.update(self._tasks[sampler], completed=done)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def verdict(self, results: Results, out: Path | None, written: Sequence[str] = ()) -> None:
        """Print the table, the verdict, where results are (None: nowhere), and reports (``written``, a line each)."""
        from reports import headline, printable, table

        self.close()
        if self._quiet:
            self._console.print(headline(results), soft_wrap=True)
            return
        table(results, self._console, verbose=self._verbose)
        for line in (*written, *([] if out is None else [f"results: {out / 'results.json'}"])):
            self._console.print(printable(line), soft_wrap=True)
