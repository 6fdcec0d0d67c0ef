"""Fixture ``gate``: the command line in this process, with a suite of the tests' own."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness import cli

from .running import Gate, Run
from .small import use


@pytest.fixture(autouse=True)
def _small_suite(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch)


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Gate:
    """Return a function that runs ``chitree gate`` with its arguments and gives exit code, output and results."""

    def run(*arguments: str, out: str = "out") -> Run:
        capsys.readouterr()
        code = cli.run(["gate", *arguments, "--out", str(tmp_path / out)])
        shown = capsys.readouterr()
        return Run(code, shown.out, shown.err, tmp_path / out)

    return run
