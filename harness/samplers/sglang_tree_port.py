"""Sampler sglang-tree-port: SGLang's tree kernel in NumPy, bit for bit in float32.

The accept walk keeps the kernel's running float32 sums. The last draw keeps the order in which a block of threads adds:
pairwise over the ``vec`` tokens of a thread and over the 32 lanes of a warp, one after the other over warps (CUB's
BlockReduce with warp reductions); and FlashInfer's deterministic inclusive sum, in order over a thread's tokens, then
an up-sweep and a down-sweep over lanes and again over warps. Read against sglang 0.5.23 and flashinfer 0.7.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..request import Request, Result
from .base import Claims, Sampler

__all__ = ["SGLANG_TREE_PORT", "TreePort", "draw_in_block_order"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]

LANES = 32
BLOCK_THREADS = 1024
LEAST_ACC = np.float32(1e-9)


class TreePort:
    """Walks a whole batch at once."""

    rule = "target-only"
    coins = True

    def __init__(self, threads: int = BLOCK_THREADS) -> None:
        self._threads = threads

    def verify(self, request: Request) -> Any:
        """Return what the kernel emits for ``request``."""
        probs, batch = request.target_probs, np.arange(request.batch)
        tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
        nodes = np.full_like(tokens, -1)
        nodes[:, 0] = 0
        accepted = np.zeros(request.batch, np.int64)
        at = np.zeros(request.batch, np.int64)
        rejected = np.zeros((request.batch, request.vocab), bool)
        live = batch
        for step in range(1, request.depth_limit):
            live = self._step(request, live, at, rejected)
            tokens[live, step - 1] = request.candidates[live, at[live]]
            nodes[live, step] = at[live]
            accepted[live] = step
        full = accepted == request.depth_limit - 1
        rest = probs[batch, at]
        rest[rejected & ~full[:, None]] = 0.0
        tokens[batch, accepted] = draw_in_block_order(rest, request.final_coins, self._threads)
        return Result(tokens, accepted + 1, nodes)

    def _step(self, request: Request, live: Ints, at: Ints, rejected: NDArray[np.bool_]) -> Ints:
        """Try the children of ``at``; move where one is accepted, mark what is rejected, return the rows that moved."""
        single, acc = np.float32(request.threshold_single), max(np.float32(request.threshold_acc), LEAST_ACC)
        child = request.retrieve_next_token[live, at[live]]
        running = np.zeros(len(live), np.float32)
        moved = np.zeros(len(live), bool)
        trying = np.flatnonzero(child >= 0)
        while len(trying):
            rows, drafts = live[trying], child[trying]
            token = request.candidates[rows, drafts]
            p = request.target_probs[rows, at[rows], token]
            running[trying] += p
            accept = (p > 0) & ((request.coins[rows, at[rows]] < running[trying] / acc) | (p >= single))
            rejected[rows[~accept], token[~accept]] = True
            rejected[rows[accept]] = False  # of the node that is left
            at[rows[accept]] = drafts[accept]
            moved[trying[accept]] = True
            child[trying] = np.where(accept, -1, request.retrieve_next_sibling[rows, drafts])
            trying = trying[child[trying] >= 0]
        return live[moved]


def draw_in_block_order(weights: Singles, coins: Singles, threads: int = BLOCK_THREADS) -> Ints:
    """Draw a token from each row of weights, float32 [B, V], as a block of ``threads`` threads does; int64 [B].

    The first token whose float32 running sum exceeds coin * total; where rounding leaves none, the last token of
    positive weight, and V - 1 where there is none of those either.
    """
    vocab = weights.shape[1]
    vec = math.gcd(4, vocab)
    chunks = [_by_thread(weights[:, start : start + threads * vec], vec) for start in range(0, vocab, threads * vec)]
    total = np.zeros(len(weights), np.float32)
    for chunk in chunks:
        total += _block_sum(chunk)
    mark = coins * total
    drawn = np.full(len(weights), vocab, np.int64)
    last = np.full(len(weights), -1, np.int64)
    before = np.zeros(len(weights), np.float32)
    open_rows = np.ones(len(weights), bool)
    for i, chunk in enumerate(chunks):
        start = i * threads * vec
        weight = chunk.reshape(len(weights), -1)
        positive = weight > 0
        here = _block_sum(chunk)
        scan = open_rows & (before + here > mark)
        above = (_inclusive_sum(chunk) + before[:, None] > mark[:, None]) & positive & scan[:, None]
        found = above.any(axis=1)
        drawn[found] = start + above[found].argmax(axis=1)
        some = open_rows & positive.any(axis=1)
        last[some] = start + weight.shape[1] - 1 - positive[some, ::-1].argmax(axis=1)
        before = np.where(open_rows, before + here, before)
        open_rows &= ~(before > mark)
    fallback = np.where(last >= 0, last, vocab - 1)
    return np.where(drawn < vocab, drawn, fallback)


def _by_thread(weights: Singles, vec: int) -> Singles:
    """Lay a chunk out as [B, warps, 32 lanes, vec], padded with zeros; warps without a token are left out."""
    warps = -(-weights.shape[1] // (LANES * vec))
    padded = np.zeros((len(weights), warps * LANES * vec), np.float32)
    padded[:, : weights.shape[1]] = weights
    return padded.reshape(len(weights), warps, LANES, vec)


def _thread_sums(chunk: Singles) -> Singles:
    """Return the running sums over each thread's tokens, in order."""
    return np.add.accumulate(chunk, axis=3, dtype=np.float32)


