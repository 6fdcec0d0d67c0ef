"""DDTree's lists lead to links and back, whatever the numbering of nodes and the order of siblings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributions.strategies import ordered_trees
from harness.builders import Links, WeightedTree, argmax_chain, links_of, lists_of, sampled_chain
from harness.tree import Tree

quick = settings(max_examples=60, deadline=None)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Draw trees with siblings in any order, and nodes in any numbering."""
    parents, tokens, places = draw(ordered_trees(max_nodes=9, vocab=5))
    listed = [np.flatnonzero(parents == node) for node in range(len(parents))]
    tree = Tree(tokens, parents, tuple(tuple(nodes[np.argsort(places[nodes])].tolist()) for nodes in listed))
    return tree.renumbered([0, *draw(st.permutations(range(1, len(tree))))])


@st.composite
def forests(draw: st.DrawFn) -> list[Tree]:
    return [draw(trees()) for _ in range(draw(st.integers(1, 4)))]


@quick
@given(forests(), st.integers(0, 3))
def test_lists_lead_back(forest: list[Tree], padding: int) -> None:
    roots = [int(tree.tokens[0]) for tree in forest]
    parents, maps = [tree.parents.tolist() for tree in forest], [tree.child_maps() for tree in forest]
    size = max(map(len, forest)) + padding
    links = links_of(roots, parents, maps, nodes=size)

    assert links.candidates.shape == links.retrieve_next_token.shape == (len(forest), size)
    assert links.retrieve_index.tolist() == [[b * size + i for i in range(size)] for b in range(len(forest))]
    assert links.node_count.tolist() == [len(tree) for tree in forest]
    back, maps_back = lists_of(links)
    assert back == parents
    assert [[list(m.items()) for m in of] for of in maps_back] == [[list(m.items()) for m in of] for of in maps]
    for tree, other in zip(forest, links.trees(), strict=True):
        assert tree.tokens.tolist() == other.tokens.tolist()
        assert tree.children == other.children


@quick
@given(st.data(), forests())
def test_siblings_are_linked_by_descending_weight(data: st.DataObject, forest: list[Tree]) -> None:
    """Whatever the order of the maps; equal weights by token."""
    weights = []
    for tree in forest:
        log_weights = np.zeros(len(tree))
        for node in tree.order[1:]:
            log_weights[node] = log_weights[tree.parents[node]] - data.draw(st.integers(0, 2))
        weights.append(log_weights)
    lists = [tree.parents for tree in forest], [tree.child_maps() for tree in forest]
    links = links_of([int(tree.tokens[0]) for tree in forest], *lists, weights)
    for tree, log_weights, other in zip(forest, weights, links.trees(), strict=True):
        assert tree.tokens.tolist() == other.tokens.tolist()
        assert tree.parents.tolist() == other.parents.tolist()
        for listed in other.children:
            keys = [(-log_weights[child], tree.tokens[child]) for child in listed]
            assert keys == sorted(keys)


def test_what_does_not_fit_together() -> None:
    with pytest.raises(ValueError, match=r"request 0: the child maps say parents \[-1, 0, 0\], got \[-1, 0, 1\]"):
        links_of([5], [[-1, 0, 1]], [[{1: 1, 2: 2}, {}, {}]])
    with pytest.raises(ValueError, match=r"for each request, got \(1, 1, 1, 2\) of them"):
        links_of([5], [[-1]], [[{}]], [[0.0], [0.0]])
    with pytest.raises(ValueError, match="tree of 3 nodes does not fit into 2"):
        links_of([5], [[-1, 0, 0]], [[{1: 1, 2: 2}, {}, {}]], nodes=2)
    with pytest.raises(ValueError, match=r"log_weights must have shape \(2,\), got \(1,\)"):
        links_of([5], [[-1, 0]], [[{1: 1}, {}]], [[0.0]])
    with pytest.raises(ValueError, match=r"node 2 cannot be likelier than its parent, got -0\.5"):
        WeightedTree(Tree([1, 2, 3], [-1, 0, 1]), np.array([0.0, -1.0, -0.5]))
    with pytest.raises(ValueError, match="node 1 cannot be likelier than its parent, got nan"):
        WeightedTree(Tree([1, 2], [-1, 0]), np.array([0.0, np.nan]))


def test_no_requests() -> None:
    links = Links.of([])
    assert links.candidates.shape == (0, 1)
    assert links.trees() == []


LAWS = np.array([[0.1, 0.6, 0.3], [0.4, 0.2, 0.4], [0.0, 0.0, 1.0]])


def test_argmax_chain() -> None:
    built = argmax_chain(LAWS, 7)
    assert built.tree.tokens.tolist() == [7, 1, 0, 2]  # the lower of two equals
    assert built.tree.parents.tolist() == [-1, 0, 1, 2]
    np.testing.assert_allclose(np.exp(built.log_weights), [1.0, 0.6, 0.24, 0.24])


def test_sampled_chain_follows_its_coins() -> None:
    edges = {(0.0, 0.0, 0.0): [0, 0, 2], (0.1, 0.4, 0.5): [1, 1, 2], (0.69, 0.59, 0.99): [1, 1, 2]}
    edges[(0.7, 0.6, 0.0)] = [2, 2, 2]
    for coins, drafts in edges.items():
        built = sampled_chain(LAWS, 7, np.array(coins) + 1e-9)
        assert built.tree.tokens.tolist() == [7, *drafts]
        expected = np.cumprod([1.0, *LAWS[np.arange(3), drafts]])
        np.testing.assert_allclose(np.exp(built.log_weights), expected)


def test_sampled_chains_follow_their_laws() -> None:
    """Each of 9 frequencies within 5 standard errors, as for a right chain all but one seed in 200,000 have it."""
    rng = np.random.default_rng(5)
    drawn = np.array([sampled_chain(LAWS, 0, rng.random(3)).tree.tokens[1:] for _ in range(4000)])
    for position, law in enumerate(LAWS):
        shares = np.bincount(drawn[:, position], minlength=3) / len(drawn)
        assert (np.abs(shares - law) <= 5 * np.sqrt(law * (1 - law) / len(drawn))).all()


def test_bad_chains() -> None:
    with pytest.raises(ValueError, match=r"laws must be probabilities \[D, V\]"):
        argmax_chain([0.5, 0.5], 0)
    with pytest.raises(ValueError, match=r"coins must have shape \(3,\), got \(2,\)"):
        sampled_chain(LAWS, 0, np.zeros(2))
