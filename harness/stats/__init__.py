"""Statistics of the gate: layers of evidence on one case, its verdict, its certificate and its power.

Knows laws and counts, not trees or samplers. Every deciding p-value here is exactly valid: under a correct sampler
P(p <= t) <= t for every t, at any number of draws.
"""

from .alpha import RUN, WITHIN_CASE, case_alpha
from .certificate import certified_tv, certified_tv_next_token
from .evidence import Evidence, combine
from .localise import Deviation, where
from .power import min_detectable
from .verdict import Judgement, judge

__all__ = [
    "RUN",
    "WITHIN_CASE",
    "Deviation",
    "Evidence",
    "Judgement",
    "case_alpha",
    "certified_tv",
    "certified_tv_next_token",
    "combine",
    "judge",
    "min_detectable",
    "where",
]
