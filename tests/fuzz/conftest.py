"""The command line in this process, in a folder of its own, on a suite of many small groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from gate.running import Run as Finished
from gate.small import suite as small

import cases.catalogue
from harness import cli
from harness.groups import Group
from harness.suite import Suite, SuiteGroup

HERE = Path(__file__).resolve().parent
GROUPS = 240


def plugin(attribute: str) -> str:
    """Return the name of a verifier of these tests as --sampler takes it."""
    return f"{HERE / 'plugins.py'}:{attribute}"


@cache
def many() -> Suite:
    """Return groups of a few draws each: one that breaks is done, and the next one is another throw."""
    whole = [entry.group for entry in small().groups if entry.group.rule == "target-only" and entry.group.vocab <= 16]
    groups = []
    for number in range(GROUPS):
        group = whole[number % len(whole)]
        members = (replace(case, name=f"g{number}/{i}") for i, case in enumerate(group.cases))
        groups.append(SuiteGroup.of(Group(f"g{number}", tuple(members)), 4))
    return Suite("smoke", tuple(groups), 60.0)


class Run(Finished):
    """What a command ended with."""

    @property
    def found(self) -> dict[str, set[tuple[str, str | None]]]:
        """Verdict and reason of each group's cases, of the only sampler."""
        found: dict[str, set[tuple[str, str | None]]] = {}
        for case in self.cases:
            found.setdefault(case["group"], set()).add((case["verdict"], case["reason"]))
        return found


Gate = Callable[..., Run]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gate:
    """Return a function that runs ``chitree gate`` on the suite, and finds that nothing was written outside --out."""
    watched = tmp_path / "watched"
    for name, folder in (("HOME", "home"), ("TMPDIR", "temporary"), ("", "here")):
        (watched / folder).mkdir(parents=True)
        if name:
            monkeypatch.setenv(name, str(watched / folder))
    monkeypatch.chdir(watched / "here")
    monkeypatch.setattr(cases.catalogue, "suite", lambda name: many())
    monkeypatch.setenv("CHITREE_FIRST_CALL_LIMIT", "30")
    monkeypatch.setenv("CHITREE_CALL_LIMIT", "3")

    def run(attribute: str, *arguments: str) -> Run:
        out = tmp_path / "out"
        options = ("--suite", "smoke", "--shrink", "0", "--workers", "1", *arguments, "--out", str(out))
        code = cli.run(["gate", "--sampler", plugin(attribute), *options])
        shown = capsys.readouterr()
        assert [path for path in watched.rglob("*") if path.is_file()] == []
        assert shown.err == ""
        assert "Traceback" not in shown.out
        assert "\x1b" not in shown.out
        return Run(code, shown.out, shown.err, out)

    return run
