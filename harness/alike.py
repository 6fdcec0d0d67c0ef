"""What cases of one group have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

__all__ = ["Alike"]


class Shaped(Protocol):
    """A case, of one step or of many."""

    @property
    def name(self) -> str: ...
    @property
    def rule(self) -> str: ...
    @property
    def vocab(self) -> int: ...
    @property
    def nodes(self) -> int: ...
    @property
    def depth_limit(self) -> int: ...
    @property
    def threshold_single(self) -> float: ...
    @property
    def threshold_acc(self) -> float: ...


class Alike:
    """A group of ``cases`` that agree in rule and shape: what the first has, all have."""

    name: str
    if TYPE_CHECKING:  # a field in most groups, for which an inherited property would be the default

        @property
        def cases(self) -> Sequence[Shaped]:
            """One at least."""

    def require(self, *fields: str) -> None:
        """Raise a ValueError where two cases differ in one of ``fields``, or share a name."""
        first = self.cases[0]
        for case in self.cases:
            for field in fields:
                if getattr(case, field) != getattr(first, field):
                    raise ValueError(
                        f"cases of group {self.name} must agree in {field}: {first.name} has {getattr(first, field)}, "
                        f"{case.name} has {getattr(case, field)}"
                    )
        if len(set(self.names)) != len(self.cases):
            raise ValueError(f"cases of group {self.name} must have different names")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the cases."""
        return tuple(case.name for case in self.cases)

    @property
    def rule(self) -> str:
        """Rule of every case."""
        return self.cases[0].rule

    @property
    def vocab(self) -> int:
        """V of every case."""
        return self.cases[0].vocab

    @property
    def nodes(self) -> int:
        """N of every case."""
        return self.cases[0].nodes

    @property
    def depth_limit(self) -> int:
        """S of every case."""
        return self.cases[0].depth_limit

    @property
    def thresholds(self) -> tuple[float, float]:
        """Of every case, single and acc."""
        return self.cases[0].threshold_single, self.cases[0].threshold_acc
