"""Runs of pytest, Python and the command line in a project that is not ours, and what they found."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from gate.running import stable

from cases.catalogue import suite
from harness import cli

HERE = Path(__file__).resolve().parent
GROUP = "target-only/tiny-0"
"""A group of the smoke suite, whatever its cases are."""
_ENTRY = next(entry for entry in suite("smoke").groups if entry.name == GROUP)
SIZE, DRAWS = len(_ENTRY.names), _ENTRY.n >> 4
"""Cases of the group, and draws of each under ``FEW``."""
FEW = ("--chitree-case", f"{GROUP}/*", "--chitree-shrink", "4", "--chitree-workers", "1")
_OURS = ("PYTEST_", "GITHUB_STEP_SUMMARY", "COV_CORE")


@dataclass(frozen=True)
class Run:
    """What pytest ended with; ``tests`` holds the outcome and the message of each test, by its name."""

    code: int
    out: str
    err: str
    tests: dict[str, tuple[str, str]]

    @property
    def outcomes(self) -> list[str]:
        """How tests came out, sorted."""
        return sorted(outcome for outcome, _ in self.tests.values())


class Project:
    """A folder with verifiers in mine.py and more.py, and a folder of its own for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._temporary = folder / "temporary"
        self._temporary.mkdir()
        (folder / "pytest.ini").write_text("[pytest]\n")
        shutil.copy(HERE.parent / "gate" / "plugins.py", folder / "mine.py")
        shutil.copy(HERE / "more.py", folder / "more.py")

    def pytest(self, *arguments: str) -> Run:
        """Run pytest as a command."""
        done = self._run("-m", "pytest", "--junit-xml", "junit.xml", *arguments)
        report = self.folder / "junit.xml"
        tests = {str(test.get("name")): _outcome(test) for test in ET.parse(report).iter("testcase")}
        report.unlink()
        return Run(done.returncode, done.stdout, done.stderr, tests)

    def gate(self, *arguments: str) -> Run:
        """Run the gate as tests on a few cases."""
        return self.pytest("--pyargs", "cases", *FEW, *arguments)

    def command(self, *arguments: str) -> dict[str, Any]:
        """Run the gate on the same cases as the command line does, in this process, and return its results.json."""
        words = [word.replace("--chitree-", "--") for word in (*FEW, *arguments)]
        with contextlib.chdir(self.folder):
            cli.run(["gate", "--suite", "smoke", *words, "--out", "command"])
        return self.results("command")

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Python."""
        return self._run(*arguments)

    def results(self, folder: str) -> dict[str, Any]:
        """Return the results.json of a folder, without what may differ between two equal runs."""
        found: dict[str, Any] = stable(json.loads((self.folder / folder / "results.json").read_text()))
        return found

    @property
    def left(self) -> list[str]:
        """What is left of a run: temporary files, pytest's own apart, and, after a while, processes."""
        files = [path.name for path in self._temporary.iterdir() if not path.name.startswith("pytest-of-")]
        until = time.monotonic() + 10.0
        while (processes := self._processes()) and time.monotonic() < until:
            time.sleep(0.1)
        return files + processes

    def _processes(self) -> list[str]:
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):  # it has ended, or is another user's
                if (process / "cwd").readlink() == self.folder and int(process.name) != os.getpid():
                    found.append((process / "cmdline").read_text())
        return found

    def _run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env={**environment, "TMPDIR": str(self._temporary), "COLUMNS": "300"},
            timeout=300,
            check=False,
            capture_output=True,
            text=True,
        )


def _outcome(test: ET.Element) -> tuple[str, str]:
    for kind in ("failure", "error", "skipped"):
        found = test.find(kind)
        if found is not None:
            return kind, f"{found.get('message') or ''}\n{found.text or ''}"
    return "passed", ""


def cases(results: dict[str, Any]) -> dict[str, Any]:
    """Return the cases of the only sampler by name."""
    (sampler,) = results["samplers"]
    return {case["case"]: case for case in sampler["cases"]}
