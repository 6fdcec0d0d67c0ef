"""Verification rules, a file each: the exact law of a step under the rule, and a coin-driven reference walk."""

from __future__ import annotations

from ..errors import UsageError
from .base import Rule
from .plain import PLAIN
from .target_only import TARGET_ONLY

__all__ = ["LATER", "RULES", "Rule", "rule"]

RULES: dict[str, Rule] = {r.name: r for r in (PLAIN, TARGET_ONLY)}

LATER = ("greedy", "sampler-match", "rejection", "rejection-replacement", "rejection-no-replacement", "block")
"""Rules of the contract that are not there yet."""


def rule(name: str) -> Rule:
    """Return the rule of this name, or raise a UsageError that lists those there are."""
    if name in RULES:
        return RULES[name]
    known = ", ".join(RULES)
    if name in LATER:
        raise UsageError(f"rule {name!r} is not there yet; rules that are: {known}")
    raise UsageError(f"no such rule: {name!r}; expected one of {known}")
