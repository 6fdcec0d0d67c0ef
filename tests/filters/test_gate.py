"""Plugins that filter for themselves, end to end: right ones pass, those of another reading than they claim do not."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cases.boundaries import boundary_groups
from harness.errors import UsageError
from harness.gate import GateOptions, gate
from harness.suite import Suite, SuiteGroup

PLUGINS = Path(__file__).resolve().parent / "plugins.py"
DRAWS = 1 << 12


@cache
def suite() -> Suite:
    """Return the boundary cases of the rules of these plugins."""
    groups = [group for rule in ("plain", "target-only", "none") for group in boundary_groups(rule)]
    return Suite("boundaries", tuple(SuiteGroup.of(group, DRAWS) for group in groups), 90.0)


def run(attribute: str, cases: tuple[str, ...] = ()) -> Any:
    options = GateOptions((f"{PLUGINS}:{attribute}",), cases=cases, workers=1, shrink=0)
    return gate(suite(), options)


def biased(results: Any) -> set[str]:
    return {case.case.split("/")[-1] for case in results.samplers[0].cases if case.verdict == "biased"}


RIGHT = ["Sequential", "Joint", "Vllm", "Last", "Exact", "OneMore", "Ignores", "First"]


@pytest.mark.parametrize(
    "name", [*RIGHT, "TreeSequential", "TreeJoint", "TreeVllm", "TreeLast", "NoneJoint", "LastOfMaxima"]
)
def test_right(name: str) -> None:
    at_zero = ("plain/ties-at-0/*",) if name == "LastOfMaxima" else ()
    results = run(name, at_zero)
    assert results.exit_code == 0, biased(results)
    assert all(case.verdict == "pass" for case in results.samplers[0].cases)


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("JointSaysSequential", {"top-k-then-top-p-or-joint"}),
        ("TreeJointSaysSequential", {"top-k-then-top-p-or-joint"}),
        ("SequentialSaysJoint", {"top-k-then-top-p-or-joint"}),
        ("VllmSaysSequential", {"min-p-first-or-last"}),
        ("LastSaysSequential", {"temperature-first-or-last"}),
        ("ExactSaysAll", {"top-k-ties", "top-k-ties-cold"}),
        ("AllSaysExact", {"top-k-ties", "top-k-ties-cold"}),
        ("IgnoresSaysApplied", {"min-p-applied-or-ignored"}),
        ("OneMoreSaysStop", set()),
        ("LastSaysFirst", {"two-maxima", "three-maxima", "all-equal"}),
    ],
)
def test_wrong(name: str, cases: set[str]) -> None:
    results = run(name, ("plain/ties-at-0/*",) if name == "LastSaysFirst" else ())
    assert biased(results) == cases
    assert results.exit_code == (1 if cases else 0)


def test_the_report_names_the_reading_that_was_followed() -> None:
    found = {case.case: case for case in run("JointSaysSequential").samplers[0].cases}
    (entry,) = found["plain/boundaries/top-k-then-top-p-or-joint"].diagnosis
    assert entry["bug"] == "filters read as: joint"
    found = {case.case: case for case in run("OneMoreSaysStop").samplers[0].cases}
    (entry,) = found["plain/boundaries/top-p-reached-exactly"].diagnosis
    assert entry["bug"] == "filters read as: sequential with top-p keeping one token more"


def test_the_mass_of_undecided_tokens_is_reported() -> None:
    found = {case.case: case for case in run("Sequential").samplers[0].cases}
    (support,) = [e for e in found["plain/boundaries/top-p-reached-exactly"].evidence if e["test"] == "support"]
    assert support["undecided"] == {"cells": 4, "mass": 1.0, "observed": DRAWS}
    (support,) = [e for e in found["plain/boundaries/top-p-reached-within-rounding"].evidence if e["test"] == "support"]
    assert support["undecided"]["cells"] == 1
    assert support["undecided"]["mass"] == pytest.approx(0.125 / 0.875, rel=1e-5)
    (support,) = [e for e in found["plain/boundaries/top-k-ties"].evidence if e["test"] == "support"]
    assert "undecided" not in support


def test_a_step_that_stops_at_a_child_is_seen_where_tokens_are_undecided_too() -> None:
    assert "top-p-reached-within-rounding" in biased(run("Stops"))


@pytest.mark.parametrize("name", ["Bfloat16", "Float16", "Bfloat16Probs"])
def test_rows_in_16_bits(name: str) -> None:
    pytest.importorskip("torch")
    assert run(name).exit_code == 0


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("UnknownTakes", "takes must be 'probs' or 'logits', got 'tokens'"),
        (
            "UnknownSemantics",
            "semantics must be one of 'sequential', 'vllm', 'joint', 'temperature-last' or a Sem.*'alph",
        ),
        ("SemanticsOfNoKind", "semantics must be one of .* got 3"),
        ("UnknownDtype", "dtype must be 'float16' or 'bfloat16', or left out for float32, got 'int8'"),
        ("unknown_field", "top_k_ties must be 'all', 'exact' or 'any', got 'some'"),
    ],
)
def test_unknown_values_are_bad_input(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says) as caught:
        run(name)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
