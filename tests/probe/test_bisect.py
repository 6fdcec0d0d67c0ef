"""Stretches of one coin against a plain look at every value."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from harness.bisect import Stretches, bisect, first_points, grid
from harness.streams import stream

SIZE = 1 << 12


@st.composite
def outcomes(draw: st.DrawFn) -> list[int]:
    """Draw the outcome of every value, each outcome in one stretch."""
    cuts = draw(st.lists(st.integers(0, SIZE), max_size=8))
    edges = [0, *sorted(cuts), SIZE]
    labels = draw(st.permutations(range(len(edges) - 1)))
    return [label for label, (a, b) in zip(labels, pairwise(edges), strict=True) for _ in range(b - a)]


def found(of: list[int], points: np.ndarray, most: int = 99) -> Stretches | None:
    """Run a search on outcomes that are known."""
    search = bisect(0, SIZE, points, np.array([of[point] for point in points]), most)
    try:
        wanted = next(search)
        while True:
            wanted = search.send([of[value] for value in wanted])
    except StopIteration as end:
        return end.value


@given(outcomes(), st.integers(0, 2**31))
def test_outcomes_in_one_stretch_are_found_from_any_points(of: list[int], seed: int) -> None:
    masses = np.bincount(of).astype(float)
    for points in (
        np.array([0, SIZE - 1]),
        first_points(0, SIZE, np.ones(1), stream(seed)),
        first_points(0, SIZE, masses / SIZE, stream(seed)),
    ):
        stretches = found(of, points)
        assert stretches is not None
        assert stretches.starts.tolist() == [0, *(i for i in range(1, SIZE) if of[i] != of[i - 1])]
        assert [of[start] for start in stretches.starts] == stretches.labels.tolist()
        assert stretches.at(np.arange(SIZE)).tolist() == of
        assert sum(stretches.sizes) == SIZE
        for label in set(of):
            assert stretches.count(label) == of.count(label)
            start, stop = stretches.widest(label)
            assert set(of[start:stop]) == {label}
            assert stop - start == of.count(label)


def test_a_stretch_within_another_is_found_by_a_point_in_it() -> None:
    of = [0] * 1000 + [1] * 30 + [0] * (SIZE - 1030)
    assert found(of, np.array([0, SIZE - 1])).labels.tolist() == [0]  # type: ignore[union-attr]
    assert found(of, np.array([0, 1010, SIZE - 1])).sizes.tolist() == [1000, 30, SIZE - 1030]  # type: ignore[union-attr]
    points = grid(0, SIZE, SIZE // 15, stream("grid"))
    assert found(of, np.unique([0, *points, SIZE - 1])).labels.tolist() == [0, 1, 0]  # type: ignore[union-attr]


def test_what_is_scattered_is_given_up() -> None:
    of = [i % 2 for i in range(SIZE)]
    assert found(of, np.arange(0, SIZE, 3), most=64) is None


@given(st.lists(st.integers(0, 64), min_size=1, max_size=8).filter(any), st.integers(0, 2**31))
def test_first_points_have_thresholds_and_both_sides(parts: list[int], seed: int) -> None:
    masses = np.array(parts) / sum(parts)
    points = set(first_points(0, 1 << 24, masses, stream(seed)).tolist())
    assert {0, (1 << 24) - 1} <= points
    for cut in np.cumsum(parts)[:-1]:
        mark = int(cut) * (1 << 24) // sum(parts)  # floor of the exact threshold
        for value in (mark - 1, mark, mark + 1):
            assert value in points or not 0 <= value < 1 << 24
