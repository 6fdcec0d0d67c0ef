"""Runs of the gate for the tests, in this process or as a command of its own, and what they left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
QUICK = ("--suite", "smoke", "--case", "four/*", "--shrink", "5", "--workers", "1")
"""Four cases at 256 draws."""


def plugin(attribute: str, file: str = "plugins.py") -> str:
    """Return the name of a verifier of these tests as --sampler takes it."""
    return f"{HERE / file}:{attribute}"


@dataclass
class Run:
    """What a command ended with."""

    code: int
    out: str
    err: str
    folder: Path

    @property
    def results(self) -> dict[str, Any]:
        """results.json; NaN and infinities in it are an error."""
        return json.loads((self.folder / "results.json").read_text(), parse_constant=_no_constant)

    @property
    def samplers(self) -> list[dict[str, Any]]:
        return self.results["samplers"]

    @property
    def cases(self) -> list[dict[str, Any]]:
        """Cases of the only sampler."""
        (sampler,) = self.samplers
        return sampler["cases"]

    @property
    def groups(self) -> dict[str, str]:
        """Verdict of each group of the only sampler, where its cases agree."""
        verdicts: dict[str, set[str]] = {}
        for case in self.cases:
            verdicts.setdefault(case["group"], set()).add(case["verdict"])
        return {group: "+".join(sorted(found)) for group, found in verdicts.items()}


Gate = Callable[..., Run]


def _no_constant(text: str) -> None:
    raise AssertionError(f"{text} in results.json")


def stable(results: Any) -> Any:
    """Return results without what may differ between two equal runs."""
    if isinstance(results, dict):
        return {key: stable(value) for key, value in results.items() if key not in ("created", "seconds")}
    if isinstance(results, list):
        return [stable(value) for value in results]
    return results


def command(*arguments: str, cwd: Path, environment: Mapping[str, str] | None = None) -> Run:
    """Run ``python -m harness`` in ``cwd``, with the catalogue's suites."""
    done = subprocess.run(
        [sys.executable, "-m", "harness", *arguments],
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Run(done.returncode, done.stdout, done.stderr, cwd / "out")


def dead(pid: int) -> bool:
    """Return True where no process of this id runs; one that waits to be reaped does not run."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True
