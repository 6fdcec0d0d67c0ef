"""The acceptance law: how many tokens a step emits, and after which tokens it ends.

Emitting the right tokens is not all that a rule promises: a sampler that accepts nothing is lossless too. The cells
hold how often each prefix goes on, among much else; here the lengths are tested as such, and the place is named.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..counts import PrefixCounts, SequenceCounts
from ..law import Law
from .alpha import WITHIN_CASE
from .decided import emitted
from .evidence import Evidence

__all__ = ["acceptance", "length_counts"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

COIN = 2.0**-24


def acceptance(law: Law, sequences: SequenceCounts, counts: PrefixCounts, nodes: int) -> Evidence | None:
    """Test the number of emitted tokens, and at each prefix how often the step ends there.

    P(at least k tokens), k = 2..S, is tested by how many of the n steps had as many; the end after each prefix given
    how often it was emitted: Bin(emitted, 1 - reach / emit). Either half has half of the level; the first splits it
    over k, the second over depths and within a depth over prefixes. Which there are follows from the law alone.

    Parameters
    ----------
    law : Law
        Of a rule that is claimed. Where it has undecided tokens, only ends after prefixes are tested, and only where it
        is known that there are none; where that is not known either, nothing is.
    sequences, counts : SequenceCounts, PrefixCounts
        The draws, and the same read against ``law``.
    nodes : int
        N of the case.

    Returns
    -------
    Evidence or None
        "acceptance", of false-alarm rate at most t at every threshold t, for any n; None where nothing can be tested.

    Notes
    -----
    A sampler rounds: where the law says that a step never ends (or always does), the other is held against a
    probability of p = (V + N) 2^-24 rather than 0, so that a rare coin on the edge is no proof of a fault.
    """
    rounding = (law.vocab + nodes) * COIN
    tests = []
    if law.undecided is None:
        tests.append(_lengths(law, sequences, rounding))
    if law.undecided is None or law.undecided.stops_known:
        tests.append(_ends(law, counts, rounding))
    if not tests:
        return None
    p_value, detail, says = min(tests, key=lambda test: test[0])
    return Evidence("acceptance", min(1.0, 2.0 * p_value), True, WITHIN_CASE["acceptance"], detail, says)


def length_counts(sequences: SequenceCounts, depth_limit: int) -> Ints:
    """Count the steps that emitted k tokens at index k, int64 [S + 1]; longer ones count as S."""
    lengths = np.minimum(sequences.lengths, depth_limit)
    return np.bincount(lengths, weights=sequences.counts, minlength=depth_limit + 1).astype(np.int64)


def _lengths(law: Law, sequences: SequenceCounts, rounding: float) -> tuple[float, dict[str, Any], str]:
    """Return the Bonferroni p-value over k of P(at least k tokens), and what is the least likely."""
    counted = length_counts(sequences, law.depth_limit)
    at_least = np.cumsum(counted[::-1])[::-1][2:]
    probability = np.minimum(1.0, np.cumsum(law.lengths[::-1])[::-1][2:])
    k = np.arange(2, law.depth_limit + 1)[: len(probability)]
    possible = probability > 0.0  # longer steps are impossible emissions: layer L0
    k, at_least, probability = k[possible], at_least[possible], probability[possible]
    if not len(k):
        return 1.0, {"lengths": 0}, ""
    p_values = _tolerant(at_least, np.full(len(k), sequences.n), probability, np.multiply(rounding, k - 1))
    worst = int(np.argmin(p_values))
    expected = float(sequences.n * probability[worst])
    detail = {
        "lengths": len(k),
        "at_least": int(k[worst]),
        "expected": expected,
        "observed": int(at_least[worst]),
    }
    says = f"at least {k[worst]} tokens: expected {expected:.5g}, observed {at_least[worst]} of {sequences.n} steps"
    return min(1.0, len(k) * float(p_values[worst])), detail, says


def _ends(law: Law, counts: PrefixCounts, rounding: float) -> tuple[float, dict[str, Any], str]:
    """Return the p-value of where steps end, over depths and prefixes, and the least likely of the places."""
    tested = (law.depth > 0) & (law.emit > 0.0)
    if not tested.any():
        return 1.0, {"prefixes": 0}, ""
    goes_on = np.minimum(1.0, law.reach / np.where(law.emit > 0.0, law.emit, 1.0))
    if law.undecided is not None:
        goes_on[:] = 1.0
    times = emitted(law, counts)
    m = np.flatnonzero(tested)
    ends = np.maximum(0, times - counts.reached)
    p_values = _tolerant(ends[m], times[m], 1.0 - goes_on[m], np.full(len(m), rounding))
    per_depth = np.bincount(law.depth[m])
    correction = np.count_nonzero(per_depth) * per_depth[law.depth[m]]
    corrected = p_values * correction
    worst = int(np.argmin(corrected))
    at = int(m[worst])
    expected = float(times[at] * (1.0 - goes_on[at]))
    tokens = law.prefix(at)
    detail = {
        "prefixes": len(m),
        "prefix": tokens,
        "node": int(law.node[at]),
        "expected": expected,
        "observed": int(ends[at]),
    }
    says = f"step ended after {' '.join(map(str, tokens))} (node {law.node[at]}): "
    says += f"expected {expected:.5g}, observed {ends[at]} of {times[at]} steps"
    return min(1.0, float(corrected[worst])), detail, says


def _tolerant(observed: Ints, trials: Ints, probability: Floats, rounding: Floats) -> Floats:
    """Return two-sided binomial p-values that hold no probability to be nearer to 0 or 1 than ``rounding``.

    Each tail is at least that of the true probability, so the p-values stay valid.
    """
    lower = stats.binom.cdf(observed, trials, np.minimum(probability, 1.0 - rounding))
    upper = stats.binom.sf(observed - 1, trials, np.maximum(probability, rounding))
    return np.minimum(1.0, 2.0 * np.minimum(lower, upper))
