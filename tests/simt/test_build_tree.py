"""SGLang's kernels that build EAGLE's trees, against trees of plain objects."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from harness.simt import Sources
from harness.simt.build_tree import BuildTree, MaskMode, build_tree, mask_bytes


@dataclass
class Candidate:
    """A candidate of the draft: its number, the candidate before it (None: the root), and a score."""

    number: int
    parent: Candidate | None
    score: float
    path: list[int] = field(default_factory=list)


@dataclass
class Request:
    """Candidates of one request, those in its tree in order of their numbers, and the lists that encode them."""

    selected: list[Candidate]
    parent_list: list[int]


def draft(rng: np.random.Generator, topk: int, depth: int, nodes: int) -> Request:
    """Expand the best ``topk`` of each step, ``depth`` times, and keep the best ``nodes`` - 1 of all candidates."""
    everyone, parent_list = [Candidate(n, None, rng.random()) for n in range(topk)], [-1]
    frontier = list(everyone)
    for _ in range(depth - 1):
        frontier.sort(key=lambda candidate: -candidate.score)
        frontier = frontier[:topk]
        parent_list += [candidate.number for candidate in frontier]
        base = len(everyone)
        step = [
            Candidate(base + topk * place + rank, parent, parent.score * rng.random())
            for place, parent in enumerate(frontier)
            for rank in range(topk)
        ]
        everyone += step
        frontier = step
    best = sorted(everyone, key=lambda candidate: -candidate.score)[: nodes - 1]
    return Request(sorted(best, key=lambda candidate: candidate.number), parent_list)


@dataclass
class Built:
    """What the kernel writes; see :class:`harness.simt.build_tree.BuildTree`."""

    mask: np.ndarray
    positions: np.ndarray
    index: np.ndarray
    child: np.ndarray
    sibling: np.ndarray


def build(
    kernel: BuildTree, requests: list[Request], lens: list[int], topk: int, depth: int, mode: MaskMode, fill: int
) -> Built:
    """Call the kernel on fresh buffers, the mask's bytes being ``fill``."""
    batch, nodes = len(requests), 1 + len(requests[0].selected)
    shape, seq_lens = (batch, nodes), np.array(lens, np.int64)
    out = Built(
        np.full(mask_bytes(mode, nodes, seq_lens), fill, np.uint8),
        np.full(batch * nodes, -7, np.int64),
        *(np.full(shape, value, np.int64) for value in (-7, -1, -1)),
    )
    lists = np.array([request.parent_list for request in requests], np.int64)
    selected = [[candidate.number for candidate in request.selected] for request in requests]
    arrays = (lists, np.array(selected, np.int64).reshape(batch, nodes - 1), seq_lens, out.mask)
    kernel(*arrays, out.positions, out.index, out.child, out.sibling, topk, depth, mode)
    return out


def ancestors(request: Request) -> list[list[int]]:
    """Return for each node its ancestors, itself and the root included, as node numbers."""
    place = {candidate.number: node for node, candidate in enumerate(request.selected, 1)}
    lists = [[0]]
    for node, candidate in enumerate(request.selected, 1):
        above = 0 if candidate.parent is None else place[candidate.parent.number]
        lists.append([*lists[above], node])
    return lists


@pytest.fixture(scope="module")
def kernel(sources: Sources) -> BuildTree:
    return build_tree(sources=sources)


SIZES = [(1, 1, 1), (1, 1, 2), (1, 4, 5), (3, 1, 3), (2, 3, 6), (4, 3, 12), (4, 5, 20), (8, 6, 32)]


@pytest.mark.parametrize(("topk", "depth", "nodes"), SIZES)
def test_links_and_positions(kernel: BuildTree, rng: np.random.Generator, topk: int, depth: int, nodes: int) -> None:
    requests, lens = [draft(rng, topk, depth, nodes) for _ in range(20)], rng.integers(0, 50, 20).tolist()
    out = build(kernel, requests, lens, topk, depth, MaskMode.QUERIES, 0)
    np.testing.assert_array_equal(out.index, np.arange(20 * nodes).reshape(20, nodes))
    for row, request in enumerate(requests):
        above = ancestors(request)
        for node in range(nodes):
            children = [n for n in range(1, nodes) if above[n][-2] == node]
            assert out.child[row, node] == (children[0] if children else -1)
            for child, after in zip(children, [*children, -1][1:], strict=True):
                assert out.sibling[row, child] == after
            assert out.positions[row * nodes + node] == lens[row] + len(above[node]) - 1
        assert out.sibling[row, 0] == -1


@pytest.mark.parametrize("mode", list(MaskMode))
@pytest.mark.parametrize(("topk", "depth", "nodes"), SIZES)
def test_masks(kernel: BuildTree, rng: np.random.Generator, topk: int, depth: int, nodes: int, mode: MaskMode) -> None:
    requests, lens = [draft(rng, topk, depth, nodes) for _ in range(5)], rng.integers(0, 9, 5).tolist()
    fill = 0 if mode == MaskMode.PACKED else 7  # the vendor clears a packed mask, and fills others with True
    out = build(kernel, requests, lens, topk, depth, mode, fill)
    at = 0
    for request, length in zip(requests, lens, strict=True):
        for seen in ancestors(request):
            if mode == MaskMode.PACKED:
                size = mask_bytes(mode, nodes, np.zeros(1, np.int64)) // nodes
                assert int.from_bytes(out.mask[at : at + size].tobytes(), "little") == sum(1 << node for node in seen)
            else:
                before = length if mode == MaskMode.FULL else 0
                size = before + nodes
                want = [fill] * before + [int(node in seen) for node in range(nodes)]
                assert out.mask[at : at + size].tolist() == want
            at += size
    assert at == len(out.mask)


def test_wrong_arrays_are_named(kernel: BuildTree, rng: np.random.Generator) -> None:
    def attempt(parents: list[int], selected: list[int], mode: MaskMode = MaskMode.QUERIES) -> None:
        candidates = [Candidate(number, None, 0.0) for number in selected]
        build(kernel, [Request(candidates, parents)], [3], 2, 3, mode, 0)

    attempt([-1, 0, 1, 2, 4], [0, 1, 2, 6])
    with pytest.raises(ValueError, match=r"parent_list must have shape \(1, 5\), got \(1, 4\)"):
        attempt([-1, 0, 1, 2], [0, 1])
    with pytest.raises(ValueError, match=r"selected_index must lie in \[0, 10\), got 0 to 10"):
        attempt([-1, 0, 1, 2, 4], [0, 10])
    with pytest.raises(ValueError, match="selected_index must be strictly ascending"):
        attempt([-1, 0, 1, 2, 4], [1, 1])
    with pytest.raises(ValueError, match="parent_list must name candidates of the steps before"):
        attempt([-1, 0, 1, 6, 4], [0, 6])
    with pytest.raises(ValueError, match="candidate 6 of request 0 is selected, but its parent is not"):
        attempt([-1, 0, 1, 2, 4], [0, 1, 6])
    with pytest.raises(ValueError, match="32 bits for a node at most, got N=33"):
        attempt([-1, 0, 1, 2, 4], list(range(32)), MaskMode.PACKED)
