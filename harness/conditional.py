"""The law of a step given its drafts: what is left to chance is the verifier's own noise.

Where drafts are redrawn for every row (:mod:`.redraw`), the law of a rule is over the drafts too. Given them it follows
from what the rule does at each node: accept a child, or stop and draw the last token from what is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .law import Law, LawBuilder

__all__ = ["Drafted", "Step", "chain_steps", "conditional_law", "step_at"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Drafted:
    """A case with the drafts of one row: ``tokens`` and ``states`` int64 [n], of each node of its tree."""

    case: Case
    tokens: Ints
    states: Ints

    @classmethod
    def given(cls, case: Case) -> Drafted:
        """Return a case whose drafts are the tokens of its tree, node i having law row i."""
        return cls(case, case.tree.tokens, np.arange(len(case.tree)))

    @cached_property
    def target(self) -> Floats:
        """Target laws, float64 [R, V]."""
        return self.case.law_rows

    @cached_property
    def draft(self) -> Floats:
        """Draft laws, float64 [R, V]; only where the case has one."""
        return self.case.draft_rows

    @property
    def distinct(self) -> bool:
        """Whether siblings have different tokens."""
        families = self.case.tree.children
        return all(len({int(self.tokens[child]) for child in family}) == len(family) for family in families)

    def children(self, node: int, depth: int) -> tuple[int, ...]:
        """Children of a node at this depth that can be accepted: none at the depth limit."""
        return self.case.tree.children[node] if depth < self.case.depth_limit - 1 else ()


@dataclass(frozen=True, eq=False)
class Step:
    """What a rule does at a node, given the drafts.

    Parameters
    ----------
    chances : float64 [c]
        P(child i is accepted | it is tried), in sibling order.
    rest : float64 [V]
        Law of the last token where none is; all 0 where that cannot be.
    spread : float
        By how much an error relative to 1 in the laws can grow in these, one at least: the mass that a law is divided
        by after a rejection may be small.
    """

    chances: Floats
    rest: Floats
    spread: float

    @property
    def accepted(self) -> Floats:
        """P(child i is accepted), float64 [c]."""
        before = np.concatenate([[1.0], np.cumprod(1.0 - self.chances)[:-1]]) if len(self.chances) else self.chances
        return self.chances * before


def step_at(drafted: Drafted, node: int, depth: int) -> Step:
    """Return what a rejection rule does at a node of a tree that stands at this depth."""
    case = drafted.case
    children = drafted.children(node, depth)
    state = int(drafted.states[node])
    drafts = [int(drafted.tokens[child]) for child in children]
    return _rejections(drafted.target[state], drafted.draft[state], drafts, replacement=case.replacement)


def chain_steps(drafted: Drafted) -> tuple[tuple[int, ...], list[Step]]:
    """Return the nodes of a chain as far as the depth limit, and the steps of rule block at them."""
    case = drafted.case
    nodes = case.tree.order[: case.depth_limit]
    states = [int(drafted.states[node]) for node in nodes]
    tokens = [int(drafted.tokens[node]) for node in nodes[1:]]
    return nodes, _block_steps([drafted.target[s] for s in states], [drafted.draft[s] for s in states], tokens)


def conditional_law(drafted: Drafted) -> Law:
    """Return the exact law of a step given its drafts, for the rules that redraw them; siblings must be distinct.

    Raises
    ------
    ValueError
        Where two siblings have one token: what follows that token then has two laws.
    """
    if not drafted.distinct:
        raise ValueError(f"case {drafted.case.name}: siblings of one token have no law of what follows it")
    return _block_law(drafted) if drafted.case.rule == "block" else _tree_law(drafted)


def _tree_law(drafted: Drafted) -> Law:
    builder = LawBuilder(drafted.case.depth_limit)
    queue = [(-1, 0, 0, 1.0)]
    for parent, node, depth, reach in queue:
        step, children = step_at(drafted, node, depth), drafted.children(node, depth)
        accepted = step.accepted
        row = max(0.0, 1.0 - float(accepted.sum())) * step.rest
        row[[int(drafted.tokens[child]) for child in children]] += accepted
        row /= row.sum()
        index = builder.add(parent, int(drafted.tokens[node]) if node else -1, node, reach, row)
        queue += [(index, child, depth + 1, reach * float(p)) for child, p in zip(children, accepted, strict=True) if p]
    return builder.build()


def _block_law(drafted: Drafted) -> Law:
    nodes, steps = chain_steps(drafted)
    holds = [float(step.chances[0]) for step in steps]
    ends = [hold * float(np.prod([1.0 - later for later in holds[i + 1 :]])) for i, hold in enumerate(holds)]
    builder = LawBuilder(drafted.case.depth_limit)
    for i, (node, step) in enumerate(zip(nodes, steps, strict=True)):
        reach = sum(ends[i:])
        if reach <= 0.0:
            break
        row = ends[i] * step.rest
        if i + 1 < len(nodes):
            row = row.copy()
            row[int(drafted.tokens[nodes[i + 1]])] += sum(ends[i + 1 :])
        row = row / row.sum()
        builder.add(i - 1, int(drafted.tokens[node]) if i else -1, node, 1.0 if i == 0 else reach, row)
    return builder.build()


def _rejections(target: Floats, draft: Floats, drafts: Sequence[int], *, replacement: bool) -> Step:
    """Return what the rejection rules do at a node with these laws and the drafts of its children in sibling order."""
    p, q, spread = target, draft, 1.0
    chances: list[float] = []
    for token in drafts:
        chances.append(min(1.0, float(p[token] / q[token])) if q[token] > 0.0 else float(p[token] > 0.0))
        surplus = np.maximum(p - q, 0.0)
        mass = float(surplus.sum())
        p = surplus / mass if mass > 0.0 else np.zeros_like(p)
        spread /= min(1.0, mass) if mass > 0.0 else 1.0
        if not replacement:
            q = q.copy()
            q[token] = 0.0
            left = float(q.sum())
            q = q / left if left > 0.0 else q
            spread /= left if left > 0.0 else 1.0
    return Step(np.array(chances), p, spread)


def _block_steps(target: Sequence[Floats], draft: Sequence[Floats], drafts: Sequence[int]) -> list[Step]:
    """Return one step a position of a chain of g drafts, g + 1 in all: whether the block up to it is held.

    ``chances`` has the one chance h_i that the coin of draft i holds the block (h_0 = 1), ``rest`` the law of the token
    after it. ``target`` and ``draft`` are the laws float64 [V] at positions 0 to g, ``drafts`` the g drafts.
    """
    r, steps = 1.0, []
    for i, (p, q) in enumerate(zip(target, draft, strict=True)):
        if i:
            before_p, before_q, token = target[i - 1], draft[i - 1], drafts[i - 1]
            r = min(1.0, r * float(before_p[token]) / float(before_q[token]))
        if i == len(drafts):
            steps.append(Step(np.array([r if i else 1.0]), p, 1.0))
            break
        surplus = np.maximum(r * p - q, 0.0)
        mass = float(surplus.sum())
        total = mass + 1.0 - r
        hold = (mass / total if total > 0.0 else 1.0) if i else 1.0
        rest = surplus / mass if mass > 0.0 else np.zeros_like(p)
        steps.append(Step(np.array([hold]), rest, 1.0 / min([1.0, *(x for x in (mass, total) if x > 0.0)])))
    return steps
