"""What a run shows while it goes on, and at its end: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from .results import Results
from .sweep import GroupRun

__all__ = ["Display"]

PLAIN_WIDTH = 120


class Display:
    """Shows progress and verdict; colours and bars on a terminal only, NO_COLOR obeyed."""

    def __init__(self, *, quiet: bool = False, verbose: bool = False) -> None:
        console = Console(highlight=False, soft_wrap=True)
        self._console = console if console.is_terminal else Console(highlight=False, width=PLAIN_WIDTH, soft_wrap=True)
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
            outcome = run.broken or run.skipped or f"{run.seconds:.1f} s"
            self._console.print(f"{sampler}: {done}/{groups} {run.plan.group.name}: {outcome}")

    def _move(self, sampler: str, done: int, groups: int) -> None:
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
        if sampler not in self._tasks:
            self._tasks[sampler] = self._bar.add_task(sampler, total=groups)
        self._bar.update(self._tasks[sampler], completed=done)

    def close(self) -> None:
        """End the bar."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def verdict(self, results: Results, out: Path) -> None:
        """Print the table, the verdict and where the report is."""
        from reports import table

        self.close()
        if self._quiet:
            self._console.print(results.verdict)
            return
        table(results, self._console, verbose=self._verbose)
        self._console.print(f"results: {out / 'results.json'}")
