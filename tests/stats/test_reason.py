"""What decided comes first, in words where no place shows it; dependence comes last where the law is refuted too."""

from __future__ import annotations

import pytest

from harness.stats.evidence import Evidence, combine
from harness.stats.localise import Deviation
from harness.stats.verdict import FOLLOWS, Judgement

ALPHA = 1e-8
SHARES = {"support": 1.0, "cells": 0.4, "chi-square": 0.2, "acceptance": 0.1, "independence": 0.1}


def judgement(row: float, **p_values: float) -> Judgement:
    """Return what tests of these p-values (1 for the others) say, with a top row of p-value ``row``."""
    found = {name.replace("_", "-"): p_value for name, p_value in p_values.items()}
    evidence = tuple(
        Evidence(test, found.get(test, 1.0), True, share, {}, "" if test == "support" else f"{test} says")
        for test, share in SHARES.items()
    )
    p_value = combine(evidence)
    return Judgement(1000, ALPHA, p_value, p_value <= ALPHA, evidence, 0.1, [Deviation([], 0, 1, 0.1, 0.2, row)])


@pytest.mark.parametrize(
    ("row", "p_values", "reason"),
    [
        (0.3, {}, None),
        (1e-12, {"cells": 1e-10}, None),
        (0.0, {"support": 0.0, "acceptance": 1e-30}, None),
        (1e-12, {"cells": 1e-10, "acceptance": 1e-9}, None),
        (1e-12, {"cells": 1e-10, "acceptance": 7.8e-15}, "acceptance says, p = 7.8e-15"),
        (0.01, {"acceptance": 7.8e-15}, "acceptance says, p = 7.8e-15"),
        (0.01, {"cells": 1e-12}, "cells says, p = 1e-12"),
        (
            0.01,
            {"cells": 1e-12, "chi_square": 1e-20, "acceptance": 0.0},
            "acceptance says, p < 1e-300; chi-square says, p = 1e-20; cells says, p = 1e-12",
        ),
        (0.01, {"cells": 0.0, "acceptance": 0.0}, "acceptance says, p < 1e-300; cells says, p < 1e-300"),
        (0.01, {"independence": 1e-20}, "independence says, p = 1e-20"),
        (
            0.01,
            {"chi_square": 1e-12, "independence": 1e-20},
            f"chi-square says, p = 1e-12; independence says, p = 1e-20{FOLLOWS}",
        ),
        (1e-12, {"cells": 1e-10, "independence": 1e-20}, f"independence says, p = 1e-20{FOLLOWS}"),
        (1e-12, {"cells": 1e-10, "independence": 1e-9}, None),
    ],
)
def test_reason(row: float, p_values: dict[str, float], reason: str | None) -> None:
    found = judgement(row, **p_values)
    assert found.biased == bool(p_values)
    assert found.reason == reason
