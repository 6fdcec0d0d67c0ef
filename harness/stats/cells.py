"""Layer L1, cells: an exact binomial test of every prefix cell (each prefix's next token, inner and last).

A cell is a pair (prefix, token) of positive probability p = reach[prefix] * rows[prefix, token]; its count is
Bin(n, p). The layer's level is split equally over depths and, within a depth, equally over cells. Which cells there
are follows from the law alone.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..counts import PrefixCounts
from ..law import Law
from .alpha import WITHIN_CASE
from .evidence import Evidence

__all__ = ["cell_counts", "cells", "two_sided"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

CERTAIN = 1.0 - 1e-12
"""Cells from here on have probability 1 but for the rounding of the law itself."""


def two_sided(observed: Ints, trials: Ints | int, probability: Floats) -> Floats:
    """Twice the lesser binomial tail, at most 1; all arguments broadcast.

    Exactly valid: P(value <= t) <= t for every t under Bin(trials, probability). Each tail includes the observed count.
    """
    lower = stats.binom.cdf(observed, trials, probability)
    upper = stats.binom.sf(observed - 1, trials, probability)
    return np.minimum(1.0, 2.0 * np.minimum(lower, upper))


def cell_counts(law: Law) -> Ints:
    """Cells of positive probability per depth of their prefix, int64 [depths]."""
    per_prefix = np.count_nonzero(law.rows, axis=1) * (law.reach > 0.0)
    return np.bincount(law.depth, weights=per_prefix).astype(np.int64)


def cells(law: Law, counts: PrefixCounts, *, conditional: bool = False) -> Evidence:
    """Test every prefix cell and return the layer's Bonferroni p-value over depths and cells.

    Parameters
    ----------
    law : Law
        M prefixes, V tokens.
    counts : PrefixCounts
        Read against the same law.
    conditional : bool
        False: cell counts are Bin(n, reach * row), so acceptance counts too. True (rule None, reach unknown): they are
        Bin(times the prefix occurred, row).

    Returns
    -------
    Evidence
        "cells", of false-alarm rate at most t at every threshold t, for any n. The detail names the cell of the least
        p-value; ``correction`` is depths times cells of its depth.

    Notes
    -----
    An empty cell's p-value falls with its probability, so of a depth's empty cells only the likeliest can matter; the
    other ones need no evaluation. Impossible cells are left to layer L0. So are certain ones, and to the acceptance
    law: they are missed by an impossible token or by a step that ends where it must go on.
    """
    per_depth = cell_counts(law)
    depths = int(np.count_nonzero(per_depth))
    trials, scale = (counts.reached, np.ones(law.size)) if conditional else (np.full(law.size, counts.n), law.reach)
    prefix, token, observed = counts.prefix, counts.token, counts.count
    probability = np.minimum(1.0, scale[prefix] * law.rows[prefix, token])
    possible = probability > 0.0
    prefix, token, observed, probability = (x[possible] for x in (prefix, token, observed, probability))

    empty_prefix, empty_token = _likeliest_empty(law, counts)
    prefix = np.concatenate([prefix, empty_prefix])
    token = np.concatenate([token, empty_token])
    observed = np.concatenate([observed, np.zeros(len(empty_prefix), np.int64)])
    probability = np.minimum(1.0, scale[prefix] * law.rows[prefix, token])
    correction = depths * per_depth[law.depth[prefix]]
    p_values = np.where(probability < CERTAIN, two_sided(observed, trials[prefix], probability), 1.0)
    corrected = np.minimum(1.0, p_values * correction)
    detail: dict[str, Any] = {"cells": int(per_depth.sum()), "depths": depths}
    if not len(corrected):
        return Evidence("cells", 1.0, True, WITHIN_CASE["cells"], detail)
    best = int(np.argmin(corrected))
    detail |= {
        "prefix": law.prefix(int(prefix[best])),
        "token": int(token[best]),
        "observed": int(observed[best]),
        "expected": float(trials[prefix[best]] * probability[best]),
        "cell_p_value": float(p_values[best]),
        "correction": int(correction[best]),
    }
    after = f"after {' '.join(map(str, detail['prefix']))}" if detail["prefix"] else "at the root"
    says = f"{after}, token {detail['token']}: expected {detail['expected']:.5g}, observed {detail['observed']}"
    return Evidence("cells", float(corrected[best]), True, WITHIN_CASE["cells"], detail, says)


def _likeliest_empty(law: Law, counts: PrefixCounts) -> tuple[Ints, Ints]:
    """Prefix and token of each prefix's likeliest cell that was never observed, prefixes without one left out."""
    start = np.searchsorted(counts.prefix, np.arange(law.size + 1))
    token = np.argmax(law.rows, axis=1)
    for m in np.flatnonzero(start[1:] > start[:-1]):
        row = law.rows[m].copy()
        row[counts.token[start[m] : start[m + 1]]] = 0.0
        token[m] = np.argmax(row)
        if row[token[m]] <= 0.0:
            token[m] = -1
    prefix = np.flatnonzero((token >= 0) & (law.reach > 0.0))
    return prefix, token[prefix]
