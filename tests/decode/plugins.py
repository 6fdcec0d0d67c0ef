"""Verifiers, right and faulty, that the gate decodes with."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness import Request, Result
from harness.rules import RULES
from harness.streams import coins


class Walks:
    """Right: the reference walk of rule target-only, driven by coins; those below change one thing each."""

    rule: str | None = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        return RULES["target-only"].walk(self.given(request))

    def given(self, request: Request) -> Request:
        return request


class Unclaimed(Walks):
    """Right, and claims nothing."""

    rule = None


class Own(Walks):
    """Right: noise from the call's seed."""

    coins = False

    def given(self, request: Request) -> Request:
        rng = np.random.default_rng(request.seed)
        return replace(request, coins=coins(rng, request.batch, request.nodes), final_coins=coins(rng, request.batch))


class Seeded(Walks):
    """Right: noise from the seed and the position of each request."""

    coins = False

    def given(self, request: Request) -> Request:
        mark = request.seeds.astype(np.uint64) << np.uint64(32) | self.place(request).astype(np.uint64)
        found = hashed(mark[:, None] * np.uint64(64) + np.arange(request.nodes + 1, dtype=np.uint64))
        return replace(request, coins=found[:, :-1].copy(), final_coins=found[:, -1].copy())

    def place(self, request: Request) -> np.ndarray:
        return request.positions


def hashed(mark: np.ndarray) -> np.ndarray:
    """Return coins of 64-bit marks (SplitMix64, twice)."""
    for _ in range(2):
        mark = mark + np.uint64(0x9E3779B97F4A7C15)
        mark = (mark ^ (mark >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mark = (mark ^ (mark >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mark = mark ^ (mark >> np.uint64(31))
    return ((mark >> np.uint64(40)).astype(np.float64) * 2.0**-24).astype(np.float32)


class SeedAlone(Seeded):
    """Forgets the position: each step of a sequence has the noise of the one before."""

    def place(self, request: Request) -> np.ndarray:
        return np.zeros_like(request.positions)


class PageOfThePosition(Seeded):
    """Has new noise every fourth position only, so that some steps of a sequence share theirs."""

    def place(self, request: Request) -> np.ndarray:
        return request.positions // 4


class ByRow(Seeded):
    """Results of a request depend on where in the batch it is."""

    def place(self, request: Request) -> np.ndarray:
        return request.positions + (np.arange(request.batch) << 16)


class Astray(Walks):
    """Takes a twentieth of its last tokens for accepted drafts, and goes on behind them."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        rows = np.flatnonzero((result.lengths < request.depth_limit) & (request.final_coins * 2**24 % 20 == 0))
        last = result.tokens[rows, result.lengths[rows] - 1]
        result.tokens[rows, result.lengths[rows]] = last
        result.lengths[rows] += 1
        return Result(result.tokens, result.lengths)


class LastFromWhole(Walks):
    """Draws the last token from p instead of p without the rejected, by a tree of the root alone."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        rows = np.arange(request.batch)
        row = request.target_probs[rows, result.nodes[rows, result.lengths - 1]].astype(np.float64)
        running = np.cumsum(row, axis=1)
        mark = request.final_coins * running[:, -1]
        result.tokens[rows, result.lengths - 1] = (running <= mark[:, None]).sum(axis=1)
        return result


class RaisesLater(Walks):
    """Raises at its fifth call, which is in the middle of a batch of sequences."""

    def __init__(self) -> None:
        self.calls = 0

    def verify(self, request: Request) -> Any:
        self.calls += 1
        if self.calls == 5:
            raise ArithmeticError("no more")
        return super().verify(request)


class OwnDrafts:
    """Right: draws the drafts of its chains itself, and verifies them by rule rejection."""

    rule = "rejection"
    coins = True

    def draft(self, request: Request) -> Any:
        assert (request.candidates[:, 1:] == 0).all()
        u = np.random.default_rng([request.seed, 1]).random((request.batch, request.nodes - 1))
        running = np.cumsum(request.draft_probs[:, :-1].astype(np.float64), axis=2)
        return (running <= (u * running[:, :, -1])[:, :, None]).sum(axis=2)

    def verify(self, request: Request) -> Any:
        return RULES["rejection"].walk(request)


class OwnFilters(Walks):
    """Right: applies temperature, top-k and top-p itself, jointly."""

    takes = "logits"
    semantics = "joint"

    def given(self, request: Request) -> Request:
        from harness.filters import SEMANTICS, SamplingParams, target_probs

        probs = np.empty_like(request.target_logits)
        for row, logits in enumerate(request.target_logits):
            some = (request.temperature[row], request.top_k[row], request.top_p[row], request.min_p[row])
            params = SamplingParams(float(some[0]), int(some[1]), float(some[2]), float(some[3]))
            probs[row] = target_probs(logits, params, SEMANTICS["joint"])
        return replace(request, target_probs=probs)
