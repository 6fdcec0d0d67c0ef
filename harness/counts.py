"""What a sampler emitted: sequences with their counts, and the same read prefix by prefix against a law."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .law import Law

__all__ = ["PrefixCounts", "SequenceCounts", "Stray", "count_sequences", "distinct_rows", "prefix_counts"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class SequenceCounts:
    """Distinct emitted sequences of one case and how often each came.

    ``tokens`` is int64 [K, W], -1 beyond the end of a sequence, rows distinct and sorted; ``counts`` is int64 [K].
    """

    tokens: Ints
    counts: Ints

    @property
    def n(self) -> int:
        """Number of sequences counted, repetitions included."""
        return int(self.counts.sum())

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each distinct sequence, int64 [K]."""
        lengths: Ints = (self.tokens >= 0).sum(axis=1)
        return lengths

    @classmethod
    def empty(cls, width: int = 1) -> SequenceCounts:
        """Return the count of no sequences."""
        return cls(np.zeros((0, width), np.int64), np.zeros(0, np.int64))

    @classmethod
    def merge(cls, parts: Iterable[SequenceCounts]) -> SequenceCounts:
        """Return the sum of several counts; their widths may differ."""
        parts = [part for part in parts if len(part.counts)]
        if not parts:
            return cls.empty()
        width = max(part.tokens.shape[1] for part in parts)
        tokens = np.concatenate([_widen(part.tokens, width) for part in parts])
        return count_sequences(tokens, np.concatenate([part.counts for part in parts]))


def _widen(tokens: Ints, width: int) -> Ints:
    return np.pad(tokens, ((0, 0), (0, width - tokens.shape[1])), constant_values=-1)


def count_sequences(tokens: Ints, weights: Ints | None = None) -> SequenceCounts:
    """Count distinct rows of ``tokens``, int64 [K, W], -1 beyond the end; row k counts ``weights[k]`` times (1)."""
    distinct, inverse = distinct_rows(tokens)
    counts = np.zeros(len(distinct), np.int64)
    np.add.at(counts, inverse, 1 if weights is None else weights)
    return SequenceCounts(distinct, counts)


def distinct_rows(tokens: Ints) -> tuple[Ints, Ints]:
    """Return the distinct rows of ``tokens``, int64 [K, W], sorted, and which of them each row is, int64 [K]."""
    rows = np.ascontiguousarray(tokens, np.int64)
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    base = int(rows.max()) + 2
    if base ** rows.shape[1] < 2**63:  # one integer a sequence sorts far quicker than rows do
        powers = base ** np.arange(rows.shape[1], dtype=np.int64)[::-1]
        _, first, inverse = np.unique((rows + 1) @ powers, return_index=True, return_inverse=True)
        return rows[first], inverse.reshape(-1)
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    return distinct, inverse.reshape(-1)


@dataclass(frozen=True)
class Stray:
    """An emission that the law gives probability zero.

    ``prefix`` is the index of the last prefix of the law that the emission agrees with, ``token`` the token that came
    after it, ``count`` how often, and ``kind`` says why it is impossible: ``"token"`` (probability zero there),
    ``"accepted"`` (a possible token, but nothing may follow it: it continues no path of the tree) or ``"length"``
    (more tokens than the depth limit allows).
    """

    prefix: int
    token: int
    count: int
    kind: str


@dataclass(frozen=True, eq=False)
class PrefixCounts:
    """Counts along the prefixes of a law of M prefixes and V tokens.

    Parameters
    ----------
    n : int
        Steps counted.
    reached : int64 [M]
        Times that prefix m was emitted and another token followed.
    prefix, token, count : int64 [K]
        Sparse cells: after prefix ``prefix[k]`` came ``token[k]``, ``count[k]`` times; sorted by (prefix, token),
        each cell once, counts above zero. Cells that the law finds impossible are included.
    strays : list of Stray
        The impossible emissions.
    """

    n: int
    reached: Ints
    prefix: Ints
    token: Ints
    count: Ints
    strays: list[Stray]


def prefix_counts(law: Law, sequences: SequenceCounts) -> PrefixCounts:
    """Read sequences prefix by prefix.

    A sequence is followed while the law knows its prefix; at the first impossible step it becomes a stray and what
    comes after it is not counted.
    """
    vocab = law.vocab
    reached = np.zeros(law.size, np.int64)
    lengths = sequences.lengths
    at = np.zeros(len(sequences.counts), np.int64)
    live = np.arange(len(sequences.counts))
    cells: list[Ints] = []
    weights: list[Ints] = []
    strays: dict[tuple[int, int, str], int] = {}

    def stray(rows: Ints, kind: str, token: Ints) -> None:
        for row, last in zip(rows, token, strict=True):
            key = (int(at[row]), int(last), kind)
            strays[key] = strays.get(key, 0) + int(sequences.counts[row])

    for step in range(sequences.tokens.shape[1]):
        live = live[lengths[live] > step]
        if not len(live):
            break
        token = sequences.tokens[live, step]
        np.add.at(reached, at[live], sequences.counts[live])
        cells.append(at[live] * vocab + token)
        weights.append(sequences.counts[live])
        impossible = law.rows[at[live], token] <= 0.0
        stray(live[impossible], "token", token[impossible])
        child = law.children(at[live], token)
        goes_on = lengths[live] > step + 1
        lost = goes_on & (child < 0) & ~impossible
        too_long = lost & (step + 1 >= law.depth_limit)
        stray(live[too_long], "length", token[too_long])
        stray(live[lost & ~too_long], "accepted", token[lost & ~too_long])
        keep = goes_on & (child >= 0) & ~impossible
        at[live[keep]] = child[keep]
        live = live[keep]
    codes, inverse = np.unique(np.concatenate(cells) if cells else np.zeros(0, np.int64), return_inverse=True)
    count = np.zeros(len(codes), np.int64)
    if cells:
        np.add.at(count, inverse.reshape(-1), np.concatenate(weights))
    found = [Stray(prefix, token, times, kind) for (prefix, token, kind), times in sorted(strays.items())]
    return PrefixCounts(sequences.n, reached, codes // vocab, codes % vocab, count, found)
