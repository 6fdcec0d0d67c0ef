"""What every suite holds, whatever its cases are called."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cases.catalogue import SUITES, suite
from harness.case import Case
from harness.errors import UsageError
from harness.groups import Group
from harness.rules import RULES
from harness.suite import Suite

suites = pytest.mark.parametrize("name", ["smoke", "standard"])


def tree_cases(made: Suite) -> list[Case]:
    return [case for case in made.cases() if case.rule == "target-only"]


def depth(case: Case) -> int:
    return int(case.tree.depth.max())


def widths(case: Case) -> list[int]:
    return [len(children) for children in case.tree.children]


def is_chain(case: Case) -> bool:
    return depth(case) == len(case.tree) - 1 >= 2


def is_star(case: Case) -> bool:
    return widths(case)[0] == len(case.tree) - 1 >= 3


def is_irregular(case: Case) -> bool:
    """A node with several children, leaves at different depths, and not every inner node alike."""
    tree = case.tree
    leaves = {int(tree.depth[node]) for node in range(len(tree)) if not tree.children[node]}
    return len(leaves) > 1 and len({w for w in widths(case) if w}) > 1 and depth(case) >= 3


def is_shuffled(case: Case) -> bool:
    """Siblings not in the order of their numbers, nodes not numbered parents first."""
    tree = case.tree
    siblings = any(list(children) != sorted(children) for children in tree.children)
    return siblings and any(tree.parents[node] > node for node in range(1, len(tree)))


def is_cut(case: Case) -> bool:
    return depth(case) > case.depth_limit - 1 and case.depth_limit > 1


def is_padded_with_zero_likely(case: Case) -> bool:
    """Padding holds token 0: a walk into it shows best where that token is likely."""
    return len(case.tree) < case.nodes and bool((case.law_rows.argmax(axis=1) == 0).all())


def is_covered(case: Case) -> bool:
    """All mass of inner nodes lies on their children, in whole multiples of 1/4096."""
    inner = [node for node in range(len(case.tree)) if case.tree.children[node]]
    rows = case.target_probs.astype(np.float64) * 4096
    if not inner or not (rows == np.round(rows)).all() or not (rows.sum(axis=1) == 4096).all():
        return False
    return all(set(np.flatnonzero(rows[node])) <= set(case.tree.child_tokens(node)) for node in inner)


def is_below_one(case: Case) -> bool:
    return case.threshold_single < 1 and case.threshold_acc < 1


def filters_bite(case: Case) -> bool:
    """The filters took tokens away."""
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
    assert any(map(WANTED[kind], tree_cases(suite(name)))), kind


@suites
def test_thirty_cases_in_groups_of_four_to_sixteen(name: str) -> None:
    made = suite(name)
    assert made.name == name
    assert len(tree_cases(made)) >= 30
    assert all(4 <= len(entry.group) <= 16 for entry in made.groups)
    assert len({entry.group.name for entry in made.groups}) == len(made.groups)
    assert sum(made.sizes.values()) == len(list(made.cases()))
    assert {"target-only", "plain"} <= set(made.sizes) <= set(RULES)


@suites
def test_vocabularies(name: str) -> None:
    assert {4, 5, 6, 16, 4100} <= {case.vocab for case in tree_cases(suite(name))}


@suites
def test_group_names_and_seeds_make_the_cases(name: str) -> None:
    """Made again, a suite is the same."""
    for one, other in zip(suite(name).cases(), suite(name).cases(), strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.logits, other.logits)
        np.testing.assert_array_equal(one.tree.tokens, other.tree.tokens)


def law_rows(group: Group) -> list[bytes]:
    return [row.tobytes() for case in group.cases for row in case.target_probs]


@suites
def test_laws_differ_between_the_cases_and_nodes_of_a_group(name: str) -> None:
    for entry in suite(name).groups:
        rows = law_rows(entry.group)
        if entry.group.rule != "greedy":
            assert len(set(rows)) == len(rows), entry.group.name


@suites
def test_cases_are_what_their_rules_take(name: str) -> None:
    for case in suite(name).cases():
        if case.rule == "plain":
            assert len(case.tree) == 1, case.name
        if case.rule == "target-only":
            assert case.tree.has_distinct_siblings, case.name
        if case.rule != "target-only":
            assert case.threshold_single == case.threshold_acc == 1, case.name
        if case.rule == "greedy":
            assert case.params.greedy, case.name
        if case.rule in ("rejection", "block"):
            assert max(widths(case)) <= 1, case.name


@suites
def test_every_case_has_a_law(name: str) -> None:
    for case in suite(name).cases():
        law = RULES[case.rule].law(case)
        np.testing.assert_allclose(law.rows.sum(axis=1), 1, atol=1e-9, err_msg=case.name)
        assert abs(law.lengths.sum() - 1) < 1e-9, case.name


@suites
def test_draws_are_served_in_whole_calls(name: str) -> None:
    made = suite(name)
    for plan in made.plans(made.sizes, seed=0):
        assert plan.rows_per_case > 1
        assert plan.calls * plan.rows_per_case == plan.n


def test_standard_draws_more_than_smoke() -> None:
    smoke = {entry.group.name: entry.n for entry in suite("smoke").groups}
    standard = {entry.group.name: entry.n for entry in suite("standard").groups}
    assert all(standard[name] >= n for name, n in smoke.items() if name in standard)
    assert sum(standard.values()) > sum(smoke.values())


def test_seconds_are_those_of_the_contract() -> None:
    assert suite("smoke").seconds <= 15
    assert suite("standard").seconds <= 90
    assert {"smoke", "standard"} <= set(SUITES)


@pytest.mark.parametrize("name", ["small", "", "Smoke"])
def test_no_such_suite(name: str) -> None:
    with pytest.raises(UsageError, match=f"'{name}'.*smoke.*standard"):
        suite(name)
