"""Cases that are probed, their drafts held, and the calls that ask a sampler about chosen coins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .alike import Alike
from .case import Case
from .conditional import Drafted
from .groups import LARGEST_BATCH, LARGEST_TABLE, Group, Plan, Shard
from .measured import Measured
from .probe import probe, swept
from .reads import Subject
from .redraw import redraw
from .request import Request
from .samplers.base import Claims
from .streams import COIN_STEP, stream

__all__ = ["Caller", "ProbeGroup", "ProbePlan", "probed"]

Ints = NDArray[np.int64]
Verify = Callable[[str, Request], Ints]
"""Takes the name of a call and its request; returns the emitted tokens, int64 [B, W], -1 beyond the end of each row."""

ROWS = 64
"""Rows of a call, always so many: samplers may rely on calls of equal shapes."""


@dataclass(frozen=True, eq=False)
class ProbeGroup(Alike):
    """Cases of equal shape that are probed together.

    Parameters
    ----------
    name : str
    cases : tuple of Case
    outside : str or None
        Why verifiers need not take such requests; they are then put to those samplers alone that a known finding names.
    """

    name: str
    cases: tuple[Case, ...]
    outside: str | None = None

    @cached_property
    def group(self) -> Group:
        """The cases as a group."""
        return Group(self.name, self.cases)

    @property
    def n(self) -> int:
        """Draws a case: none, its rows are asked with chosen coins."""
        return 0

    def plan(self, suite: str, seed: int) -> ProbePlan:
        """Return the plan of the group."""
        return ProbePlan(self.group, suite, seed, 1)


@dataclass(frozen=True, eq=False)
class ProbePlan(Plan):
    """The cases of one group in one run, as one shard; which rows are asked depends on what was emitted before.

    ``sweep`` is a node: of each coin that decides something there, in the only case, every value is asked.
    """

    sweep: int | None = None

    def shards(self, shrink: int = 0) -> list[Shard]:
        """Return the only shard, whatever ``shrink`` is."""
        return [Shard(0, 1)]

    @cached_property
    def drafts(self) -> list[Drafted]:
        """The drafts of each case: those of its tree, or one draw of distinct siblings from its draft law."""
        return [self._drafted(case) for case in self.group.cases]

    def _drafted(self, case: Case) -> Drafted:
        draft = case.draft_probs
        if draft is None:
            return Drafted.given(case)
        rng = stream("probe drafts", self.seed, self.suite, self.group.name, case.name)
        tokens, states = redraw(rng, case.tree, draft, 1, replacement=False)
        return Drafted(case, tokens[0], states[0])

    def subjects(self, claims: Claims) -> list[Subject]:
        """Return what is probed of a sampler of these claims, one a case."""
        return [Subject(drafted, claims) for drafted in self.drafts]


class Caller:
    """Asks a sampler about rows of a group, in calls of one shape, the rows of a call in a random order.

    Calls are filled up with rows that they have already; ``changed`` int64 [G] counts those that emitted something
    else.
    """

    def __init__(self, plan: ProbePlan, verify: Verify, rows: int = ROWS) -> None:
        group = plan.group
        self._plan = plan
        self._verify = verify
        self._rng = stream("probe calls", plan.seed, plan.suite, group.name)
        self._size = max(1, min(rows, LARGEST_TABLE // (4 * group.nodes * group.vocab)))
        self._calls = 0
        self.changed = np.zeros(len(group), np.int64)
        self._candidates = group.tables.candidates.copy()
        self._rows = np.arange(len(group))[:, None] * group.rows + np.arange(group.nodes) % group.rows
        for g, drafted in enumerate(plan.drafts):
            real = len(drafted.tokens)
            self._candidates[g, :real] = drafted.tokens
            self._rows[g, :real] = g * group.rows + drafted.states

    def __call__(self, which: Ints, coins: Ints) -> Ints:
        """Return the emitted tokens, int64 [K, W], of cases ``which`` [K] with ``coins`` [K, N + 1] in [0, 2^24)."""
        parts = [
            self._call(which[start : start + self._size], coins[start : start + self._size])
            for start in range(0, len(which), self._size)
        ]
        width = max(part.shape[1] for part in parts)
        return np.concatenate([np.pad(p, ((0, 0), (0, width - p.shape[1])), constant_values=-1) for p in parts])

    def _call(self, which: Ints, coins: Ints) -> Ints:
        source = self._rng.permutation(np.resize(np.arange(len(which)), self._size))
        request = self._request(which[source], coins[source])
        tokens = self._verify(f"call {self._calls}", request)
        self._calls += 1
        _, first, inverse = np.unique(source, return_index=True, return_inverse=True)
        apart = (tokens[first][inverse] != tokens).any(axis=1)
        np.add.at(self.changed, which[source[apart]], 1)
        return tokens[first]

    def _request(self, which: Ints, coins: Ints) -> Request:
        uniforms = (coins * COIN_STEP).astype(np.float32)
        return self._plan.request(
            which,
            self._candidates[which],
            self._rows[which],
            (uniforms[:, :-1].copy(), uniforms[:, -1].copy()),
            self._rng,
            self._calls,
        )


def probed(plan: ProbePlan, claims: Claims, verify: Verify) -> list[Measured]:
    """Measure the law of a sampler of these claims on each case of a plan."""
    ask = Caller(plan, verify)
    rng = stream("probe", plan.seed, plan.suite, plan.group.name)
    subjects = plan.subjects(claims)
    found = probe(subjects, ask, rng)
    if plan.sweep is not None:
        many = Caller(plan, verify, LARGEST_BATCH)
        found = [swept(subjects[0], found[0], plan.sweep, many)]
    return [
        replace(measured, changed=measured.changed + int(changed))
        for measured, changed in zip(found, ask.changed, strict=True)
    ]
