"""What a case is, measured from its tree, its parameters and its exact law, whatever it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from cases.arrays import ARRAY_RULES, Row
from cases.catalogue import array_rows, suite
from harness.case import Case
from harness.law import Law
from harness.rules import RULES
from harness.suite import SuiteGroup

ORDINARY = 0.05
"""What happens with this probability is ordinary."""
SMALL_VOCAB = 64

every_rule = pytest.mark.parametrize("rule", ARRAY_RULES)
both_suites = pytest.mark.parametrize("name", ["smoke", pytest.param("standard", marks=pytest.mark.slow)])


def entries(name: str, rule: str) -> list[SuiteGroup]:
    return [entry for entry in suite(name).groups if entry.rule == rule]


def made(name: str, rule: str, *, vocab: int | None = None) -> Iterator[Case]:
    """Make the cases of a rule, those of V up to ``vocab`` only; large ones are not kept."""
    for entry in entries(name, rule):
        if vocab is None or entry.vocab <= vocab:
            yield from (entry.group if entry.vocab <= SMALL_VOCAB else entry.make()).cases


@dataclass(frozen=True)
class Facts:
    """What is kept of a case: its name and group, the row it was made from, and what is true of it."""

    name: str
    group: str
    vocab: int
    params: object
    row: Row | None
    chooses: bool
    """Whether the law has more than one outcome at a node reached with a probability of 0.05."""
    kinds: frozenset[str]


@cache
def facts(name: str, rule: str) -> list[Facts]:
    """Measure every case of a rule in a suite."""
    rows = array_rows(name)
    found = []
    for entry in entries(name, rule):
        for case in (entry.group if entry.vocab <= SMALL_VOCAB else entry.make()).cases:
            seen = Seen(case)
            kinds = frozenset(kind for kind, holds in KINDS.items() if holds(seen))
            found.append(
                Facts(case.name, entry.name, case.vocab, case.params, rows.get(case.name), seen.chooses, kinds)
            )
    return found


class Seen:
    """A case with its law, or with the root of its law alone where V is large and every rule emits it by the target."""

    def __init__(self, case: Case) -> None:
        self.case = case
        lossless = min(case.threshold_single, case.threshold_acc) >= 1.0
        self.law: Law | None = None if lossless and case.vocab > SMALL_VOCAB else RULES[case.rule].law(case)

    @property
    def chooses(self) -> bool:
        if self.law is None:
            return bool((self.case.target_probs[0] > 0).sum() > 1)
        several = (self.law.rows > 0).sum(axis=1) > 1
        return bool((several & (self.law.reach >= ORDINARY)).any())

    @property
    def states(self) -> list[int]:
        """Law rows that are in ordinary use: of the root, and of nodes reached where drafts are given."""
        if self.law is None or self.case.draft is not None:
            return [0]
        return [int(node) for node, reach in zip(self.law.node, self.law.reach, strict=True) if reach >= ORDINARY]

    @property
    def nodes(self) -> list[int]:
        """Nodes that are stood at with a probability of 0.05 at least.

        Where drafts are redrawn, several nodes can be stood at after the same prefix; the likeliest has its share.
        """
        if self.law is None:
            return [0]
        depths = self.case.tree.depth
        reached = np.zeros(len(self.case.tree))
        for node, reach in zip(self.law.node, self.law.reach, strict=True):
            among = 1 if self.case.draft is None else int((depths == depths[node]).sum())
            reached[node] += reach / among
        return [int(node) for node in np.flatnonzero(reached >= ORDINARY - 1e-9)]

    def drafted(self, token: int) -> bool:
        """Whether a draft of this token is accepted with a probability of 0.05."""
        law = self.law
        return law is not None and bool((law.reach[1:][law.token[1:] == token] >= ORDINARY).any())

    def last(self, token: int) -> bool:
        """Whether this token ends a step with a probability of 0.05."""
        law = self.law
        if law is None:
            return False
        prefixes = np.arange(law.size)
        return bool(law.outcome(prefixes, np.full(law.size, token)).max() >= ORDINARY)


def _children(seen: Seen, node: int) -> tuple[int, ...]:
    return tuple(seen.case.tree.children[node])


def has_wide_node(seen: Seen) -> bool:
    return any(len(_children(seen, node)) >= 3 for node in seen.nodes)


def has_second_leaf(seen: Seen) -> bool:
    tree = seen.case.tree
    at = [node for node in seen.nodes if tree.depth[node] < seen.case.depth_limit - 1]
    return any(len(_children(seen, node)) > 1 and not _children(seen, _children(seen, node)[1]) for node in at)


def is_cut_short(seen: Seen) -> bool:
    """Whether a node at the depth limit, reached, has children that may not be accepted."""
    limit = seen.case.depth_limit - 1
    return any(seen.case.tree.depth[node] == limit and _children(seen, node) for node in seen.nodes)


def is_padded(seen: Seen) -> bool:
    """Whether there is padding, and token 0, which it holds, is the likeliest everywhere."""
    return len(seen.case.tree) < seen.case.nodes and bool((seen.case.target_probs.argmax(axis=1) == 0).all())


def cuts_ties(seen: Seen) -> bool:
    """Whether the k-th token and the next are equally likely, and both are kept."""
    k = seen.case.params.top_k
    if not 0 < k < seen.case.vocab or seen.case.params.top_p < 1.0:
        return False
    for state in seen.states:
        ranked = np.sort(seen.case.logits[state])[::-1]
        if ranked[k - 1] == ranked[k] > -np.inf and np.count_nonzero(seen.case.target_probs[state]) > k:
            return True
    return False


def is_flat_under_top_p(seen: Seen) -> bool:
    case = seen.case
    flat = bool((case.logits.max(axis=1) - case.logits.min(axis=1) < 0.3).all())
    return case.vocab >= 4096 and flat and case.params.top_p < 1.0 and not case.params.greedy and bites(seen)


def bites(seen: Seen) -> bool:
    """Whether the filters take tokens away at the root."""
    return bool(((seen.case.target_probs[0] == 0) & np.isfinite(seen.case.logits[0])).any())


def _uses(edge: Callable[[Case], int]) -> dict[str, Callable[[Seen], bool]]:
    return {
        "accepted": lambda seen: seen.drafted(edge(seen.case)),
        "emitted last": lambda seen: seen.last(edge(seen.case)),
    }


KINDS: dict[str, Callable[[Seen], bool]] = {
    "a padded tree where token 0 is likely": is_padded,
    "a node with three children": has_wide_node,
    "a leaf that is a second child": has_second_leaf,
    "a tree deeper than the limit": is_cut_short,
    "ties at the top-k cut": cuts_ties,
    "a flat law with V >= 4096 under top-p": is_flat_under_top_p,
    "V % 4 is 0": lambda seen: seen.case.vocab % 4 == 0,
    "V % 4 is 2": lambda seen: seen.case.vocab % 4 == 2,
    "V is odd": lambda seen: seen.case.vocab % 2 == 1,
    "min-p": lambda seen: seen.case.params.min_p > 0 and not seen.case.params.greedy and bites(seen),
    **{f"token 0 {use}": holds for use, holds in _uses(lambda case: 0).items()},
    **{f"token V - 1 {use}": holds for use, holds in _uses(lambda case: case.vocab - 1).items()},
}

Floats = NDArray[np.float64]
