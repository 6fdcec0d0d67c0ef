"""Shapes are trees of the promised form; siblings get different tokens, chosen as asked."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributions import SHAPES, TARGETS, TokenChoice, sibling_tokens
from distributions.strategies import generators, parents, probabilities

quick = settings(max_examples=40, deadline=None)
shapes = pytest.mark.parametrize("shape", list(SHAPES))
choices = pytest.mark.parametrize("by", ["top", "sampled", "uniform", "unlikely"])


def stream(name: str) -> np.random.Generator:
    """Stream of a test, from its name."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def children_of(tree: np.ndarray) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in tree]
    for node in range(1, len(tree)):
        children[tree[node]].append(node)
    return children


@st.composite
def trees_with_laws(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    vocab = draw(st.integers(1, 7))
    tree = draw(parents(10, max_children=vocab))
    return tree, np.array([draw(probabilities(vocab)) for _ in tree])


@shapes
@quick
@given(seed=st.integers(0, 2**32 - 1), nodes=st.integers(1, 60))
def test_every_shape_is_a_tree(shape: str, seed: int, nodes: int) -> None:
    tree = SHAPES[shape](np.random.default_rng(seed), nodes)

    assert tree.dtype == np.int64
    assert tree.shape == (nodes,)
    assert tree[0] == -1
    assert all(0 <= tree[i] < i for i in range(1, nodes))
    np.testing.assert_array_equal(tree, SHAPES[shape](np.random.default_rng(seed), nodes))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ("chain", [-1, 0, 1, 2, 3, 4, 5, 6]),
        ("star", [-1, 0, 0, 0, 0, 0, 0, 0]),
        ("binary", [-1, 0, 0, 1, 1, 2, 2, 3]),
        ("ternary", [-1, 0, 0, 0, 1, 1, 1, 2]),
        ("comb", [-1, 0, 0, 1, 1, 3, 3, 5]),
    ],
)
def test_regular_shapes(shape: str, expected: list[int]) -> None:
    assert SHAPES[shape](stream(shape), 8).tolist() == expected


def test_random_recursive_parents_are_uniform() -> None:
    rng = stream("random recursive")
    parent_of_3 = [SHAPES["random-recursive"](rng, 4)[3] for _ in range(3000)]
    assert abs(np.bincount(parent_of_3, minlength=3) - 1000).max() < 200  # Bin(3000, 1/3): over 7 standard deviations


@quick
@given(rng=generators(), nodes=st.integers(1, 60))
def test_wide_random_has_bounded_width_and_breadth_first_order(rng: np.random.Generator, nodes: int) -> None:
    tree = SHAPES["wide-random"](rng, nodes)
    assert max(len(c) for c in children_of(tree)) <= 5
    assert sorted(tree) == list(tree)


def test_a_wide_node_and_a_leaf_that_comes_second_are_there() -> None:
    assert max(len(c) for c in children_of(SHAPES["ternary"](stream("wide"), 4))) == 3
    children = children_of(SHAPES["comb"](stream("leaf"), 7))
    assert any(len(siblings) == 2 and not children[siblings[1]] and children[siblings[0]] for siblings in children)


@choices
@quick
@given(tree_law=trees_with_laws(), seed=st.integers(0, 2**32 - 1))
def test_siblings_have_different_tokens(by: TokenChoice, tree_law: tuple[np.ndarray, np.ndarray], seed: int) -> None:
    tree, p = tree_law
    vocab = p.shape[1]
    tokens = sibling_tokens(np.random.default_rng(seed), tree, p, by=by)

    assert tokens.dtype == np.int64
    assert tokens.shape == tree.shape
    assert all(0 <= x < vocab for x in tokens)
    for siblings in children_of(tree):
        assert len({int(tokens[i]) for i in siblings}) == len(siblings)
    np.testing.assert_array_equal(tokens, sibling_tokens(np.random.default_rng(seed), tree, p, by=by))


@quick
@given(tree_law=trees_with_laws(), rng=generators())
def test_top_and_unlikely_take_the_ends_of_the_law(
    tree_law: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    tree, p = tree_law
    top = sibling_tokens(rng, tree, p, by="top")
    unlikely = sibling_tokens(rng, tree, p, by="unlikely")
    for parent, siblings in enumerate(children_of(tree)):
        ascending = sorted(p[parent])
        assert [p[parent][top[i]] for i in siblings] == ascending[::-1][: len(siblings)]
        assert [p[parent][unlikely[i]] for i in siblings] == ascending[: len(siblings)]


@pytest.mark.parametrize("by", ["sampled", "uniform"])
@quick
@given(tree_law=trees_with_laws(), rng=generators())
def test_random_choices_use_both_ends_of_the_vocabulary(
    by: TokenChoice, tree_law: tuple[np.ndarray, np.ndarray], rng: np.random.Generator
) -> None:
    tree, p = tree_law
    drafted = sibling_tokens(rng, tree, p, by=by)[1:]
    if len(drafted) >= 2:
        assert {0, p.shape[1] - 1} <= set(drafted.tolist())


@pytest.mark.parametrize("by", ["top", "unlikely"])
def test_ordered_choices_reach_both_ends_of_the_vocabulary(by: TokenChoice) -> None:
    rng = stream(f"ends/{by}")
    tree = SHAPES["chain"](rng, 12)
    used = set()
    for _ in range(40):
        logits = TARGETS["flat"].make(rng, 12, 50)
        used |= set(sibling_tokens(rng, tree, logits.astype(np.float64), by=by)[1:].tolist())
    assert {0, 49} <= used


def test_sampled_follows_the_law() -> None:
    rng = stream("sampled")
    p = np.tile([0.0, 0.7, 0.2, 0.1], (2, 1))
    # One draft only, so that no end of the vocabulary is put in by force; the law is mixed with a tenth of uniform.
    counts = np.bincount([sibling_tokens(rng, np.array([-1, 0]), p, by="sampled")[1] for _ in range(4000)], minlength=4)
    expected = 4000 * (0.9 * p[0] + 0.1 / 4)
    assert (abs(counts - expected) < 7 * np.sqrt(expected)).all(), counts


@choices
def test_more_children_than_tokens_is_an_error(by: TokenChoice) -> None:
    with pytest.raises(ValueError, match="node 0 has 3 children but there are only 2 tokens"):
        sibling_tokens(stream("error"), np.array([-1, 0, 0, 0]), np.full((4, 2), 0.5), by=by)


def test_other_bad_arguments_are_errors() -> None:
    with pytest.raises(ValueError, match="p must have one row a node, got 3 rows for 2 nodes"):
        sibling_tokens(stream("error"), np.array([-1, 0]), np.full((3, 2), 0.5), by="top")
    with pytest.raises(ValueError, match="by must be one of top, sampled, uniform, unlikely, got 'best'"):
        sibling_tokens(stream("error"), np.array([-1, 0]), np.full((2, 2), 0.5), by="best")  # type: ignore[arg-type]
