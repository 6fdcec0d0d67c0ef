"""What a verification rule is to the harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..law import Law
from ..request import Request, Result

__all__ = ["Rule", "draw"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Walked = Result[Ints]

_BLOCK = 1 << 21
"""Law entries worked on at once: 16 MiB in float64, which stays in the cache of most machines."""


@dataclass(frozen=True)
class Rule:
    """A verification rule: its exact law and a reference walk driven by the coins of a request.

    ``law`` takes a case and returns its :class:`Law`; ``walk`` takes a request and returns what a right verifier
    emits, tokens and nodes int64 [B, S], lengths int64 [B].
    """

    name: str
    law: Callable[[Case], Law]
    walk: Callable[[Request], Walked]


def draw(rows: Floats, coins: NDArray[np.float32]) -> Ints:
    """Draw one token from each row of weights, float64 [B, V], by inversion with ``coins`` [B]; int64 [B].

    The token is the first whose running sum exceeds coin * total, so that a token of weight 0 never comes.
    """
    tokens = np.empty(len(rows), np.int64)
    step = max(1, _BLOCK // rows.shape[1])
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        running = np.cumsum(rows[part], axis=1)
        mark = coins[part].astype(np.float64) * running[:, -1]
        tokens[part] = (running <= mark[:, None]).sum(axis=1)
    return tokens
