"""A suite of one drawn group and the coin cases, with known findings of the tests' own."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cases.catalogue
from cases.coins import coin_groups
from harness import cli
from harness.case import Case
from harness.errors import UsageError
from harness.filters import SamplingParams
from harness.groups import Group
from harness.known import load
from harness.streams import stream
from harness.suite import Suite, SuiteGroup
from harness.tree import Tree

HERE = Path(__file__).resolve().parent
PORT = "sglang-tree-port"


def plugin(attribute: str) -> str:
    """Return the name of a verifier of these tests as --sampler takes it."""
    return f"{HERE / 'plugins.py'}:{attribute}"


@cache
def drawn() -> SuiteGroup:
    """Return a group of cases whose tokens 6 and 7 are impossible everywhere."""
    rng = stream("known tests")
    tree = Tree(np.array([0, 2, 3, 1, 4]), np.array([-1, 0, 0, 1, 3]))
    made = []
    for i in range(4):
        logits = rng.normal(0.0, 1.0, (5, 8)).astype(np.float32)
        logits[:, 6:] = -np.inf
        made.append(Case(f"trees/{i}", "target-only", tree, logits, SamplingParams(), depth_limit=4))
    return SuiteGroup.of(Group("trees", tuple(made)), 1 << 13)


def finding(*outcomes: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a finding of the port, as the file has it."""
    own = {
        "name": "a finding",
        "kind": "bug",
        "summary": "something happens",
        "source": "these tests",
        "samplers": {PORT: {"port of sglang": ["0.5.23"]}},
        "outcomes": list(outcomes),
    }
    return {**own, **changes}


def outcome(case: str, token: int, prefix: tuple[int, ...] = (), layer: str = "support") -> dict[str, Any]:
    """Return an outcome, as the file has it."""
    return {"case": case, "prefix": list(prefix), "token": token, "layer": layer}


GAPS = (outcome("coins/gap/support-*", 15), outcome("coins/gap/below-a-draft", 15, (5,)))
ODD = (outcome("coins/gap-odd/support-*", 16), outcome("coins/gap-odd/below-a-draft", 16, (5,)))


@dataclass
class Run:
    """What a command ended with."""

    code: int
    out: str
    err: str
    results: dict[str, Any]

    @property
    def verdicts(self) -> dict[str, str]:
        """Verdict of each case of the only sampler."""
        (sampler,) = self.results["samplers"]
        return {case["case"]: case["verdict"] for case in sampler["cases"]}

    def case(self, name: str) -> dict[str, Any]:
        """Return one case of the only sampler."""
        (sampler,) = self.results["samplers"]
        (found,) = (case for case in sampler["cases"] if case["case"] == name)
        return found


Gate = Callable[..., Run]


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Gate:
    """Return a function that runs ``chitree gate`` on the suite, with these findings known, or a file's text."""
    path = tmp_path / "known.json"

    def named(name: str) -> Suite:
        if name != "smoke":
            raise UsageError(f"no such suite: {name!r}")
        return Suite("smoke", (drawn(),), 15.0, coin_groups(), load(path))

    monkeypatch.setattr(cases.catalogue, "suite", named)

    def run(*arguments: str, known: list[dict[str, Any]] | str = "", case: str = "coins/*") -> Run:
        text = known if isinstance(known, str) and known else json.dumps({"schema": 1, "findings": known or []})
        path.write_text(text)
        capsys.readouterr()
        out = tmp_path / "out"
        options = ("--suite", "smoke", "--case", case, "--shrink", "4", "--workers", "1", "--out", str(out))
        code = cli.run(["gate", *arguments, *options])
        shown = capsys.readouterr()
        written = out / "results.json"
        return Run(code, shown.out, shown.err, json.loads(written.read_text()) if written.exists() else {})

    return run
