"""The exact law of one verification step, as a tree of emitted prefixes.

A step emits tokens x1..xk, k >= 1. The law is held prefix by prefix: for every prefix that can be emitted and
continued, the probability that this happens (reach) and the law of the token that follows. Everything else, outcomes
and acceptance lengths included, is derived from these two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["Law", "LawBuilder", "Undecided"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Undecided:
    """What rounding decides in the law of a sampler that filters for itself (:mod:`.margins`).

    Parameters
    ----------
    tokens : bool [M, V]
        Tokens that may be missing after a prefix. Given that another one comes, the law's row, restricted to the
        others, holds.
    stops_known : bool
        Whether the chance that a step goes on after an emitted prefix is known nevertheless: it is 0 or 1 wherever the
        emitted token alone decides.
    """

    tokens: NDArray[np.bool_]
    stops_known: bool


@dataclass(frozen=True, eq=False)
class Law:
    """Law of one step over M prefixes of a vocabulary of V tokens; prefix 0 is the empty one.

    Parameters
    ----------
    parent, token : int64 [M]
        Prefix m is prefix ``parent[m]`` followed by ``token[m]``; both are -1 for the empty prefix. A parent comes
        before its children.
    node : int64 [M]
        The node of the draft tree (or position in the chain) at which the walk stands after emitting prefix m.
    reach : float64 [M]
        P(prefix m is emitted and at least one more token follows).
    rows : float64 [M, V]
        P(next token | prefix m is emitted and another token follows); each row sums to 1.
    depth_limit : int
        S: no more than S tokens are emitted.
    undecided : Undecided or None
        Where not None, rows and reach are those with every undecided token there; see :attr:`decided`.
    """

    parent: Ints
    token: Ints
    node: Ints
    reach: Floats
    rows: Floats
    depth_limit: int
    undecided: Undecided | None = None
    _codes: Ints = field(init=False, repr=False)
    _order: Ints = field(init=False, repr=False)

    def __post_init__(self) -> None:
        codes = self.parent * self.vocab + self.token
        codes[0] = -1
        order = np.argsort(codes, kind="stable")
        object.__setattr__(self, "_order", order)
        object.__setattr__(self, "_codes", codes[order])

    @property
    def size(self) -> int:
        """Number of prefixes M."""
        return len(self.parent)

    @property
    def vocab(self) -> int:
        """Number of tokens V."""
        return int(self.rows.shape[1])

    @cached_property
    def decided(self) -> Law:
        """The law given that no undecided token comes: rows restricted to the others; rows of 0 where there are none.

        Its reach is that of a prefix that is followed by a decided token. The law itself where all are decided.
        """
        if self.undecided is None:
            return self
        rows = np.where(self.undecided.tokens, 0.0, self.rows)
        mass = rows.sum(axis=1)
        rows /= np.where(mass > 0.0, mass, 1.0)[:, None]
        return replace(self, reach=self.reach * mass, rows=rows, undecided=None)

    @cached_property
    def depth(self) -> Ints:
        """Length of each prefix, int64 [M]."""
        depth = np.zeros(self.size, np.int64)
        for m in range(1, self.size):
            depth[m] = depth[self.parent[m]] + 1
        return depth

    @cached_property
    def emit(self) -> Floats:
        """P(prefix m is emitted, whether or not more follows), float64 [M]."""
        emitted = np.ones(self.size)
        inner = slice(1, None)
        emitted[inner] = self.reach[self.parent[inner]] * self.rows[self.parent[inner], self.token[inner]]
        return emitted

    @cached_property
    def lengths(self) -> Floats:
        """P(k tokens are emitted) at index k, float64 [S + 1]; index 0 is 0."""
        ends = self.reach.copy()
        np.subtract.at(ends, self.parent[1:], self.reach[1:])
        law = np.zeros(self.depth_limit + 1)
        np.add.at(law, self.depth + 1, ends)
        return np.maximum(law, 0.0)

    def children(self, prefix: Ints, token: Ints) -> Ints:
        """Index of the prefix that extends each ``prefix`` by ``token``; -1 where no token can follow that one.

        Both arguments are int64 of one shape, entries within [0, M) and [0, V).
        """
        codes = prefix * self.vocab + token
        at = np.minimum(np.searchsorted(self._codes, codes), self.size - 1)
        return np.where(self._codes[at] == codes, self._order[at], -1)

    def prefix(self, m: int) -> list[int]:
        """Tokens of prefix ``m``, left to right."""
        tokens: list[int] = []
        while m > 0:
            tokens.append(int(self.token[m]))
            m = int(self.parent[m])
        return tokens[::-1]

    def find(self, tokens: Sequence[int]) -> int:
        """Index of the prefix ``tokens``; -1 where it cannot be emitted and continued."""
        m = 0
        for token in tokens:
            m = int(self.children(np.array([m]), np.array([token]))[0])
            if m < 0:
                return -1
        return m

    def outcome(self, prefix: Ints, token: Ints) -> Floats:
        """P(exactly ``prefix`` followed by ``token`` is emitted and nothing after it), float64 of their shape."""
        child = self.children(prefix, token)
        ends = self.reach[prefix] * self.rows[prefix, token]
        return np.where(child >= 0, np.maximum(ends - self.reach[child], 0.0), ends)

    def with_rows(self, rows: Floats) -> Law:
        """Return the law after exchanging the next-token rows, float64 [M, V].

        The probability that a step goes on after an emitted prefix stays as it is; reach follows from the new rows.
        """
        reach = np.ones(self.size)
        with np.errstate(invalid="ignore", divide="ignore"):
            goes_on = np.where(self.emit > 0, self.reach / self.emit, 0.0)
        for m in range(1, self.size):
            parent = self.parent[m]
            reach[m] = reach[parent] * rows[parent, self.token[m]] * goes_on[m]
        return replace(self, reach=reach, rows=rows)


class LawBuilder:
    """Collects prefixes in order, parents first, and makes the Law of them."""

    def __init__(self, depth_limit: int) -> None:
        self._depth_limit = depth_limit
        self._parent: list[int] = []
        self._token: list[int] = []
        self._node: list[int] = []
        self._reach: list[float] = []
        self._rows: list[Floats] = []

    def add(self, parent: int, token: int, node: int, reach: float, row: Floats) -> int:
        """Append one prefix and return its index; see :class:`Law` for the meaning of each."""
        self._parent.append(parent)
        self._token.append(token)
        self._node.append(node)
        self._reach.append(reach)
        self._rows.append(row)
        return len(self._parent) - 1

    def build(self) -> Law:
        """Return the law of what was added."""
        return Law(
            np.array(self._parent, np.int64),
            np.array(self._token, np.int64),
            np.array(self._node, np.int64),
            np.array(self._reach, np.float64),
            np.stack(self._rows),
            self._depth_limit,
        )
