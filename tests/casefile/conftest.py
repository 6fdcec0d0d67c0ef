"""A small suite in the place of the catalogue's, case files on disk, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cases.catalogue
from harness import cli
from harness.casefile import dump
from harness.errors import UsageError
from harness.groups import Group
from harness.suite import Suite, SuiteGroup

from .build import case_of, text

Run = Callable[..., tuple[int, str, str]]
Write = Callable[..., str]


def _group(name: str, rule: str, vocab: int) -> SuiteGroup:
    made = [case_of(rule, vocab=vocab, seed=seed, name=f"{name}/{seed}") for seed in range(4)]
    return SuiteGroup.of(Group(name, tuple(made)), 1 << 10)


def small(name: str) -> Suite:
    if name not in ("smoke", "standard"):
        raise UsageError(f"no such suite: {name!r}")
    rules = {"trees": "target-only", "roots": "plain", "chains": "block"}
    return Suite(name, tuple(_group(group, rule, 5) for group, rule in rules.items()), 15.0)


@pytest.fixture
def small_suite(monkeypatch: pytest.MonkeyPatch) -> Suite:
    """Put in a suite of four cases each of the rules target-only, plain and block."""
    monkeypatch.setattr(cases.catalogue, "suite", small)
    monkeypatch.setattr(cases.catalogue, "SUITES", {"smoke": None})
    return small("smoke")


@pytest.fixture
def run(small_suite: Suite, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run ``chitree`` and return exit code, stdout and stderr."""

    def command(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = cli.run(arguments)
        shown = capsys.readouterr()
        assert "Traceback" not in shown.out + shown.err
        return code, shown.out, shown.err

    return command


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write the case of a rule, or the fields given, to a file and return its path."""

    def to_file(file: str, rule: str = "target-only", fields: dict[str, Any] | None = None, **more: Any) -> str:
        data = text(fields) if fields is not None else dump(case_of(rule, **{"name": Path(file).stem, **more}))
        (tmp_path / file).write_bytes(data)
        return str(tmp_path / file)

    return to_file
