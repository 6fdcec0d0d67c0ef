"""Counting sequences and reading them along a law, against counters of tuples."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.counts import PrefixCounts, SequenceCounts, count_sequences, prefix_counts
from harness.law import Law, LawBuilder

from .build import laws, outcomes_of

quick = settings(max_examples=40, deadline=None)

Sequences = list[tuple[int, ...]]


def padded(sequences: Sequences, width: int) -> np.ndarray:
    rows = [[*sequence, *[-1] * (width - len(sequence))] for sequence in sequences]
    return np.array(rows, np.int64).reshape(len(sequences), width)


@st.composite
def emissions(draw: st.DrawFn) -> tuple[Sequences, int]:
    """Draw sequences with repetitions, and a width they fit in; now and then too large for one packed integer each."""
    token = st.one_of(st.integers(0, 3), st.integers(0, draw(st.sampled_from([5, 2**31, 2**62]))))
    sequences = draw(st.lists(st.lists(token, min_size=1, max_size=5).map(tuple), max_size=12))
    again = draw(st.lists(st.sampled_from(sequences), max_size=12)) if sequences else []
    width = max(map(len, sequences), default=1) + draw(st.integers(0, 3))
    return sequences + again, width


def assert_counts(counts: SequenceCounts, expected: Counter[tuple[int, ...]]) -> None:
    assert counts.tokens.dtype == counts.counts.dtype == np.int64
    rows = counts.tokens.tolist()
    assert rows == sorted(rows)
    found = {}
    for row, length, times in zip(rows, counts.lengths, counts.counts, strict=True):
        assert row[length:] == [-1] * (len(row) - length)
        found[tuple(row[:length])] = int(times)
    assert len(found) == len(rows)
    assert found == dict(expected)
    assert counts.n == sum(expected.values())


@quick
@given(emissions())
def test_sequences_are_counted(drawn: tuple[Sequences, int]) -> None:
    sequences, width = drawn
    assert_counts(count_sequences(padded(sequences, width)), Counter(sequences))


@quick
@given(st.data(), emissions())
def test_weights(data: st.DataObject, drawn: tuple[Sequences, int]) -> None:
    sequences, width = drawn
    weights = [data.draw(st.integers(1, 9)) for _ in sequences]
    expected: Counter[tuple[int, ...]] = Counter()
    for sequence, weight in zip(sequences, weights, strict=True):
        expected[sequence] += weight
    assert_counts(count_sequences(padded(sequences, width), np.array(weights, np.int64)), expected)


@quick
@given(st.data(), st.lists(emissions(), max_size=4))
def test_merged_counts_are_those_of_all_together(data: st.DataObject, parts: list[tuple[Sequences, int]]) -> None:
    counted = (count_sequences(padded(sequences, width)) for sequences, width in parts)
    assert_counts(SequenceCounts.merge(counted), Counter(s for sequences, _ in parts for s in sequences))


def test_both_ways_of_counting_agree() -> None:
    """Rows that fit into one integer are packed; the same rows beside one that does not are compared as rows."""
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 3, (500, 8))
    packed = count_sequences(rows)
    huge = np.full((1, 8), 2**40)
    unpacked = count_sequences(np.concatenate([huge, rows]))
    assert unpacked.tokens[-1].tolist() == huge[0].tolist()
    np.testing.assert_array_equal(unpacked.tokens[:-1], packed.tokens)
    np.testing.assert_array_equal(unpacked.counts[:-1], packed.counts)


def test_the_largest_packed_rows() -> None:
    for token in (
        2**31 - 2,
        2**31 - 1,
        2**31,
        3037000497,
        3037000498,
        3037000499,
    ):  # 3037000499^2 < 2^63 < 3037000500^2
        rows = np.array([[token, token], [0, -1], [token, token], [token, 0], [0, token]])
        counts = count_sequences(rows)
        assert counts.tokens.tolist() == [[0, -1], [0, token], [token, 0], [token, token]]
        assert counts.counts.tolist() == [1, 1, 1, 2]


def test_nothing_counted() -> None:
    for empty in (SequenceCounts.empty(3), SequenceCounts.merge([]), count_sequences(np.zeros((0, 4), np.int64))):
        assert empty.n == 0
        assert len(empty.lengths) == 0
    assert SequenceCounts.merge([SequenceCounts.empty(3), count_sequences(np.array([[1, -1]]))]).n == 1


# ---- along a law


@st.composite
def emitted_of(draw: st.DrawFn) -> tuple[Law, Sequences, int]:
    """Draw a law with sequences that it may emit, and others."""
    law = draw(laws())
    possible = [sequence for sequence, p in outcomes_of(law).items() if p > 1e-12]
    strange = st.lists(st.integers(0, law.vocab - 1), min_size=1, max_size=law.depth_limit + 2).map(tuple)
    longer = st.tuples(st.sampled_from(possible), strange).map(lambda pair: pair[0] + pair[1])
    sequences = draw(st.lists(st.one_of(st.sampled_from(possible), strange, longer), max_size=20))
    return law, sequences, max(map(len, sequences), default=1) + draw(st.integers(0, 2))


def loop(
    law: Law, sequences: Sequences
) -> tuple[Counter[int], Counter[tuple[int, int]], Counter[tuple[int, int, str]]]:
    """Reached prefixes, cells and strays, one sequence and one token at a time."""
    reached: Counter[int] = Counter()
    cells: Counter[tuple[int, int]] = Counter()
    strays: Counter[tuple[int, int, str]] = Counter()
    for sequence in sequences:
        m = 0
        for place, token in enumerate(sequence):
            reached[m] += 1
            cells[m, token] += 1
            if law.rows[m, token] == 0:
                strays[m, token, "token"] += 1
                break
            if place == len(sequence) - 1:
                break
            further = law.find([*law.prefix(m), token])
            if further < 0:
                strays[m, token, "length" if place + 1 >= law.depth_limit else "accepted"] += 1
                break
            m = further
    return reached, cells, strays


@settings(max_examples=100, deadline=None)
@given(emitted_of())
def test_sequences_are_read_along_the_law(drawn: tuple[Law, Sequences, int]) -> None:
    law, sequences, width = drawn
    counts = prefix_counts(law, count_sequences(padded(sequences, width)))
    reached, cells, strays = loop(law, sequences)

    assert counts.n == len(sequences)
    assert counts.reached.shape == (law.size,)
    assert counts.reached.tolist() == [reached[m] for m in range(law.size)]
    pairs = list(zip(counts.prefix.tolist(), counts.token.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    assert dict(zip(pairs, counts.count.tolist(), strict=True)) == dict(cells)
    found = {(s.prefix, s.token, s.kind): s.count for s in counts.strays}
    assert found == dict(strays)
    assert len(found) == len(counts.strays)


def by_hand() -> Law:
    """Token 2 is impossible at the root; nothing may follow token 0; after token 1 come 0 or 2, at most two tokens."""
    builder = LawBuilder(2)
    builder.add(-1, -1, 0, 1.0, np.array([0.25, 0.75, 0.0]))
    builder.add(0, 1, 1, 0.75, np.array([0.5, 0.0, 0.5]))
    return builder.build()


def strays_of(counts: PrefixCounts) -> list[tuple[int, int, int, str]]:
    return [(s.prefix, s.token, s.count, s.kind) for s in counts.strays]


def test_every_kind_of_stray() -> None:
    sequences = [(0,), (1, 0), (1, 2), (2,), (2, 0), (1, 1), (0, 1), (0, 1, 1), (1, 0, 0), (1, 0, 1), (1,)]
    counts = prefix_counts(by_hand(), count_sequences(padded(sequences, 3)))
    assert strays_of(counts) == [
        (0, 0, 2, "accepted"),
        (0, 2, 2, "token"),
        (1, 0, 2, "length"),
        (1, 1, 1, "token"),
    ]
    assert counts.reached.tolist() == [11, 5]
    assert counts.n == 11


def test_no_sequences_along_a_law() -> None:
    counts = prefix_counts(by_hand(), SequenceCounts.empty(2))
    assert counts.n == 0
    assert counts.reached.tolist() == [0, 0]
    assert counts.strays == []
    assert len(counts.prefix) == len(counts.token) == len(counts.count) == 0
