"""Case files damaged at random: each is a case or one clear line, and soon."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Iterator
from typing import Any

import pytest

from harness.casefile import dump, parse
from harness.errors import UsageError
from harness.rules import RULES

from .build import DRAWN, THREE, case_of, text

VALUES: list[Any] = [
    *(None, True, 0, -1, 1, 2, 4096, 1 << 20, 1 << 31, 1 << 63, 10**30, 10**400, 0.5, -0.0, 1e-300, 1e39, 1e308),
    *(float("nan"), float("inf"), float("-inf"), "", "x", "-inf", "\ud800", "\x00", "block", "greedy", "a`b - at `$.x"),
    *([], {}, [[]], [-1], [0.5, 0.5], [[1.0]], {"tokens": [0], "parents": [-1]}, {"a": {"b": []}}),
]
BYTES = [b"[", b"]", b"{", b"}", b",", b":", b'"', b"\\", b"\x00", b"\xff", b"-", b"9" * 40, b"e999", b"NaN", b"null"]


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every container of decoded JSON with each of its keys."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from places(value[key])


def damage(rng: random.Random, fields: Any) -> None:
    """Change one thing: put a value, take one away, double one, or exchange two."""
    spots = list(places(fields))
    if not spots:
        return
    at, key = rng.choice(spots)
    how = rng.randrange(5)
    if how <= 1:
        at[key] = copy.deepcopy(rng.choice(VALUES))
    elif how == 2:
        del at[key]
    elif isinstance(at, list):
        at.insert(key, copy.deepcopy(at[key]))
    else:
        other, its = rng.choice(spots)
        if how == 3:
            at[rng.choice(["x", "draft", "probs", "children", "nodes", "depth_limit"])] = copy.deepcopy(at[key])
        elif other is at:
            at[key], at[its] = at[its], at[key]


def variants(count: int, seed: int) -> Iterator[bytes]:
    rng = random.Random(seed)
    whole = [json.loads(dump(case_of(rule))) for rule in RULES] + [THREE, DRAWN]
    for _ in range(count):
        fields = json.loads(json.dumps(rng.choice(whole)))
        for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
            damage(rng, fields)
        data = bytearray(text(fields))
        for _ in range(rng.choice([0, 0, 0, 1, 2])):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.choice(BYTES)
        yield bytes(data)


def try_all(count: int, seed: int) -> tuple[int, int]:
    """Read every variant; return how many were cases and how many were refused."""
    read = refused = 0
    for data in variants(count, seed):
        started = time.perf_counter()
        try:
            case = parse(data, "fuzz.json")
            dump(case)
            read += 1
        except UsageError as error:
            line = str(error)
            assert line.startswith("fuzz.json: "), (data, line)
            assert line.isprintable(), (data, line)
            assert len(line) < 1000, (data, line)
            refused += 1
        assert time.perf_counter() - started < 5.0, data
    return read, refused


def test_a_thousand_damaged_files() -> None:
    read, refused = try_all(1000, seed=1)
    assert read > 100
    assert refused > 400


@pytest.mark.slow
def test_ten_thousand_damaged_files() -> None:
    read, refused = try_all(10_000, seed=2)
    assert read > 1000
    assert refused > 4000
