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


def make_suite() -> Suite:
    entries = [
        SuiteGroup.of(group("one", "plain", "a", "b"), 128),
        SuiteGroup.of(group("two", "target-only", "c"), 256),
        SuiteGroup.of(group("three", "plain", "d"), 512),
    ]
    return Suite("s", tuple(entries), 1.0)


def test_cases_and_sizes() -> None:
    made = make_suite()
    assert list(made.names) == ["a", "b", "c", "d"]
    assert [case.name for case in made.cases()] == ["a", "b", "c", "d"]
    assert [made.case(name).name for name in made.names] == ["a", "b", "c", "d"]
    assert made.sizes == {"plain": 3, "target-only": 1}


def test_plans() -> None:
    made = make_suite()
    plans = made.plans([made.groups[0], made.groups[2]], seed=7)
    assert [(plan.group.name, plan.suite, plan.seed, plan.n) for plan in plans] == [
        ("one", "s", 7, 128),
        ("three", "s", 7, 512),
    ]


def test_a_group_is_made_once_and_when_asked_for() -> None:
    calls = []

    def make() -> Group:
        calls.append(1)
        return group("one", "plain", "a")

    entry = SuiteGroup("one", "plain", ("a",), 64, make, 3, 1, 1)
    made = Suite("s", (entry,), 1.0)
    assert made.names == ("a",)
    assert made.sizes == {"plain": 1}
    assert not calls
    assert entry.group is entry.group
    assert calls == [1]


def test_case_names_are_unique_in_a_suite() -> None:
    entries = SuiteGroup.of(group("one", "plain", "a", "b"), 128), SuiteGroup.of(group("two", "plain", "c", "b"), 128)
    with pytest.raises(ValueError, match="suite s has two cases of the name 'b'"):
        Suite("s", entries, 1.0)
