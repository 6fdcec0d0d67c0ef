"""Shares of alpha, and how deciding evidence combines."""

import pytest

from harness.stats.alpha import RUN, WITHIN_CASE, case_alpha
from harness.stats.evidence import Evidence, combine


@pytest.mark.parametrize("shares", [RUN, WITHIN_CASE], ids=["run", "case"])
def test_shares_sum_to_one(shares):
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-15)


def test_shares_cannot_be_changed():
    with pytest.raises(TypeError):
        RUN["cases"] = 1.0


def test_case_alpha_spends_the_cases_share_equally():
    assert case_alpha(1e-6, 16) * 16 == pytest.approx(0.8e-6)


@pytest.mark.parametrize(("alpha", "cases"), [(0.0, 1), (1.0, 1), (-1e-6, 1), (float("nan"), 1), (1e-6, 0)])
def test_case_alpha_rejects_what_is_out_of_range(alpha, cases):
    with pytest.raises(ValueError, match="must"):
        case_alpha(alpha, cases)


def test_combine_takes_the_least_ratio_of_deciding_tests():
    evidence = [
        Evidence("support", 1.0, True, 1.0),
        Evidence("cells", 0.02, True, 0.4),
        Evidence("chi-square", 0.016, True, 0.2),
        Evidence("acceptance", None, True, 0.1),
        Evidence("pearson", 1e-30, False, 0.0),
    ]
    assert combine(evidence) == pytest.approx(0.05)
    assert combine([*evidence, Evidence("probe", 0.0, True, 1.0)]) == 0.0


def test_combine_is_at_most_one():
    assert combine([Evidence("cells", 0.9, True, 0.4)]) == 1.0
    assert combine([]) == 1.0


def test_evidence_rejects_impossible_values():
    with pytest.raises(ValueError, match="p-value"):
        Evidence("cells", float("nan"), True, 0.4)
    with pytest.raises(ValueError, match="share"):
        Evidence("cells", 0.5, True, 0.0)
