"""Faulty verifiers as they happen in production code, vectorised, each a right one with one thing wrong."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

from harness import Request, Result
from harness.rules import RULES

sys.path.insert(0, str(Path(__file__).parents[1]))
from suites.plugins import Plain, SamplerMatch, TargetOnly, pick

Array = Any


class TemperatureOfTheBatch(SamplerMatch):
    """Takes a batch of several temperatures for one of temperature 1."""

    def verify(self, request: Request) -> Any:
        tempered(request, np.where(request.temperature == request.temperature[0], request.temperature, 1.0))
        return super().verify(request)


class ParametersOfTheNeighbour(SamplerMatch):
    """Applies the temperature of the request before it in the batch."""

    def verify(self, request: Request) -> Any:
        tempered(request, np.roll(request.temperature, 1))
        return super().verify(request)


def tempered(request: Request, temperature: Array) -> None:
    """Put each row's law to another temperature; greedy rows, and those of a greedy temperature, stay as they are."""
    own = request.temperature
    power = np.where((own > 0) & (temperature > 0), own / np.where(temperature > 0, temperature, 1.0), 1.0)
    changed = np.flatnonzero(power != 1.0)
    rows = request.target_probs[changed].astype(np.float64) ** power[changed, None, None]
    request.target_probs[changed] = rows / rows.sum(axis=2, keepdims=True)


class ResidualLeft(TargetOnly):
    """Draws last tokens at the root from a buffer in which the token that it drew there a call ago is still zero."""

    def __init__(self) -> None:
        self.before: Array = None

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        last = np.where(result.lengths == 1, result.tokens[:, 0], -1)
        if self.before is not None and len(self.before) == len(last):
            rows = np.flatnonzero((last >= 0) & (last == self.before))
            left = request.target_probs[rows, 0].astype(np.float64)
            left[np.arange(len(rows)), last[rows]] = 0.0
            for node in range(1, request.nodes):
                child = np.flatnonzero(request.parents[rows, node] == 0)
                left[child, request.candidates[rows[child], node]] = 0.0
            some = left.sum(axis=1) > 0
            result.tokens[rows[some], 0] = pick(left[some], np.random.default_rng([request.seed, 1]))
        self.before = last
        return result


class CoinsOfTheNeighbour:
    """Two neighbouring rows have the coins of the first of them."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        for coins in (request.coins, request.final_coins):
            coins[1::2] = coins[:-1:2][: len(coins[1::2])]
        return RULES["target-only"].walk(request)


class SameNoise(TargetOnly):
    """Makes its generator from the same seed at each call."""

    def verify(self, request: Request) -> Any:
        request.seed = 1
        return super().verify(request)


class AcceptsNothing(TargetOnly):
    """Emits the first token of a right step and ends there."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        result.tokens[:, 1:] = -1
        return Result(tokens=result.tokens, lengths=np.ones_like(result.lengths))


class LeaksTheLastToken(TargetOnly):
    """Emits token V-1 in the place of the last token, one time in a thousand."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        rows = np.flatnonzero(np.random.default_rng([request.seed, 1]).random(request.batch) < 1e-3)
        result.tokens[rows, result.lengths[rows] - 1] = request.vocab - 1
        return result


class HalfPrecisionTopP(Plain):
    """Sums probabilities for top-p in float16."""

    takes = "logits"

    def verify(self, request: Request) -> Any:
        logits = request.target_logits[:, 0]
        _, first, which = np.unique(logits[:, :8], axis=0, return_index=True, return_inverse=True)
        rows, which = logits[first], which.reshape(-1)
        laws = np.zeros((request.batch, request.vocab), np.float32)
        params = np.column_stack([which, request.temperature, request.top_k, request.top_p, request.min_p])
        for values in np.unique(params, axis=0):
            mine = (params == values).all(axis=1)
            laws[mine] = law(rows[int(values[0])].astype(np.float64), *values[1:])
        return Result(
            tokens=pick(laws, np.random.default_rng(request.seed))[:, None],
            lengths=np.ones(request.batch, np.int64),
        )


def law(z: Array, temperature: float, top_k: float, top_p: float, min_p: float) -> Array:
    """Return the law of one row of logits: the filters one after the other."""
    if temperature == 0.0:
        return (z == z.max()) / (z == z.max()).sum()
    p = np.exp((z - z.max()) / temperature)
    p[p < np.sort(p)[::-1][min(int(top_k), len(p)) - 1]] = 0.0
    p /= p.sum()
    if top_p < 1.0:
        order = np.argsort(-p, kind="stable")
        ahead = np.cumsum(p[order].astype(np.float16), dtype=np.float16) - p[order].astype(np.float16)
        out = ahead >= np.float16(top_p)
        out[0] = False
        p[order[out]] = 0.0
        p /= p.sum()
    p[p < min_p * p.max()] = 0.0
    return p / p.sum()


class BeyondTheLimit(SamplerMatch):
    """Walks trees that are deeper than S - 1 to their leaves."""

    def verify(self, request: Request) -> Any:
        limit, request.depth_limit = request.depth_limit, request.nodes
        result = super().verify(request)
        width = max(limit, int(result.lengths.max()))
        return Result(tokens=result.tokens[:, :width], lengths=result.lengths)


class PaddingForAChild(SamplerMatch):
    """Takes the first column of padding for a child of the root, of its token 0."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        at = (result.tokens[:, 0] == 0) & (result.lengths == 1) & (request.node_count < request.nodes)
        rows = np.flatnonzero(at) if request.depth_limit > 1 else np.zeros(0, np.int64)
        if len(rows):
            more = pick(request.target_probs[rows, request.node_count[rows]], np.random.default_rng([request.seed, 1]))
            result.tokens[rows, 1] = more
            result.lengths[rows] = 2
        return result


class AbortsUnlessMultipleOfFour(TargetOnly):
    """Takes its process down where V is no multiple of 4."""

    def verify(self, request: Request) -> Any:
        if request.vocab % 4:
            os.abort()
        return super().verify(request)
