"""Verdict on one case: its layers of evidence, its p-value, its certificate and its ranking of deviations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from ..counts import PrefixCounts, SequenceCounts, prefix_counts
from ..law import Law
from ..matches import Matches
from .acceptance import acceptance
from .cells import cells
from .certificate import certified_tv, certified_tv_next_token
from .chisquare import chi_square
from .decided import decided
from .evidence import Evidence, combine
from .independence import independence
from .localise import Deviation, where
from .pearson import pearson
from .support import support

__all__ = ["FOLLOWS", "REFUTES", "Judgement", "judge"]


SHOWN = ("support", "cells")
"""Tests of which the ranking of deviations shows what they found."""
REFUTES = (*SHOWN, "chi-square", "acceptance", "probe")
"""Tests that refute the law itself; those of independence rest on it."""
FOLLOWS = " (this may follow from the other deviations, or be behind them)"
"""Said of dependent draws where the law is refuted too."""


@dataclass(frozen=True)
class Judgement:
    """What the draws of one case say.

    ``p_value`` is the least p_i / share_i of the deciding evidence, at most 1; ``biased`` says that it is at most
    ``alpha``, the case's share of the run's alpha, which a correct sampler meets with a probability of at most alpha.
    ``certified_tv`` bounds the total variation from the law, wrong with probability 1e-6. ``where`` is a ranking, given
    on a pass too.
    """

    n: int
    alpha: float
    p_value: float
    biased: bool
    evidence: tuple[Evidence, ...]
    certified_tv: float
    where: list[Deviation]

    @property
    def reason(self) -> str | None:
        """What is wrong in words, where ``where`` does not show it.

        That is where its top row is no deviation, or another test has found more than those that it shows.
        """
        fired = [
            (part.p_value / part.share, part)
            for part in self.evidence
            if part.decides and part.p_value is not None and part.p_value / part.share <= self.alpha
        ]
        fired.sort(key=lambda found: (found[0], found[1].test in SHOWN))
        shown = [ratio for ratio, part in fired if part.test in SHOWN]
        on_top = bool(shown and self.where) and self.where[0].p_value <= self.alpha
        told = [part for ratio, part in fired if not on_top or (part.test not in SHOWN and ratio < min(shown))]
        lines = [f"{part.says}, {_said(part.p_value)}" for part in told if part.says and part.test != "independence"]
        follows = FOLLOWS if any(part.test in REFUTES for _, part in fired) else ""
        lines += [f"{part.says}, {_said(part.p_value)}{follows}" for part in told if part.test == "independence"]
        return "; ".join(lines) or None


def _said(p_value: float | None) -> str:
    return f"p = {p_value:.2g}" if p_value else "p < 1e-300"


def judge(
    law: Law,
    sequences: SequenceCounts,
    alpha: float,
    rng: np.random.Generator,
    *,
    extra: Iterable[Evidence] = (),
    conditional: bool = False,
    nodes: int | None = None,
    matches: Mapping[str, Matches] | None = None,
    without: Callable[[Law, PrefixCounts], tuple[Law, PrefixCounts]] | None = None,
    rows: int = 20,
) -> Judgement:
    """Decide whether ``sequences`` can come from ``law``.

    Parameters
    ----------
    law : Law
        The exact law of one step. Where it has undecided tokens, the rest is tested given that none of them comes, as
        under ``conditional``.
    sequences : SequenceCounts
        Emitted sequences of independent steps, tokens within [0, V).
    alpha : float
        The case's share of the run's alpha: the false-alarm rate of this verdict.
    rng : numpy.random.Generator
        For the uniforms of the exact chi-square; never chosen by its outcome.
    extra : iterable of Evidence
        Further layers; the shares of all deciding ones must not exceed 1 in sum (those of share 1 apart, which never
        fail a correct sampler).
    conditional : bool
        True for rule None: next tokens are tested given how often their prefix occurred; reach is unknown, so there is
        no law of whole sequences and no Pearson, and acceptance is not looked at.
    nodes : int or None
        N of the case; None leaves the acceptance law untested.
    matches : mapping of str to Matches, or None
        What pairs of rows emitted, by kind; None leaves independence untested.
    without : callable or None
        Takes the law and the counts and returns them without the outcomes that are not to be judged: the law says which
        tokens are undecided.
    rows : int
        Rows of the ranking.

    Raises
    ------
    ValueError
        If alpha is not within (0, 1) or the shares sum to more than 1.
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie strictly between 0 and 1, got {alpha}")
    counts = prefix_counts(law, sequences)
    if without is not None:
        law, counts = without(law, counts)
    unclaimed, conditional = conditional, conditional or law.undecided is not None
    stated, seen = decided(law, counts)
    squares = chi_square(stated, seen, rng)
    layers = [support(counts, law), cells(stated, seen, conditional=conditional), squares]
    if nodes is not None and not unclaimed:
        accepted = acceptance(law, sequences, counts, nodes)
        layers += [] if accepted is None else [accepted]
    if matches is not None:
        layers.append(independence(law, matches, squares, conditional=unclaimed))
    layers += extra
    if not conditional:
        layers.append(pearson(law, sequences))
    spent = sum(part.share for part in layers if part.decides and part.share < 1.0)
    if spent > 1.0 + 1e-9:
        raise ValueError(f"the shares of the deciding tests sum to {spent:.3g}; at most 1 can be spent")
    p_value = combine(layers)
    certificate = certified_tv_next_token(stated, seen) if conditional else certified_tv(law, sequences)
    return Judgement(
        sequences.n, alpha, p_value, p_value <= alpha, tuple(layers), certificate, where(law, counts, rows)
    )
