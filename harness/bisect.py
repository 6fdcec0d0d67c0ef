"""The stretches of one coin: which of its values lead to which outcome, from few of them.

The points asked first are the ends, expected thresholds with a coin to either side, and random points in between;
wherever two neighbouring points have different outcomes, the boundary between them is found by bisection. What has one
stretch of coins is found whatever the order of the stretches; a stretch between two of one other outcome only where a
point falls into it.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .reads import COINS

__all__ = ["Stretches", "bisect", "first_points", "grid"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Stretches:
    """Values of a coin from ``low`` to ``high`` (not included) by outcome.

    ``starts`` int64 [K], the first is ``low``, and the ``labels`` int64 [K] of the outcomes from there to the next
    start; neighbours differ. ``points`` int64 [P] are the values that were asked, sorted.
    """

    low: int
    high: int
    starts: Ints
    labels: Ints
    points: Ints

    @property
    def stops(self) -> Ints:
        """Where each stretch ends, not included, int64 [K]."""
        return np.append(self.starts[1:], self.high)

    @property
    def sizes(self) -> Ints:
        """Coins in each stretch, int64 [K]."""
        return self.stops - self.starts

    def at(self, values: Ints) -> Ints:
        """Return the labels of these values."""
        return self.labels[np.searchsorted(self.starts, values, side="right") - 1]

    def count(self, label: int) -> int:
        """Return how many coins lead to an outcome."""
        return int(self.sizes[self.labels == label].sum())

    def widest(self, label: int) -> tuple[int, int]:
        """Return start and stop of the longest stretch of an outcome."""
        at = int(np.where(self.labels == label, self.sizes, -1).argmax())
        return int(self.starts[at]), int(self.stops[at])


def first_points(low: int, high: int, masses: Floats, rng: np.random.Generator, spread: int = 4) -> Ints:
    """Return the values to ask first, sorted, from [low, high).

    Both ends; the thresholds where outcomes of ``masses`` follow each other, in their order, and a coin either side;
    a random point in each of their stretches, and ``spread`` anywhere.
    """
    marks = np.cumsum(masses / masses.sum())[:-1] * COINS if len(masses) > 1 and masses.sum() > 0 else np.zeros(0)
    marks = np.unique(np.floor(marks + 2.0**-20).astype(np.int64))  # a whole number is one in spite of its last digit
    ends = np.unique(np.clip(np.concatenate([[low], marks, [high]]), low, high))
    inside = rng.integers(ends[:-1], ends[1:]) if len(ends) > 1 else ends
    anywhere = rng.integers(low, high, spread)
    points = np.concatenate([[low, high - 1], marks - 1, marks, marks + 1, inside, anywhere])
    return np.unique(points[(points >= low) & (points < high)])


def grid(low: int, high: int, count: int, rng: np.random.Generator) -> Ints:
    """Return a random value of each of ``count`` equal parts of [low, high), sorted: no wide stretch escapes them."""
    marks = np.unique(np.linspace(low, high, count + 1).astype(np.int64))
    return np.unique(rng.integers(marks[:-1], marks[1:]))


def bisect(
    low: int, high: int, points: Ints, labels: Ints, most: int
) -> Generator[Ints, Sequence[int] | Ints, Stretches | None]:
    """Find all boundaries between ``points`` of different ``labels``.

    Yields values to be asked and is sent their labels; returns the stretches, or None where there are more than
    ``most`` boundaries: what the coin decides is scattered over its values.
    """
    while True:
        differ = np.flatnonzero(labels[1:] != labels[:-1])
        if len(differ) > most:
            return None
        wide = differ[points[differ + 1] - points[differ] > 1]
        if not len(wide):
            break
        middle = (points[wide] + points[wide + 1]) // 2
        found = np.asarray((yield middle), np.int64)
        at = np.searchsorted(points, middle)
        points, labels = np.insert(points, at, middle), np.insert(labels, at, found)
    starts = np.append(low, points[differ + 1])
    return Stretches(low, high, starts, labels[np.append(0, differ + 1)], points)
