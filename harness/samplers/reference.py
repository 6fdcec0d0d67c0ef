"""Sampler reference: the coin-driven walk of every rule, in float64; a right verifier."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from ..request import Request, Result
from ..rules import RULES
from .base import Claims, Sampler

__all__ = ["REFERENCE", "Reference"]

ENTRIES = 1 << 19
"""Rows times V walked at once, 2 MiB in float64: what fits into a core's cache, allocated again and again."""


class Reference:
    """Verifies by the reference walk of the rule that the request's cases are for."""

    coins = True

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self._walk = RULES[rule].walk

    def verify(self, request: Request) -> Any:
        """Walk every request of the batch, a part of it at a time where law rows are long."""
        step = max(1, ENTRIES // request.vocab)
        if step >= request.batch:
            return self._walk(request)
        rows = np.arange(request.batch)
        parts = [self._walk(request.take(rows[start : start + step])) for start in range(0, request.batch, step)]
        return Result(
            np.concatenate([part.tokens for part in parts]),
            np.concatenate([part.lengths for part in parts]),
            np.concatenate([part.nodes for part in parts if part.nodes is not None]),
        )


REFERENCE = Sampler(
    name="reference",
    summary="coin-driven walk of every rule, float64",
    claims=Claims(tuple(RULES), coins=True),
    runs_on="cpu",
    make=Reference,
    versions=lambda: {"numpy": np.__version__, "scipy": scipy.__version__},
)
