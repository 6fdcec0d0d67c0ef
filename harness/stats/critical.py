"""Critical counts of the cell tests, and the chance of missing them: what planning inverts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..law import Law
from .alpha import WITHIN_CASE
from .cells import cell_counts

__all__ = ["at_most", "both_missed", "critical_counts", "tail_levels"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def tail_levels(law: Law, alpha: float) -> Floats:
    """Level of one tail of one cell test, by depth of the prefix, float64 [depths], in a case of this alpha."""
    per_depth = cell_counts(law)
    depths = max(1, int(np.count_nonzero(per_depth)))
    return WITHIN_CASE["cells"] * alpha / (2.0 * depths * np.maximum(per_depth, 1))


def critical_counts(trials: Ints, probability: Floats, level: Floats) -> tuple[Floats, Floats]:
    """Greatest count that is too low (-1: none) and least count that is too high (trials + 1: none).

    Under Bin(trials, probability) each is reached with a probability of at most ``level``; arguments of one shape.
    """
    low = _first(trials, lambda k: special.betaincc(k + 1, trials - k, probability) > level)
    high = _first(trials, lambda k: special.betainc(k + 1, trials - k, probability) <= level)
    return low - 1.0, high + 1.0


def at_most(count: Floats, trials: Ints | Floats, probability: Floats) -> Floats:
    """P(Bin(trials, probability) <= count), for counts from -1 to trials; arguments of one shape.

    The incomplete beta function itself: SciPy's distribution takes several times as long to call it.
    """
    inside = np.clip(count, 0, np.maximum(trials - 1, 0))
    tail = special.betaincc(inside + 1.0, np.maximum(trials - inside, 1e-300), probability)
    below: Floats = np.where(count < 0, 0.0, np.where(count >= trials, 1.0, tail))
    return below


def _first(trials: Ints, holds: Callable[[Ints], NDArray[np.bool_]]) -> Floats:
    """Return the least count in [0, trials) at which ``holds`` becomes true, for each entry, by bisection; else trials.

    SciPy's own quantiles give up at levels as small as these; the tails as incomplete beta functions hold.
    """
    below, at = np.full_like(trials, -1), trials.copy()
    while (at - below > 1).any():
        middle = np.maximum((below + at) // 2, 0)
        true = holds(np.minimum(middle, np.maximum(trials - 1, 0)))
        at = np.where(true & (middle < at), middle, at)
        below = np.where(true | (middle >= at), below, middle)
    return at.astype(np.float64)


def both_missed(trials: Ints, donor: Floats, recipient: Floats, too_low: Floats, too_high: Floats) -> Floats:
    """P(the donor's count stays above ``too_low`` and the recipient's below ``too_high``), all of one shape.

    The two counts are cells of one multinomial. Their marginals are exact; their dependence is that of a normal pair
    of the same correlation, through Owen's T function (D. B. Owen, Ann. Math. Stat. 27, 1956).
    """
    above = 1.0 - at_most(too_low, trials, donor)
    below = at_most(too_high - 1.0, trials, recipient)
    odds = donor * recipient / np.maximum((1.0 - donor) * (1.0 - recipient), 1e-300)
    return _bivariate_normal(above, below, np.sqrt(np.clip(odds, 0.0, 1.0)))


def _bivariate_normal(first: Floats, second: Floats, correlation: Floats) -> Floats:
    """P(X <= x, Y <= y) for standard normals of P(X <= x) = first, P(Y <= y) = second and a correlation in [0, 1]."""
    edge = 1e-12  # keeps the quantiles finite and off zero, where the formula divides
    x = special.ndtri(np.clip(first, edge, 1.0 - edge))
    y = special.ndtri(np.clip(second, edge, 1.0 - edge))
    x, y = (np.where(np.abs(q) < edge, edge, q) for q in (x, y))
    rho = np.minimum(correlation, 1.0 - 1e-9)
    root = np.sqrt(1.0 - rho**2)
    opposite = np.where(x * y < 0.0, 0.5, 0.0)
    joint: Floats = (
        0.5 * (special.ndtr(x) + special.ndtr(y))
        - special.owens_t(x, (y / x - rho) / root)
        - special.owens_t(y, (x / y - rho) / root)
        - opposite
    )
    return np.minimum(np.maximum(joint, 0.0), np.minimum(first, second))
