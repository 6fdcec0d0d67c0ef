"""Hand-made cases where rules that look alike part ways, and where a slightly wrong draft law shows.

On most laws they hardly do. A rejected sibling that the target finds less likely than the draft has no mass left in the
residual, and whether the draft law still has it matters only where another sibling is now likelier than before; and a
draft law at another temperature moves the more mass the more tokens share what the likeliest leaves.
"""

from __future__ import annotations

import numpy as np

from harness.case import Case
from harness.groups import Group
from harness.tree import Tree

__all__ = ["mixup_groups"]

VOCAB = 6
STATES = 5
"""Each state has the laws of the state before it, the tokens turned by one."""

Weights = tuple[int, ...]

GOOD_DRAFTS: dict[str, tuple[Weights, Weights]] = {
    "two-heads": ((80, 15, 5, 2, 2, 2), (100, 10, 1, 1, 1, 1)),
    "even-tail": ((60, 8, 8, 8, 8, 8), (70, 6, 6, 6, 6, 6)),
    "steps": ((55, 12, 12, 7, 7, 7), (66, 10, 10, 4, 5, 5)),
    "ladder": ((70, 3, 4, 5, 8, 10), (80, 2, 3, 4, 5, 6)),
}
"""Weights of target and draft: the draft is near its target, and sharper. 5% of its temperature are worth 2% to 4% in
total variation of what is emitted, where 0.3% to 1% are usual."""

SIBLINGS: dict[str, tuple[Weights, Weights]] = {
    "last-drafted": ((12, 4, 10, 9, 12, 1), (12, 1, 2, 1, 3, 11)),
    "first-drafted": ((5, 3, 1, 6, 3, 5), (11, 2, 3, 3, 3, 1)),
    "second-drafted": ((2, 3, 9, 11, 12, 4), (1, 12, 10, 4, 1, 4)),
    "ends-drafted": ((1, 9, 7, 9, 11, 2), (10, 1, 6, 1, 3, 12)),
}
"""Drafts far from their targets. Verifying three siblings drawn without replacement as if drawn with it, or the other
way round, moves 6% or more; and of a chain, blocks are accepted much oftener than token by token."""

CHAIN, SHUFFLED = (-1, 0, 1), (-1, 2, 0)
"""Parents of a chain of two drafts, numbered in order and not."""
THREE_SIBLINGS = (-1, 0, 0, 0, 1, 1)


def mixup_groups(rule: str) -> list[Group]:
    """Return the groups of these cases for a rule whose drafts are drawn for every row."""
    if rule in ("rejection-replacement", "rejection-no-replacement"):
        return [
            _group(f"{rule}/good-draft", rule, GOOD_DRAFTS, (THREE_SIBLINGS,)),
            _group(f"{rule}/siblings", rule, SIBLINGS, (THREE_SIBLINGS,)),
        ]
    return [
        _group(f"{rule}/good-draft", rule, GOOD_DRAFTS, (CHAIN, SHUFFLED)),
        _group(f"{rule}/blocks", rule, SIBLINGS, (CHAIN, SHUFFLED)),
    ]


def _group(name: str, rule: str, laws: dict[str, tuple[Weights, Weights]], trees: tuple[tuple[int, ...], ...]) -> Group:
    return Group(
        name,
        tuple(
            _case(f"{name}/{key}", rule, target, draft, trees[i % len(trees)])
            for i, (key, (target, draft)) in enumerate(laws.items())
        ),
    )


def _case(name: str, rule: str, target: Weights, draft: Weights, parents: tuple[int, ...]) -> Case:
    probs, drafts = (
        np.stack([np.roll(np.array(weights) / sum(weights), state) for state in range(STATES)]).astype(np.float32)
        for weights in (target, draft)
    )
    return Case(
        name,
        rule,
        Tree(np.zeros(len(parents), np.int64), np.array(parents)),
        np.log(probs),
        probs=probs,
        draft=drafts,
        replacement=rule != "rejection-no-replacement",
    )
