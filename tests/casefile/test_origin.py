"""Of which suite a shown case is, and in which others one of its name differs."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import cases.catalogue
from harness import cli
from harness.case import Case
from harness.errors import UsageError
from harness.groups import Group
from harness.suite import Suite, SuiteGroup

from .build import case_of

DIFFER = "of suite standard; a case of this name in suite smoke differs: --suite smoke"


def _suite(name: str) -> Suite:
    if name not in ("smoke", "standard", "deep"):
        raise UsageError(f"no such suite: {name!r}")
    same, other = case_of("target-only", name="g/same"), case_of("target-only", name="g/other")
    if name == "smoke":
        other = replace(other, logits=other.logits * 0.5)
    made: tuple[Case, ...] = (same, other, case_of("target-only", seed=2, name=f"g/{name}"))
    return Suite(name, (SuiteGroup.of(Group("g", made), 1 << 10),), 15.0)


@pytest.fixture(autouse=True)
def _three_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases.catalogue, "suite", _suite)


@pytest.mark.parametrize("command", [["law"], ["cases", "--show"]])
def test_in_words(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    for name, said in (("g/same", "of suite standard"), ("g/other", DIFFER), ("g/standard", "of suite standard")):
        assert cli.run([*command, name]) == 0
        assert capsys.readouterr().out.splitlines()[-1] == said
    assert cli.run([*command, "g/other", "--suite", "smoke"]) == 0
    said = [f"a case of this name in suite {other} differs: --suite {other}" for other in ("standard", "deep")]
    assert capsys.readouterr().out.splitlines()[-1] == "; ".join(["of suite smoke", *said])


@pytest.mark.parametrize("command", [["law", "--json"], ["cases", "--export"]])
def test_beside_what_programs_read(command: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.run([*command, "g/other"]) == 0
    said = capsys.readouterr()
    json.loads(said.out)
    assert said.err == f"g/other: {DIFFER}\n"
    assert cli.run(["cases", "--export", "g/other"]) == 0
    (tmp_path / "c.json").write_text(capsys.readouterr().out)
    assert cli.run([*command, str(tmp_path / "c.json")]) == 0
    assert capsys.readouterr().err == "", "a file is of no suite"
