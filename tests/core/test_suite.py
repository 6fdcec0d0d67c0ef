"""Suites: names, sizes and plans."""

from __future__ import annotations

import numpy as np
import pytest

from harness.case import Case
from harness.groups import Group
from harness.suite import Suite, SuiteGroup
from harness.tree import Tree


def group(name: str, rule: str, *cases: str) -> Group:
    return Group(name, tuple(Case(case, rule, Tree([0], [-1]), np.zeros((1, 3))) for case in cases))


def test_plans_and_sizes() -> None:
    made = Suite(
        "s",
        (
            SuiteGroup(group("one", "plain", "a", "b"), 128),
            SuiteGroup(group("two", "target-only", "c"), 256),
            SuiteGroup(group("three", "plain", "d"), 512),
        ),
        1.0,
    )
    assert [case.name for case in made.cases()] == ["a", "b", "c", "d"]
    assert made.sizes == {"plain": 3, "target-only": 1}
    plans = made.plans(["plain"], seed=7)
    assert [(plan.group.name, plan.suite, plan.seed, plan.n) for plan in plans] == [
        ("one", "s", 7, 128),
        ("three", "s", 7, 512),
    ]
    assert len(made.plans(iter(["plain", "target-only", "block"]), seed=7)) == 3


def test_case_names_are_unique_in_a_suite() -> None:
    groups = SuiteGroup(group("one", "plain", "a", "b"), 128), SuiteGroup(group("two", "plain", "c", "b"), 128)
    with pytest.raises(ValueError, match="suite s has two cases of the name 'b'"):
        Suite("s", groups, 1.0)
