"""Independence: rows, calls and instances that share noise, draws that are too even, results that do not come again.

All other tests take draws for independent; these look at that. Shared noise shows in pairs of rows of one case: if the
noise of the second is that of the first with probability s, the likelihood ratio of a pair is 1 - s, or 1 - s + s / p
where both emitted the same thing, of probability p. Under independence its mean is 1 given all rows before, so its
product over pairs is an e-value, also where each row is in two pairs. Rejecting at E >= 1/a has a false-alarm rate of
at most a at any a and n (J. Ville, 1939; Markov's inequality at the planned n). Averages of e-values are e-values, and
so are products over independent ones.

Other dependence shows in the table of pairs: ranks of first tokens under their own laws, made uniform with fresh
uniforms, so that each of its cells has the same probability exactly. Draws that are too even show in a chi-square that
is too small.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from ..law import Law
from ..matches import BINS, KINDS, TABLES, Matches
from .alpha import RUN, WITHIN_CASE
from .chisquare import normal_scores
from .evidence import Evidence
from .outcomes import outcomes_of

__all__ = ["SHARED", "AcrossCases", "RunTest", "independence", "pair_table", "shared_noise"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SHARED = np.array([0.99, 0.7, 0.4, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002])
"""Parts s of shared noise that the e-value is averaged over."""
COIN = 2.0**-24
"""Least probability of what came twice: a sampler's coins tell no rarer things apart."""
RUN_TESTS = 7
"""Tests across calls, of equal shares: shared noise in three kinds of pairs, two tables, evenness, reproducibility."""
SAYS = {
    "rows": "neighbouring rows of a call",
    "calls": "equal rows of consecutive calls",
    "instances": "equal rows of the first calls of two fresh instances",
    "repeats": "rows that are equal in all they are given",
}


def shared_noise(law: Law, matches: Matches, *, conditional: bool = False) -> Floats:
    """Logarithms of the e-values of shared noise in one kind of pairs of one case, float64 [2, s].

    The first row looks at first tokens, the second at whole sequences; where the probabilities of these are not known
    (``conditional``, for rule None, or undecided tokens) it repeats the first.
    """
    row, undecided = law.rows[0], law.undecided
    if undecided is not None:  # given that some of these are missing, the others have more mass, at most this much
        kept = 1.0 - float(row[undecided.tokens[0]].sum())
        row = np.where(undecided.tokens[0], np.inf, row / max(kept, 1e-300))
    tokens = matches.first.tokens[:, 0]
    logs = np.stack([_log_e(row[tokens], matches.first.counts, matches.pairs)] * 2)
    if not conditional and undecided is None:
        _, _, probability = outcomes_of(law, matches.whole)
        logs[1] = _log_e(probability, matches.whole.counts, matches.pairs)
    return logs


def _log_e(probability: Floats, counts: Ints, pairs: int) -> Floats:
    """Log e-values, float64 [s], where outcomes of these probabilities came twice so often among ``pairs``.

    A probability of infinity is one that is not known: such a match counts as none.
    """
    ratio = 1.0 / np.maximum(probability, COIN)
    log: Floats = np.log1p(SHARED[:, None] * (ratio - 1.0)) @ counts + (pairs - counts.sum()) * np.log1p(-SHARED)
    return log


def _p_value(logs: Floats) -> tuple[float, float]:
    """Return min(1, 1/E) of the mean E of e-values of these logarithms, and log10 E."""
    log = float(special.logsumexp(logs)) - math.log(logs.size)
    return min(1.0, math.exp(min(0.0, -log))), log / math.log(10.0)


def _strongest(logs: Floats) -> float:
    """Part of shared noise, of SHARED, that fits best; ``logs`` is [..., s]."""
    return float(SHARED[np.unravel_index(int(np.argmax(logs)), logs.shape)[-1]])


