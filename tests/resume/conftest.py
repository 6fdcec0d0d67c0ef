"""A suite of four groups that differ in V, and the command line in this process, which can be interrupted."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gate.running import Run as Finished
from gate.running import stable

import cases.catalogue
from cases.coins import coin_groups
from harness import cli
from harness.case import Case
from harness.display import Display
from harness.errors import UsageError
from harness.filters import SamplingParams
from harness.groups import Group
from harness.known import Known
from harness.streams import stream
from harness.suite import Suite, SuiteGroup
from harness.sweep import GroupRun
from harness.tree import Tree

HERE = Path(__file__).resolve().parent
VOCABS = (4, 5, 6, 7)


def plugin(attribute: str) -> str:
    """Return the name of a verifier of these tests as --sampler takes it."""
    return f"{HERE / 'plugins.py'}:{attribute}"


def _group(vocab: int) -> SuiteGroup:
    rng = stream("resume tests", vocab)
    made = []
    for i in range(4):
        logits = rng.normal(0.0, 1.0, (4, vocab)).astype(np.float32)
        logits[:, vocab - 1] = -np.inf
        tree = Tree(np.array([0, 2, 1, i % 3]), np.array([-1, 0, 0, 1]))
        made.append(Case(f"v{vocab}/{i}", "target-only", tree, logits, SamplingParams()))
    return SuiteGroup.of(Group(f"v{vocab}", tuple(made)), 1 << 10)


@cache
def small() -> Suite:
    return Suite("smoke", tuple(map(_group, VOCABS)), 15.0, coin_groups(), Known())


class Run(Finished):
    """What a command ended with."""

    @property
    def results(self) -> dict[str, Any]:
        """results.json without what may differ between two equal runs."""
        found: dict[str, Any] = stable(super().results)
        return found

    @property
    def verdicts(self) -> dict[str, set[str]]:
        """Verdicts in each group of the last sampler, coin cases apart."""
        found: dict[str, set[str]] = {}
        for case in self.results["samplers"][-1]["cases"]:
            if case["alpha"]:
                found.setdefault(case["group"], set()).add(case["verdict"])
        return found


Gate = Callable[..., Run]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gate:
    """Return a function that runs ``chitree gate`` on the suite, and is interrupted after ``until`` groups."""

    def named(name: str) -> Suite:
        if name != "smoke":
            raise UsageError(f"no such suite: {name!r}")
        return small()

    monkeypatch.setattr(cases.catalogue, "suite", named)
    monkeypatch.setenv("CHITREE_TEST_FOLDER", str(tmp_path))
    shown = Display.progress

    def run(*arguments: str, out: str = "out", until: int | None = None, resume: bool = False) -> Run:
        left = [until]

        def progress(self: Display, sampler: str, done: GroupRun | None, number: int, groups: int) -> None:
            shown(self, sampler, done, number, groups)
            if done is not None and left[0] is not None:
                left[0] -= 1
                if left[0] == 0:
                    raise KeyboardInterrupt

        monkeypatch.setattr(Display, "progress", progress)
        folder = str(tmp_path / out)
        where = ("--resume", folder) if resume else ("--suite", "smoke", "--out", folder)
        capsys.readouterr()
        code = cli.run(["gate", *arguments, *where, "--workers", "1"])
        said = capsys.readouterr()
        assert "Traceback" not in said.out + said.err
        return Run(code, said.out, said.err, tmp_path / out)

    return run


@pytest.fixture
def calls(tmp_path: Path) -> Callable[[], set[int]]:
    """Return a function that tells the V of the calls since it was last asked."""

    def since() -> set[int]:
        file = tmp_path / "calls"
        found = set(map(int, file.read_text().split())) if file.exists() else set()
        file.unlink(missing_ok=True)
        return found

    return since
