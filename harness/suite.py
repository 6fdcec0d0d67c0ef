"""Suites: groups of cases with the number of draws for each, made when they are first looked into."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from .case import Case
from .coincase import CoinGroup
from .decode.sequences import SequenceCase, SequenceGroup, SequencePlan
from .groups import Group, Plan
from .known import Known
from .probegroup import ProbeGroup
from .rules import rule

__all__ = ["Entry", "SequenceEntry", "Suite", "SuiteGroup"]


@dataclass(frozen=True, eq=False)
class SuiteGroup:
    """A group of which the names are known and the rest is made on demand.

    Parameters
    ----------
    name, rule : str
    names : tuple of str
        Names of its cases.
    n : int
        Draws a case.
    make : callable
        Makes the group; called once.
    vocab, nodes, depth_limit : int
        V, N and S of its cases.
    thresholds : tuple of float
        Of its cases, single and acc.
    """

    name: str
    rule: str
    names: tuple[str, ...]
    n: int
    make: Callable[[], Group] = field(repr=False)
    vocab: int
    nodes: int
    depth_limit: int
    thresholds: tuple[float, float] = (1.0, 1.0)

    @classmethod
    def of(cls, group: Group, n: int) -> SuiteGroup:
        """Return the entry of a group that is made already."""
        names, first = tuple(case.name for case in group.cases), group.cases[0]
        thresholds = first.threshold_single, first.threshold_acc
        return cls(
            group.name, group.rule, names, n, lambda: group, group.vocab, group.nodes, first.depth_limit, thresholds
        )

    @cached_property
    def group(self) -> Group:
        """The group, its cases checked to be of their rule."""
        group = self.make()
        for case in group.cases:
            try:
                rule(case.rule).check(case)
            except ValueError as error:
                raise ValueError(f"case {case.name}: {error}") from None
        return group


@dataclass(frozen=True, eq=False)
class SequenceEntry:
    """A group of cases of many steps, made on demand; fields as of :class:`SuiteGroup`."""

    name: str
    rule: str
    names: tuple[str, ...]
    n: int
    make: Callable[[], SequenceGroup] = field(repr=False)
    vocab: int
    nodes: int
    depth_limit: int
    thresholds: tuple[float, float] = (1.0, 1.0)

    @cached_property
    def group(self) -> SequenceGroup:
        """The group."""
        return self.make()

    def plan(self, suite: str, seed: int) -> SequencePlan:
        """Return the plan of the group."""
        return SequencePlan(self.group, suite, seed, self.n)


Entry = SuiteGroup | SequenceEntry | CoinGroup | ProbeGroup
"""A group of a suite."""


@dataclass(frozen=True, eq=False)
class Suite:
    """A named list of groups; case names are unique in it.

    ``seconds`` is the time that a sampler should not exceed on two cores: slower plugins take fewer draws. ``coins``
    are cases of one step with fixed coins, which take no part of alpha, ``known`` what is excused in which cases,
    ``sequences`` cases of many steps, and ``probes`` cases whose law is measured, which take no part of alpha either.
    """

    name: str
    groups: tuple[SuiteGroup, ...]
    seconds: float
    coins: tuple[CoinGroup, ...] = ()
    known: Known = field(default_factory=Known)
    sequences: tuple[SequenceEntry, ...] = ()
    probes: tuple[ProbeGroup, ...] = ()

    def __post_init__(self) -> None:
        names = self.all_names
        if len(set(names)) != len(names):
            raise ValueError(f"suite {self.name} has two cases of the name {max(names, key=names.count)!r}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all cases that are drawn, in order."""
        return tuple(name for entry in self.drawn for name in entry.names)

    @property
    def drawn(self) -> list[SuiteGroup | SequenceEntry]:
        """Groups whose cases are drawn, of single steps and of many."""
        return [*self.groups, *self.sequences]

    @property
    def entries(self) -> list[Entry]:
        """All groups, those of coin cases and then those that are probed last."""
        return [*self.drawn, *self.coins, *self.probes]

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of all cases, the coin cases and those that are probed last."""
        return tuple(name for entry in self.entries for name in entry.names)

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of drawn cases of each rule."""
        sizes: dict[str, int] = {}
        for entry in self.drawn:
            sizes[entry.rule] = sizes.get(entry.rule, 0) + len(entry.names)
        return sizes

    def cases(self) -> Iterator[Case]:
        """Make every group of single steps and yield every drawn case in order."""
        for entry in self.groups:
            yield from entry.group.cases

    def case(self, name: str) -> Case:
        """Return the case of this name, one of a single step."""
        single: list[SuiteGroup | CoinGroup | ProbeGroup] = [*self.groups, *self.coins, *self.probes]
        entry = next(entry for entry in single if name in entry.names)
        return next(case for case in entry.group.cases if case.name == name)

    def sequence_case(self, name: str) -> SequenceCase | None:
        """Return the case of many steps of this name; None where there is none."""
        for entry in self.sequences:
            if name in entry.names:
                return entry.group.cases[entry.names.index(name)]
        return None

    def draws(self, vocab: int, nodes: int) -> int:
        """Return the draws of a case that is none of the suite's.

        Those of its cases whose V is nearest, halved until no more law entries are read than for any of its own.
        """
        near = min(self.groups, key=lambda entry: (abs(math.log(entry.vocab / vocab)), -entry.n))
        most = max(entry.n * entry.vocab * entry.nodes for entry in self.groups)
        n = near.n
        while n > 1 and n % 2 == 0 and n * vocab * nodes > most:
            n //= 2
        return n

    def plans(self, entries: Iterable[SuiteGroup], seed: int) -> list[Plan]:
        """Return the plans of some of its groups."""
        return [Plan(entry.group, self.name, seed, entry.n) for entry in entries]
