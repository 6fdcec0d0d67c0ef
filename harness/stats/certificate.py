"""Certificate: how far from the law the sampler can be, in total variation, given what was seen.

A passed test of fit says nothing of the kind; this bound does, whatever the test said.
"""

from __future__ import annotations

import math

import numpy as np

from ..counts import PrefixCounts, SequenceCounts
from ..law import Law
from .outcomes import outcomes_of

__all__ = ["MISS", "certified_tv", "certified_tv_next_token", "distance"]

MISS = 1e-6
"""Probability d that a certificate is wrong."""


def distance(law: Law, sequences: SequenceCounts) -> float:
    """TV(counts / n, law) over whole emitted sequences, in [0, 1]; 1 for no sequences.

    Only observed sequences need looking at: it is the sum of max(frequency - probability, 0).
    """
    if not sequences.n:
        return 1.0
    _, _, probability = outcomes_of(law, sequences)
    excess = np.maximum(sequences.counts / sequences.n - probability, 0.0)
    return min(1.0, float(excess.sum()))


def certified_tv(law: Law, sequences: SequenceCounts, miss: float = MISS) -> float:
    """Bound on TV(sampler, law) over whole emitted sequences that is wrong with probability at most ``miss``.

    TV(counts / n, law) + sqrt(ln(1/miss) / (2n)), at most 1. The distance of the counts is on average no less than the
    sampler's (convexity), and one draw moves it by at most 1/n (McDiarmid). No dependence on the number of outcomes.
    Needs independent draws and an n fixed beforehand: of k looks, the j-th must use miss / 2^j.
    """
    if not sequences.n:
        return 1.0
    return min(1.0, distance(law, sequences) + math.sqrt(math.log(1.0 / miss) / (2.0 * sequences.n)))


def certified_tv_next_token(law: Law, counts: PrefixCounts, miss: float = MISS) -> float:
    """Bound like :func:`certified_tv`, where only the next-token rows are known (rule None: reach unknown).

    The distance is that between the sampler and a lossless one which stops after each emitted prefix as often as the
    sampler does, over what comes within S tokens; over a tree TV <= sum_v P(v) TV_v. The plug-in, sum_v reached_v / n *
    TV(counts_v / reached_v, row_v) plus the frequency of walks out of the tree, is convex in the counts, hence no less
    on average, and one draw moves it by at most (2S - 1) / n: its tokens leave one path of at most S prefixes for
    another that shares the root.
    """
    if not counts.n:
        return 1.0
    expected = counts.reached[counts.prefix] * law.rows[counts.prefix, counts.token]
    excess = float(np.maximum(counts.count - expected, 0.0).sum())
    astray = sum(stray.count for stray in counts.strays if stray.kind == "accepted")
    moved = 2 * law.depth_limit - 1
    slack = moved * math.sqrt(math.log(1.0 / miss) / (2.0 * counts.n))
    return min(1.0, (excess + astray) / counts.n + slack)
