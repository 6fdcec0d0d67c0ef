"""Right verifiers of every rule pass; a rule taken for another one, or a draft law slightly off, does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cases.catalogue import suite
from harness.gate import GateOptions, gate
from harness.results import SamplerResult

HERE = Path(__file__).resolve().parent
RIGHT = (
    "Plain", "Greedy", "SamplerMatch", "TargetOnly", "NoneTree",
    "Rejection", "Block", "NoneChain", "NoneBlock", "Replacement", "NoReplacement",
)  # fmt: skip

MIXUPS = {
    "WithForWithout": "rejection-no-replacement/siblings/*",
    "WithoutForWith": "rejection-replacement/siblings/*",
    "TokensForBlocks": "block/blocks/*",
    "BlocksForTokens": "rejection/blocks/*",
    "WarmRejection": "rejection/good-draft/*",
    "WarmBlock": "block/good-draft/*",
    "WarmReplacement": "rejection-replacement/good-draft/*",
    "WarmNoReplacement": "rejection-no-replacement/good-draft/*",
    "WarmNoneChain": "none-chain/good-draft/*",
    "TargetOnlyForReplacement": "rejection-replacement/siblings/*",
}
"""Wrong verifiers, and the cases that are there for them."""


def run(attribute: str, name: str, *cases: str, shrink: int | None = 0) -> SamplerResult:
    options = GateOptions((f"{HERE / 'plugins.py'}:{attribute}",), cases=cases, workers=2, threads=2, shrink=shrink)
    results = gate(suite(name), options)
    assert results.verdict == results.samplers[0].verdict
    return results.samplers[0]


def command(attribute: str, *arguments: str, folder: Path) -> int:
    verifier = f"{HERE / 'plugins.py'}:{attribute}"
    line = [sys.executable, "-m", "harness", "gate", "--sampler", verifier, *arguments, "--out", str(folder)]
    return subprocess.run(line, check=False, capture_output=True, timeout=600).returncode


@pytest.mark.parametrize("attribute", RIGHT)
def test_a_right_verifier_passes(attribute: str) -> None:
    """On all of smoke but its widest laws."""
    rule = {"Replacement": "rejection-replacement", "NoReplacement": "rejection-no-replacement"}
    found = run(attribute, "smoke", "*/tiny-*", "*/small-*", "*/one-outcome/*", "*/covered/*", "*/siblings/*", "*/blocks/*")
    assert found.verdict == "pass", [case.case for case in found.cases if case.verdict != "pass"] or found.reason
    assert {case.rule for case in found.cases} <= {rule.get(attribute, case.rule) for case in found.cases}


@pytest.mark.parametrize("attribute", MIXUPS)
def test_a_mixup_is_found_on_the_cases_that_are_there_for_it(attribute: str) -> None:
    found = run(attribute, "standard", MIXUPS[attribute])
    assert [case.verdict for case in found.cases] == ["biased"] * len(found.cases)
    assert found.verdict == "biased"


@pytest.mark.parametrize(
    ("attribute", "glob"),
    [
        ("NoReplacement", "rejection-no-replacement/siblings/*"),
        ("Replacement", "rejection-replacement/*/*-drafted"),
        ("Block", "block/blocks/*"),
        ("Rejection", "rejection/good-draft/*"),
        ("NoneChain", "none-chain/good-draft/*"),
    ],
)
def test_a_right_verifier_passes_there(attribute: str, glob: str) -> None:
    found = run(attribute, "standard", glob)
    assert found.verdict == "pass"
    assert len(found.cases) >= 4


def test_exit_codes(tmp_path: Path) -> None:
    cases = ("--suite", "standard", "--case", "block/blocks/*", "--shrink", "1")
    assert command("Block", *cases, folder=tmp_path / "right") == 0
    assert command("TokensForBlocks", *cases, folder=tmp_path / "wrong") == 1


@pytest.mark.slow
@pytest.mark.parametrize("attribute", ["TargetOnly", "NoReplacement", "Block", "NoneTree"])
def test_a_right_verifier_exits_0_in_standard(attribute: str, tmp_path: Path) -> None:
    assert command(attribute, "--suite", "standard", folder=tmp_path) == 0


@pytest.mark.slow
@pytest.mark.parametrize("attribute", ["WithForWithout", "TokensForBlocks", "WarmRejection"])
def test_a_mixup_exits_1_in_standard(attribute: str, tmp_path: Path) -> None:
    assert command(attribute, "--suite", "standard", folder=tmp_path) == 1
