"""Cases of many steps from end to end: plugins in workers, verdicts, and the same counts however they are run.

Alpha is 1e-6 a run, so a right verifier fails a test here with that probability at most.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from cases.sequences import sequence_groups
from harness.errors import UsageError
from harness.gate import GateOptions, gate
from harness.results import CaseResult, SamplerResult
from harness.selection import find
from harness.suite import Suite

FILE = Path(__file__).resolve().parent / "plugins.py"
N = 1 << 11
"""Sequences a case, in one shard of eight calls."""
TWO_SHARDS = 1 << 15


@cache
def suite(n: int) -> Suite:
    entries = (replace(entry, n=n) for entry in sequence_groups(n))
    return Suite("smoke", (), 15.0, sequences=tuple(entries))


@cache
def found(attribute: str, *cases: str, n: int = N, workers: int = 1, shrink: int | None = 0) -> SamplerResult:
    """Return what the gate finds of a verifier of plugins.py."""
    name = attribute if attribute == "reference" else f"{FILE}:{attribute}"
    options = GateOptions((name,), cases, shrink=shrink, workers=workers)
    (sampler,) = gate(suite(n), options).samplers
    return sampler


def fired(case: CaseResult) -> set[str]:
    return {
        part["test"]
        for part in case.evidence
        if part["decides"] and part["p_value"] is not None and part["p_value"] <= part["share"] * case.alpha
    }


@pytest.mark.parametrize("verifier", ["Walks", "Own", "Seeded", "OwnDrafts", "Unclaimed"])
def test_right_verifiers_pass(verifier: str) -> None:
    sampler = found(verifier)
    assert (sampler.verdict, sampler.reason) == ("pass", None)
    assert len(sampler.cases) == (4 if verifier == "OwnDrafts" else 12)
    for case in sampler.cases:
        assert (case.verdict, case.n) == ("pass", N)
        assert case.certified_tv is not None
        assert {"support", "cells", "chi-square", "acceptance", "independence", "pearson"} == {
            part["test"] for part in case.evidence
        }
        assert case.reproduce.split()[:6] == ["chitree", "gate", "--sampler", f"{FILE}:{verifier}", "--case", case.case]


def test_filters_of_its_own_are_judged_by_the_semantics_claimed() -> None:
    sampler = found("OwnFilters", "sequences/target-only/eagle/*", n=1 << 8)
    assert [case.verdict for case in sampler.cases] == ["pass"] * 4


@pytest.mark.parametrize("verifier", ["Walks", "Seeded"])
def test_equal_sequences_are_found_equal(verifier: str) -> None:
    (test,) = (test for test in found(verifier).suite_tests if test["test"] == "reproducibility")
    assert (test["different"], test["judged"], test["p_value"]) == (0, True, 1.0)
    assert test["pairs"] >= 3 * N / 8


def test_results_that_depend_on_the_row_are_noise_of_its_own() -> None:
    """Nothing comes again then, as with a sampler that goes by the seed of the call."""
    assert found("ByRow").verdict == "pass"
    assert [entry["kind"] for entry in found("ByRow").not_tried] == ["reproducibility"]


@pytest.mark.parametrize(
    ("fault", "test"), [("SeedAlone", "cells"), ("PageOfThePosition", "cells"), ("LastFromWhole", "cells")]
)
def test_faults_are_seen_in_the_sequences(fault: str, test: str) -> None:
    biased = [case for case in found(fault).cases if case.verdict == "biased"]
    assert biased
    assert all(test in fired(case) for case in biased if "/chain/" not in case.case) or fault != "SeedAlone"
    for case in biased:
        top = case.where[0]
        assert top.node == len(top.prefix)
    if fault != "LastFromWhole":  # every single step is right: only what comes after another is not
        assert all(case.where[0].prefix for case in biased)


def test_a_step_that_leaves_the_tree_ends_its_sequence_too_early() -> None:
    cases = [case for case in found("Astray").cases if "/none" in case.case]
    assert all(case.verdict == "biased" for case in cases)
    assert all("acceptance" in fired(case) for case in cases)


def test_a_call_that_breaks_ends_its_group() -> None:
    sampler = found("RaisesLater")
    assert sampler.verdict == "broken"
    assert {case.verdict for case in sampler.cases} == {"broken"}
    assert "call 0 of group sequences/target-only/ddtree: verify raised ArithmeticError: no more" in str(
        sampler.cases[0].reason
    )


def counts(sampler: SamplerResult) -> dict[str, object]:
    return {case.case: (case.n, case.p_value, case.certified_tv, case.where) for case in sampler.cases}


@pytest.mark.slow
def test_counts_are_the_same_for_any_number_of_workers_and_any_selection() -> None:
    name = "sequences/target-only/eagle/top-p"
    whole = counts(found("reference", "sequences/target-only/eagle/*", n=TWO_SHARDS, workers=2))
    one = counts(found("reference", name, n=TWO_SHARDS))
    assert len(whole) == 4
    assert one == {name: whole[name]}


def test_speed_decides_how_many_sequences_there_are() -> None:
    sampler = found("Walks", shrink=None)
    assert sampler.shrink is not None
    assert sampler.shrink["k"] == 0
    assert "speed of its first calls" in str(sampler.shrink["reason"])


def test_an_interrupted_run_keeps_its_groups(tmp_path: Path) -> None:
    options = GateOptions(("reference",), ("sequences/target-only/*",), shrink=0, out=tmp_path, workers=1)
    whole = gate(suite(N), options)
    assert gate(suite(N), replace(options, resume=True)) == whole


def test_a_case_of_many_steps_is_no_single_tree() -> None:
    with pytest.raises(UsageError, match="is a case of many steps"):
        find(suite(N), "sequences/target-only/ddtree/none")
