"""The run's alpha, laid out once: which share of the false-alarm rate every test may spend.

All shares are fixed before anything is drawn, so no verdict depends on another p-value or on which cases were
selected. A share that is not used (a rule without an acceptance law, a suite without known bugs) stays unused: handing
it on would make the level of one test depend on what else happens to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["RUN", "WITHIN_CASE", "case_alpha"]

RUN: Mapping[str, float] = MappingProxyType({"cases": 0.8, "suite": 0.1, "independence": 0.1})
"""Shares of a run's alpha, per sampler: the cases together, the signed suite sums, independence across calls."""

WITHIN_CASE: Mapping[str, float] = MappingProxyType(
    {"cells": 0.4, "chi-square": 0.2, "bugs": 0.2, "acceptance": 0.1, "independence": 0.1}
)
"""Shares of a case's alpha, by the name of the test; "bugs" holds all e-values, the early-stop mixtures included."""


def case_alpha(run_alpha: float, cases_in_suite: int) -> float:
    """Alpha of one case: an equal part of the cases' share of the run.

    Parameters
    ----------
    run_alpha : float
        Probability, in (0, 1), that a correct sampler raises any alarm in the whole run.
    cases_in_suite : int
        Cases of the suite that fit the sampler's rule, whether or not they are selected.

    Raises
    ------
    ValueError
        If an argument is out of range.
    """
    if not 0.0 < run_alpha < 1.0:
        raise ValueError(f"run_alpha must lie strictly between 0 and 1, got {run_alpha}")
    if cases_in_suite < 1:
        raise ValueError(f"cases_in_suite must be at least 1, got {cases_in_suite}")
    return run_alpha * RUN["cases"] / cases_in_suite
