"""Sampler reference: the coin-driven walk of every rule, in float64; a right verifier."""

from __future__ import annotations

from typing import Any

import numpy
import scipy

from ..request import Request
from ..rules import RULES
from .base import Claims, Sampler

__all__ = ["REFERENCE", "Reference"]


class Reference:
    """Verifies by the reference walk of the rule that the request's cases are for."""

    coins = True

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._walk = RULES[rule].walk

    def verify(self, request: Request) -> Any:
        """Walk every request of the batch."""
        return self._walk(request)


REFERENCE = Sampler(
    name="reference",
    summary="coin-driven walk of every rule, float64",
    claims=Claims(tuple(RULES), coins=True),
    runs_on="cpu",
    make=Reference,
    versions=lambda: {"numpy": numpy.__version__, "scipy": scipy.__version__},
)
