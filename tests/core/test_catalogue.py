"""What every suite holds, whatever its cases are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from cases.catalogue import SUITES, suite
from harness.case import Case
from harness.errors import UsageError
from harness.rules import RULES
from harness.suite import SuiteGroup

suites = pytest.mark.parametrize("name", ["smoke", "standard"])
rules = pytest.mark.parametrize("rule", ["target-only", "plain"])


@cache
def groups(name: str, rule: str) -> list[SuiteGroup]:
    return [entry for entry in suite(name).groups if entry.rule == rule]


@cache
def cases(name: str, rule: str) -> list[Case]:
    return [case for entry in groups(name, rule) for case in entry.group.cases]


def depth(case: Case) -> int:
    return int(case.tree.depth.max())


def widths(case: Case) -> list[int]:
    return [len(children) for children in case.tree.children]


def is_chain(case: Case) -> bool:
    return depth(case) == len(case.tree) - 1 >= 2


def is_star(case: Case) -> bool:
    return widths(case)[0] == len(case.tree) - 1 >= 3


def is_irregular(case: Case) -> bool:
    """Whether leaves are at different depths and inner nodes of different widths."""
    tree = case.tree
    leaves = {int(tree.depth[node]) for node in range(len(tree)) if not tree.children[node]}
    return len(leaves) > 1 and len({w for w in widths(case) if w}) > 1 and depth(case) >= 3


def is_shuffled(case: Case) -> bool:
    """Whether siblings are not in the order of their numbers, nor nodes numbered parents first."""
    tree = case.tree
    siblings = any(list(children) != sorted(children) for children in tree.children)
    return siblings and any(tree.parents[node] > node for node in range(1, len(tree)))


def is_cut(case: Case) -> bool:
    return depth(case) > case.depth_limit - 1 and case.depth_limit > 1


def is_padded_with_zero_likely(case: Case) -> bool:
    """Whether token 0 is likely, which padding holds: there a walk into it shows best."""
    return len(case.tree) < case.nodes and bool((case.law_rows.argmax(axis=1) == 0).all())


def is_covered(case: Case) -> bool:
    """Whether all mass of inner nodes lies on their children, in whole multiples of 1/4096."""
    inner = [node for node in range(len(case.tree)) if case.tree.children[node]]
    rows = case.target_probs.astype(np.float64) * 4096
    if not inner or not (rows == np.round(rows)).all() or not (rows.sum(axis=1) == 4096).all():
        return False
    return all(set(np.flatnonzero(rows[node])) <= set(case.tree.child_tokens(node)) for node in inner)


def is_below_one(case: Case) -> bool:
    return case.threshold_single < 1 and case.threshold_acc < 1


def filters_bite(case: Case) -> bool:
    """Whether the filters took tokens away."""
    return bool(((case.target_probs == 0) & np.isfinite(case.logits)).any())


WANTED: dict[str, Callable[[Case], bool]] = {
    "chain": is_chain,
    "star": is_star,
    "random": is_irregular,
    "shuffled": is_shuffled,
    "depth limit": is_cut,
    "padding": lambda case: len(case.tree) < case.nodes,
    "padding with token 0 likely": is_padded_with_zero_likely,
    "covered support": is_covered,
    "thresholds": is_below_one,
    "cold": lambda case: 0 < case.params.temperature < 1,
    "hot": lambda case: case.params.temperature > 1,
    "top-k": lambda case: case.params.top_k > 0 and filters_bite(case),
    "top-p": lambda case: case.params.top_p < 1 and filters_bite(case),
    "impossible draft": lambda case: any(
        case.law_rows[node, token] == 0 for node in range(len(case.tree)) for token in case.tree.child_tokens(node)
    ),
    "every token drafted somewhere": lambda case: case.vocab - 1 in case.tree.tokens[1:],
}


@suites
@pytest.mark.parametrize("kind", list(WANTED))
def test_target_only_has_cases_of_every_kind(name: str, kind: str) -> None:
    assert any(map(WANTED[kind], cases(name, "target-only"))), kind


@suites
def test_thirty_cases_in_groups_of_four_to_sixteen(name: str) -> None:
    made = suite(name)
    assert made.name == name
    assert made.sizes["target-only"] >= 30
    assert all(4 <= len(entry.names) <= 16 for entry in made.groups)
    assert len({entry.name for entry in made.groups}) == len(made.groups)
    assert len(set(made.names)) == len(made.names) == sum(made.sizes.values())
    assert {"target-only", "plain"} <= set(made.sizes) <= set(RULES)


@suites
@rules
def test_groups_are_what_their_entries_say(name: str, rule: str) -> None:
    for entry in groups(name, rule):
        group = entry.group
        assert group.name == entry.name
        assert tuple(case.name for case in group.cases) == entry.names
        for case in group.cases:
            assert (case.rule, case.vocab, case.nodes) == (rule, entry.vocab, entry.nodes)
            assert case.depth_limit == entry.depth_limit
            assert (case.threshold_single, case.threshold_acc) == entry.thresholds


@suites
def test_vocabularies(name: str) -> None:
    assert {4, 5, 6, 16, 4100} <= {entry.vocab for entry in groups(name, "target-only")}


@rules
def test_made_again_a_group_is_the_same(rule: str) -> None:
    for entry in groups("smoke", rule)[:4]:
        for one, other in zip(entry.group.cases, entry.make().cases, strict=True):
            assert one.name == other.name
            assert one.params == other.params
            assert one.tree.children == other.tree.children
            np.testing.assert_array_equal(one.logits, other.logits)
            np.testing.assert_array_equal(one.target_probs, other.target_probs)
            np.testing.assert_array_equal(one.tree.tokens, other.tree.tokens)


@suites
@rules
def test_laws_differ_between_the_cases_and_nodes_of_a_group(name: str, rule: str) -> None:
    """But for laws of one outcome or two, where ties leave few to choose from."""
    for entry in groups(name, rule):
        rows = [row for case in entry.group.cases for row in case.target_probs if (row > 0).sum() > 2]
        assert len({row.tobytes() for row in rows}) == len(rows), entry.name


@suites
def test_cases_are_what_their_rules_take(name: str) -> None:
    for case in cases(name, "plain"):
        assert len(case.tree) == 1, case.name
        assert case.threshold_single == case.threshold_acc == 1, case.name
    for case in cases(name, "target-only"):
        assert case.tree.has_distinct_siblings, case.name


@suites
@rules
def test_every_small_case_has_a_law(name: str, rule: str) -> None:
    for case in cases(name, rule):
        if case.vocab > 64:
            continue
        law = RULES[rule].law(case)
        np.testing.assert_allclose(law.rows.sum(axis=1), 1, atol=1e-9, err_msg=case.name)
        assert abs(law.lengths.sum() - 1) < 1e-9, case.name


@suites
@rules
def test_draws_are_served_in_whole_calls(name: str, rule: str) -> None:
    made = suite(name)
    for plan in made.plans(groups(name, rule), seed=0):
        assert plan.calls * plan.rows_per_case == plan.n
        assert plan.rows_per_case > 1 or plan.group.vocab > 64


def test_standard_draws_more_than_smoke() -> None:
    draws = {name: sum(entry.n * len(entry.names) for entry in groups(name, "target-only")) for name in SUITES}
    assert draws["standard"] > draws["smoke"]


def test_seconds_are_those_of_the_contract() -> None:
    assert suite("smoke").seconds <= 15
    assert suite("standard").seconds <= 90
    assert {"smoke", "standard"} <= set(SUITES)


@pytest.mark.parametrize("name", ["small", "", "Smoke"])
def test_no_such_suite(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}'.*smoke.*standard"):
        suite(name)
