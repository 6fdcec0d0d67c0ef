"""Keeping the cuts of top-k, top-p and min-p clear of tokens that rounding could move across them.

A sampler that filters in float32 cannot be held to such a token; the cases made for that are in :mod:`.boundaries`.
"""

from __future__ import annotations

from collections.abc import Iterator
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
ROUNDS = 64


def readings() -> Iterator[Semantics]:
    """Yield the readings of the filters for which cuts are clear: the named ones, ties at top-k kept all or not."""
    for semantics in SEMANTICS.values():
        yield semantics
        yield replace(semantics, top_k_ties="exact")


def clear_cuts(logits: Singles, probs: Singles | None, params: SamplingParams) -> None:
    """Change law rows, float32 [n, V], so that no token is undecided (:mod:`harness.margins`); in place.

    What a cut takes away is made a little less likely, so that equal tokens stay equal at a cut by rank. ``probs`` are
    the same laws in multiples of 1/4096 where they are exact; these stay so.
    """
    for _ in range(ROUNDS):
        clear = True
        for semantics in readings():
            for row in np.flatnonzero(claimed_rows(logits, params, semantics).undecided.any(axis=1)):
                clear = False
                if probs is None:
                    logits[row][_cut(logits[row], params, semantics)] -= GAP
                else:
                    _move_unit(probs[row], _cut(probs[row], params, semantics, probs=True))
                    with np.errstate(divide="ignore"):
                        logits[row] = np.log(probs[row])
        if clear:
            return
    raise ValueError(f"no way was found to keep the cuts of {params} clear")


def _cut(row: Singles, params: SamplingParams, semantics: Semantics, *, probs: bool = False) -> Bools:
    """Return the possible tokens of a row that the filters take away; the least likely ones where they take none."""
    possible = row > (0.0 if probs else -np.inf)
    gone: Bools = possible & (target_probs(row, params, semantics, probs=probs) <= 0.0)
    return gone if gone.any() else possible & (row == row[possible].min())


def _move_unit(row: Singles, gone: Bools) -> None:
    """Give a unit of each of the likeliest tokens of ``gone`` to the likeliest of all; in place."""
    most = gone & (row == row[gone].max())
    best = int(np.where(most, -1.0, row).argmax())
    row[most] -= np.float32(1 / UNIT)
    row[best] += np.float32(most.sum() / UNIT)
