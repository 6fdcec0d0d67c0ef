"""What targets, drafts and tree shapes look like; knows nothing of samplers, rules or statistics.

- `targets`: families of target logits, ``TARGETS``, and laws that are exact in float32.
- `drafts`: draft laws beside a target's, ``DRAFTS``.
- `shapes`: trees as parent arrays, ``SHAPES``, and `sibling_tokens`.
- `strategies`: Hypothesis strategies over all of these, to be imported by name (needs the `test` extra).

Every random choice comes from the `numpy.random.Generator` passed in.
"""

from __future__ import annotations

from distributions.drafts import DRAFTS, Draft
from distributions.shapes import SHAPES, TokenChoice, sibling_tokens
from distributions.targets import TARGETS, UNIT, Target, dyadic_covering, dyadic_probs, exact_probs

__all__ = [
    "DRAFTS",
    "SHAPES",
    "TARGETS",
    "UNIT",
    "Draft",
    "Target",
    "TokenChoice",
    "dyadic_covering",
    "dyadic_probs",
    "exact_probs",
    "sibling_tokens",
]
