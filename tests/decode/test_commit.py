"""What follows from emitted tokens, against plain loops; greedy and sampling lead to the same things."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.decode.commit import committed, compact, cut, verified
from harness.decode.drafting import Drafted, TreeTable
from harness.decode.kvcache import PagedCache
from harness.tree import Tree

Ints = NDArray[np.int64]
NODES, VOCAB, LIMIT = 7, 3, 5


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Trees of up to NODES nodes in any numbering, siblings of one token among them."""
    size = draw(st.integers(1, NODES))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    tree = Tree(np.array(draw(st.lists(st.integers(0, VOCAB - 1), min_size=size, max_size=size))), np.array(parents))
    order = [draw(st.permutations(children)) for children in tree.children]
    new = [0, *(1 + node for node in draw(st.permutations(range(size - 1))))]
    return tree.reordered(order).renumbered(new)


def drafted(several: list[Tree]) -> Drafted:
    table = TreeTable.of(several, NODES)
    return Drafted(table.tokens, table.parents, table.next_token, table.next_sibling, table.depth, table.node_count)


@given(st.data())
def test_the_five_things_follow_from_any_path(data: st.DataObject) -> None:
    several = data.draw(st.lists(trees(), min_size=1, max_size=4))
    tokens = np.full((len(several), LIMIT + 1), -1, np.int64)
    paths, lasts = [], []
    for row, tree in enumerate(several):
        path = tree.path(data.draw(st.integers(0, len(tree) - 1)))[:LIMIT]
        last = data.draw(st.integers(0, VOCAB - 1))
        tokens[row, : len(path)] = [*(int(tree.tokens[node]) for node in path[1:]), last]
        paths.append(path)
        lasts.append(last)
    step = verified(drafted(several), tokens)
    assert not step.astray.any()
    out = committed(drafted(several), step)
    for row, (tree, path) in enumerate(zip(several, paths, strict=True)):
        kept = [node for node in step.kept_per_req[row].tolist() if node >= 0]
        assert (len(kept), kept[0]) == (len(path), 0)
        assert all(tree.parents[b] == a for a, b in pairwise(kept))
        assert tree.tokens[kept].tolist() == tree.tokens[path].tolist()
        assert [node for node in step.accepted_per_req[row].tolist() if node >= 0] == kept[1:]
        assert step.num_accepted_drafts_per_req_cpu[row] == len(path) - 1
        assert step.commit_lens_cpu[row] == len(path)
        assert step.new_verified_list[row] == lasts[row]
        assert out[row, : len(path)].tolist() == tokens[row, : len(path)].tolist()


def test_a_step_that_leaves_the_tree_ends_with_the_token_that_did() -> None:
    tree = Tree(np.array([0, 1, 2]), np.array([-1, 0, 1]))
    step = verified(drafted([tree]), np.array([[1, 0, 2, -1]]))
    assert step.astray.tolist() == [True]
    assert step.kept_per_req[0].tolist() == [0, 1, -1, -1]
    assert (step.new_verified_list[0], step.commit_lens_cpu[0]) == (0, 2)


def test_a_path_into_padding_leaves_the_tree() -> None:
    step = verified(drafted([Tree(np.array([1]), np.array([-1]))]), np.array([[0, 2]]))
    assert step.astray.tolist() == [True]
    assert step.commit_lens_cpu.tolist() == [1]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(-1, 3), st.integers(1, 8))
def test_sequences_end_at_the_ending_token_or_where_there_is_no_room(tokens: list[int], eos: int, room: int) -> None:
    taken, ends = 0, False
    for token in tokens:
        taken += 1
        if token == eos or taken == room:
            ends = True
            break
    padded = np.array([[*tokens, eos, eos]])  # what is behind does not count
    found = cut(padded, np.array([len(tokens)]), np.array([eos]), np.array([room]))
    assert (found.lengths.tolist(), found.ends.tolist()) == ([taken], [ends])


@given(trees(), st.data())
def test_kept_nodes_come_to_the_front_in_the_order_of_their_path(tree: Tree, data: st.DataObject) -> None:
    base = data.draw(st.integers(0, 5))
    path = tree.path(data.draw(st.integers(0, len(tree) - 1)))
    cache = PagedCache(1, base + NODES)
    row, offsets = np.array([0]), np.arange(base + NODES)[None]
    cache.reserve(row, np.array([base + len(tree)]))
    real = offsets < base + len(tree)
    cache.write(row, offsets, real, offsets, offsets, row)
    kept = np.full((1, NODES), -1, np.int64)
    kept[0, : len(path)] = path
    compact(cache, row, np.array([base]), kept, np.array([len(path)]))
    found = cache.tokens(row, np.arange(base + len(path))[None])[0].tolist()
    assert found == [*range(base), *(base + node for node in path)]
