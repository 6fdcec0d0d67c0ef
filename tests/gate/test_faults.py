"""Right verifiers pass; faulty ones fail, on the cases and at the tokens where their exact law deviates."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from harness.groups import Group, Plan

from .exact import Cells, cells
from .running import Gate, Run, plugin
from .small import suite

GROUPS = ("four", "six", "sixteen", "limited", "padded", "lossy")
SHRINK = 3
SELECTED = [option for group in GROUPS for option in ("--case", f"{group}/*")]
FAULTS = ("OneCoin", "LastFromWhole", "SiblingTwice", "NeighbourRows")


def members(group: Group) -> Iterator[tuple[int, str]]:
    for number, case in enumerate(group.cases):
        yield number, case.name


def plans() -> dict[str, Plan]:
    return {plan.group.name: plan for plan in suite().plans(suite().groups, 0)}


def gap(one: Cells, other: Cells) -> float:
    """Return the largest difference of one prefix cell."""
    zero = np.zeros(1)
    return max(float(np.abs(one.get(s, zero) - other.get(s, zero)).max()) for s in one.keys() | other.keys())


def check(run: Run, fault: str, groups: tuple[str, ...]) -> None:
    """Hold a run on a faulty verifier against the exact law of the fault.

    A case that the fault does not touch must pass: the probability of an alarm is 1e-6 for the run. One with a cell
    that is off by three times the move that it sees with 90% power must be biased: a miss is beyond 10 sigma. The top
    rows of ``where`` must name cells whose exact probability deviates, to the side that was observed.
    """
    found: dict[str, Any] = {case["case"]: case for case in run.cases}
    for group in groups:
        plan = plans()[group]
        for number, name in members(plan.group):
            right = cells(plan.group, number, plan.rows_per_case)
            wrong = cells(plan.group, number, plan.rows_per_case, fault)
            case, difference = found[name], gap(right, wrong)
            if difference < 1e-6:
                assert case["verdict"] == "pass", f"{name}: {fault} leaves its law as it is"
            move = case["min_detectable"]["move"]
            if move and difference > 3 * move:
                assert case["verdict"] == "biased", f"{name}: {fault} moves {difference}"
            if case["verdict"] == "biased" and case["where"][0]["p_value"] > case["alpha"]:  # no place by itself
                assert "step ended after" in case["reason"] or "at least" in case["reason"]
            elif case["verdict"] == "biased":
                check_where(case, right, wrong)


def check_where(case: dict[str, Any], right: Cells, wrong: Cells) -> None:
    top = case["where"][0]
    rows = [row for row in case["where"] if row["p_value"] < 1e-9] or [top]
    for row in rows:
        prefix = tuple(row["prefix"])
        p = right[prefix][row["token"]] / right[prefix].sum()
        q = wrong[prefix][row["token"]] / wrong[prefix].sum()
        assert row["expected"] == pytest.approx(p, rel=1e-5, abs=1e-9)
        assert abs(q - p) > 1e-6, f"{case['case']}: {row} is where the fault changes nothing"
        assert np.sign(row["observed"] - p) == np.sign(q - p), f"{case['case']}: {row}, exact {q}"


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_where_it_is(gate: Gate, fault: str) -> None:
    run = gate("--sampler", plugin(fault), "--suite", "smoke", *SELECTED, "--shrink", str(SHRINK))
    assert run.code == 1
    assert run.results["verdict"] == "biased"
    check(run, fault, GROUPS)
    assert sum(case["verdict"] == "biased" for case in run.cases) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found_in_the_whole_suite(gate: Gate, fault: str) -> None:
    run = gate("--sampler", plugin(fault), "--suite", "smoke", "--shrink", "0")
    assert run.code == 1
    check(run, fault, tuple(name for name, plan in plans().items() if plan.group.rule == "target-only"))


@pytest.mark.parametrize("verifier", ["Right", "Reversed"])
def test_right_verifier_passes(gate: Gate, verifier: str) -> None:
    run = gate("--sampler", plugin(verifier), "--suite", "smoke", *SELECTED, "--shrink", str(SHRINK))
    assert run.code == 0
    skipped = {"lossy"} if verifier == "Reversed" else set()
    assert run.groups == {group: "skipped" if group in skipped else "pass" for group in GROUPS}
    for case in run.cases:
        if case["group"] in skipped:
            assert "thresholds below 1" in case["reason"]
            assert case["n"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("verifier", ["Right", "Reversed"])
def test_right_verifier_passes_the_whole_suite(gate: Gate, verifier: str) -> None:
    assert gate("--sampler", plugin(verifier), "--suite", "smoke", "--shrink", "0").code == 0


def test_exact_laws_are_laws() -> None:
    for plan in plans().values():
        if plan.group.rule == "target-only" and plan.group.vocab <= 16:
            for number, _ in members(plan.group):
                for fault in ("", *FAULTS):
                    law = cells(plan.group, number, plan.rows_per_case, fault)
                    assert law[()].sum() == pytest.approx(1.0, abs=1e-6)
                    for prefix, mass in law.items():
                        assert mass.min() >= 0
                        if prefix:
                            assert mass.sum() <= law[prefix[:-1]][prefix[-1]] + 1e-9


def test_a_path_into_padding_is_bias(gate: Gate) -> None:
    run = gate("--sampler", plugin("IntoPadding"), "--suite", "smoke", "--case", "padded/*", "--shrink", "4")
    assert run.code == 1
    for number, name in members(plans()["padded"].group):
        tree = plans()["padded"].group.cases[number].tree
        case = run.cases[number]
        assert case["case"] == name
        if len(tree) < 9 and 0 not in tree.child_tokens(0):
            assert case["verdict"] == "biased"
            assert case["p_value"] == 0.0
            assert case["where"][0]["kind"] == "accepted"
            assert case["where"][0]["prefix"] == []
            assert case["where"][0]["token"] == 0
    assert "at the root (node 0): token 0 was accepted though no draft of the tree continues with it" in run.out


def test_more_tokens_than_the_depth_limit_is_bias(gate: Gate) -> None:
    run = gate("--sampler", plugin("BeyondTheLimit"), "--suite", "smoke", "--case", "limited/*", "--shrink", "4")
    assert run.code == 1
    plan = plans()["limited"]
    for number, case in enumerate(run.cases):
        limit = plan.group.cases[number].depth_limit
        law = cells(plan.group, number, plan.rows_per_case)
        longest = case["n"] * sum(mass.sum() for prefix, mass in law.items() if len(prefix) == limit - 1)
        if longest == 0:
            assert case["verdict"] == "pass"
        elif longest > 30:  # none of them is seen with probability e^-30
            assert case["verdict"] == "biased"
            assert case["p_value"] == 0.0
            assert case["where"][0]["kind"] == "length"
    assert "more tokens than the depth limit allows" in run.out


def test_bias_beats_broken(gate: Gate) -> None:
    quick = ("--suite", "smoke", "--case", "four/*", "--shrink", "2")
    run = gate("--sampler", plugin("TokenV"), "--sampler", plugin("LastFromWhole"), *quick)
    assert run.code == 1
    assert [sampler["verdict"] for sampler in run.samplers] == ["broken", "biased"]
    assert run.results["verdict"] == "biased"


def test_reproduce_gives_the_same_case(gate: Gate) -> None:
    run = gate("--sampler", plugin("LastFromWhole"), "--suite", "smoke", "--case", "four/*", "--shrink", "3")
    biased = next(case for case in run.cases if case["verdict"] == "biased")
    words = shlex.split(biased["reproduce"])
    assert words[:2] == ["chitree", "gate"]
    again = gate(*words[2:], out="again")
    assert again.code == 1
    assert {**again.cases[0], "seconds": 0} == {**biased, "seconds": 0}
