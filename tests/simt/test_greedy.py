"""SGLang's greedy tree verification as its wheel ships it, against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from harness.simt import Sources
from harness.simt.greedy import TreeGreedy, tree_greedy

from .oracle import Batch, random_batch

UNWRITTEN = -7


@pytest.fixture(scope="module")
def kernel(sources: Sources) -> TreeGreedy:
    return tree_greedy(sources=sources)


def buffers(batch: Batch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return predicts, accept_index and accept_token_num as before a call."""
    count, nodes = batch.candidates.shape
    return (
        np.full(count * nodes, UNWRITTEN, np.int32),
        np.full((count, batch.depth), UNWRITTEN, np.int32),
        np.full(count, UNWRITTEN, np.int32),
    )


def tree_of(batch: Batch) -> tuple[np.ndarray, ...]:
    return batch.candidates, batch.index, batch.child, batch.sibling


def plain_loops(batch: Batch, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Go down as long as some child has the wanted token, the first of these; ``wanted`` is by global id."""
    predicts, accept_index, accept_token_num = buffers(batch)
    for row in range(len(batch.candidates)):
        node, path = 0, [0]
        while len(path) < batch.depth:
            children, child = [], int(batch.child[row, node])
            while child != -1:
                children.append(child)
                child = int(batch.sibling[row, child])
            right = [c for c in children if batch.candidates[row, c] == wanted.flat[batch.index[row, node]]]
            if not right:
                break
            node = right[0]
            path.append(node)
        ids = batch.index[row, path]
        predicts[ids] = wanted.flat[ids]
        accept_index[row, : len(ids)] = ids
        accept_token_num[row] = len(path) - 1
    return predicts, accept_index, accept_token_num


@pytest.mark.parametrize("depth", [1, 2, 5, 9])
@pytest.mark.parametrize("nodes", [1, 2, 6, 40])
def test_equals_plain_loops(kernel: TreeGreedy, rng: np.random.Generator, nodes: int, depth: int) -> None:
    batch = random_batch(rng, batch=200, nodes=nodes, depth=depth, vocab=3)  # few tokens, long paths
    wanted = rng.integers(0, 3, batch.candidates.shape)
    got = buffers(batch)
    kernel(*got, *tree_of(batch), wanted)
    for mine, theirs in zip(plain_loops(batch, wanted), got, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    if nodes > 2 and depth > 2:
        assert {0, 1, 2} <= set(got[2].tolist())


def test_global_ids_may_be_in_any_order(kernel: TreeGreedy, rng: np.random.Generator) -> None:
    """The argmax after a node is read at its global id, and so written."""
    batch = random_batch(rng, batch=50, nodes=8, depth=4, vocab=3)
    batch.index = rng.permutation(400).reshape(50, 8)
    wanted = rng.integers(0, 3, (50, 8))
    got = buffers(batch)
    kernel(*got, *tree_of(batch), wanted)
    for mine, theirs in zip(plain_loops(batch, wanted), got, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_no_requests(kernel: TreeGreedy, rng: np.random.Generator) -> None:
    batch = random_batch(rng, batch=0, nodes=4, depth=3, vocab=3)
    got = buffers(batch)
    kernel(*got, *tree_of(batch), np.zeros((0, 4), np.int64))
    assert got[1].shape == (0, 3)


def test_wrong_arrays_are_named(kernel: TreeGreedy, rng: np.random.Generator) -> None:
    def attempt(wanted: np.ndarray | None = None, depth: int = 3, **changes: object) -> None:
        batch = random_batch(rng, batch=3, nodes=4, depth=depth, vocab=5)
        for name, change in changes.items():
            setattr(batch, name, change(getattr(batch, name)))  # type: ignore[operator]
        kernel(*buffers(batch), *tree_of(batch), np.zeros((3, 4), np.int64) if wanted is None else wanted)

    with pytest.raises(ValueError, match="target_predict must be int64, got int32"):
        attempt(np.zeros((3, 4), np.int32))
    with pytest.raises(ValueError, match=r"target_predict must have shape \(3, 4\), got \(12,\)"):
        attempt(np.zeros(12, np.int64))
    with pytest.raises(ValueError, match=r"retrieve_index must lie in \[0, 12\), got 12 to 12"):
        attempt(index=lambda array: array * 0 + 12)
    with pytest.raises(ValueError, match=r"retrieve_next_sibling must lie in \[-1, 4\)"):
        attempt(sibling=lambda array: array * 0 + 4)
    with pytest.raises(ValueError, match="need N and S of at least 1, got N=4, S=0"):
        attempt(depth=0)
