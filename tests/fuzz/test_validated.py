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
from harness.worker import _Broken, _run

from .returned import returned

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


def try_all(count: int, seed: int, judge_every: int) -> Counter[str]:
    """Try so many; return how often each verdict came."""
    found: Counter[str] = Counter()
    for number in range(count):
        rng = random.Random(f"{seed} {number}")
        plan = rng.choice(plans())
        started = time.perf_counter()
        reply = through_a_worker(plan, rng)
        if isinstance(reply, Failed):
            line = reply.message
            assert line.startswith(f"call 1 of group {plan.group.name}: verify"), (number, line)
            assert line.isprintable(), (number, line)
            assert len(line) < 800, (number, line)
            assert not any(word in line for word in OURS), (number, line)
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