def _block_sum(chunk: Singles) -> Singles:
    """Sum of a chunk: pairwise over a warp's tokens, one after the other over warps; float32 [B]."""
    pairs = chunk.reshape(*chunk.shape[:2], -1)
    while pairs.shape[2] > 1:
        pairs = pairs[..., 0::2] + pairs[..., 1::2]
    total: Singles = np.add.accumulate(pairs[..., 0], axis=1, dtype=np.float32)[:, -1]
    return total


def _inclusive_sum(chunk: Singles) -> Singles:
    """FlashInfer's deterministic inclusive sum, float32 [B, warps * 32 * vec]."""
    data = _thread_sums(chunk)
    lanes, warp_sums = _exclusive_sweep(data[..., -1])
    warps = np.zeros((*warp_sums.shape[:1], LANES), np.float32)
    warps[:, : warp_sums.shape[1]] = warp_sums
    prefix = _exclusive_sweep(warps)[0][:, : warp_sums.shape[1]]
    out: Singles = (prefix[..., None] + lanes)[..., None] + data
    return out.reshape(len(chunk), -1)


def _exclusive_sweep(values: Singles) -> tuple[Singles, Singles]:
    """Exclusive prefix sums over the last axis of 32 lanes, by up-sweep and down-sweep; and the sum of all."""
    lanes = values.copy()
    for offset in (1, 2, 4, 8, 16):
        lanes[..., 2 * offset - 1 :: 2 * offset] += lanes[..., offset - 1 :: 2 * offset]
    total = lanes[..., -1].copy()
    lanes[..., -1] = 0.0
    for offset in (16, 8, 4, 2, 1):
        upper, lower = slice(2 * offset - 1, None, 2 * offset), slice(offset - 1, None, 2 * offset)
        left = lanes[..., lower].copy()
        lanes[..., lower] = lanes[..., upper]
        lanes[..., upper] = left + lanes[..., upper]
    return lanes, total


def _versions() -> Mapping[str, str]:
    return {"numpy": np.__version__, "port of sglang": "0.5.23", "port of flashinfer": "0.7.2"}


SGLANG_TREE_PORT = Sampler(
    name="sglang-tree-port",
    summary="SGLang's tree kernel in NumPy, bit for bit in float32",
    claims=Claims(("target-only",), coins=True),
    runs_on="cpu",
    make=lambda rule: TreePort(),
    versions=_versions,
)
