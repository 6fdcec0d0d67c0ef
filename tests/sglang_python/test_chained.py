"""Chains in place of trees, against plain loops."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cases.catalogue import suite
from cases.coins import coin_groups
from harness.case import Case
from harness.chained import chained
from harness.filters import SamplingParams
from harness.groups import Group, Plan
from tests.core.build import trees

VOCAB = 5


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    found = draw(st.lists(trees(max_nodes=7, vocab=VOCAB), min_size=1, max_size=3))
    nodes, limit = draw(st.integers(max(map(len, found)), 9)), draw(st.integers(1, 9))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    cases = [
        Case(f"c{i}", "target-only", tree, rng.normal(size=(len(tree), VOCAB)), SamplingParams(top_k=3), limit, nodes)
        for i, tree in enumerate(found)
    ]
    return Plan(Group("g", tuple(cases)), "smoke", 0, 64)


@given(plans())
def test_a_chain_follows_first_children(plan: Plan) -> None:
    made = chained(plan)
    size = min(plan.group.nodes, plan.group.cases[0].depth_limit)
    for case, chain in zip(plan.group.cases, made.group.cases, strict=True):
        assert (chain.name, chain.params, chain.rule) == (case.name, case.params, case.rule)
        assert chain.nodes == chain.depth_limit == len(chain.tree) == size
        assert chain.tree.parents.tolist() == list(range(-1, size - 1))
        node, left = 0, list(case.tree.order)
        assert chain.tree.tokens[0] == case.tree.tokens[0]
        for place in range(size):
            np.testing.assert_array_equal(chain.logits[place], case.logits[node])
            left = [other for other in left if other != node] or list(case.tree.order)
            children = case.tree.children[node]
            if place + 1 < size:
                likeliest = int(case.target_probs[node].argmax())
                assert chain.tree.tokens[place + 1] == (case.tree.tokens[children[0]] if children else likeliest)
            if not children:
                break
            node = children[0]


@given(plans())
def test_every_law_row_of_a_small_tree_is_in_the_chain(plan: Plan) -> None:
    for case, chain in zip(plan.group.cases, chained(plan).group.cases, strict=True):
        if len(chain.tree) >= len(case.tree):
            rows = {row.tobytes() for row in chain.logits}
            assert rows == {row.tobytes() for row in case.logits}


def test_coins_go_with_their_nodes() -> None:
    entry = next(group for group in coin_groups() if group.name == "coins/gap")
    plan = entry.plan("smoke", 0)
    made = chained(plan)
    assert plan.fixed is not None
    assert made.fixed is not None
    below = entry.names.index("coins/gap/below-a-draft")
    assert made.fixed.nodes[below].tolist() == plan.fixed.nodes[below, [0, 1, 2]].tolist()  # node 2 is node 1's first
    assert made.fixed.nodes.shape == (len(entry.names), 3)
    np.testing.assert_array_equal(made.fixed.final, plan.fixed.final)


def test_every_group_of_trees_has_chains() -> None:
    whole = suite("smoke")
    entries = [entry for entry in whole.groups if entry.rule == "target-only" and entry.vocab <= 64]
    for plan in whole.plans(entries, 0):
        request, _ = chained(plan).call(0)
        assert request.depth_limit == request.nodes
        assert (request.node_count == request.nodes).all()
