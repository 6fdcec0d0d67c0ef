"""Verifiers for these tests: a right one, and ones that do in the coin cases what released software is known to do."""

from __future__ import annotations

from typing import Any

from harness import Request
from harness.rules import RULES
from harness.samplers.sglang_tree_port import TreePort

__all__ = ["Gap", "OwnCoins", "Right", "ZeroMass"]


class Right:
    """The reference walk."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        return RULES["target-only"].walk(request)


class Gap(TreePort):
    """Emits token V-1 where the coin lies in the gap, as SGLang's kernel does."""


class ZeroMass(Right):
    """Accepts a draft without mass at coin 0: no coin is below the least of them."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        first = request.retrieve_next_token[:, 0]
        for b in range(request.batch):
            token = int(request.candidates[b, first[b]])
            if first[b] > 0 and request.coins[b, 0] == 0.0 and request.target_probs[b, 0, token] == 0.0:
                result.tokens[b] = -1
                result.tokens[b, :2] = token, int(request.target_probs[b, first[b]].argmax())
                result.lengths[b] = 2
        result.nodes = None
        return result


class OwnCoins(Right):
    """Says that it has noise of its own."""

    coins = False
