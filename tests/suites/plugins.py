"""Verifiers of every rule with noise of their own, in vectorised NumPy, written without the harness's rules.

The right ones pass; in each of the others a rule is taken for another one, or the draft law is slightly off.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Request, Result

Array = Any


def pick(weights: Array, rng: np.random.Generator) -> Array:
    """One token from each row of weights [K, V]."""
    running = np.cumsum(weights, axis=1, dtype=np.float64)
    mark = rng.random(len(weights)) * running[:, -1]
    return (running <= mark[:, None]).sum(axis=1).clip(max=weights.shape[1] - 1)


class Walk:
    """Where each row of a batch stands, and what it has emitted."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.rng = np.random.default_rng(request.seed)
        batch = len(request.candidates)
        self.tokens = np.full((batch, request.depth_limit), -1, np.int64)
        self.lengths = np.zeros(batch, np.int64)
        self.node = np.zeros(batch, np.int64)
        self.live = np.arange(batch)

    def emit(self, rows: Array, tokens: Array) -> None:
        self.tokens[rows, self.lengths[rows]] = tokens
        self.lengths[rows] += 1

    def first_child(self, rows: Array) -> Array:
        """First child of the node that each row stands at, -1 for none or at the depth limit."""
        child = self.request.retrieve_next_token[rows, self.node[rows]]
        return np.where(self.lengths[rows] < self.request.depth_limit - 1, child, -1)

    def child_of_token(self, rows: Array, tokens: Array) -> Array:
        """Child with a token, -1 for none."""
        child = self.first_child(rows)
        found = np.full(len(rows), -1)
        while (child >= 0).any():
            match = (child >= 0) & (self.request.candidates[rows, child] == tokens)
            found[match] = child[match]
            child = np.where(child >= 0, self.request.retrieve_next_sibling[rows, child], -1)
            child[match] = -1
        return found

    def result(self) -> Result[Array]:
        return Result(tokens=self.tokens, lengths=self.lengths)


class Plain:
    rule: str | None = "plain"

    def verify(self, request: Request) -> Any:
        tokens = pick(request.target_probs[:, 0], np.random.default_rng(request.seed))
        padded = np.full((len(tokens), request.depth_limit), -1)
        padded[:, 0] = tokens
        return Result(tokens=padded, lengths=np.ones(len(tokens), np.int64))


class SamplerMatch:
    """Draws a token at each node and descends where a child has it, with a probability of ``goes_on``."""

    rule: str | None = "sampler-match"
    goes_on = 1.0

    def verify(self, request: Request) -> Any:
        walk = Walk(request)
        while len(walk.live):
            rows = walk.live
            token = self.choose(request.target_probs[rows, walk.node[rows]], walk.rng)
            child = walk.child_of_token(rows, token)
            if self.goes_on < 1.0:
                child[walk.rng.random(len(rows)) >= self.goes_on] = -1
            walk.emit(rows, token)
            walk.node[rows] = child
            walk.live = rows[child >= 0]
        return walk.result()

    def choose(self, rows: Array, rng: np.random.Generator) -> Array:
        return pick(rows, rng)


class Greedy(SamplerMatch):
    rule = "greedy"

    def choose(self, rows: Array, rng: np.random.Generator) -> Array:
        return rows.argmax(axis=1)


class NoneTree(SamplerMatch):
    """Claims no rule, and accepts three drafts of four that it might."""

    rule = None
    goes_on = 0.75


class TargetOnly:
    rule: str | None = "target-only"

    def verify(self, request: Request) -> Any:
        walk = Walk(request)
        probs = request.target_probs
        rest = probs[:, 0].astype(np.float64)
        while len(walk.live):
            rows, at = walk.live, walk.node[walk.live]
            left = probs[rows, at].astype(np.float64)
            coin = walk.rng.random(len(rows)) * left.sum(axis=1) * max(request.threshold_acc, 1e-9)
            running, chosen, child = np.zeros(len(rows)), np.full(len(rows), -1), walk.first_child(rows)
            while (child >= 0).any():
                on = np.flatnonzero(child >= 0)
                token = request.candidates[rows[on], child[on]]
                p = probs[rows[on], at[on], token]
                running[on] += p
                taken = ((coin[on] < running[on]) | (p >= np.float32(request.threshold_single))) & (p > 0)
                chosen[on[taken]] = child[on[taken]]
                left[on, token] = 0.0
                child[on] = np.where(taken, -1, request.retrieve_next_sibling[rows[on], child[on]])
            rest[rows] = left
            moved = rows[chosen >= 0]
            walk.emit(moved, request.candidates[moved, chosen[chosen >= 0]])
            walk.node[moved] = chosen[chosen >= 0]
            walk.live = moved
        walk.emit(np.arange(len(rest)), pick(rest, walk.rng))
        return walk.result()


