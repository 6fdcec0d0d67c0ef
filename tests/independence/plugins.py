"""Verifiers whose every single draw is right: what is wrong, where something is, lies between draws."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness import Request, Result
from harness.rules import RULES
from harness.streams import coins


class Walks:
    """Right: the reference walk of rule target-only, driven by coins; those below put others in their place."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        nodes, final = self.noise(request)
        return RULES[self.rule or "target-only"].walk(replace_coins(request, nodes, final))

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        return request.coins, request.final_coins


def replace_coins(request: Request, nodes: np.ndarray, final: np.ndarray) -> Request:
    return replace(request, coins=nodes, final_coins=final)


class Own(Walks):
    """Right: noise of its own, from the call's seed."""

    coins = False

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        return drawn(np.random.default_rng(request.seed), request)


def drawn(rng: np.random.Generator, request: Request) -> tuple[np.ndarray, np.ndarray]:
    return coins(rng, request.batch, request.nodes), coins(rng, request.batch)


class Seeded(Own):
    """Right: noise from the seed and the position of each request."""

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        mark = request.seeds.astype(np.uint64) << np.uint64(32) | self.place(request).astype(np.uint64)
        found = hashed(mark[:, None] * np.uint64(64) + np.arange(request.nodes + 1, dtype=np.uint64))
        return found[:, :-1], found[:, -1]

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
    """Forgets the position."""

    def place(self, request: Request) -> np.ndarray:
        return np.zeros_like(request.positions)


class SeededInHalfTheRows(Seeded):
    """Results of a request depend on where in the batch it is, for half of the rows."""

    def place(self, request: Request) -> np.ndarray:
        row = np.arange(request.batch)
        return request.positions + (1 << 24) * np.where(row % 2, row, 0)


class NeighboursShare(Own):
    """One row in five has the noise of the row before it."""

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        nodes, final = super().noise(request)
        rows = 1 + np.flatnonzero(np.random.default_rng(request.seed + 1).random(request.batch - 1) < 0.2)
        nodes[rows], final[rows] = nodes[rows - 1], final[rows - 1]
        return nodes, final


class FinalCoinsOfNeighbours(Walks):
    """Every second row draws its last token with the coin of the row before it."""

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        final = request.final_coins
        final[1::2] = final[:-1:2][: len(final[1::2])]
        return request.coins, final


class SameEachCall(Own):
    """Makes its generator anew, from the same seed, at each call."""

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        return drawn(np.random.default_rng(7), request)


class SameEachInstance(Own):
    """Rule plain; makes its generator from the same seed in each instance."""

    rule = "plain"

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        return drawn(self.rng, request)


class NoiseLeft(Own):
    """Fills its buffer of coins but for every tenth row, which keeps those of the call before."""

    def __init__(self) -> None:
        self.left: tuple[np.ndarray, np.ndarray] | None = None

    def noise(self, request: Request) -> tuple[np.ndarray, np.ndarray]:
        nodes, final = super().noise(request)
        if self.left is not None and self.left[0].shape == nodes.shape:
            nodes[::10], final[::10] = self.left[0][::10], self.left[1][::10]
        self.left = nodes, final
        return nodes, final


class Even:
    """Rule plain; spreads the coins of each case over (0, 1) evenly, one in every part of many."""

    rule = "plain"

    def verify(self, request: Request) -> Any:
        rng = np.random.default_rng(request.seed)
        _, case = np.unique(request.target_probs[:, 0], axis=0, return_inverse=True)
        final = np.empty(request.batch)
        for which in range(case.max() + 1):
            rows = np.flatnonzero(case.reshape(-1) == which)
            final[rows] = (rng.permutation(len(rows)) + rng.random(len(rows))) / len(rows)
        final = np.minimum(final, 1.0 - 2.0**-24).astype(np.float32)
        return RULES["plain"].walk(replace_coins(request, request.coins, final))


class AcceptsNothing(Walks):
    """Emits one token, of the right law."""

    def verify(self, request: Request) -> Any:
        rows = np.cumsum(request.target_probs[:, 0].astype(np.float64), axis=1)
        tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
        tokens[:, 0] = (rows <= request.final_coins[:, None].astype(np.float64) * rows[:, -1:]).sum(axis=1)
        return Result(tokens=tokens, lengths=np.ones(request.batch, np.int64))


class EndsAtTimes(Own):
    """Ends a step after one draft where it should go on, one time in fifty; every token is of the right law."""

    share = 0.02

    def verify(self, request: Request) -> Any:
        ends = np.random.default_rng(request.seed).random(request.batch) < self.share
        result = super().verify(request)
        tokens, lengths = result.tokens.copy(), np.where(ends, np.minimum(result.lengths, 1), result.lengths)
        tokens[np.arange(tokens.shape[1]) >= lengths[:, None]] = -1
        return Result(tokens=tokens, lengths=lengths)


class EndsUnclaimed(EndsAtTimes):
    """The same, where no rule is claimed: lossless."""

    rule = None
