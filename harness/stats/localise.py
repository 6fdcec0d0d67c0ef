"""Where a sampler deviates: prefix cells ranked by exact conditional tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..counts import PrefixCounts
from ..law import Law
from .cells import two_sided
from .decided import decided

__all__ = ["Deviation", "where"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Deviation:
    """One cell of the ranking.

    ``prefix`` are the tokens emitted before, ``node`` the node they lead to, ``token`` what came next; ``expected`` and
    ``observed`` are frequencies of the token given the prefix; ``p_value`` is the exact two-sided binomial one, given
    how often the prefix occurred, and not adjusted for the number of cells (Holm's adjustment keeps the order).
    ``kind`` is "cell", or the kind of a stray: its p-value is 0.
    """

    prefix: list[int]
    node: int
    token: int
    expected: float
    observed: float
    p_value: float
    kind: str = "cell"


def where(law: Law, counts: PrefixCounts, limit: int = 20) -> list[Deviation]:
    """Rank (prefix, token) cells by how far they are from the law, at most ``limit`` rows.

    Each cell is tested given its prefix: Bin(reached[prefix], rows[prefix, token]). So a fault at one node does not
    show at the nodes below or beside it, and the rows point at nodes that deviate themselves. Impossible emissions come
    first, the most frequent of them on top; undecided tokens are left out. p-values that underflow are ordered by their
    likelihood-ratio statistic.

    Notes
    -----
    The rows are a ranking and no test: they are given on a pass as well, where the top row is just the least likely of
    many. With m cells, the top row is significant at level a if its p-value is at most a/m.
    """
    rows = [
        Deviation(
            law.prefix(stray.prefix),
            int(law.node[stray.prefix]),
            stray.token,
            0.0,
            stray.count / int(counts.reached[stray.prefix]),
            0.0,
            stray.kind,
        )
        for stray in sorted(counts.strays, key=lambda stray: -stray.count)[:limit]
    ]
    law, counts = decided(law, counts)
    prefix, token, observed = _candidates(law, counts)
    trials = counts.reached[prefix]
    expected = np.minimum(1.0, law.rows[prefix, token])
    p_values = two_sided(observed, trials, expected)
    deviance = special.rel_entr(observed, trials * expected) + special.rel_entr(
        trials - observed, trials * (1.0 - expected)
    )
    order = np.lexsort((-deviance, p_values))[: max(0, limit - len(rows))]
    rows += [
        Deviation(
            law.prefix(int(prefix[i])),
            int(law.node[prefix[i]]),
            int(token[i]),
            float(expected[i]),
            float(observed[i] / trials[i]),
            float(p_values[i]),
        )
        for i in order
    ]
    return rows


def _candidates(law: Law, counts: PrefixCounts) -> tuple[Ints, Ints, Ints]:
    """Prefix, token and count of the observed possible cells and of the empty ones that could rank high."""
    possible = law.rows[counts.prefix, counts.token] > 0.0
    observed = counts.count[possible]
    prefix, token = counts.prefix[possible], counts.token[possible]
    # Empty cells with an expected count below 1 are what one expects; leaving them out keeps large vocabularies cheap.
    empty = counts.reached[:, None] * law.rows >= 1.0
    empty[counts.prefix, counts.token] = False
    more_prefix, more_token = np.nonzero(empty)
    return (
        np.concatenate([prefix, more_prefix]),
        np.concatenate([token, more_token]),
        np.concatenate([observed, np.zeros(len(more_prefix), np.int64)]),
    )
