"""Suites: groups of cases with the number of draws for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .case import Case
from .groups import Group, Plan

__all__ = ["Suite", "SuiteGroup"]


@dataclass(frozen=True)
class SuiteGroup:
    """A group and the draws ``n`` that each of its cases gets."""

    group: Group
    n: int


@dataclass(frozen=True)
class Suite:
    """A named list of groups; case names are unique in it.

    ``seconds`` is the time that a sampler should not exceed on two cores: slower plugins take fewer draws.
    """

    name: str
    groups: tuple[SuiteGroup, ...]
    seconds: float

    def __post_init__(self) -> None:
        names = [case.name for case in self.cases()]
        if len(set(names)) != len(names):
            raise ValueError(f"suite {self.name} has two cases of the name {max(names, key=names.count)!r}")

    def cases(self) -> Iterator[Case]:
        """Yield every case in order."""
        for entry in self.groups:
            yield from entry.group.cases

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Number of cases of each rule."""
        sizes: dict[str, int] = {}
        for case in self.cases():
            sizes[case.rule] = sizes.get(case.rule, 0) + 1
        return sizes

    def plans(self, rules: Iterable[str], seed: int) -> list[Plan]:
        """Return the plan of every group of one of the ``rules``."""
        wanted = set(rules)
        return [Plan(entry.group, self.name, seed, entry.n) for entry in self.groups if entry.group.rule in wanted]
