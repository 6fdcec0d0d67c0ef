"""Verifiers, right and faulty, for the tests to hand to the gate: a plain loop, with one thing wrong in each."""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np

from harness import Request, Result


class Right:
    """Rule target-only, row by row, in float64; the faults below override one step each."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        self.probs = request.target_probs.astype(np.float64)
        tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
        lengths = np.empty(request.batch, np.int64)
        for b in range(request.batch):
            emitted = self.walk(request, b)
            tokens[b, : len(emitted)] = emitted
            lengths[b] = len(emitted)
        return Result(tokens=tokens, lengths=lengths)

    def walk(self, request: Request, b: int) -> list[int]:
        node, emitted, rejected = 0, [], []
        while len(emitted) < request.depth_limit - 1:
            row, rejected, accepted = self.row(request, b, node), [], None
            mark, running = float(request.coins[b, node]) * row.sum(), 0.0
            for i, child in enumerate(self.children(request, b, node)):
                token = int(request.candidates[b, child])
                running = self.added(running, row[token], i)
                by_coin = mark * max(request.threshold_acc, 1e-9) < running
                if row[token] > 0 and (by_coin or np.float32(row[token]) >= np.float32(request.threshold_single)):
                    accepted = child
                    break
                rejected.append(token)
            if accepted is None:
                break
            emitted.append(int(request.candidates[b, accepted]))
            node, rejected = accepted, []
        rest = self.row(request, b, node).copy()
        rest[self.excluded(rejected)] = 0.0
        running = np.cumsum(rest)
        return [*emitted, int(np.searchsorted(running, self.final_coin(request, b, node) * running[-1], side="right"))]

    def children(self, request: Request, b: int, node: int) -> list[int]:
        found, child = [], int(request.retrieve_next_token[b, node])
        while child >= 0:
            found.append(child)
            child = int(request.retrieve_next_sibling[b, child])
        return found

    def row(self, request: Request, b: int, node: int) -> np.ndarray:
        return self.probs[b, node]

    def added(self, running: float, mass: float, i: int) -> float:
        return running + mass

    def excluded(self, rejected: list[int]) -> list[int]:
        return rejected

    def final_coin(self, request: Request, b: int, node: int) -> float:
        return float(request.final_coins[b])


class Reversed(Right):
    """Right: at thresholds of 1, the sibling order is free."""

    thresholds = False

    def children(self, request: Request, b: int, node: int) -> list[int]:
        return super().children(request, b, node)[::-1]


class OneCoin(Right):
    """The coin that decided among a node's children draws the last token too."""

    def final_coin(self, request: Request, b: int, node: int) -> float:
        return float(request.coins[b, node])


class LastFromWhole(Right):
    """The last token comes from p instead of p without the rejected."""

    def excluded(self, rejected: list[int]) -> list[int]:
        return []


class SiblingTwice(Right):
    """The mass of a second sibling counts twice."""

    def added(self, running: float, mass: float, i: int) -> float:
        return running + (2 * mass if i == 1 else mass)


class NeighbourRows(Right):
    """Law rows of the request before it in the batch."""

    def row(self, request: Request, b: int, node: int) -> np.ndarray:
        return self.probs[b - 1, node]


class Aborts(Right):
    """Takes the process down."""

    def verify(self, request: Request) -> Any:
        os.abort()


class Sleeps(Right):
    """Never returns."""

    def verify(self, request: Request) -> Any:
        time.sleep(3600)


class TokenV(Right):
    """Returns a token that is none."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        result.tokens[0, 0] = request.vocab
        return result


class IntoPadding(Right):
    """Goes on from the root into padding, one row in two, as if token 0 of a padding column were its child."""

    def walk(self, request: Request, b: int) -> list[int]:
        emitted = super().walk(request, b)
        padded = request.node_count[b] < request.nodes and request.coins[b, 0] < 0.5
        return [0, emitted[0]] if padded and request.depth_limit > 1 else emitted


class BeyondTheLimit(Right):
    """Adds a token to a step that is as long as the depth limit allows."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        more = (result.lengths == request.depth_limit).astype(np.int64)
        tokens = np.column_stack([result.tokens, np.where(more, 0, -1)])
        return Result(tokens=tokens, lengths=result.lengths + more)
