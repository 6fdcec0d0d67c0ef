"""Recording pairs of rows while calls run (:mod:`.matches`)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .claimed import first_token
from .counts import SequenceCounts
from .groups import Group
from .matches import BINS, PairCounts, aligned, matching
from .samplers.base import Claims

__all__ = ["FirstTokens", "PairRecorder"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MERGE_EVERY = 64


@dataclass(frozen=True, eq=False)
class FirstTokens:
    """Where the first token of each case lies between 0 and 1 by its law: [lower, lower + mass), float64 [G, V] each.

    ``usable`` [G] is False for a case whose law of the first token is not known in full.
    """

    lower: Floats
    mass: Floats
    usable: NDArray[np.bool_]

    @classmethod
    def of(cls, group: Group, claims: Claims) -> FirstTokens:
        """Return the places for a sampler of these ``claims``."""
        lower, mass = np.zeros((2, len(group), group.vocab))
        usable = np.ones(len(group), bool)
        for g, case in enumerate(group.cases):
            row, undecided = first_token(case, claims)
            order = _walk_order(case)
            mass[g] = row
            lower[g, order] = np.cumsum(row[order]) - row[order]
            usable[g] = not undecided.any()
        return cls(lower, mass, usable)

    @classmethod
    def from_rows(cls, rows: Floats) -> FirstTokens:
        """Return the places by laws of the first token that are known, float64 [G, V], tokens by number."""
        return cls(np.cumsum(rows, axis=1) - rows, rows, np.ones(len(rows), bool))

    def bins(self, which: Ints, token: Ints, uniforms: Floats) -> Ints:
        """Return the bin, of BINS, of each row's first token, uniform under its law; -1 where that is not known."""
        rank = self.lower[which, token] + self.mass[which, token] * uniforms
        found = np.clip((rank * BINS).astype(np.int64), 0, BINS - 1)
        return np.where(self.usable[which], found, -1)


def _walk_order(case: Case) -> Ints:
    """Order the tokens as most verifiers come upon them: the root's children as linked, then the others by number."""
    if case.draft is not None or case.rule != "target-only":
        return np.arange(case.vocab)
    children = np.array(case.tree.child_tokens(0), np.int64)
    others = np.ones(case.vocab, bool)
    others[children] = False
    return np.concatenate([children, np.flatnonzero(others)])


class PairRecorder:
    """Records the calls of one shard, in order."""

    def __init__(self, places: FirstTokens) -> None:
        self._places = places
        self._cases = len(places.usable)
        self._parts = [PairCounts.empty(self._cases)]
        self._before: Ints | None = None
        self._open: Ints | None = None

    def call(self, number: int, rows: Ints, distinct: Ints, inverse: Ints, uniforms: Floats) -> None:
        """Record one call.

        Parameters
        ----------
        number : int
            Of the call in its plan.
        rows : int64 [B, 1 + W]
            Of each row the case and what was emitted, -1 beyond its end.
        distinct, inverse : int64 [K, 1 + W], int64 [B]
            The different rows, and which of them each row is.
        uniforms : float64 [B]
            In [0, 1), of a stream that nothing else uses.
        """
        which, token = rows[:, 0], rows[:, 1]
        same = np.flatnonzero(which[1:] == which[:-1])
        twice = inverse[same[inverse[same + 1] == inverse[same]]]
        again = np.bincount(twice, minlength=len(distinct))
        whole = SequenceCounts(distinct[again > 0], again[again > 0])
        found = matching("rows", which[same], rows[same[token[same + 1] == token[same]], :2], whole, self._cases)
        bins = self._places.bins(which, token, uniforms)
        odd = number % 2  # so that every two neighbours are a pair in one of two calls
        ends = len(bins) - (len(bins) - odd) % 2
        _tally(found.tables[0], bins[odd:ends:2], bins[odd + 1 : ends : 2])
        if self._before is None:
            found.openings[number] = rows
        else:
            self._parts.append(aligned("calls", self._before, rows, self._cases))
        if self._open is None:
            self._open = bins
        else:
            _tally(found.tables[1], self._open, bins)
            self._open = None
        self._before = rows
        self._parts.append(found)
        if len(self._parts) > MERGE_EVERY:
            self._parts = [self.counts]

    def repeats(self, rows: Ints, twins: Ints) -> None:
        """Record the reproducibility call: ``twins`` int64 [P, 2] are pairs of equal rows."""
        self._parts.append(aligned("repeats", rows[twins[:, 0]], rows[twins[:, 1]], self._cases))

    @property
    def counts(self) -> PairCounts:
        """What was recorded so far."""
        return PairCounts.merge(self._parts)


def _tally(table: Ints, one: Ints, other: Ints) -> None:
    known = (one >= 0) & (other >= 0)
    table += np.bincount(one[known] * BINS + other[known], minlength=len(table))
