"""Streams follow from names alone; coins are multiples of 2^-24."""

from __future__ import annotations

import numpy as np

from harness.streams import COIN_STEP, coins, stream


def numbers(*names: str | int) -> list[int]:
    return stream(*names).integers(2**62, size=4).tolist()


def test_equal_names_give_equal_streams() -> None:
    assert numbers("call", 0, "smoke", "group", 3) == numbers("call", 0, "smoke", "group", 3)


def test_different_names_give_different_streams() -> None:
    names = [
        (),
        ("",),
        ("", ""),
        ("a",),
        ("b",),
        ("a", "b"),
        ("b", "a"),
        ("ab",),
        (1,),
        ("1",),
        (1, 2),
        (12,),
        ("1", 2),
    ]
    assert len({tuple(numbers(*each)) for each in names}) == len(names)


def test_streams_are_fresh() -> None:
    one = stream("x")
    one.random(10)
    assert one.random() != stream("x").random()


def test_coins() -> None:
    drawn = coins(stream("coins"), 500, 100)
    assert drawn.dtype == np.float32
    assert drawn.shape == (500, 100)
    steps = drawn.astype(np.float64) / COIN_STEP
    np.testing.assert_array_equal(steps, np.round(steps))
    assert steps.min() >= 0
    assert steps.max() < 2**24
    assert COIN_STEP == 2.0**-24
    low = np.bincount(steps.astype(np.int64).ravel() % 16, minlength=16)
    assert abs(low - 3125).max() < 400  # the last bits are used: Bin(50000, 1/16), over 7 standard deviations
    high = np.bincount((drawn * 16).astype(np.int64).ravel(), minlength=16)
    assert abs(high - 3125).max() < 400
