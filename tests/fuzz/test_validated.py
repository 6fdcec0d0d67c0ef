"""Ten thousand things that a verifier may return or raise, through all that a worker does with them, in this process.

Each is right, biased, or broken with one clear line that is not about code of ours.
"""

from __future__ import annotations

import random
import resource
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
import pytest
from gate.small import suite

from harness import Request
from harness.counts import SequenceCounts
from harness.groups import Plan, Shard
from harness.judge import Judge
from harness.matches import PairCounts
from harness.protocol import Failed, Reply, ShardDone, ShardJob, decode, encode
from harness.rules import RULES
from harness.samplers.base import Claims
from harness.selection import select
from harness.sweep import GroupRun
from harness.validate import Expected, drafted
from harness.worker import _Broken, _run, _stage

from .returned import DAMAGES, returned

CLAIMS = Claims(("target-only",), coins=True)
OURS = ("validate.py", "worker.py", "request.py", "pairs.py", "counts.py", "Traceback")
"""No sampler's error comes from there."""


@pytest.fixture(autouse=True)
def _little_memory() -> Iterator[None]:
    """Limit what one result may take, as a worker does."""
    before = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (4 << 30, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_DATA, before)


@cache
def plans() -> tuple[Plan, ...]:
    """Return the small groups of trees, each case in two rows of a call."""
    groups = [entry for entry in suite().groups if entry.group.rule == "target-only" and entry.group.vocab <= 16]
    return tuple(replace(plan, n=4) for plan in suite().plans(groups, 0))


class Fuzzed:
    """Returns, or raises, something of its seed's."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def verify(self, request: Request) -> Any:
        right = RULES["target-only"].walk(request)
        with warnings.catch_warnings(action="ignore"):
            return returned(self.rng, request, right)


def through_a_worker(plan: Plan, rng: random.Random) -> Reply:
    """Return the worker's reply on the one call of a shard, as it comes out of the channel."""
    try:
        reply: Reply = _run(ShardJob(plan, Shard(1, 2)), lambda rule: Fuzzed(rng), CLAIMS, lambda beat: None)
    except _Broken as broken:
        reply = Failed(str(broken), fatal=broken.fatal)
    return decode(encode(reply))


def unpacked(plan: Plan, reply: ShardDone) -> tuple[list[SequenceCounts], PairCounts]:
    """Return the counts of a reply, which must be sequences of the group's tokens, one for each row."""
    assert reply.pairs is not None
    counts, group = [part.unpack() for part in reply.cases], plan.group
    assert [part.n for part in counts] == [plan.rows_per_case] * len(group)
    for part in counts:
        lengths, width = part.lengths, part.tokens.shape[1]
        assert lengths.min() >= 1
        assert width <= 1 + max(group.cases[0].depth_limit, group.nodes)
        real = np.arange(width) < lengths[:, None]
        assert (part.tokens[real] >= 0).all()
        assert (part.tokens[real] < group.vocab).all()
        assert (part.tokens[~real] == -1).all()
    return counts, reply.pairs.unpack(len(group))


def judged(plan: Plan, drawn: tuple[list[SequenceCounts], PairCounts]) -> Iterator[str]:
    """Yield the verdict on each case."""
    judge = Judge("fuzz", {}, select(suite(), ()), 0, 1e-6, CLAIMS, {})
    for result in judge.group(GroupRun(plan, *drawn)):
        msgspec.json.encode(result)
        yield result.verdict


def check_line(line: str) -> None:
    """Hold what is said of a broken verifier against what may be said."""
    assert line.isprintable(), line
    assert len(line) < 800, line
    assert not any(word in line for word in OURS), line


def try_all(count: int, seed: int, judge_every: int) -> Counter[str]:
    """Try so many; return how often each verdict came."""
    found: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        plan = rng.choice(plans())
        started = time.perf_counter()
        reply = through_a_worker(plan, rng)
        if isinstance(reply, Failed):
            assert reply.message.startswith(f"call 1 of group {plan.group.name}: verify"), (number, reply.message)
            check_line(reply.message)
            assert not reply.fatal, "the next group may be tried"
            found["broken"] += 1
        else:
            assert isinstance(reply, ShardDone)
            drawn = unpacked(plan, reply)
            found["result"] += 1
            if number % judge_every == 0:
                found.update(judged(plan, drawn))
        assert time.perf_counter() - started < 30.0, number
    return found


def test_a_thousand_drafts() -> None:
    """What ``draft`` may return is checked by other code."""
    expected = Expected(np.zeros((6, 5), np.int64), np.zeros((6, 5), np.int64), np.array([5, 4, 1, 5, 3, 5]), 5, 7)
    found: Counter[str] = Counter()
    for number in range(1000):
        rng = random.Random(f"drafts {number}")
        request, _ = plans()[0].call(0)
        drafts = np.array([[rng.randrange(7) for _ in range(4)] for _ in range(6)])
        line = None
        try:
            with warnings.catch_warnings(action="ignore"), _stage("draft", fatal=False):
                drawn = drafted(rng.choice(DAMAGES)(rng, drafts, request), expected)
        except _Broken as broken:
            line = str(broken)
        if line is not None:
            check_line(line)
        else:
            real = np.arange(4) < expected.node_count[:, None] - 1
            assert (drawn.dtype, drawn.shape) == (np.int64, (6, 4))
            assert ((drawn >= 0) & (drawn < 7))[real].all()
        found["drafts" if line is None else "broken"] += 1
    assert found["drafts"] > 200
    assert found["broken"] > 400


def test_five_hundred() -> None:
    found = try_all(500, seed=1, judge_every=50)
    assert found["broken"] > 200
    assert found["result"] > 100


@pytest.mark.slow
def test_ten_thousand() -> None:
    found = try_all(10_000, seed=2, judge_every=10)
    assert found["broken"] > 4000
    assert found["result"] > 2000
    assert found["biased"] > 30
    assert found["pass"] > 100
    assert set(found) == {"broken", "result", "biased", "pass"}