def independence(
    law: Law, matches: Mapping[str, Matches], chi_square: Evidence, *, conditional: bool = False
) -> Evidence:
    """Test one case: rows of a call and of consecutive calls share no noise, and counts are not too even.

    Parameters
    ----------
    law : Law
        Of the case.
    matches : mapping of str to Matches
        By kind; "rows" and "calls" are looked at.
    chi_square : Evidence
        Of :func:`.chisquare.chi_square` on the same draws: its sum of squares is chi-square exactly, so its lower tail
        is too. Draws of a low-discrepancy sequence, or without replacement, end up there.
    conditional : bool
        True for rule None.

    Returns
    -------
    Evidence
        "independence", with p = min(1, 2 min(1/E, p_even)); false-alarm rate at most t at every threshold t, any n.
    """
    logs = np.stack([shared_noise(law, matches[kind], conditional=conditional) for kind in ("rows", "calls")])
    p_shared, log10_e = _p_value(logs)
    p_even = _too_even([chi_square])
    part = _strongest(logs)
    kind = ("rows", "calls")[int(np.argmax(logs.max(axis=(1, 2))))]
    detail: dict[str, Any] = {
        "pairs": {name: matches[name].pairs for name in ("rows", "calls")},
        "same_first": {name: matches[name].first.n for name in ("rows", "calls")},
        "log10_e": log10_e,
        "p_even": p_even,
    }
    says = _says_shared(kind, part) if p_shared <= p_even else _says_even([chi_square])
    p_value = min(1.0, 2.0 * min(p_shared, p_even))
    return Evidence("independence", p_value, True, WITHIN_CASE["independence"], detail, says)


def _too_even(found: Iterable[Evidence]) -> float:
    """P(sum of squares is as small as this or smaller), over independent chi-squares."""
    parts = [part.detail for part in found if "statistic" in part.detail]
    if not parts:
        return 1.0
    return float(stats.chi2.cdf(sum(part["statistic"] for part in parts), sum(part["df"] for part in parts)))


def _says_even(found: Iterable[Evidence]) -> str:
    parts = [part.detail for part in found if "statistic" in part.detail]
    statistic, df = sum(part["statistic"] for part in parts), sum(part["df"] for part in parts)
    return f"counts are too even for independent draws: chi-square {statistic:.4g} with {df} degrees of freedom"


def _says_shared(kind: str, part: float) -> str:
    return f"{SAYS[kind]} share noise: about {part:.2g} of the pairs, by what they emit in common"


@dataclass(frozen=True)
class RunTest:
    """A test over all cases of a sampler; it fires at p <= ``alpha``, its share of the run's and its false-alarm rate.

    ``p_value`` is None where there was nothing to test.
    """

    test: str
    p_value: float | None
    alpha: float
    says: str
    detail: dict[str, Any]
    rests_on_laws: bool = True
    """Whether it takes for granted that each row has the law of its case."""

    @property
    def biased(self) -> bool:
        """Whether it fires."""
        return self.p_value is not None and self.p_value <= self.alpha


def pair_table(table: Ints, rng: np.random.Generator) -> tuple[float, dict[str, Any]]:
    """Two-sided p-value of the counts of disjoint pairs, int64 [BINS * BINS], all equally likely; exact at any n.

    Cells are taken one after the other: given those before, a count is binomial among the rest. Their randomised scores
    are i.i.d. standard normal exactly, so the sum of squares is chi-square: too large under dependence, too small where
    pairs are more even than chance allows.
    """
    cells = len(table)
    left = np.cumsum(table[::-1])[::-1]
    scores = normal_scores(table[:-1], left[:-1], 1.0 / np.arange(cells, 1, -1), rng)
    statistic, df = float(np.sum(scores**2)), cells - 1
    p_value = min(1.0, 2.0 * float(min(stats.chi2.sf(statistic, df), stats.chi2.cdf(statistic, df))))
    same = table.reshape(BINS, BINS).diagonal().sum()
    return p_value, {"pairs": int(table.sum()), "statistic": statistic, "df": df, "same_bin": int(same)}


