"""Verifiers of chains that draw their own drafts, right and faulty."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Request
from harness.draw import draw
from harness.rules import RULES


def uniforms(request: Request, purpose: int, *shape: int) -> np.ndarray:
    """Noise of a call for one purpose; the same call and purpose have the same noise."""
    return np.random.default_rng([request.seed, purpose]).random(shape, dtype=np.float32)


class Right:
    """Drafts by inversion; the walk of its rule on coins of its own, which have nothing to do with the drafts'."""

    rule = "rejection"
    verify_noise = 2

    def draft(self, request: Request) -> Any:
        assert (request.candidates[:, 1:] == 0).all()
        u = uniforms(request, 1, request.batch, request.nodes)
        rows = request.draft_probs.astype(np.float64)
        drawn = np.stack([draw(rows[:, i], u[:, i]) for i in range(request.nodes)], axis=1)
        request.draft_probs[:] = 0  # what is given may be overwritten
        return drawn[:, : request.nodes - 1]

    def verify(self, request: Request) -> Any:
        coins = uniforms(request, self.verify_noise, request.batch, request.nodes)
        final = uniforms(request, 3, request.batch)
        own = Request(**{name: getattr(request, name) for name in Request.__dataclass_fields__})
        own.coins, own.final_coins = self.turned(coins), final
        return RULES[self.rule].walk(own)

    def turned(self, coins: np.ndarray) -> np.ndarray:
        return coins


class RightBlock(Right):
    rule = "block"


class RightUnclaimed(Right):
    rule = None
    drafts = True

    def verify(self, request: Request) -> Any:
        self.rule = "rejection"
        return super().verify(request)


class ByCoins(Right):
    """Right: the drafts have noise of their own, verification the coins of the request."""

    coins = True

    def verify(self, request: Request) -> Any:
        return RULES["rejection"].walk(request)


class SharedNoise(Right):
    """The coin of draft i is the uniform that drew draft i."""

    verify_noise = 1

    def turned(self, coins: np.ndarray) -> np.ndarray:
        return np.roll(coins, 1, axis=1)


class GreedyDrafts(Right):
    """Drafts are the likeliest tokens and not draws from the draft law."""

    def draft(self, request: Request) -> Any:
        return request.draft_probs.argmax(axis=2)[:, : request.nodes - 1]


class TokenV(Right):
    def draft(self, request: Request) -> Any:
        drafts = super().draft(request)
        drafts[0, 0] = request.vocab
        return drafts


class WithTheRoot(Right):
    def draft(self, request: Request) -> Any:
        return np.column_stack([request.candidates[:, 0], super().draft(request)])


class Floats(Right):
    def draft(self, request: Request) -> Any:
        return super().draft(request).astype(np.float32)


class Nothing(Right):
    def draft(self, request: Request) -> Any:
        return None


class Raises(Right):
    def draft(self, request: Request) -> Any:
        raise ValueError("no drafts today")


class PaddingOfMinusOne(Right):
    """Right: what padding columns hold is its own affair."""

    def draft(self, request: Request) -> Any:
        drafts = super().draft(request)
        real = np.arange(1, request.nodes) < request.node_count[:, None]
        return np.where(real, drafts, -1)


class OnATree(Right):
    rule = "target-only"


class NoMethod(Right):
    draft = 3
