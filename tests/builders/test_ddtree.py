"""DDTree takes the likeliest nodes there are: brute force over all trees says the same."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributions import strategies
from harness.builders import ddtree
from harness.builders.weighted import WeightedTree

quick = settings(max_examples=60, deadline=None)
Path = tuple[int, ...]


def all_paths(vocab: int, depth: int) -> list[Path]:
    """Return every node below the root, as the tokens that lead to it."""
    return [path for d in range(1, depth + 1) for path in itertools.product(range(vocab), repeat=d)]


def mass(laws: np.ndarray, path: Path) -> float:
    """Multiply up the draft's probability of a path."""
    product = 1.0
    for law, token in zip(laws, path, strict=False):
        product *= law[token]
    return product


def best_tree(laws: np.ndarray, drafts: int) -> float:
    """Return the largest total mass of a tree of so many drafts, by trying every set of nodes that is a tree."""
    paths = all_paths(laws.shape[1], len(laws))
    best = 0.0
    for size in range(drafts + 1):
        for chosen in itertools.combinations(paths, size):
            if all(len(path) == 1 or path[:-1] in chosen for path in chosen):
                best = max(best, sum(mass(laws, path) for path in chosen))
    return best


def paths_of(built: WeightedTree) -> list[Path]:
    """Return the tokens that lead to each node below the root."""
    tree = built.tree
    return [tuple(int(tree.tokens[node]) for node in tree.path(n)[1:]) for n in range(1, len(tree))]


@st.composite
def block_laws(draw: st.DrawFn, most_vocab: int = 4, most_depth: int = 4) -> np.ndarray:
    """Draw laws [D, V], with ties and zeros."""
    vocab = draw(st.integers(1, most_vocab))
    return np.stack([draw(strategies.probabilities(vocab)) for _ in range(draw(st.integers(1, most_depth)))])


@pytest.mark.parametrize(("vocab", "depth", "drafts"), [(2, 3, 5), (3, 2, 4), (4, 2, 3), (1, 4, 3), (5, 1, 3)])
def test_no_tree_has_more_mass(vocab: int, depth: int, drafts: int) -> None:
    @settings(max_examples=12, deadline=None)
    @given(st.lists(strategies.probabilities(vocab), min_size=depth, max_size=depth).map(np.stack))
    def check(laws: np.ndarray) -> None:
        built = ddtree(laws, 0, drafts + 1)
        assert np.exp(built.log_weights[1:]).sum() == pytest.approx(best_tree(laws, drafts), abs=1e-12)

    check()


@quick
@given(block_laws(), st.integers(1, 30))
def test_nodes_are_the_likeliest_in_order(laws: np.ndarray, nodes: int) -> None:
    """Against sorting all nodes there are; and as many as asked for, or all of positive mass."""
    built = ddtree(laws, 7, nodes)
    possible = sorted((m for path in all_paths(laws.shape[1], len(laws)) if (m := mass(laws, path)) > 0), reverse=True)
    assert len(built.tree) - 1 == min(nodes - 1, len(possible))
    np.testing.assert_allclose(np.exp(built.log_weights[1:]), possible[: nodes - 1], atol=1e-12)
    assert (np.diff(built.log_weights) <= 0).all()
    paths = paths_of(built)
    assert len(set(paths)) == len(paths)
    np.testing.assert_allclose(np.exp(built.log_weights[1:]), [mass(laws, path) for path in paths], atol=1e-12)
    assert built.tree.tokens[0] == 7
    assert all(built.tree.parents[node] < node for node in range(1, len(built.tree)))


@quick
@given(block_laws(), st.integers(1, 20), st.integers(1, 3))
def test_width_keeps_to_the_likeliest_of_a_depth(laws: np.ndarray, nodes: int, width: int) -> None:
    built = ddtree(laws, 0, nodes, width=width)
    narrow = np.zeros_like(laws)
    for law, kept in zip(laws, narrow, strict=True):
        best = sorted(range(len(law)), key=lambda token: (-law[token], token))[:width]
        kept[best] = law[best]
    whole = ddtree(narrow, 0, nodes)
    assert paths_of(built) == paths_of(whole)


@quick
@given(block_laws(), st.integers(1, 20))
def test_siblings_are_by_descending_weight(laws: np.ndarray, nodes: int) -> None:
    built = ddtree(laws, 0, nodes)
    for tree in (built.tree, built.by_weight().tree):
        for listed in tree.children:
            assert (np.diff(built.log_weights[list(listed)]) <= 0).all()


def test_equal_nodes_come_shallow_first_then_by_rank_then_by_token() -> None:
    """Every node has probability 1/2, 1/4 or 1/8, and there are many of each."""
    half, even = [0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]
    built = ddtree([half, half, even], 9, 16)
    assert (
        paths_of(built)
        == [
            (1,),
            (2,),
            # 1/4: rank 0 below each parent, then rank 1
            (1, 1),
            (2, 1),
            (1, 2),
            (2, 2),
            # 1/16: by rank, then by token, then by parent
            *((a, b, c) for c in range(4) for a, b in ((1, 1), (2, 1), (1, 2), (2, 2))),
        ][:15]
    )


def test_deeper_nodes_wait_for_equally_likely_shallow_ones() -> None:
    built = ddtree([[0.5, 0.5], [1.0, 0.0]], 0, 4)
    assert paths_of(built) == [(0,), (1,), (0, 0)]


def test_the_root_alone() -> None:
    assert len(ddtree([[0.5, 0.5]], 3, 1).tree) == 1
    assert len(ddtree(np.zeros((0, 4)), 3, 8).tree) == 1


@pytest.mark.parametrize(
    ("laws", "nodes", "width", "says"),
    [
        ([0.5, 0.5], 3, None, r"probabilities \[D, V\], got shape \(2,\)"),
        ([[0.5, 1.5]], 3, None, "probabilities"),
        ([[0.5, float("nan")]], 3, None, "probabilities"),
        ([[0.5, 0.5]], 0, None, "at least 1, got 0 and None"),
        ([[0.5, 0.5]], 2, 0, "at least 1, got 2 and 0"),
    ],
)
def test_bad_arguments(laws: list[float], nodes: int, width: int | None, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        ddtree(laws, 0, nodes, width=width)
