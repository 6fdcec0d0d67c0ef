"""Leaving out what rounding decides: laws and counts given that a decided token comes.

A sampler that filters for itself may keep or drop an undecided token, and which it does may change from row to row. The
other tokens keep their masses relative to each other, so given that one of them comes, the row restricted to them is
the law, whatever the sampler does with the rest. This is what the tests of cells and the chi-square then look at.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..counts import PrefixCounts
from ..law import Law

__all__ = ["decided", "emitted", "undecided_mass"]

Ints = NDArray[np.int64]


def decided(law: Law, counts: PrefixCounts) -> tuple[Law, PrefixCounts]:
    """Return ``law`` and ``counts`` given that a decided token comes; as they are where ``law`` has no others.

    The counts of a prefix are then trials of its row, to be tested as such (``conditional``). Where it is known that a
    step goes on after every prefix of the law, a step that stops there is a trial without a success.
    """
    if law.undecided is None:
        return law, counts
    kept = ~law.undecided.tokens[counts.prefix, counts.token]
    trials = emitted(law, counts) if law.undecided.stops_known else counts.reached
    dropped = np.bincount(counts.prefix, weights=counts.count * ~kept, minlength=law.size).astype(np.int64)
    return law.decided, replace(
        counts,
        reached=trials - dropped,
        prefix=counts.prefix[kept],
        token=counts.token[kept],
        count=counts.count[kept],
    )


def emitted(law: Law, counts: PrefixCounts) -> Ints:
    """Return how often each prefix was emitted, whether or not more followed, int64 [M]."""
    emitted = np.zeros(law.size, np.int64)
    emitted[0] = counts.n
    child = law.children(counts.prefix, counts.token)
    emitted[child[child >= 0]] = counts.count[child >= 0]
    return emitted


def undecided_mass(law: Law, counts: PrefixCounts) -> dict[str, Any] | None:
    """Report the undecided cells: how many, their mass at most, how often they came; None where there are none."""
    if law.undecided is None:
        return None
    tokens = law.undecided.tokens
    came = counts.count[tokens[counts.prefix, counts.token]]
    return {
        "cells": int(np.count_nonzero(tokens)),
        "mass": float(np.sum(law.reach[:, None] * law.rows, where=tokens)),
        "observed": int(came.sum()),
    }
