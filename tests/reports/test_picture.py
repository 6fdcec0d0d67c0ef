"""What results.json holds for a drawing: exact intervals, the right nodes, a bounded size."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from made_results import draws, law_of, pictured, small_case
from scipy import stats

from harness.case import Case
from harness.counts import count_sequences
from harness.picture import FEW_NODES, LEVEL, MOST_NODES, interval, picture
from harness.rules import rule
from harness.stats.verdict import judge
from harness.tree import Tree


@pytest.mark.parametrize("trials", [1, 7, 500, 10**6])
def test_intervals_are_the_exact_ones(trials: int) -> None:
    counts = np.unique(np.linspace(0, trials, 9).astype(np.int64))
    low, high = interval(counts, trials)
    for i, count in enumerate(counts.tolist()):
        exact = stats.binomtest(count, trials).proportion_ci(LEVEL, method="exact")
        assert low[i] == pytest.approx(exact.low, rel=1e-9, abs=1e-15)
        assert high[i] == pytest.approx(exact.high, rel=1e-9)


def test_no_draws_say_nothing() -> None:
    low, high = interval(0, 0)
    assert (float(low), float(high)) == (0.0, 1.0)


@pytest.mark.parametrize("fault", [False, True])
def test_nodes_say_what_law_and_draws_say(fault: bool) -> None:
    law, drawn = law_of(small_case()), pictured(fault)[0]
    tree = small_case().tree
    counts = draws(law, 2000, fault)
    assert drawn.nodes[0].parent == -1
    assert sorted(node.node for node in drawn.nodes) == [0, 1, 2, 3, 4]
    assert drawn.left_out == 0
    for i, node in enumerate(drawn.nodes):
        assert node.parent < i
        path = [int(tree.tokens[step]) for step in tree.path(node.node)[1:]]
        m = law.find(path)
        expected = law.reach[m] if m >= 0 else 0.0
        assert node.reach == pytest.approx(expected, rel=1e-3)
        begins = (counts.tokens[:, : len(path)] == path).all(axis=1) & (counts.lengths > len(path))
        assert node.reached == counts.counts[begins].sum()
        if node.cells is not None:
            assert node.cells.trials == node.reached
            np.testing.assert_allclose(node.cells.expected, law.rows[m, node.cells.token], rtol=1e-3)
            for token, count, low, high in zip(
                node.cells.token, node.cells.count, node.cells.low, node.cells.high, strict=True
            ):
                assert count == counts.counts[begins & (counts.tokens[:, len(path)] == token)].sum()
                exact = stats.binomtest(count, node.reached).proportion_ci(LEVEL, method="exact")
                assert (low, high) == pytest.approx((exact.low, exact.high), rel=1e-3, abs=1e-9)


def test_the_fault_has_the_least_p_value_and_its_tokens() -> None:
    nodes = [node for node in pictured(True)[0].nodes if node.p_value is not None]
    worst = min(nodes, key=lambda node: node.p_value or 0.0)
    assert worst.node == 1
    assert worst.cells is not None
    assert all((node.p_value or 0.0) > 1e-4 for node in nodes if node is not worst)


def test_a_pass_is_told_in_short() -> None:
    drawn = pictured(False)[0]
    assert [node.cells is not None for node in drawn.nodes] == [True] + [False] * 4
    assert all(node.p_value is None for node in drawn.nodes)


def test_impossible_draws_are_counted_where_they_happen() -> None:
    law, case = law_of(small_case()), small_case()
    counts = count_sequences(np.array([[4, -1, -1], [5, -1, -1], [5, 0, -1]]), np.array([3, 90, 2]))
    drawn = picture(case, law, counts, judge(law, counts, 1e-6, np.random.default_rng(0)).where)
    root = drawn.nodes[0]
    assert root.impossible == 5
    assert root.p_value == 0.0
    assert root.cells is not None
    at = root.cells.token.index(4)
    assert (root.cells.expected[at], root.cells.count[at]) == (0.0, 3)


def test_where_reach_is_unknown_none_is_given() -> None:
    law, case = law_of(small_case()), small_case()
    counts = draws(law, 500)
    drawn = picture(case, law, counts, [], reach_known=False)
    assert {node.reach for node in drawn.nodes if node.reached} == {None}


@pytest.mark.parametrize("full", [False, True])
def test_large_trees_stay_small(full: bool) -> None:
    rng = np.random.default_rng(1)
    size, vocab = 200, 300
    parents = np.array([-1, *(int(rng.integers(0, i)) for i in range(1, size))])
    tree = Tree(np.arange(size), parents)
    case = Case(name="big", rule="target-only", tree=tree, logits=rng.normal(0, 1, (size, vocab)).astype(np.float32))
    law = rule(case.rule).law(case)
    counts = draws(law, 500)
    ranking = judge(law, counts, 1e-6, rng).where
    drawn = picture(case, law, counts, ranking, full=full)
    assert len(drawn.nodes) == (MOST_NODES if full else FEW_NODES)
    assert len(drawn.nodes) + drawn.left_out == size
    assert len(msgspec.json.encode(drawn)) < (9000 if full else 1600)
    if full:
        first = law.find(ranking[0].prefix)
        assert int(law.node[first]) in [node.node for node in drawn.nodes]
