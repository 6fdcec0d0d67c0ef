"""Pairs of rows that a sampler must treat independently, or alike, as counts.

Of every kind of pairs two things are kept. *Matches*: of pairs of rows of one case, how often both emitted the same
first token, and the same sequence; this needs no law and is sharp where noise is shared. *Tables*: of pairs of any two
rows, the joint counts of the first tokens' ranks, made uniform by each row's own law, which sees other dependence too,
and across cases of different laws. Both are plain counts, so that shards add up to the same whatever their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from .counts import SequenceCounts, count_sequences

__all__ = ["BINS", "KINDS", "TABLES", "Matches", "PairCounts", "aligned", "matching"]

Ints = NDArray[np.int64]

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

    @classmethod
    def merge(cls, parts: Sequence[PairCounts]) -> PairCounts:
        """Return the sum of one or more counts of the same group."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.sum([part.pairs for part in parts], axis=0, dtype=np.int64),
            [SequenceCounts.merge(some) for some in zip(*(part.first for part in parts), strict=True)],
            [SequenceCounts.merge(some) for some in zip(*(part.whole for part in parts), strict=True)],
            np.sum([part.tables for part in parts], axis=0, dtype=np.int64),
            {start: rows for part in parts for start, rows in part.openings.items()},
        )

    def between_instances(self) -> PairCounts:
        """Return the counts with those of consecutive shards' openings, which are then done with."""
        parts = [self]
        openings = [self.openings[start] for start in sorted(self.openings)]
        for before, after in pairwise(openings):
            rows = min(len(before), len(after))
            parts.append(aligned("instances", before[:rows], after[:rows], self.pairs.shape[1]))
        return replace(PairCounts.merge(parts), openings={})

    def matches(self, kind: str, case: int) -> Matches:
        """Return the matches of one case of the group."""
        k = KINDS.index(kind)
        return Matches(int(self.pairs[k, case]), _of_case(self.first[k], case), _of_case(self.whole[k], case))


def _of_case(counts: SequenceCounts, case: int) -> SequenceCounts:
    a, b = np.searchsorted(counts.tokens[:, 0], [case, case + 1])
    return SequenceCounts(counts.tokens[a:b, 1:], counts.counts[a:b]) if a < b else SequenceCounts.empty()


def aligned(kind: str, one: Ints, other: Ints, cases: int) -> PairCounts:
    """Count the pairs of equal places in two arrays of rows, int64 [B, 1 + W] each, where both are of one case."""
    same = np.flatnonzero((one[:, 0] == other[:, 0]) & (one[:, 1] == other[:, 1]))
    width = min(one.shape[1], other.shape[1])
    equal = (one[same, :width] == other[same, :width]).all(axis=1)
    for longer in (one, other):
        equal &= (longer[same, width:] < 0).all(axis=1)
    pairs = one[one[:, 0] == other[:, 0], 0]
    return matching(kind, pairs, one[same, :2], count_sequences(one[same[equal]]), cases)


def matching(kind: str, pairs: Ints, first: Ints, whole: SequenceCounts, cases: int) -> PairCounts:
    """Return the counts of one kind alone; ``pairs`` holds the case of each pair."""
    found = PairCounts.empty(cases)
    k = KINDS.index(kind)
    found.pairs[k] = np.bincount(pairs, minlength=cases)
    firsts, wholes = list(found.first), list(found.whole)
    firsts[k], wholes[k] = count_sequences(first), whole
    return PairCounts(found.pairs, firsts, wholes, found.tables, found.openings)
