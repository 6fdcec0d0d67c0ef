"""Coin cases: single steps with fixed coins, at the edges that random coins do not meet.

What a right verifier emits there follows from the case and the coins, so that one step decides and no alpha is spent:
only a fault can emit what is impossible. They run once in every suite, for samplers all of whose randomness is the
coins of the request, and are where a known finding (:mod:`.known`) is seen again, or seen to be gone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from .alike import Alike
from .case import Case
from .counts import SequenceCounts, prefix_counts
from .groups import FixedCoins, Group, Plan
from .known import Excused, Finding
from .law import Law

__all__ = ["CoinCase", "CoinGroup", "Impossible", "impossible", "judge_coins"]


@dataclass(frozen=True, eq=False)
class CoinCase:
    """A case with the coins of its only step.

    Parameters
    ----------
    case : Case
    coins : tuple of float
        Of its nodes, multiples of 2^-24 in [0, 1); those left out are 0.
    final_coin : float
        Of the last token.
    right : tuple of int, or None
        What the first token of a right verifier can be at these coins; None: whatever the law of the case allows, token
        by token.
    outside : str or None
        Why verifiers need not take such a request; it is then put to those samplers alone that a known finding names.

    Raises
    ------
    ValueError
        Where a coin is none, or there are more than nodes.
    """

    case: Case
    coins: tuple[float, ...] = ()
    final_coin: float = 0.0
    right: tuple[int, ...] | None = None
    outside: str | None = None

    def __post_init__(self) -> None:
        if len(self.coins) > self.case.nodes:
            raise ValueError(f"coins must be at most the {self.case.nodes} of the nodes, got {len(self.coins)}")
        for coin in (*self.coins, self.final_coin):
            if not 0.0 <= coin < 1.0 or coin * 2**24 % 1.0:
                raise ValueError(f"coins must be multiples of 2^-24 in [0, 1), got {coin!r}")

    @property
    def name(self) -> str:
        """Name of the case."""
        return self.case.name


@dataclass(frozen=True, eq=False)
class CoinGroup(Alike):
    """Coin cases of equal shape, run in one call of a row each."""

    name: str
    members: tuple[CoinCase, ...]

    @cached_property
    def group(self) -> Group:
        """The cases without their coins."""
        return Group(self.name, self.cases)

    @property
    def cases(self) -> tuple[Case, ...]:
        """The cases, as of any group."""
        return tuple(member.case for member in self.members)

    @property
    def outside(self) -> bool:
        """Whether verifiers need not take these requests."""
        return any(member.outside is not None for member in self.members)

    @property
    def n(self) -> int:
        """Draws a case."""
        return 1

    def plan(self, suite: str, seed: int) -> Plan:
        """Return the only call, in which every row of a case has the coins of that case."""
        coins = np.zeros((len(self.members), self.nodes), np.float32)
        for row, member in zip(coins, self.members, strict=True):
            row[: len(member.coins)] = member.coins
        final = np.array([member.final_coin for member in self.members], np.float32)
        return Plan(self.group, suite, seed, 1, FixedCoins(coins, final))


@dataclass(frozen=True)
class Impossible:
    """What a right verifier cannot emit: after ``prefix``, at ``node``, came ``token``; ``kind`` as of a Stray."""

    prefix: tuple[int, ...]
    node: int
    token: int
    kind: str


def impossible(member: CoinCase, law: Law | None, emitted: SequenceCounts) -> Impossible | None:
    """Return the first step of the emitted sequence that a right verifier cannot take, None where there is none.

    ``law`` is that of the case; it is not needed where the coin case itself says what is right.
    """
    if member.right is not None:
        token = int(emitted.tokens[0, 0])
        return None if token in member.right else Impossible((), 0, token, "token")
    if law is None:
        raise ValueError(f"the law of case {member.name} is needed")
    strays = prefix_counts(law, emitted).strays
    if not strays:
        return None
    first = strays[0]
    return Impossible(tuple(law.prefix(first.prefix)), int(law.node[first.prefix]), first.token, first.kind)


def judge_coins(
    found: Impossible | None, excused: Excused, named: Finding | None
) -> tuple[Literal["pass", "biased", "known", "fixed"], str | None]:
    """Return the verdict on a coin case, and what there is to say.

    Parameters
    ----------
    found : Impossible or None
        What was emitted though it cannot be.
    excused : Excused
        What is known of the sampler's versions in this case.
    named : Finding or None
        A finding that names the sampler, in whatever versions, and this case: where nothing was found, it is gone.
    """
    if found is None:
        return ("pass", None) if named is None else ("fixed", f"does not happen any more: {named.describe()}")
    finding = excused.excuses(found.prefix, found.token) if found.kind == "token" else None
    return ("biased", None) if finding is None else ("known", finding.describe())
