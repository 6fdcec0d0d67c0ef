"""Pairs of rows that a sampler must treat independently, or alike: what is recorded of them while calls run.

Of every kind of pairs two things are kept. *Matches*: of pairs of rows of one case, how often both emitted the same
first token, and the same sequence; this needs no law and is sharp where noise is shared. *Tables*: of pairs of any two
rows, the joint counts of the first tokens' ranks, made uniform by each row's own law, which sees other dependence too,
and across cases of different laws. Both are plain counts, so that shards add up to the same whatever their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .claimed import first_token
from .counts import SequenceCounts, count_sequences
from .groups import Group
from .samplers.base import Claims

__all__ = ["BINS", "KINDS", "TABLES", "FirstTokens", "Matches", "PairCounts", "PairRecorder"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

KINDS = ("rows", "calls", "instances", "repeats")
"""Pairs: neighbouring rows of a call; equal rows of consecutive calls; equal rows of the first calls of two fresh
instances; equal rows of the reproducibility call."""
TABLES = ("rows", "calls")
"""Kinds of which there is a table; no row is in two pairs of it."""
BINS = 8


@dataclass(frozen=True, eq=False)
class Matches:
    """Pairs of rows of one case: how many, and the first tokens [K, 1] and whole sequences that came twice."""

    pairs: int
    first: SequenceCounts
    whole: SequenceCounts


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Pairs of a group of G cases.

    Parameters
    ----------
    pairs : int64 [4, G]
        Pairs of rows of one case, by kind and case.
    first, whole : sequences of SequenceCounts, by kind
        What came twice in them; the first column is the case.
    tables : int64 [2, BINS * BINS]
        Pairs of any rows, by kind and the ranks of their first tokens.
    openings : mapping of int to int64 [B, 1 + W]
        What the first call of a shard emitted, by the number of that call; the first column is the case.
    """

    pairs: Ints
    first: Sequence[SequenceCounts]
    whole: Sequence[SequenceCounts]
    tables: Ints
    openings: dict[int, Ints]

    @classmethod
    def empty(cls, cases: int) -> PairCounts:
        """Return the counts of no pairs."""
        none = [SequenceCounts.empty(2)] * len(KINDS)
        tables = np.zeros((len(TABLES), BINS * BINS), np.int64)
        return cls(np.zeros((len(KINDS), cases), np.int64), none, none, tables, {})

    def __add__(self, other: PairCounts) -> PairCounts:
        return PairCounts(
            self.pairs + other.pairs,
            [SequenceCounts.merge(pair) for pair in zip(self.first, other.first, strict=True)],
            [SequenceCounts.merge(pair) for pair in zip(self.whole, other.whole, strict=True)],
            self.tables + other.tables,
            self.openings | other.openings,
        )

    def between_instances(self) -> PairCounts:
        """Return the counts with those of consecutive shards' openings, which are then done with."""
        found = self
        openings = [self.openings[start] for start in sorted(self.openings)]
        for before, after in zip(openings, openings[1:], strict=False):
            rows = min(len(before), len(after))
            found += _aligned("instances", before[:rows], after[:rows], self.pairs.shape[1])
        return PairCounts(found.pairs, found.first, found.whole, found.tables, {})

    def matches(self, kind: str, case: int) -> Matches:
        """Return the matches of one case of the group."""
        k = KINDS.index(kind)
        return Matches(int(self.pairs[k, case]), _of_case(self.first[k], case), _of_case(self.whole[k], case))


def _of_case(counts: SequenceCounts, case: int) -> SequenceCounts:
    a, b = np.searchsorted(counts.tokens[:, 0], [case, case + 1])
    return SequenceCounts(counts.tokens[a:b, 1:], counts.counts[a:b])


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
    return np.concatenate([children, np.setdiff1d(np.arange(case.vocab), children)])


class PairRecorder:
    """Records the calls of one shard, in order."""

    def __init__(self, places: FirstTokens) -> None:
        self._places = places
        self._cases = len(places.usable)
        self._parts: list[PairCounts] = []
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
        found = _matches("rows", which[same], rows[same[token[same + 1] == token[same]], :2], whole, self._cases)
        bins = self._places.bins(which, token, uniforms)
        odd = number % 2  # so that every two neighbours are a pair in one of two calls
        ends = len(bins) - (len(bins) - odd) % 2
        _tally(found.tables[0], bins[odd:ends:2], bins[odd + 1 : ends : 2])
        if self._before is None:
            found.openings[number] = rows
        else:
            found += _aligned("calls", self._before, rows, self._cases)
        if self._open is None:
            self._open = bins
        else:
            _tally(found.tables[1], self._open, bins)
            self._open = None
        self._before = rows
        self._parts.append(found)
        if len(self._parts) > 16:
            self._parts = [self.counts]

    def repeats(self, rows: Ints, twins: Ints) -> None:
        """Record the reproducibility call: ``twins`` int64 [P, 2] are pairs of equal rows."""
        self._parts.append(_aligned("repeats", rows[twins[:, 0]], rows[twins[:, 1]], self._cases))

    @property
    def counts(self) -> PairCounts:
        """What was recorded so far."""
        return reduce(PairCounts.__add__, self._parts, PairCounts.empty(self._cases))


def _aligned(kind: str, one: Ints, other: Ints, cases: int) -> PairCounts:
    """Count the pairs of equal places in two arrays of rows, int64 [B, 1 + W] each, where both are of one case."""
    same = np.flatnonzero((one[:, 0] == other[:, 0]) & (one[:, 1] == other[:, 1]))
    width = min(one.shape[1], other.shape[1])
    equal = (one[same, :width] == other[same, :width]).all(axis=1)
    for longer in (one, other):
        equal &= (longer[same, width:] < 0).all(axis=1)
    pairs = one[one[:, 0] == other[:, 0], 0]
    return _matches(kind, pairs, one[same, :2], count_sequences(one[same[equal]]), cases)


def _matches(kind: str, pairs: Ints, first: Ints, whole: SequenceCounts, cases: int) -> PairCounts:
    """Return the counts of one kind alone; ``pairs`` holds the case of each pair."""
    found = PairCounts.empty(cases)
    k = KINDS.index(kind)
    found.pairs[k] = np.bincount(pairs, minlength=cases)
    firsts, wholes = list(found.first), list(found.whole)
    firsts[k], wholes[k] = count_sequences(first), whole
    return PairCounts(found.pairs, firsts, wholes, found.tables, found.openings)


def _tally(table: Ints, one: Ints, other: Ints) -> None:
    known = (one >= 0) & (other >= 0)
    table += np.bincount(one[known] * BINS + other[known], minlength=len(table))
