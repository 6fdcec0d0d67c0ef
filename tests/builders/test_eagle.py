"""EAGLE's tree against plain objects, and its lists through the vendor's kernel, which must build the same tree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.builders import EagleDraft, eagle
from harness.errors import Unavailable
from harness.simt.build_tree import BuildTree, MaskMode, build_tree, mask_bytes
from harness.tree import Tree

quick = settings(max_examples=60, deadline=None)
Path = tuple[int, ...]
SIZES = [(1, 1, 1), (1, 1, 2), (1, 5, 6), (4, 1, 5), (2, 3, 8), (3, 3, 12), (4, 4, 16), (2, 4, 14), (6, 5, 60)]
"""topk, depth and nodes; the last but one takes all there is."""


def law_by_path(seed: int, vocab: int, *, coarse: bool = False) -> Callable[[Path], np.ndarray]:
    """Return a draft model with a law of its own after each path; a coarse one has many ties."""

    def law(path: Path) -> np.ndarray:
        rng = np.random.default_rng([seed, *path])
        weights = rng.integers(1, 4, vocab).astype(float) if coarse else rng.standard_exponential(vocab)
        return weights / weights.sum()

    return law


def plain_tree(law: Callable[[Path], np.ndarray], topk: int, depth: int, nodes: int) -> dict[Path, float]:
    """Return the paths that are kept, and their probabilities, in the order in which they were drafted."""
    drafted: dict[Path, float] = {}
    frontier: dict[Path, float] = {(): 1.0}
    for _ in range(depth):
        step: dict[Path, float] = {}
        for path, score in frontier.items():
            q = law(path)
            for token in sorted(range(len(q)), key=lambda t: (-q[t], t))[:topk]:
                step[(*path, token)] = score * q[token]
        drafted |= step
        frontier = dict(sorted(step.items(), key=lambda item: -item[1])[:topk])  # stable: the first among equals
    kept = set(sorted(drafted, key=lambda path: -drafted[path])[: nodes - 1])
    return {path: score for path, score in drafted.items() if path in kept}


def paths_of(tree: Tree) -> list[Path]:
    return [tuple(int(tree.tokens[step]) for step in tree.path(node)[1:]) for node in range(1, len(tree))]


@quick
@given(st.integers(0, 1 << 20), st.integers(1, 4), st.integers(1, 4), st.booleans(), st.data())
def test_keeps_the_best_of_what_is_drafted(seed: int, topk: int, depth: int, coarse: bool, data: st.DataObject) -> None:
    nodes = data.draw(st.integers(1, 1 + topk + (depth - 1) * topk * topk))
    law = law_by_path(seed, 5, coarse=coarse)
    built = eagle(law, topk, depth, nodes).tree(9)
    expected = plain_tree(law, topk, depth, nodes)
    assert paths_of(built.tree) == list(expected)
    np.testing.assert_allclose(np.exp(built.log_weights[1:]), list(expected.values()))
    assert built.tree.tokens[0] == 9


def test_lists_by_hand() -> None:
    """Two candidates a node, three steps: 0, 1 | 2, 3, 4, 5 | 6, 7, 8, 9; 3 and 4 are equally likely."""
    draft = eagle(lambda path: np.array([0.5, 0.3, 0.2]), 2, 3, 7)
    assert draft.parent_list.tolist() == [-1, 0, 1, 2, 3]
    assert draft.selected_index.tolist() == [0, 1, 2, 3, 4, 6]
    assert draft.tokens.tolist() == [0, 1, 0, 1, 0, 0]
    np.testing.assert_allclose(draft.scores, [0.5, 0.3, 0.25, 0.15, 0.15, 0.125])
    assert draft.tree(9).tree.parents.tolist() == [-1, 0, 0, 1, 1, 2, 3]


def test_a_chain_is_the_drafter_s_argmax() -> None:
    law = law_by_path(3, 7)
    tree, path = eagle(law, 1, 4, 5).tree(0).tree, ()
    for node in range(1, 5):
        path = (*path, int(law(path).argmax()))
        assert paths_of(tree)[node - 1] == path


@pytest.fixture(scope="module")
def kernel() -> BuildTree:
    try:
        return build_tree()
    except Unavailable as error:
        pytest.skip(f"the vendor's kernel cannot be built here: {error}")


def built_by(
    kernel: BuildTree, drafts: list[EagleDraft], roots: list[int], nodes: int
) -> tuple[list[Tree], np.ndarray]:
    """Return the trees that the vendor's kernel links, and the depth of each node."""
    first = drafts[0]
    shape = (len(drafts), nodes)
    lens = np.arange(len(drafts), dtype=np.int64)
    mask, positions = np.zeros(mask_bytes(MaskMode.QUERIES, nodes, lens), np.uint8), np.zeros(len(drafts) * nodes, int)
    index, child, sibling = np.zeros(shape, np.int64), np.full(shape, -1, np.int64), np.full(shape, -1, np.int64)
    lists = np.stack([draft.parent_list for draft in drafts]), np.stack([draft.selected_index for draft in drafts])
    kernel(*lists, lens, mask, positions, index, child, sibling, first.topk, first.depth, MaskMode.QUERIES)
    tokens = [[root, *draft.tokens] for root, draft in zip(roots, drafts, strict=True)]
    trees = [Tree.from_links(*row) for row in zip(tokens, child, sibling, strict=True)]
    return trees, positions.reshape(shape) - lens[:, None]


@pytest.mark.parametrize("coarse", [False, True], ids=["", "ties"])
@pytest.mark.parametrize(("topk", "depth", "nodes"), SIZES)
def test_the_vendor_s_kernel_builds_the_same_tree(
    kernel: BuildTree, topk: int, depth: int, nodes: int, coarse: bool
) -> None:
    drafts = [eagle(law_by_path(seed, 8, coarse=coarse), topk, depth, nodes) for seed in range(20)]
    trees, depths = built_by(kernel, drafts, list(range(20)), nodes)
    for root, (draft, tree, depth_of) in enumerate(zip(drafts, trees, depths, strict=True)):
        own = draft.tree(root).tree
        assert own.tokens.tolist() == tree.tokens.tolist()
        assert own.parents.tolist() == tree.parents.tolist()
        assert own.children == tree.children
        assert own.depth.tolist() == depth_of.tolist()


def test_a_child_without_its_parent() -> None:
    """What a top-k that breaks ties otherwise could select; the launcher refuses it as well."""
    draft = EagleDraft(2, 2, np.array([-1, 0, 1]), np.array([1, 2]), np.array([5, 6]), np.array([0.5, 0.5]))
    with pytest.raises(ValueError, match="candidate 2 is selected, but its parent 0 is not"):
        draft.tree(0)


@pytest.mark.parametrize(
    ("topk", "depth", "nodes", "says"),
    [
        (0, 2, 2, r"need topk, depth >= 1"),
        (2, 0, 2, r"need topk, depth >= 1"),
        (2, 2, 8, r"nodes in 1..7, got 2, 2, 8"),
        (2, 2, 0, r"nodes in 1..7, got 2, 2, 0"),
        (6, 1, 2, "topk must be at most V=5, got 6"),
    ],
)
def test_bad_sizes(topk: int, depth: int, nodes: int, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        eagle(law_by_path(0, 5), topk, depth, nodes)
