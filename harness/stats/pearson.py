"""Pearson's chi-square and the likelihood-ratio G, classical: for the report, never for the verdict.

Their p-values are asymptotic. At tiny alpha they are too small even when every expected count is 25, so no gate may
rest on them; the exact chi-square does that work.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..counts import SequenceCounts
from ..law import Law
from .evidence import Evidence
from .outcomes import outcome_law, outcomes_of

__all__ = ["POOLED_AT", "pearson"]

Ints = NDArray[np.int64]

POOLED_AT = 25.0
"""Least expected count of a cell; rarer outcomes are pooled into one."""


def pearson(law: Law, sequences: SequenceCounts, pooled_at: float = POOLED_AT) -> Evidence:
    """Pearson's X^2 and G over whole emitted sequences, rare ones pooled from the law and n only.

    Outcomes expected less than ``pooled_at`` times form one cell; if that cell itself is expected less often, it joins
    the rarest of the others. Impossible sequences count in the pool.

    Returns
    -------
    Evidence
        "pearson", which does not decide: its false-alarm rate is only roughly its p-value (with one cell of expected
        count 25 twice the nominal one at 1e-4, 66 times at 1e-9). p is None where fewer than two cells remain.
    """
    n = sequences.n
    probability = outcome_law(law)
    alone = (probability > 0.0) & (n * probability >= pooled_at)
    prefix, token = np.nonzero(alone)
    expected = n * probability[prefix, token]
    observed = _observed(law, sequences, prefix, token)
    rest = n * float(probability[~alone].sum())
    pool = n - int(observed.sum())
    if rest >= max(pooled_at, np.finfo(np.float64).tiny) or not len(expected):
        expected, observed = np.append(expected, rest), np.append(observed, pool)
    else:
        rarest = int(np.argmin(expected))
        expected[rarest] += rest
        observed[rarest] += pool
    detail: dict[str, Any] = {"cells": len(expected), "pooled_at": pooled_at}
    if len(expected) < 2:
        return Evidence("pearson", None, False, 0.0, detail)
    expected *= n / expected.sum()
    x2 = stats.power_divergence(observed, expected, lambda_="pearson")
    g = stats.power_divergence(observed, expected, lambda_="log-likelihood")
    detail |= {
        "df": len(expected) - 1,
        "statistic": float(x2.statistic),
        "g_statistic": float(g.statistic),
        "g_p_value": float(g.pvalue),
    }
    return Evidence("pearson", float(x2.pvalue), False, 0.0, detail)


def _observed(law: Law, sequences: SequenceCounts, prefix: Ints, token: Ints) -> Ints:
    """Return the counts of the outcomes (prefix, token), int64 of their shape; these are sorted and distinct."""
    at, last, _ = outcomes_of(law, sequences)
    known = at >= 0
    codes = at[known] * law.vocab + last[known]
    order = np.argsort(codes)
    codes, found = codes[order], sequences.counts[known][order]
    wanted = prefix * law.vocab + token
    if not len(codes):
        return np.zeros(len(wanted), np.int64)
    index = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
    return np.where(codes[index] == wanted, found[index], 0)