class Rejection:
    """Siblings one after the other, as drawn independently or ``without`` replacement, at a draft law of its own."""

    rule: str | None = "rejection"
    without = False
    temperature = 1.0

    def verify(self, request: Request) -> Any:
        walk = Walk(request)
        rest = np.empty((len(request.candidates), request.target_probs.shape[2]))
        while len(walk.live):
            rows, at = walk.live, walk.node[walk.live]
            p = request.target_probs[rows, at].astype(np.float64)
            q = draft_law(request, rows, at, self.temperature)
            chosen, child = np.full(len(rows), -1), walk.first_child(rows)
            while (child >= 0).any():
                on = np.flatnonzero(child >= 0)
                token = request.candidates[rows[on], child[on]]
                taken = walk.rng.random(len(on)) * q[on, token] < p[on, token]
                chosen[on[taken]] = child[on[taken]]
                off, token = on[~taken], token[~taken]
                left = np.maximum(p[off] - q[off], 0.0)
                total = left.sum(axis=1, keepdims=True)
                p[off] = np.where(total > 0.0, left / np.where(total > 0.0, total, 1.0), p[off])
                if self.without:
                    q[off, token] = 0.0
                    total = q[off].sum(axis=1, keepdims=True)
                    q[off] /= np.where(total > 0.0, total, 1.0)
                child[on[taken]] = -1
                child[off] = request.retrieve_next_sibling[rows[off], child[off]]
            rest[rows] = p
            moved = rows[chosen >= 0]
            walk.emit(moved, request.candidates[moved, chosen[chosen >= 0]])
            walk.node[moved] = chosen[chosen >= 0]
            walk.live = moved
        walk.emit(np.arange(len(rest)), pick(rest, walk.rng))
        return walk.result()


def draft_law(request: Request, rows: Array, nodes: Array, temperature: float) -> Array:
    q = request.draft_probs[rows, nodes].astype(np.float64)
    if temperature != 1.0:
        q **= 1.0 / temperature
        q /= q.sum(axis=1, keepdims=True)
    return q


class Replacement(Rejection):
    rule = "rejection-replacement"


class NoReplacement(Rejection):
    rule = "rejection-no-replacement"
    without = True


class NoneChain(Rejection):
    rule = None
    drafts = True


class Block:
    """From the last draft backwards: the first position whose coin holds is where the block ends."""

    rule: str | None = "block"
    temperature = 1.0

    def verify(self, request: Request) -> Any:
        walk = Walk(request)
        batch = np.arange(len(request.candidates))
        path, ends = [np.zeros(len(batch), np.int64)], np.zeros(len(batch), np.int64)
        for depth in range(1, request.depth_limit):  # chains of a group may be of different lengths
            child = request.retrieve_next_token[batch, path[-1]]
            ends[child >= 0] = depth
            path.append(np.where(child >= 0, child, path[-1]))
        r = np.ones(len(batch))
        hold, rest = [], []
        for depth, node in enumerate(path):
            p, q = request.target_probs[batch, node], draft_law(request, batch, node, self.temperature)
            if depth:
                before = path[depth - 1]
                token = request.candidates[batch, node]
                ratio = (
                    request.target_probs[batch, before, token]
                    / draft_law(request, batch, before, self.temperature)[batch, token]
                )
                r = np.where(ends >= depth, np.minimum(1.0, r * ratio), r)
            left = np.where((ends == depth)[:, None], p, np.maximum(r[:, None] * p - q, 0.0))
            room = np.maximum(r[:, None] * p - q, 0.0).sum(axis=1)
            spare = room + 1.0 - r
            part = np.where(spare > 0.0, room / np.where(spare > 0.0, spare, 1.0), 1.0)
            hold.append(np.where(ends == depth, r, np.where(ends > depth, part, 0.0)))
            rest.append(left)
        accepted, open_rows = np.zeros(len(batch), np.int64), np.ones(len(batch), bool)
        for depth in range(len(path) - 1, 0, -1):
            held = open_rows & (walk.rng.random(len(batch)) < hold[depth])
            accepted[held] = depth
            open_rows &= ~held
        for depth in range(1, len(path)):
            rows = np.flatnonzero(accepted >= depth)
            walk.emit(rows, request.candidates[rows, path[depth][rows]])
        walk.emit(batch, pick(np.stack(rest, axis=1)[batch, accepted], walk.rng))
        return walk.result()


class NoneBlock(Block):
    rule = None
    drafts = True


# ---- one rule for another, and draft laws that are off


class WithForWithout(Rejection):
    rule = "rejection-no-replacement"


class WithoutForWith(Rejection):
    rule = "rejection-replacement"
    without = True


class TokensForBlocks(Rejection):
    rule = "block"


class BlocksForTokens(Block):
    rule = "rejection"


class WarmRejection(Rejection):
    temperature = 1.05


class WarmReplacement(Replacement):
    temperature = 1.05


class WarmNoReplacement(NoReplacement):
    temperature = 1.05


class WarmBlock(Block):
    temperature = 1.05


class WarmNoneChain(NoneChain):
    temperature = 1.05


class TargetOnlyForReplacement(TargetOnly):
    rule = "rejection-replacement"
