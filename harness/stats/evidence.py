"""Evidence: what one test says about one case, and how the deciding ones combine into a p-value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Evidence", "combine"]


@dataclass(frozen=True)
class Evidence:
    """Result of one test on one case.

    Parameters
    ----------
    test : str
        Name of the test as it stands in the report.
    p_value : float or None
        Super-uniform under a correct sampler if the test decides: P(p_value <= t) <= t for every t, at any n. None
        where the test could not be made.
    decides : bool
        Whether the verdict rests on it; other evidence is for the reader only.
    share : float
        Part of the case's alpha, in (0, 1], that the test may spend; 1 for tests whose p-value is 0 or 1 and never 0
        under a correct sampler (they spend nothing); 0 for evidence that does not decide.
    detail : dict
        Further figures for the report; JSON types only.
    says : str
        What is wrong, in words, in case something is; empty where the ranking of deviations says it.
    """

    test: str
    p_value: float | None
    decides: bool
    share: float
    detail: dict[str, Any] = field(default_factory=dict)
    says: str = ""

    def __post_init__(self) -> None:
        if self.p_value is not None and not 0.0 <= self.p_value <= 1.0:
            raise ValueError(f"evidence {self.test!r}: a p-value lies in [0, 1], got {self.p_value}")
        if self.decides and not (0.0 < self.share <= 1.0 and math.isfinite(self.share)):
            raise ValueError(f"evidence {self.test!r}: a deciding test has a share in (0, 1], got {self.share}")


def combine(evidence: Iterable[Evidence]) -> float:
    """P-value of the case: the least p_i / share_i over the deciding tests, at most 1.

    Rejecting when it is at most the case's alpha has a false-alarm rate of at most the sum of the shares times alpha
    (union bound), so at most alpha while the shares sum to 1. Tests of share 1 must never be 0 under a correct sampler.
    """
    ratios = [part.p_value / part.share for part in evidence if part.decides and part.p_value is not None]
    return min([1.0, *ratios])
