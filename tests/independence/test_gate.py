"""Verifiers whose single draws are right, from end to end: faults between draws are seen, and named as what they are.

Alpha is 1e-6 a run, so a right verifier fails a test here with that probability at most.
"""

from __future__ import annotations

import msgspec
import pytest

from harness.stats.verdict import FOLLOWS

from .small import DRAWS, TWO_SHARDS, deciding, evidence, fired, found

ROWS, CALLS, INSTANCES = (f"shared noise: {kind}" for kind in ("rows", "calls", "instances"))


@pytest.mark.parametrize("verifier", ["Walks", "Own", "Seeded", "reference"])
def test_right_verifiers_pass(verifier: str) -> None:
    sampler = found(verifier)
    assert sampler.verdict == "pass"
    assert len(sampler.suite_tests) == 7
    assert [test["test"] for test in sampler.suite_tests if test["p_value"] is None] in ([], [INSTANCES])
    judged = verifier != "Own"
    assert [entry["kind"] for entry in sampler.not_tried].count("reproducibility") == int(not judged)


def test_equal_rows_of_a_seeded_verifier_are_equal() -> None:
    (test,) = (test for test in found("Seeded").suite_tests if test["test"] == "reproducibility")
    assert (test["different"], test["judged"], test["p_value"]) == (0, True, 1.0)
    assert test["pairs"] > 200


@pytest.mark.parametrize(
    ("fault", "tests"),
    [
        ("NeighboursShare", {ROWS}),
        ("SameEachCall", {CALLS, "pairs: calls"}),
        ("SeedAlone", {ROWS, CALLS, "pairs: rows", "pairs: calls"}),
        ("NoiseLeft", {CALLS}),
        ("SameEachInstance", {INSTANCES}),
        ("FinalCoinsOfNeighbours", {ROWS, "reproducibility"}),
        ("SeededInHalfTheRows", {"reproducibility"}),
    ],
)
def test_fault_between_draws_is_named(fault: str, tests: set[str]) -> None:
    sampler = found(fault, TWO_SHARDS if fault == "SameEachInstance" else DRAWS)
    assert sampler.verdict == "biased"
    assert tests <= fired(sampler)
    others = {ROWS, CALLS, INSTANCES, "reproducibility"} - tests
    if fault not in ("SameEachCall", "SeedAlone"):  # these repeat themselves in whatever is looked at
        assert not others & fired(sampler)


@pytest.mark.parametrize("fault", ["NeighboursShare", "NoiseLeft", "SameEachCall"])
def test_a_single_case_sees_it_too(fault: str) -> None:
    assert any("independence" in tests for tests in deciding(found(fault)).values())


def test_draws_that_are_too_even() -> None:
    sampler = found("Even", 1 << 14)
    assert fired(sampler) == {"evenness"}
    biased = [case for case in sampler.cases if case.verdict == "biased"]
    assert biased
    for case in biased:
        assert deciding(sampler)[case.case] == {"independence"}
        assert "too even" in (case.reason or "")


@pytest.mark.parametrize(("fault", "follows"), [("AcceptsNothing", True), ("Even", False)])
def test_dependence_does_not_accuse_where_the_law_is_refuted(fault: str, follows: bool) -> None:
    sampler = found(fault, *([] if follows else [1 << 14]))
    said = [test["says"] for test in sampler.suite_tests if test["biased"]]
    assert said
    assert all(text.endswith(FOLLOWS) == follows for text in said)
    for one in sampler.cases:
        *others, last = (one.reason or "nothing").split("; ")
        assert all("share noise" not in text for text in others)
        assert ("share noise" not in last) or last.endswith(FOLLOWS) == follows


def test_accepting_nothing_is_bias_where_a_rule_is_claimed() -> None:
    sampler = found("AcceptsNothing")
    assert len(deciding(sampler)) == 4
    for tests in deciding(sampler).values():
        assert "acceptance" in tests
        assert "support" not in tests


def test_ending_early_is_found_where_it_happens() -> None:
    """Cells see less of it: no token is off, and few steps are cut short; the place is an end that should not be."""
    sampler = found("EndsAtTimes")
    for number, one in enumerate(sampler.cases):
        assert one.verdict == "biased"
        seen = evidence(sampler, number, "acceptance")
        assert seen["p_value"] <= seen["share"] * one.alpha
        assert seen["expected"] == 0.0
        assert len(seen["prefix"]) == 1
        if one.reason:
            assert "step ended after " in one.reason
            assert ": expected 0, observed " in one.reason


def test_ending_early_is_no_bias_where_no_rule_is_claimed() -> None:
    sampler = found("EndsUnclaimed")
    assert sampler.verdict == "pass"
    assert all(part["test"] != "acceptance" for one in sampler.cases for part in one.evidence)


def test_workers_change_nothing() -> None:
    one, two = found("Own"), found("Own", workers=2)
    assert one.suite_tests == two.suite_tests
    assert [case.evidence for case in one.cases] == [case.evidence for case in two.cases]


def test_results_are_json() -> None:
    msgspec.json.encode(found("SameEachCall"))
