"""Strategies give what they promise, reach what they should, and shrink to small examples."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from distributions import Draft, Target, strategies

quick = settings(max_examples=60, deadline=None)
search = settings(max_examples=2000, deadline=None, database=None, derandomize=True)
reach = settings(search, phases=[Phase.generate])


def is_tree(parents: np.ndarray) -> bool:
    return parents[0] == -1 and all(0 <= parents[i] < i for i in range(1, len(parents)))


def widest(parents: np.ndarray) -> int:
    return max(sum(int(p) == node for p in parents) for node in range(len(parents)))


@quick
@given(st.data(), st.integers(1, 4), st.integers(1, 9))
def test_logits_are_valid(data: st.DataObject, nodes: int, vocab: int) -> None:
    logits = data.draw(strategies.logits(nodes, vocab))
    assert logits.dtype == np.float32
    assert logits.shape == (nodes, vocab)
    for row in logits:
        assert any(np.isfinite(z) for z in row)
        assert all(np.isfinite(z) or z == -np.inf for z in row)


@quick
@given(st.data(), st.integers(1, 12), st.sampled_from([None, True, False]))
def test_probabilities_are_laws(data: st.DataObject, vocab: int, exact: bool | None) -> None:
    p = data.draw(strategies.probabilities(vocab, exact=exact))
    assert p.dtype == np.float64
    assert p.shape == (vocab,)
    assert all(x >= 0 for x in p)
    assert abs(sum(p) - 1) < 1e-14
    if exact:
        assert sum(p) == 1
        assert all(x * 4096 == int(x * 4096) for x in p)


@quick
@given(st.data(), st.integers(1, 12), st.one_of(st.none(), st.integers(1, 4)))
def test_parents_are_trees(data: st.DataObject, max_nodes: int, max_children: int | None) -> None:
    tree = data.draw(strategies.parents(max_nodes, max_children=max_children))
    assert tree.dtype == np.int64
    assert 1 <= len(tree) <= max_nodes
    assert is_tree(tree)
    assert max_children is None or widest(tree) <= max_children


@quick
@given(st.data(), st.integers(1, 6))
def test_trees_have_distinct_siblings_in_any_order(data: st.DataObject, vocab: int) -> None:
    tree, tokens, places = data.draw(strategies.ordered_trees(max_nodes=10, vocab=vocab))
    assert is_tree(tree)
    assert tree.dtype == tokens.dtype == places.dtype == np.int64
    assert tree.shape == tokens.shape == places.shape
    assert all(0 <= x < vocab for x in tokens)
    for parent in range(-1, len(tree)):
        siblings = [i for i in range(len(tree)) if tree[i] == parent]
        assert len({int(tokens[i]) for i in siblings}) == len(siblings)
        assert sorted(int(places[i]) for i in siblings) == list(range(len(siblings)))


@quick
@given(strategies.targets(), strategies.targets(vocab=2), strategies.drafts())
def test_registries_are_drawn_from(target: Target, small: Target, draft: Draft) -> None:
    assert isinstance(target, Target)
    assert small.min_vocab == 2
    assert isinstance(draft, Draft)


@pytest.mark.parametrize(
    "wanted",
    [
        lambda tree, tokens: widest(tree) >= 3,
        lambda tree, tokens: any(tree[i] == tree[i - 1] and i not in tree for i in range(2, len(tree))),
        lambda tree, tokens: len(tree) > 1 and tokens[-1] == 7,
        lambda tree, tokens: (tree == np.arange(-1, len(tree) - 1)).all() and len(tree) >= 8,
        lambda tree, tokens: len(tree) == 12,
    ],
    ids=["wide node", "second child is a leaf", "last token", "long chain", "most nodes"],
)
def test_trees_reach(wanted: object) -> None:
    find(strategies.trees(), lambda tree: wanted(*tree), settings=reach)  # type: ignore[operator]


def test_sibling_orders_other_than_by_number_are_reached() -> None:
    tree, _, places = find(strategies.ordered_trees(), lambda t: any(t[2] > 0) and t[2][1] > 0, settings=search)
    assert tree.tolist() == [-1, 0, 0]
    assert places.tolist() == [0, 1, 0]


def test_examples_shrink_small() -> None:
    tree, tokens = find(strategies.trees(), lambda t: len(t[0]) >= 3, settings=search)
    assert len(tree) == 3
    assert max(tokens) <= 1
    law = find(strategies.probabilities(3), lambda p: p[2] > 0, settings=search)
    assert law.tolist() == [0, 0, 1]
    logits = find(strategies.logits(1, 3), lambda z: z[0, 0] == z[0, 2] == -np.inf, settings=search)
    assert np.isneginf(logits).tolist() == [[True, False, True]]


def test_hypothesis_is_loaded_by_strategies_only() -> None:
    code = "import sys, distributions; assert not {'hypothesis', 'harness'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
