"""The samplers in the gate, and in the list of samplers."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harness import cli
from harness.samplers import sglang_python
from harness.samplers.registry import SAMPLERS

NAMES = ("sglang-eagle", "sglang-eagle-seeds", "sglang-dflash", "sglang-dflash-top-k")


def test_a_missing_torch_is_said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "torch" else found(name, *rest)
    )
    assert cli.run(["samplers"]) == 0
    shown = capsys.readouterr().out.split("\n")
    for name in NAMES:
        at = next(i for i, line in enumerate(shown) if line.startswith(f"{name}:"))
        assert "cannot run here: torch is not installed; pip install 'chitree[torch]'" in shown[at + 1]


def test_what_a_missing_kernel_tool_is_to_the_tree_sampler_it_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "no C compiler"
    monkeypatch.setattr(sglang_python, "SGLANG_TREE", type("Tree", (), {"unavailable": staticmethod(lambda: reason)}))
    assert SAMPLERS["sglang-eagle"].unavailable() in (reason, "torch is not installed; pip install 'chitree[torch]'")


def gate(folder: Path, *arguments: str) -> dict[str, dict[str, str]]:
    """Run the gate in a process of its own, and return the verdict of each case of each sampler."""
    command = [sys.executable, "-m", "harness", "gate", "--out", str(folder), "--suite", "smoke", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    results = json.loads((folder / "results.json").read_bytes())
    return {one["name"]: {case["case"]: case["verdict"] for case in one["cases"]} for one in results["samplers"]}


@pytest.mark.slow
def test_the_gap_that_a_filter_makes_is_known(sampler: Callable[[str], object], tmp_path: Path) -> None:
    names = ("sglang-eagle", "sglang-dflash", "sglang-dflash-top-k", "reference")
    asked = [part for name in names for part in ("--sampler", name)]
    found = gate(tmp_path / "out", *asked, "--case", "coins/gap-filtered/*")
    for name in names:
        assert set(found[name].values()) == {"pass" if name == "reference" else "known"}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_dedicated_cases_pass_as_claimed(sampler: Callable[[str], object], tmp_path: Path, name: str) -> None:
    found = gate(
        tmp_path / "out", "--sampler", name, "--case", "target-only/[bt]*s*/*", "--case", "target-only/tiny-1/*"
    )
    assert len(found[name]) >= 20
    assert set(found[name].values()) <= {"pass", "skipped"}
