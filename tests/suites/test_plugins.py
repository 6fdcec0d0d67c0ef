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
SLOW = pytest.mark.slow
RIGHT = ("TargetOnly", "NoneTree", "NoneChain", "Block", "Replacement", "NoReplacement")
ALSO_RIGHT = ("Plain", "Greedy", "SamplerMatch", "Rejection", "NoneBlock")

MIXUPS = (
    ("WithForWithout", "rejection-no-replacement/siblings/*", 3),
    ("WithoutForWith", "rejection-replacement/siblings/*", 3),
    ("TokensForBlocks", "block/blocks/*", 2),
    ("WarmRejection", "rejection/good-draft/*", 0),
    pytest.param("BlocksForTokens", "rejection/blocks/*", 2, marks=SLOW),
    pytest.param("WarmBlock", "block/good-draft/*", 0, marks=SLOW),
    pytest.param("WarmReplacement", "rejection-replacement/good-draft/*", 0, marks=SLOW),
    pytest.param("WarmNoReplacement", "rejection-no-replacement/good-draft/*", 0, marks=SLOW),
    pytest.param("WarmNoneChain", "none-chain/good-draft/*", 0, marks=SLOW),
    pytest.param("TargetOnlyForReplacement", "rejection-replacement/siblings/*", 3, marks=SLOW),
)
"""Wrong verifiers, the cases that are there for them, and how often the draws can be halved."""


def run(attribute: str, name: str, *cases: str, shrink: int | None = 0) -> SamplerResult:
    options = GateOptions((f"{HERE / 'plugins.py'}:{attribute}",), cases=cases, workers=1, threads=1, shrink=shrink)
    results = gate(suite(name), options)
    assert results.verdict == results.samplers[0].verdict
    return results.samplers[0]


def command(attribute: str, *arguments: str, folder: Path) -> int:
    verifier = f"{HERE / 'plugins.py'}:{attribute}"
    line = [sys.executable, "-m", "harness", "gate", "--sampler", verifier, *arguments, "--out", str(folder)]
    return subprocess.run(line, check=False, capture_output=True, timeout=600).returncode


@pytest.mark.parametrize("attribute", RIGHT)
def test_a_right_verifier_passes(attribute: str) -> None:
    """On a few groups of smoke."""
    found = run(
        attribute, "smoke", "*/tiny-1/*", "*/small-1/*", "*/one-outcome/*", "*-replacement/siblings/*", "*/blocks/*"
    )
    assert found.verdict == "pass", [case.case for case in found.cases if case.verdict != "pass"] or found.suite_tests
    assert len(found.cases) >= 12


@pytest.mark.slow
@pytest.mark.parametrize("attribute", [*RIGHT, *ALSO_RIGHT])
def test_a_right_verifier_passes_smoke(attribute: str) -> None:
    found = run(attribute, "smoke")
    assert found.verdict == "pass", [case.case for case in found.cases if case.verdict != "pass"] or found.suite_tests


@pytest.mark.parametrize(("attribute", "glob", "shrink"), MIXUPS)
def test_a_mixup_is_found_on_the_cases_that_are_there_for_it(attribute: str, glob: str, shrink: int) -> None:
    found = run(attribute, "standard", glob, shrink=shrink)
    assert [case.verdict for case in found.cases] == ["biased"] * len(found.cases)
    assert found.verdict == "biased"


@pytest.mark.slow
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
    cases = ("--suite", "standard", "--case", "block/blocks/*", "--shrink", "2")
    assert command("Block", *cases, folder=tmp_path / "right") == 0
    assert command("TokensForBlocks", *cases, folder=tmp_path / "wrong") == 1


@pytest.mark.slow
@pytest.mark.parametrize(("attribute", "code"), [("NoReplacement", 0), ("WithForWithout", 1)])
def test_all_of_standard(attribute: str, code: int, tmp_path: Path) -> None:
    assert command(attribute, "--suite", "standard", folder=tmp_path) == code
