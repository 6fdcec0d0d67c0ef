"""Encodings of a tree lead back to it; what is no tree is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.tree import Tree

from .build import renumberings, tree_of, trees

quick = settings(max_examples=40, deadline=None)


def assert_same(one: Tree, other: Tree) -> None:
    assert one.tokens.tolist() == other.tokens.tolist()
    assert one.parents.tolist() == other.parents.tolist()
    assert one.children == other.children


@quick
@given(trees())
def test_depth_path_and_order(tree: Tree) -> None:
    for node in range(len(tree)):
        path = [node]
        while tree.parents[path[0]] != -1:
            path.insert(0, int(tree.parents[path[0]]))
        assert tree.path(node) == path
        assert tree.depth[node] == len(path) - 1
        assert tree.child_tokens(node) == [tree.tokens[child] for child in tree.children[node]]

    place = {node: i for i, node in enumerate(tree.order)}
    assert sorted(place) == list(range(len(tree)))
    for node, listed in enumerate(tree.children):
        assert all(place[node] < place[child] for child in listed)
        assert sorted(listed, key=place.__getitem__) == list(listed)


@quick
@given(trees(), st.integers(0, 4))
def test_links_lead_back(tree: Tree, padding: int) -> None:
    size = len(tree) + padding
    first, sibling = tree.links(size)

    assert first.dtype == sibling.dtype == np.int64
    assert first.shape == sibling.shape == (size,)
    for node in range(size):
        listed = tree.children[node] if node < len(tree) else ()
        assert first[node] == (listed[0] if listed else -1)
    for node in range(size):
        after = [b for listed in tree.children for a, b in itertools.pairwise(listed) if a == node]
        assert sibling[node] == (after[0] if after else -1)

    assert_same(Tree.from_links([*tree.tokens, *[0] * padding], first, sibling), tree)


def test_links_are_as_wide_as_the_tree_by_default() -> None:
    first, sibling = Tree([7, 1, 2, 3], [-1, 0, 0, 1]).links()
    assert first.tolist() == [1, 3, -1, -1]
    assert sibling.tolist() == [-1, 2, -1, -1]


@quick
@given(trees())
def test_child_maps_lead_back(tree: Tree) -> None:
    maps = tree.child_maps()
    assert [list(m.items()) for m in maps] == [
        [(tree.tokens[child], child) for child in listed] for listed in tree.children
    ]
    assert_same(Tree.from_child_maps(int(tree.tokens[0]), maps), tree)


@quick
@given(st.data(), trees())
def test_renumbering(data: st.DataObject, tree: Tree) -> None:
    new = data.draw(renumberings(len(tree)))
    other = tree.renumbered(new)

    for node in range(len(tree)):
        assert other.tokens[new[node]] == tree.tokens[node]
        assert other.path(new[node]) == [new[step] for step in tree.path(node)]
        assert other.children[new[node]] == tuple(new[child] for child in tree.children[node])

    back = [new.index(node) for node in range(len(tree))]
    assert_same(other.renumbered(back), tree)


@quick
@given(st.data(), trees())
def test_sibling_order(data: st.DataObject, tree: Tree) -> None:
    children = [data.draw(st.permutations(listed)) for listed in tree.children]
    other = tree.reordered(children)
    assert other.children == tuple(map(tuple, children))
    assert other.tokens.tolist() == tree.tokens.tolist()
    assert other.parents.tolist() == tree.parents.tolist()
    assert_same(other.reordered(tree.children), tree)


@quick
@given(trees())
def test_siblings_are_in_the_order_of_their_numbers_by_default(tree: Tree) -> None:
    assert_same(Tree(tree.tokens, tree.parents), tree.reordered([sorted(listed) for listed in tree.children]))


def test_distinct_siblings() -> None:
    assert Tree([1, 1, 2, 2], [-1, 0, 0, 1]).has_distinct_siblings
    twins = Tree([1, 2, 3, 2], [-1, 0, 0, 0])
    assert not twins.has_distinct_siblings
    with pytest.raises(ValueError, match="distinct"):
        twins.child_maps()


def test_a_root_alone() -> None:
    tree = Tree([3], [-1])
    assert len(tree) == 1
    assert tree.children == ((),)
    assert tree.order == (0,)
    assert tree.links(3)[0].tolist() == [-1, -1, -1]


@pytest.mark.parametrize(
    ("tokens", "parents", "children", "says"),
    [
        ([1, 2], [-1], (), "equal length"),
        ([], [], (), "equal length"),
        ([[1, 2]], [[-1, 0]], (), "one row"),
        ([1, 2], [0, 0], (), "root"),
        ([1, 2], [1, -1], (), "root"),
        ([1, 2, 3], [-1, 0, -1], (), "node 2 is -1"),
        ([1, 2, 3], [-1, 3, 0], (), "node 1 is 3"),
        ([1, 2, 3], [-1, 0, -2], (), "node 2 is -2"),
        ([1, 2, 3], [-1, 2, 1], (), r"\[1, 2\].*cycle"),
        ([1, 2, 3], [-1, 0, 2], (), r"\[2\].*cycle"),
        ([1, 2, 3], [-1, 0, 0], ((1, 2), ()), "2 entries for 3 nodes"),
        ([1, 2, 3], [-1, 0, 0], ((1,), (2,), ()), "children of node 0"),
        ([1, 2, 3], [-1, 0, 0], ((1,), (), ()), "children of node 0"),
        ([1, 2, 3], [-1, 0, 0], ((1, 1, 2), (), ()), "children of node 0"),
        ([1, 2, 3], [-1, 0, 0], ((1, 2), (2,), ()), "children of node 1"),
    ],
)
def test_no_tree(tokens: list[int], parents: list[int], children: tuple[tuple[int, ...], ...], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tree(tokens, parents, children)


@pytest.mark.parametrize("new", [[1, 0, 2], [0, 1], [0, 1, 1], [0, 1, 3], [0, 1, 2, 3]])
def test_no_renumbering(new: list[int]) -> None:
    with pytest.raises(ValueError, match="permutation"):
        Tree([1, 2, 3], [-1, 0, 0]).renumbered(new)


def test_no_room_for_links() -> None:
    with pytest.raises(ValueError, match="3 nodes does not fit into 2"):
        Tree([1, 2, 3], [-1, 0, 0]).links(2)


@pytest.mark.parametrize(
    ("first", "sibling", "says"),
    [
        ([1, -1, -1], [-1, 1, -1], "node 1 twice"),  # its own sibling
        ([1, 2, 1], [-1, -1, -1], "node 1 twice"),  # a cycle
        ([1, 2, -1], [-1, 2, -1], "node 2 twice"),  # a child and a sibling
        ([0, -1, -1], [-1, -1, -1], "node 0 twice"),  # the root below itself
        ([1, 0, -1], [-1, -1, -1], "node 0 twice"),  # the root below another
        ([3, -1, -1], [-1, -1, -1], "node 3 .* out of the 3"),
        ([1, -1, -1], [-1, 3, -1], "node 3 .* out of the 3"),
        ([-2, -1, -1], [-1, -1, -1], "node -2 .* out of the 3"),
        ([2, -1, -1], [-1, -1, -1], "padding must come after"),
        ([1, 2, -1], [-1, -1], "equal length"),
        ([1, -1], [-1, -1, -1], "equal length"),
        ([], [], "equal length"),
    ],
)
def test_no_links(first: list[int], sibling: list[int], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tree.from_links([5] * max(len(first), len(sibling)), first, sibling)


def test_links_need_a_token_for_each_node() -> None:
    with pytest.raises(ValueError, match="equal length"):
        Tree.from_links([5], [1, -1], [-1, -1])


@pytest.mark.parametrize(
    ("maps", "says"),
    [
        ([{1: 2}, {}], "child 2 of node 0"),
        ([{1: 0}, {}], "child 0 of node 0"),
        ([{1: -1}, {}], "child -1 of node 0"),
        ([{1: 1, 2: 1}, {}], "children of node 0"),
        ([{1: 1}, {2: 1}], "children of node 0|cycle"),
        ([{1: 1}, {}, {}], "node 2 is -1"),
        ([{}, {1: 2}, {1: 1}], "cycle"),
        ([], "equal length"),
    ],
)
def test_no_child_maps(maps: list[dict[int, int]], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Tree.from_child_maps(0, maps)


def test_a_tree_by_hand() -> None:
    tree = tree_of([-1, 0, 0, 1, 0], [9, 1, 2, 3, 4], [0, 2, 0, 0, 1])
    assert tree.children == ((2, 4, 1), (3,), (), (), ())
    assert tree.order == (0, 2, 4, 1, 3)
    first, sibling = tree.links()
    assert first.tolist() == [2, 3, -1, -1, -1]
    assert sibling.tolist() == [-1, -1, 4, -1, 1]
