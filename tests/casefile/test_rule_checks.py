"""A rule refuses the cases that its verifiers are never handed; suites and decoys hold none of these."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from harness.case import Case
from harness.decoys import DECOYS, surrounded
from harness.filters import SamplingParams
from harness.groups import Group
from harness.rules import RULES
from harness.suite import SuiteGroup
from harness.tree import Tree

from .build import case_of, drawn_cases

FORK = Tree([0, 1, 2], [-1, 0, 0])
TWINS = Tree([0, 1, 1], [-1, 0, 0])
CHAIN = Tree([0, 1, 1], [-1, 0, 1])


def retreed(rule: str, tree: Tree) -> Case:
    case = case_of(rule)
    rows = case.logits if case.draft is not None else np.resize(case.logits, (len(tree), 5))
    return replace(case, tree=tree, logits=rows, nodes=len(tree))


@pytest.mark.parametrize("rule", sorted(RULES))
def test_cases_of_a_rule_are_its_own(rule: str) -> None:
    RULES[rule].check(case_of(rule))


@pytest.mark.parametrize(
    ("rule", "tree", "says"),
    [
        ("plain", CHAIN, "tree must be a single node under rule plain, got 3 nodes"),
        ("rejection", FORK, "tree must be a chain under rule rejection, but node 0 has 2 children"),
        ("block", FORK, "tree must be a chain under rule block, but node 0 has 2 children"),
        ("target-only", TWINS, "nodes 1 and 2 below node 0 both have token 1"),
        ("sampler-match", TWINS, "tree must have different tokens at siblings under rule sampler-match"),
        ("greedy", TWINS, "tree must have different tokens at siblings under rule greedy"),
        ("rejection", CHAIN, ""),
        ("rejection-replacement", TWINS, ""),
        ("rejection-no-replacement", TWINS, ""),
        ("target-only", CHAIN, ""),
    ],
)
def test_trees(rule: str, tree: Tree, says: str) -> None:
    case = retreed(rule, tree)
    if not says:
        RULES[rule].check(case)
        return
    with pytest.raises(ValueError, match=says):
        RULES[rule].check(case)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_drafts_temperatures_and_thresholds(rule: str) -> None:
    known, case = RULES[rule], case_of(rule)
    hot, lossy = replace(case, params=SamplingParams(0.5)), replace(case, threshold_single=0.5)
    with_draft = replace(case, draft=np.full_like(case.logits, 0.2))
    for other, refused, field in (
        (hot, known.greedy, "params.temperature must be 0"),
        (lossy, not known.lossy, "threshold_single must be 1"),
        (with_draft, not known.redraws, "draft must be left out"),
        (replace(case, replacement=not case.replacement), known.redraws, "replacement must be"),
    ):
        if refused:
            with pytest.raises(ValueError, match=field):
                known.check(other)
        else:
            known.check(other)


def test_a_drawing_rule_needs_its_draft() -> None:
    case = case_of("target-only")
    chain = replace(case, tree=Tree([0, 1, 2, 3], [-1, 0, 1, 2]), rule="block", threshold_acc=1.0)
    with pytest.raises(ValueError, match="draft must be given under rule block"):
        RULES["block"].check(chain)


def test_a_suite_refuses_them_when_a_group_is_made() -> None:
    bad = replace(case_of("sampler-match"), threshold_acc=0.5)
    entry = SuiteGroup.of(Group("bad", (bad,)), 8)
    with pytest.raises(ValueError, match="case made: threshold_acc must be 1 under rule sampler-match"):
        _ = entry.group


@settings(max_examples=50, deadline=None)
@given(drawn_cases())
def test_decoys_are_of_the_rule_and_shape_of_the_case(case: Case) -> None:
    group = surrounded(case)
    assert len(group) == 1 + DECOYS
    assert group.cases[0] is case
    for decoy in group.cases[1:]:
        RULES[case.rule].check(decoy)
        assert decoy.name != case.name
    assert group.tables.target_probs.shape[0] == len(group) * group.rows
    again = surrounded(case)
    for one, other in zip(group.cases, again.cases, strict=True):
        assert one.name == other.name
        assert one.logits.tobytes() == other.logits.tobytes()
        assert one.tree.tokens.tolist() == other.tree.tokens.tolist()


def test_decoys_have_laws_of_their_own() -> None:
    group = surrounded(case_of("target-only", vocab=9))
    rows = [row.tobytes() for case in group.cases for row in case.law_rows]
    assert len(set(rows)) == len(rows)
    assert len({case.tree.parents.tobytes() for case in group.cases}) > 3
    assert len({case.params for case in group.cases}) > 3
