"""Layer L2, the exact chi-square: binomials down the prefix tree, made exactly normal.

At a prefix, the children's counts are taken one after the other, likeliest first: given the earlier ones, N_j is
Bin(left, p_j / sum_{i >= j} p_i). A randomised probability integral transform turns each into an exactly standard
normal z, independent of the ones before. So sum z^2 is chi-square and max |z| has a known law, at any n; there is no
asymptotics and no least expected count.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ..counts import PrefixCounts
from ..law import Law
from .alpha import WITHIN_CASE
from .evidence import Evidence

__all__ = ["Chain", "chain", "chi_square", "normal_scores"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEAST_EXPECTED = 1.0
"""Cells expected less often than this are pooled into their prefix's tail; prefixes that are, are left out."""


@dataclass(frozen=True, eq=False)
class Chain:
    """The pruned cells of a law for a planned n, laid out for the chain of binomials.

    Parameters
    ----------
    prefix : int64 [P]
        The prefixes that take part.
    token : int64 [P, W]
        Their cells by descending probability, -1 beyond the last; the tail cell is not listed.
    probability : float64 [P, W + 1]
        Given the prefix: of the cells, 0 beyond the last; in the last column, of the tail: all other tokens together.
    ratio : float64 [P, W]
        Probability of cell j given that none of the earlier ones came.
    tested : bool [P, W]
        Whether there is anything left after cell j, so that its count is random given the earlier ones.
    """

    prefix: Ints
    token: Ints
    probability: Floats
    ratio: Floats
    tested: NDArray[np.bool_]

    @property
    def df(self) -> int:
        """Degrees of freedom: tests in the chain."""
        return int(np.count_nonzero(self.tested))


def chain(law: Law, n: int) -> Chain:
    """Prune and order the cells of ``law`` for ``n`` steps, from the law and n only.

    A prefix takes part if n * reach >= 1; of its cells, those with n * reach * row >= 1 stand alone, all others are
    pooled into one tail cell, which comes last.
    """
    prefix = np.flatnonzero(n * law.reach >= LEAST_EXPECTED)
    rows = law.rows[prefix]
    kept = (n * law.reach[prefix])[:, None] * rows >= LEAST_EXPECTED
    tail = np.where(kept, 0.0, rows).sum(axis=1)
    at, token = np.nonzero(kept)
    order = np.lexsort((token, -rows[at, token], at))
    at, token = at[order], token[order]
    widths = np.bincount(at, minlength=len(prefix))
    width = int(widths.max(initial=0))
    column = np.arange(len(at)) - np.repeat(np.cumsum(widths) - widths, widths)
    tokens = np.full((len(prefix), width), -1, np.int64)
    tokens[at, column] = token
    probability = np.zeros((len(prefix), width + 1))
    probability[at, column] = rows[at, token]
    probability[:, -1] = tail
    left = np.cumsum(probability[:, ::-1], axis=1)[:, ::-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = np.where(tokens >= 0, np.minimum(1.0, probability[:, :-1] / left[:, :-1]), 0.0)
    tested = (tokens >= 0) & (left[:, 1:] > 0.0)
    return Chain(prefix, tokens, probability, ratio, tested)


def normal_scores(observed: Ints, trials: Ints, probability: Floats, rng: np.random.Generator) -> Floats:
    """Randomised probability integral transform of binomial counts, float64 of their common shape.

    Under Bin(trials, probability) the scores are i.i.d. standard normal exactly, whatever the trials (0 included).
    Each is computed from its smaller tail, so that scores up to +-37 keep their precision; larger ones are cut there.
    """
    # Resolution 2^-106 at both ends of (0, 1): a plain 53-bit uniform would be too coarse for tiny alpha.
    small = 0.5 * (rng.random(observed.shape) + 2.0**-53 * rng.random(observed.shape))
    from_below = rng.random(observed.shape) < 0.5
    point = stats.binom.pmf(observed, trials, probability)
    below = stats.binom.cdf(observed - 1, trials, probability) + np.where(from_below, small, 1.0 - small) * point
    above = stats.binom.sf(observed, trials, probability) + np.where(from_below, 1.0 - small, small) * point
    tiny = np.finfo(np.float64).tiny
    lower = special.ndtri(np.clip(below, tiny, 0.5))
    upper = special.ndtri(np.clip(above, tiny, 0.5))
    return np.where(below < above, lower, -upper)


def chi_square(law: Law, counts: PrefixCounts, rng: np.random.Generator) -> Evidence:
    """Test the whole law at once by the chain's scores: sum z^2 (spread faults) and max |z| (single ones).

    Parameters
    ----------
    law : Law
        M prefixes, V tokens. Its reach only decides the pruning: the chain is conditional on how often each prefix
        occurred, so it holds for rule None too.
    counts : PrefixCounts
        Read against the same law.
    rng : numpy.random.Generator
        Source of the transform's uniforms; how many are drawn depends on the law and n only. Its seed is logged.

    Returns
    -------
    Evidence
        "chi-square", with p = min(1, 2 min(p_sum, p_max)); false-alarm rate at most t at every threshold t, any n.
    """
    pruned = chain(law, counts.n)
    table = _observed(law.vocab, pruned, counts)
    left = np.cumsum(table[:, ::-1], axis=1)[:, ::-1][:, :-1]
    tested = pruned.tested
    detail: dict[str, Any] = {"df": pruned.df, "prefixes": len(pruned.prefix), "rng": _seed_of(rng)}
    if not pruned.df:
        return Evidence("chi-square", 1.0, True, WITHIN_CASE["chi-square"], detail)
    scores = normal_scores(table[:, :-1][tested], left[tested], pruned.ratio[tested], rng)
    statistic, largest = float(np.sum(scores**2)), float(np.max(np.abs(scores)))
    p_sum = float(stats.chi2.sf(statistic, pruned.df))
    p_max = float(-np.expm1(pruned.df * np.log1p(-2.0 * special.ndtr(-largest))))
    detail |= {"statistic": statistic, "p_sum": p_sum, "max_z": largest, "p_max": p_max}
    says = f"next tokens do not follow the law together: chi-square {statistic:.5g} with {pruned.df} degrees of freedom"
    if p_max < p_sum:
        says = f"next tokens do not follow the law together: the largest of {pruned.df} scores is {largest:.3g}"
    return Evidence("chi-square", min(1.0, 2.0 * min(p_sum, p_max)), True, WITHIN_CASE["chi-square"], detail, says)


def _observed(vocab: int, pruned: Chain, counts: PrefixCounts) -> Ints:
    """Return the counts of the chain's cells, int64 [P, W + 1]; the last column is the tail, strays included."""
    at, column = np.nonzero(pruned.token >= 0)
    wanted = pruned.prefix[at] * vocab + pruned.token[at, column]
    codes = counts.prefix * vocab + counts.token
    table = np.zeros((len(pruned.prefix), pruned.token.shape[1] + 1), np.int64)
    if len(codes):
        found = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        table[at, column] = np.where(codes[found] == wanted, counts.count[found], 0)
    table[:, -1] = counts.reached[pruned.prefix] - table.sum(axis=1)
    return table


def _seed_of(rng: np.random.Generator) -> dict[str, Any]:
    """Describe how to make the generator again, for the report; seeds are text, as they may exceed 64 bits."""
    sequence = rng.bit_generator.seed_seq
    entropy = getattr(sequence, "entropy", None)
    return {
        "bit_generator": type(rng.bit_generator).__name__,
        "entropy": None if entropy is None else str(entropy),
        "spawn_key": [int(key) for key in getattr(sequence, "spawn_key", ())],
    }
