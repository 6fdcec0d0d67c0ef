"""Verification rules, a file each: the exact law of a step under the rule, and a coin-driven reference walk."""

from __future__ import annotations

from ..case import Case
from ..errors import UsageError
from ..law import Law
from .base import Rule
from .block import BLOCK
from .lossless import NONE, NONE_CHAIN
from .matching import GREEDY, SAMPLER_MATCH
from .plain import PLAIN
from .rejection import REJECTION, REJECTION_NO_REPLACEMENT, REJECTION_REPLACEMENT
from .target_only import TARGET_ONLY

__all__ = ["RULES", "Rule", "exact_law", "rule"]

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        PLAIN,
        GREEDY,
        TARGET_ONLY,
        SAMPLER_MATCH,
        REJECTION,
        REJECTION_REPLACEMENT,
        REJECTION_NO_REPLACEMENT,
        BLOCK,
        NONE,
        NONE_CHAIN,
    )
}


def rule(name: str) -> Rule:
    """Return the rule of this name, or raise a UsageError that lists those there are."""
    if name in RULES:
        return RULES[name]
    raise UsageError(f"no such rule: {name!r}; expected one of {', '.join(RULES)}")


def exact_law(case: Case, source: str) -> Law:
    """Return the law of a case from ``source``; a UsageError says why it cannot be enumerated."""
    try:
        return rule(case.rule).law(case)
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
