"""SGLang's target-only tree verification as plain loops in float32, and random trees to try it on.

The acceptance walk does the kernel's float operations in the kernel's order, so it must agree bit for bit. The last
draw adds in another order than the kernel's block scan; with probabilities that are multiples of 1/4096 every sum is
exact, and it must agree too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.simt import TreeTargetOnly

f32 = np.float32
UNWRITTEN = -7


@dataclass
class Batch:
    """B trees of N nodes over V tokens; arrays as the kernel takes them."""

    depth: int
    candidates: np.ndarray
    index: np.ndarray
    child: np.ndarray
    sibling: np.ndarray
    coins: np.ndarray
    final_coins: np.ndarray
    target: np.ndarray


@dataclass
class Outcome:
    """What the kernel writes, entries that it leaves alone as they were."""

    predicts: np.ndarray
    accept_index: np.ndarray
    accept_token_num: np.ndarray
    draft: np.ndarray

    def same_as(self, other: Outcome) -> bool:
        """Say whether every array is equal, bit for bit."""
        return all(np.array_equal(array, getattr(other, name)) for name, array in vars(self).items())


def random_batch(rng: np.random.Generator, batch: int, nodes: int, depth: int, vocab: int) -> Batch:
    """Draw random trees with dyadic laws and coins; siblings may repeat tokens."""
    child = np.full((batch, nodes), -1, np.int64)
    sibling = child.copy()
    for row in range(batch):
        last: dict[int, int] = {}
        for node in range(1, nodes):
            parent = int(rng.integers(max(0, node - 4), node))
            (sibling if parent in last else child)[row, last.get(parent, parent)] = node
            last[parent] = node
    weights = rng.dirichlet(np.full(vocab, 0.3), (batch, nodes))
    return Batch(
        depth=depth,
        candidates=rng.integers(0, vocab, (batch, nodes)),
        index=np.arange(batch * nodes).reshape(batch, nodes),
        child=child,
        sibling=sibling,
        coins=(rng.integers(0, 4096, (batch, nodes)) / 4096).astype(f32),
        final_coins=(rng.integers(0, 4096, batch) / 4096).astype(f32),
        target=(rng.multinomial(4096, weights) / 4096).astype(f32),
    )


def empty_outcome(batch: Batch) -> Outcome:
    """Buffers as before a call."""
    count, nodes = batch.candidates.shape
    return Outcome(
        np.full(count * nodes, UNWRITTEN, np.int32),
        np.full((count, batch.depth), UNWRITTEN, np.int32),
        np.full(count, UNWRITTEN, np.int32),
        np.zeros(batch.target.shape, f32),
    )


def run_kernel(kernel: TreeTargetOnly, batch: Batch, single: float, acc: float, threads: int | None = None) -> Outcome:
    """Call the compiled kernel."""
    out = empty_outcome(batch)
    kernel(
        out.predicts,
        out.accept_index,
        out.accept_token_num,
        batch.candidates,
        batch.index,
        batch.child,
        batch.sibling,
        batch.coins,
        batch.final_coins,
        batch.target,
        out.draft,
        single,
        acc,
        threads=threads,
    )
    return out


def run_loops(batch: Batch, single: float, acc: float) -> Outcome:
    """Do the same in plain loops."""
    out = empty_outcome(batch)
    for row in range(len(batch.candidates)):
        _verify(batch, out, row, f32(single), max(f32(acc), f32(1e-9)))
    return out


def _verify(batch: Batch, out: Outcome, row: int, single: np.float32, acc: np.float32) -> None:
    """Verify one tree."""
    node, accepted, exhausted = 0, 0, False
    out.accept_index[row, 0] = batch.index[row, 0]
    while accepted < batch.depth - 1 and not exhausted:
        child = _choose_child(batch, out, row, node, single, acc)
        if child == -1:
            exhausted = True
        else:
            out.predicts[batch.index[row, node]] = batch.candidates[row, child]
            accepted += 1
            out.accept_index[row, accepted] = batch.index[row, child]
            node = child
    out.accept_token_num[row] = accepted
    out.predicts[batch.index[row, node]] = _last_draw(batch, out, row, node, restricted=accepted != batch.depth - 1)


def _choose_child(batch: Batch, out: Outcome, row: int, node: int, single: np.float32, acc: np.float32) -> int:
    """Try the children in link order with the node's one coin; mark those refused."""
    total = f32(0)
    child = int(batch.child[row, node])
    while child != -1:
        token = batch.candidates[row, child]
        probability = batch.target[row, node, token]
        total = f32(total + probability)
        if probability > 0 and (batch.coins[row, node] < f32(total / acc) or probability >= single):
            return child
        out.draft[row, node, token] = probability
        child = int(batch.sibling[row, child])
    return -1


def _last_draw(batch: Batch, out: Outcome, row: int, node: int, *, restricted: bool) -> int:
    """Invert the running sum of what is left at the last node."""
    left = batch.target[row, node].astype(np.float64)
    if restricted:
        left = np.maximum(left - out.draft[row, node], 0)
    running = np.cumsum(left)
    goal = float(batch.final_coins[row]) * running[-1]
    for token, (mass, sum_so_far) in enumerate(zip(left, running, strict=True)):
        if mass > 0 and sum_so_far > goal:
            return token
    positive = np.nonzero(left > 0)[0]
    return int(positive[-1]) if positive.size else len(left) - 1
