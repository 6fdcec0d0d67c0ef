"""What the cases see with 90% power, read from ``min_detectable`` at the share of alpha that they have in a run."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cases.catalogue import suite
from harness.case import Case
from harness.law import Law
from harness.rules import RULES
from harness.stats.alpha import case_alpha
from harness.stats.power import least_leak, min_detectable, worst_move
from harness.suite import SuiteGroup

from .measure import SMALL_VOCAB, entries, every_rule

RUN_ALPHA = 1e-6


def members(name: str, rule: str) -> Iterator[tuple[SuiteGroup, Case]]:
    for entry in entries(name, rule):
        if name == "smoke" or entry.vocab <= SMALL_VOCAB:
            for case in entry.group.cases:
                yield entry, case


def largest_move(law: Law) -> float:
    """Largest mass that can move between two tokens of a prefix at all: a cell's whole own mass."""
    several = np.count_nonzero(law.rows, axis=1) > 1
    return float(np.max(law.reach[:, None] * law.rows * several[:, None], initial=0.0))


def unseen(name: str, rule: str, alpha: float, move: float, leak: float) -> list[str]:
    """Cases that do not see a move of this mass or a leak of this rate, and how much they do see.

    A case sees no move at all ("None") only where none is as large as that: where all its cells are smaller, as those
    of a flat law of thousands of tokens, or where every law has one outcome.
    """
    found = []
    for entry, case in members(name, rule):
        law = RULES[rule].law(case)
        least = worst_move(law, entry.n, alpha, conditional=RULES[rule].lossless_only)
        if least is None:
            if largest_move(law) >= move:
                found.append(f"{case.name}: no move of up to {largest_move(law):.3g} seen")
        elif least.mass > move:
            found.append(f"{case.name}: move {least.mass:.3g}")
        rate = least_leak(law, entry.n)
        assert (rate is not None) == bool((law.rows[0] == 0.0).any()), case.name
        if rate is not None and rate > leak:
            found.append(f"{case.name}: leak {rate:.3g}")
    return found


@pytest.mark.parametrize("rule", ["target-only", "none-chain"])
def test_these_are_the_numbers_of_the_report(rule: str) -> None:
    alpha, conditional = 1e-9, RULES[rule].lossless_only
    for entry, case in list(members("smoke", rule))[::9]:
        law = RULES[rule].law(case)
        told = min_detectable(law, entry.n, alpha, conditional=conditional)
        least = worst_move(law, entry.n, alpha, conditional=conditional)
        assert told["move"] == (None if least is None else least.mass)
        assert told["leak"] == least_leak(law, entry.n)


@every_rule
def test_smoke_sees_a_move_of_a_twentieth_and_a_leak_of_a_thousandth(rule: str) -> None:
    """Also in the run of a sampler of all rules, whose cases have the least share of alpha."""
    alpha = case_alpha(RUN_ALPHA, sum(suite("smoke").sizes.values()))
    assert alpha < case_alpha(RUN_ALPHA, suite("smoke").sizes[rule])
    assert not unseen("smoke", rule, alpha, move=0.05, leak=1e-3)


@pytest.mark.slow
@every_rule
def test_standard_sees_a_move_of_a_hundredth_where_tokens_are_few(rule: str) -> None:
    assert not unseen("standard", rule, case_alpha(RUN_ALPHA, suite("standard").sizes[rule]), move=0.01, leak=1e-3)


def test_a_case_of_one_outcome_sees_no_move() -> None:
    cases = [case for entry, case in members("smoke", "target-only") if "/one-outcome/" in case.name]
    assert len(cases) >= 4
    for case in cases:
        law = RULES["target-only"].law(case)
        assert largest_move(law) < 1e-9, case.name
        assert min_detectable(law, 1 << 20, 1e-9)["move"] is None
