"""The gate and the probe command, run in this process with workers of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness import cli

HERE = Path(__file__).resolve().parent


@dataclass
class Run:
    """What a command ended with."""

    code: int
    out: str
    err: str
    results: dict[str, Any]

    @property
    def cases(self) -> dict[str, dict[str, Any]]:
        """The cases of the only sampler by name."""
        (sampler,) = self.results["samplers"]
        return {case["case"]: case for case in sampler["cases"]}


def plugin(name: str, file: str = "plugins.py") -> str:
    """Return the name of a verifier of these tests as --sampler takes it."""
    return f"{HERE / file}:{name}"


Command = Callable[..., Run]


@pytest.fixture
def gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs ``chitree gate`` on cases of suite smoke."""

    def run(sampler: str, *options: str, case: str = "probe/target-only/dyadic/*", out: str = "out") -> Run:
        capsys.readouterr()
        folder = tmp_path / out
        given = ("--suite", "smoke", "--case", case, "--sampler", sampler) if "--resume" not in options else ()
        where = ("--out", str(folder)) if "--resume" not in options else ()
        code = cli.run(["gate", *given, *where, *options])
        shown = capsys.readouterr()
        written = folder / "results.json"
        return Run(code, shown.out, shown.err, json.loads(written.read_text()) if written.exists() else {})

    return run


@pytest.fixture
def probe(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs ``chitree probe``; with --json, ``results`` has what it printed."""

    def run(sampler: str, *options: str) -> Run:
        capsys.readouterr()
        code = cli.run(["probe", "--sampler", sampler, *options])
        shown = capsys.readouterr()
        return Run(code, shown.out, shown.err, json.loads(shown.out) if "--json" in options and shown.out else {})

    return run
