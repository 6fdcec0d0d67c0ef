"""Temperature errors: a law's rows at T * (1 + e), and the smallest e that the cell tests or the chi-square see."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, stats

from ..law import Law
from .alpha import WITHIN_CASE
from .chisquare import LEAST_EXPECTED
from .critical import at_most, critical_counts, tail_levels

__all__ = ["least_temperature_error", "tilted"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BINS = 128
CANDIDATES = 24
LARGEST_ERROR = 1e3
MOST_GROWTH = 700.0
"""Of a log probability relative to the likeliest token's: what would grow more is below 1e-304."""
PRECISION = 1.005


def tilted(law: Law, error: float) -> Law:
    """Return the law at temperature T * (1 + error): every row to the power 1 / (1 + error), normalised."""
    with np.errstate(divide="ignore"):
        logs = np.log(law.rows) / (1.0 + error)
    rows = np.exp(logs - logs.max(axis=1, keepdims=True))
    return law.with_rows(rows / rows.sum(axis=1, keepdims=True))


def least_temperature_error(law: Law, n: int, alpha: float, power: float, *, conditional: bool = False) -> float | None:
    """Smallest e such that both T * (1 + e) and T / (1 + e) at every node are seen with this power in n draws.

    Seen by the best single cell test or by the chi-square's sum (noncentral, on the pruned cells), whichever is
    stronger; together they see somewhat more. None if no temperature error is seen: rows without two different
    probabilities, or too few draws.
    """
    plan = _Plan.of(law, n, alpha, power, conditional)
    if plan is None:
        return None
    hotter, colder = plan.least(1.0), plan.least(-1.0)
    return None if hotter is None or colder is None else max(hotter, colder)


@dataclass(frozen=True, eq=False)
class _Groups:
    """Tokens of P prefixes in C groups of nearly equal probability: all alone, or in bins of log p if V is large.

    ``mass`` is a group's probability, ``log`` its mean log p and ``top`` the probability of its likeliest token, all
    float64 [P, C]; of an empty group mass and top are 0, and log is that of the prefix's likeliest token.
    """

    mass: Floats
    log: Floats
    top: Floats

    @classmethod
    def of(cls, rows: Floats, likeliest: Floats) -> _Groups:
        """Group the positive entries of rows, float64 [P, V]; ``likeliest`` is each prefix's greatest p, [P]."""
        if rows.shape[1] <= 2 * BINS:
            return cls(rows, np.log(np.where(rows > 0.0, rows, likeliest[:, None])), rows)
        at, token = np.nonzero(rows)
        mass = rows[at, token]
        logs = np.log(mass)
        lowest, highest = float(logs.min(initial=0.0)), float(logs.max(initial=-math.inf))
        width = max((highest - lowest) / BINS, 1e-9)
        code = at * BINS + np.minimum(((logs - lowest) / width).astype(np.int64), BINS - 1)
        size = len(rows) * BINS
        masses = np.bincount(code, weights=mass, minlength=size).astype(np.float64)
        means = np.repeat(np.log(likeliest), BINS)
        np.divide(np.bincount(code, weights=mass * logs, minlength=size), masses, out=means, where=masses > 0.0)
        top = np.zeros(size)
        np.maximum.at(top, code, mass)
        return cls(masses.reshape(-1, BINS), means.reshape(-1, BINS), top.reshape(-1, BINS))


