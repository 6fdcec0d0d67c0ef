"""Keeping the cuts of top-k, top-p and min-p clear of tokens that rounding could move across them.

A sampler that filters in float32 cannot be held to such a token; the cases made for that are in :mod:`.boundaries`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from distributions import UNIT
from harness.filters import SEMANTICS, SamplingParams, Semantics, target_probs
from harness.margins import claimed_rows

__all__ = ["clear_cuts", "readings"]

Singles = NDArray[np.float32]
Bools = NDArray[np.bool_]

GAP = np.float32(2.0**-7)
"""By how much logits are lowered: far more than rounding, and far less than what a case is about."""
COLD = 0.1
"""At a temperature below this, rounding of logits can leave a law unknown, unless one token alone is likely."""
ROUNDS = 64


def readings(params: SamplingParams) -> list[tuple[SamplingParams, Semantics]]:
    """Return what cuts are kept clear for: each filter alone, and all of them in the orders that can be told apart.

    These are the named semantics, and that which keeps exactly k tokens.
    """
    sequential = SEMANTICS["sequential"]
    temperature = params.temperature
    alone = [
        one
        for one in (
            SamplingParams(temperature, top_k=params.top_k),
            SamplingParams(temperature, top_p=params.top_p),
            SamplingParams(temperature, min_p=params.min_p),
        )
        if one != SamplingParams(temperature)
    ]
    if params.greedy or (len(alone) < 2 and params.temperature == 1.0):
        return [(params, sequential)]
    orders = (*SEMANTICS.values(), replace(sequential, name="exact", top_k_ties="exact"))
    return [(one, sequential) for one in alone] + [(params, order) for order in orders]


def clear_cuts(logits: Singles, probs: Singles | None, params: SamplingParams) -> None:
    """Change law rows, float32 [n, V], so that no token is undecided (:mod:`harness.margins`); in place.

    What a cut takes away is made a little less likely, so that equal tokens stay equal at a cut by rank. ``probs`` are
    the same laws in multiples of 1/4096 where they are exact; these stay so.
    """
    kept_all = params == SamplingParams(params.temperature) and not params.greedy
    if kept_all and params.temperature > COLD:
        return
    for row in range(len(logits)):
        _clear(logits[row : row + 1], None if probs is None else probs[row : row + 1], params)


def _clear(logits: Singles, probs: Singles | None, params: SamplingParams) -> None:
    """Do so for one row, [1, V]."""
    asked = readings(params)
    for _ in range(ROUNDS):
        unclear = next((one for one in asked if claimed_rows(logits, *one).undecided.any()), None)
        if unclear is None:
            return
        if probs is None:
            logits[0, _cut(logits[0], *unclear)] -= GAP
        else:
            _move_unit(probs[0], _cut(probs[0], *unclear, probs=True))
            with np.errstate(divide="ignore"):
                logits[0] = np.log(probs[0])
    raise ValueError(f"no way was found to keep the cuts of {params} clear")


def _cut(row: Singles, params: SamplingParams, semantics: Semantics, *, probs: bool = False) -> Bools:
    """Return the possible tokens of a row that the filters take away; the least likely ones where they take none."""
    possible = row > (0.0 if probs else -np.inf)
    if params.temperature < COLD:
        params = SamplingParams(0.0)
    gone: Bools = possible & (target_probs(row, params, semantics, probs=probs) <= 0.0)
    return gone if gone.any() else possible & (row == row[possible].min())


def _move_unit(row: Singles, gone: Bools) -> None:
    """Give a unit of each of the likeliest tokens of ``gone`` to the likeliest of all; in place."""
    most = gone & (row == row[gone].max())
    best = int(np.where(most, -1.0, row).argmax())
    row[most] -= np.float32(1 / UNIT)
    row[best] += np.float32(most.sum() / UNIT)
