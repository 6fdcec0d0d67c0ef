"""Faults as they happen in production code are found in suite standard, and the report points at what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from cases.catalogue import suite
from harness.gate import GateOptions, gate
from harness.results import CaseResult, SamplerResult, Where

FILE = Path(__file__).resolve().parent / "plugins.py"
SLOW = pytest.mark.slow

OF_THE_LAW = (
    ("TemperatureOfTheBatch", "sampler-match/tiny-0/*", 4),
    pytest.param("ParametersOfTheNeighbour", "sampler-match/tiny-0/*", 0, marks=SLOW),
    pytest.param("ResidualLeft", "target-only/tiny-1/*", 0, marks=SLOW),
    ("LeaksTheLastToken", "target-only/tiny-1/*", 4),
    pytest.param("HalfPrecisionTopP", "plain/wide-1/*", 0, marks=SLOW),
    pytest.param("BeyondTheLimit", "sampler-match/tiny-6/*", 0, marks=SLOW),
    pytest.param("PaddingForAChild", "sampler-match/tiny-6/*", 0, marks=SLOW),
)
"""Verifiers of a wrong law, cases of standard that show it, and how often the draws can be halved."""
BEYOND_THE_LAW = (
    pytest.param("CoinsOfTheNeighbour", "neighbouring rows of a call share noise", marks=SLOW),
    pytest.param("SameNoise", "consecutive calls share noise", marks=SLOW),
    ("AcceptsNothing", "at least 2 tokens: expected"),
)
"""Verifiers whose next tokens have the right law, and what is said of them."""


def run(attribute: str, cases: str, shrink: int = 0, seed: int = 0) -> SamplerResult:
    options = GateOptions((f"{FILE}:{attribute}",), cases=(cases,), workers=1, threads=1, shrink=shrink, seed=seed)
    results = gate(suite("standard"), options)
    (sampler,) = results.samplers
    assert sampler.reason is None, sampler.reason
    assert results.exit_code == (1 if sampler.verdict == "biased" else 0)
    return sampler


def worst(sampler: SamplerResult) -> CaseResult:
    """Return the first of the biased cases of the least p-value."""
    return min((case for case in sampler.cases if case.verdict == "biased"), key=lambda case: case.p_value or 0.0)


def again(row: Where, case: str, sampler: SamplerResult) -> Where:
    """Return the same cell of the same case in another run, or what else is impossible after the same prefix."""
    (found,) = (other for other in sampler.cases if other.case == case)
    alike = [other for other in found.where if (other.prefix, other.kind) == (row.prefix, row.kind)]
    return next(other for other in alike if row.kind != "cell" or other.token == row.token)


@pytest.mark.parametrize(("attribute", "cases", "shrink"), OF_THE_LAW)
def test_a_wrong_law_is_found_and_its_top_row_deviates(attribute: str, cases: str, shrink: int) -> None:
    """That the row deviates is seen on draws that did not choose it: a right cell passes at most once in 10^4."""
    sampler = run(attribute, cases, shrink)
    assert sampler.verdict == "biased"
    case = worst(sampler)
    row = case.where[0]
    assert row.p_value <= case.alpha
    same = again(row, case.case, run(attribute, cases, shrink, seed=1))
    assert same.expected == row.expected
    assert same.p_value < 1e-4
    assert (same.observed > same.expected) == (row.observed > row.expected)


@pytest.mark.parametrize(("attribute", "says"), BEYOND_THE_LAW)
def test_what_is_no_matter_of_a_token_is_said_in_words(attribute: str, says: str) -> None:
    sampler = run(attribute, "target-only/tiny-1/*", 4 if attribute == "AcceptsNothing" else 0)
    assert sampler.verdict == "biased"
    assert len([case for case in sampler.cases if case.verdict == "biased"]) == len(sampler.cases)
    assert says in (worst(sampler).reason or ""), worst(sampler).reason
