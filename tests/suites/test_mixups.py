"""The hand-made cases on which rules that look alike part ways: by how much they do, exactly."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cases.arrays import REDRAWN_RULES
from cases.mixups import mixup_groups
from harness.case import Case
from harness.rules import RULES

from .exact import Law, block, distance, largest_move, rejection, retempered

redrawn_rules = pytest.mark.parametrize("rule", REDRAWN_RULES)
tree_rules = pytest.mark.parametrize("rule", ["rejection-replacement", "rejection-no-replacement"])
FIVE_PERCENT = 1.05


def cases(rule: str, group: str) -> Iterator[Case]:
    for found in mixup_groups(rule):
        if found.name == f"{rule}/{group}":
            yield from found.cases


def law_of(rule: str, case: Case, temperature: float = 1.0) -> Law:
    """Law of ``rule`` carried out with the draft law at another temperature than drafts are drawn at."""
    q = retempered(case.draft_rows, temperature)
    return block(case, q) if rule == "block" else rejection(case, q, rule != "rejection-no-replacement")


@redrawn_rules
def test_carried_out_rightly_the_enumeration_is_the_law_of_the_rule(rule: str) -> None:
    for group in mixup_groups(rule):
        RULES[rule].check(group.cases[0])
        for case in group.cases:
            law, found = RULES[rule].law(case), law_of(rule, case)
            assert abs(sum(found.values()) - 1) < 1e-9
            for sequence, probability in found.items():
                prefix = law.find(sequence[:-1])
                assert float(law.outcome(prefix, sequence[-1])) == pytest.approx(probability, abs=1e-9)


@redrawn_rules
@pytest.mark.parametrize("temperature", [FIVE_PERCENT, 1 / FIVE_PERCENT])
def test_a_draft_law_off_by_5_percent_of_its_temperature_moves_2_percent(rule: str, temperature: float) -> None:
    found = [distance(law_of(rule, case), law_of(rule, case, temperature)) for case in cases(rule, "good-draft")]
    assert len(found) >= 4
    assert min(found) >= 0.02


@tree_rules
def test_with_and_without_replacement_differ_by_6_percent(rule: str) -> None:
    other = "rejection-no-replacement" if rule == "rejection-replacement" else "rejection-replacement"
    found = [(law_of(rule, case), law_of(other, case)) for case in cases(rule, "siblings")]
    assert len(found) >= 4
    for right, wrong in found:
        assert distance(right, wrong) >= 0.06
        assert largest_move(right, wrong) >= 0.055


@pytest.mark.parametrize("rule", ["rejection", "block"])
def test_blocks_and_tokens_differ_by_4_percent(rule: str) -> None:
    other = "block" if rule == "rejection" else "rejection"
    for case in cases(rule, "blocks"):
        assert distance(law_of(rule, case), law_of(other, case)) >= 0.04