@dataclass(frozen=True, eq=False)
class _Plan:
    """A law condensed for trying many temperatures; P prefixes take part in the chi-square."""

    power: float
    trials: Floats  # [P], of a cell test
    expected: Floats  # [P], times that the prefix occurs
    scale: Floats  # [P], what a cell's probability given its prefix is multiplied with in its test
    follows: bool  # whether a cell's probability follows its prefix's reach
    depth: Ints  # [P]
    parent: Ints  # [P], index among the P; -1 for the root
    log_step: Floats  # [P], log probability of the prefix's last token
    peak: Floats  # [P], log probability of the prefix's likeliest next token
    kept: _Groups  # cells that stand alone
    tail: _Groups  # cells that are pooled
    noncentrality: float
    too_low: Floats  # [P, C], critical counts of the cells that stand alone
    too_high: Floats

    @classmethod
    def of(cls, law: Law, n: int, alpha: float, power: float, conditional: bool) -> _Plan | None:
        """Prune as the chi-square does; None where that leaves nothing to test."""
        prefix = np.flatnonzero(n * law.reach >= LEAST_EXPECTED)
        reach, rows = law.reach[prefix], law.rows[prefix]
        alone = (n * reach)[:, None] * rows >= LEAST_EXPECTED
        likeliest = rows.max(axis=1)
        kept = _Groups.of(np.where(alone, rows, 0.0), likeliest)
        tail = _Groups.of(np.where(alone, 0.0, rows), likeliest)
        links = alone.sum(axis=1) - (tail.mass.sum(axis=1) <= 0.0)
        df = int(np.maximum(links, 0).sum())
        if not df:
            return None
        position = np.full(law.size, -1)
        position[prefix] = np.arange(len(prefix))
        step = np.where(prefix > 0, law.rows[law.parent[prefix], law.token[prefix]], 1.0)
        trials = np.rint(n * reach) if conditional else np.full(len(prefix), float(n))
        scale = np.ones(len(prefix)) if conditional else reach
        level = tail_levels(law, alpha)[law.depth[prefix]]
        many, p, strict = np.broadcast_arrays(
            trials.astype(np.int64)[:, None], np.minimum(scale[:, None] * kept.top, 1.0), level[:, None]
        )
        too_low, too_high = critical_counts(many, p, strict)
        return cls(
            power,
            trials,
            n * reach,
            scale,
            not conditional,
            law.depth[prefix],
            np.where(prefix > 0, position[law.parent[prefix]], -1),
            np.log(step),
            np.log(likeliest),
            kept,
            tail,
            _needed_noncentrality(df, 0.5 * WITHIN_CASE["chi-square"] * alpha, power),
            too_low,
            too_high,
        )

    def least(self, direction: float) -> float | None:
        """Smallest error seen in one direction, 1 hotter or -1 colder, to half a percent above."""
        seen = 1e-3
        while seen > 1e-9 and self.sees(direction * math.log1p(seen / 4.0)):
            seen /= 4.0
        while not self.sees(direction * math.log1p(seen)):
            seen *= 4.0
            if seen > LARGEST_ERROR:
                return None
        unseen = seen / 4.0
        while seen > PRECISION * unseen:
            middle = math.sqrt(seen * unseen)
            if self.sees(direction * math.log1p(middle)):
                seen = middle
            else:
                unseen = middle
        return seen

    def sees(self, log_error: float) -> bool:
        """Whether T * exp(log_error) is seen with the power asked for."""
        slope = math.expm1(-log_error)  # p becomes p * exp(slope * log p), normalised
        peak = self.peak[:, None]  # taken out, so that nothing overflows at the coldest temperatures
        kept, tail = (np.exp(np.minimum(slope * (group.log - peak), MOST_GROWTH)) for group in (self.kept, self.tail))
        pooled = (self.tail.mass * tail).sum(axis=1)
        total = (self.kept.mass * kept).sum(axis=1) + pooled
        ratio = kept / total[:, None]
        log_total = np.log(total) + slope * self.peak
        change = np.where(self.parent >= 0, slope * self.log_step - log_total[self.parent], 0.0)
        for depth in range(1, int(self.depth.max()) + 1):
            here = self.depth == depth
            change[here] += change[self.parent[here]]
        grown = np.exp(change)  # reach after / reach before
        return self._chi_square_sees(grown, ratio, pooled / total) or self._cells_see(grown, ratio)

    def _chi_square_sees(self, grown: Floats, ratio: Floats, pooled: Floats) -> bool:
        mass = self.tail.mass.sum(axis=1)
        tail = (pooled - mass) ** 2 / (mass + 1.0 / (12.0 * self.expected))
        # The transform's uniform blurs a count by a variance of 1/12.
        count = self.expected[:, None] * np.exp(self.kept.log)
        cells = self.kept.mass * (ratio - 1.0) ** 2 * count / (count + 1.0 / 12.0)
        return float(np.sum(self.expected * grown * (cells.sum(axis=1) + tail))) >= self.noncentrality

    def _cells_see(self, grown: Floats, ratio: Floats) -> bool:
        prefix, group = np.nonzero(self.kept.top)
        p = np.minimum(self.scale[prefix] * self.kept.top[prefix, group], 1.0)
        q = np.minimum(p * ratio[prefix, group] * (grown[prefix] if self.follows else 1.0), 1.0)
        trials = self.trials[prefix]
        too_low, too_high = self.too_low[prefix, group], self.too_high[prefix, group]
        expected, spread = trials * q, np.sqrt(trials * q * (1.0 - q)) + 1.0
        margin = np.maximum(too_low - expected, expected - too_high) / spread
        best = np.argsort(-margin)[:CANDIDATES]
        q, trials, too_low, too_high = q[best], trials[best], too_low[best], too_high[best]
        seen = at_most(too_low, trials, q) + 1.0 - at_most(too_high - 1.0, trials, q)
        return float(np.max(seen, initial=0.0)) >= self.power


def _needed_noncentrality(df: int, level: float, power: float) -> float:
    """Noncentrality at which a chi-square of ``df`` exceeds its critical value at ``level`` with this power."""
    critical = float(stats.chi2.isf(level, df))

    def lacking(noncentrality: float) -> float:
        return float(stats.ncx2.sf(critical, df, noncentrality)) - power

    high = 1.0
    while lacking(high) < 0.0:
        high *= 2.0
    return float(optimize.brentq(lacking, 0.0, high, rtol=1e-6))
