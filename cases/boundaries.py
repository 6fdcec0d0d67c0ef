"""Hand-made cases that tell readings of temperature, top-k, top-p and min-p apart: orders, ties and exact boundaries.

For a sampler that filters for itself they show which semantics it follows; for one that is given probabilities they are
cases like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.filters import SamplingParams
from harness.groups import Group
from harness.tree import Tree

__all__ = ["BOUNDARIES", "GREEDY_TIES", "Boundary", "boundary_groups"]

VOCAB = 8
TURN = 3
"""Each node has the law of the node before it, its tokens turned by so many ids."""

P = SamplingParams


@dataclass(frozen=True)
class Boundary:
    """Probabilities of the first tokens, the others being impossible, and parameters that readings disagree on."""

    probs: tuple[float, ...]
    params: SamplingParams

    @property
    def logits(self) -> NDArray[np.float32]:
        """Float32 [V]."""
        row = np.full(VOCAB, -np.inf, np.float32)
        row[: len(self.probs)] = np.log(np.array(self.probs))
        return row


BOUNDARIES: dict[str, Boundary] = {
    "top-k-then-top-p-or-joint": Boundary((0.4, 0.3, 0.2, 0.1), P(top_k=2, top_p=0.5)),
    "min-p-first-or-last": Boundary((0.5, 0.3, 0.1, 0.1), P(top_p=0.6, min_p=0.5)),
    "temperature-first-or-last": Boundary((0.5, 0.3, 0.15, 0.05), P(2.0, top_p=0.7)),
    "min-p-applied-or-ignored": Boundary((0.5, 0.3, 0.1, 0.06, 0.04), P(min_p=0.25)),
    "top-k-ties": Boundary((0.3, 0.15, 0.15, 0.15, 0.1, 0.1, 0.05), P(top_k=2)),
    "top-k-ties-cold": Boundary((0.15, 0.3, 0.1, 0.15, 0.15, 0.15), P(0.7, top_k=3)),
    "top-p-reached-exactly": Boundary((0.25,) * 4, P(top_p=0.5)),
    "top-p-reached-within-rounding": Boundary((0.5, 0.25, 0.125, 0.0625, 0.0625), P(top_p=0.75)),
}
"""At temperatures above 0; each is two laws or more, by which semantics one asks."""

GREEDY_TIES: dict[str, Boundary] = {
    "two-maxima": Boundary((0.2, 0.4, 0.4), P(0.0)),
    "three-maxima": Boundary((0.3, 0.1, 0.3, 0.3), P(0.0)),
    "all-equal": Boundary((0.125,) * VOCAB, P(0.0)),
    "one-maximum": Boundary((0.1, 0.2, 0.3, 0.4), P(0.0)),
}
"""At temperature 0: any of equal maxima, or the first."""


def boundary_groups(rule: str) -> list[Group]:
    """Return the groups of these cases for a rule whose drafts are the tokens of the tree, or that has no drafts."""
    groups = [] if rule == "greedy" else [_group(f"{rule}/boundaries", rule, BOUNDARIES)]
    return [*groups, _group(f"{rule}/ties-at-0", rule, GREEDY_TIES)]


def _group(name: str, rule: str, boundaries: dict[str, Boundary]) -> Group:
    return Group(name, tuple(_case(f"{name}/{key}", rule, boundary) for key, boundary in boundaries.items()))


def _case(name: str, rule: str, boundary: Boundary) -> Case:
    """Return a case of one node under rule plain, else of a root with two children, the first of which has two."""
    if rule == "plain":
        return Case(name, rule, Tree(np.zeros(1, np.int64), np.array([-1])), boundary.logits[None], boundary.params)
    parents = np.array([-1, 0, 0, 1, 1])
    logits = np.stack([np.roll(boundary.logits, TURN * node) for node in range(len(parents))])
    likeliest = np.argsort(-logits, axis=1, kind="stable")
    tokens = np.zeros(len(parents), np.int64)
    for parent in (0, 1):
        tokens[parents == parent] = likeliest[parent, :2]
    return Case(name, rule, Tree(tokens, parents), logits, boundary.params)