class AcrossCases:
    """Adds up, case by case and group by group, what the tests over all draws of a sampler need."""

    def __init__(self) -> None:
        self._logs = {kind: np.zeros((2, len(SHARED))) for kind in KINDS}
        self._pairs = dict.fromkeys(KINDS, 0)
        self._tables = {kind: np.zeros(BINS * BINS, np.int64) for kind in TABLES}
        self._squares: list[Evidence] = []
        self._differ: dict[str, int] = {}

    def add_case(
        self,
        case: str,
        law: Law,
        matches: Mapping[str, Matches],
        evidence: Iterable[Evidence],
        *,
        conditional: bool = False,
        redrawn: bool = False,
    ) -> None:
        """Add a case: its matches by kind, and of its ``evidence`` the exact chi-square.

        Where drafts are ``redrawn`` for every row, equal rows have equal drafts, so that their results depend on each
        other whatever noise the sampler has.
        """
        for kind in KINDS:
            if kind != "repeats" or not redrawn:
                self._logs[kind] += shared_noise(law, matches[kind], conditional=conditional)
            self._pairs[kind] += matches[kind].pairs
        self._squares += [part for part in evidence if part.test == "chi-square"]
        self._differ[case] = matches["repeats"].pairs - matches["repeats"].whole.n

    def add_tables(self, tables: Ints) -> None:
        """Add the tables of a group, int64 [kinds, BINS * BINS]."""
        for kind, table in zip(TABLES, tables, strict=True):
            self._tables[kind] += table

    def tests(self, alpha: float, coins: bool, rng: np.random.Generator) -> list[RunTest]:
        """Test independence across all draws, and that equal rows give equal results.

        Parameters
        ----------
        alpha : float
            Of the run. The tests have equal parts of its share for independence, whatever was run.
        coins : bool
            The sampler claims that all its randomness is the coins of the request.
        rng : numpy.random.Generator
            For the uniforms of the tables' scores.

        Returns
        -------
        list of RunTest
            Each of false-alarm rate at most its alpha, so together at most RUN["independence"] * alpha; none where no
            case was added.
        """
        share = alpha * RUN["independence"] / RUN_TESTS
        found: list[RunTest] = []
        if not self._squares:
            return found
        for kind in ("rows", "calls", "instances"):
            p_value, log10_e = _p_value(self._logs[kind])
            says = _says_shared(kind, _strongest(self._logs[kind]))
            detail = {"pairs": self._pairs[kind], "log10_e": log10_e}
            tested = p_value if self._pairs[kind] else None
            found.append(RunTest(f"shared noise: {kind}", tested, share, says, detail))
        for kind, table in self._tables.items():
            p_value, detail = pair_table(table, rng)
            says = f"first tokens of {SAYS[kind]} depend on each other, or are too even"
            found.append(RunTest(f"pairs: {kind}", p_value if detail["pairs"] else None, share, says, detail))
        even = _too_even(self._squares)
        found.append(RunTest("evenness", even, share, _says_even(self._squares), {}))
        found.append(self._reproducibility(share, coins))
        return found

    def _reproducibility(self, share: float, coins: bool) -> RunTest:
        """Test that equal rows of one call give equal results, where they must.

        They must where all randomness is the request's coins. Else a sampler may draw for each row anew: its equal rows
        are independent. Or it derives its noise from seeds and positions: its equal rows are equal. Neither is a fault,
        so p is 1 where all are equal, and the p-value of independence where some differ: small only if both are wrong.
        """
        pairs, different = self._pairs["repeats"], sum(self._differ.values())
        worst = max(self._differ, key=lambda case: self._differ[case], default="")
        shared = _p_value(self._logs["repeats"])[0]
        p_value = 1.0 if not different else 0.0 if coins else shared
        noise = "coins" if coins else "seed and position"
        detail = {
            "pairs": pairs,
            "different": different,
            "judged": bool(coins or not different or shared <= share),
        }
        says = f"{different} of {pairs} pairs of rows with the same {noise} gave different results, most in {worst}"
        return RunTest("reproducibility", p_value if pairs else None, share, says, detail, rests_on_laws=not coins)
