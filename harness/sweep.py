"""One sampler over many plans: shards to workers, counts back, and what to do when it breaks."""

from __future__ import annotations

import contextlib
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np

from .counts import SequenceCounts
from .decode.sequences import AnyPlan, SequencePlan
from .groups import Shard
from .matches import PairCounts
from .measured import Measured
from .probegroup import ProbePlan
from .protocol import ShardJob
from .supervisor import Limits, SamplerBroke, Worker

__all__ = ["GroupRun", "Keeper", "Pace", "Sweep"]

TIMED_CALLS = 8
T = TypeVar("T")


@dataclass
class GroupRun:
    """What a sampler emitted for one group.

    ``counts`` has one entry a case, empty where the sampler broke; ``broken`` or ``skipped`` then says why. ``pairs``
    holds what pairs of rows emitted. Of a group that is probed, ``probed`` has the measured law of each case instead.
    """

    plan: AnyPlan
    counts: list[SequenceCounts] = field(default_factory=list)
    pairs: PairCounts | None = None
    probed: list[Measured] = field(default_factory=list)
    broken: str | None = None
    trace: str = ""
    """Of a sampler that broke: its traceback and the end of what it printed."""
    skipped: str | None = None
    seconds: float = 0.0
    """Wall time of the group's shards, added up."""


class Keeper(Protocol):
    """Keeps finished groups, so that an interrupted sweep need not run them again."""

    def load(self, plan: AnyPlan, shrink: int) -> GroupRun | None:
        """Return the draws of a group that is finished already, or None."""

    def save(self, run: GroupRun, shrink: int) -> None:
        """Keep the draws of a group that has just been finished."""


@dataclass(frozen=True)
class Pace:
    """Wall time of one group on one worker: seconds before the first call of a shard, and seconds a call.

    ``run`` holds the few draws that this was seen from.
    """

    start: float
    call: float
    run: GroupRun


class Sweep:
    """Runs one sampler over plans with ``workers`` processes that share ``threads`` threads.

    A broken call ends its group; one hang, ``limits.crashes`` crashes or a sampler that cannot be made end the sweep,
    and the groups that are left are skipped. What comes out is what one worker would give that takes the groups and
    their shards one by one, in the order of the plans: a group that another worker had finished beyond the end is
    skipped nevertheless.
    """

    def __init__(self, sampler: str, workers: int, threads: int, limits: Limits, poison: bool = False) -> None:
        self.plans: list[AnyPlan] = []
        """What is run: set once the claims are known."""
        self._limits = limits
        self._workers = [Worker(sampler, limits, max(1, threads // workers), poison) for _ in range(workers)]
        self._cores = max(1, threads)
        self._lock = threading.Lock()
        self._runs: dict[str, GroupRun] = {}
        self._left: dict[str, int] = {}
        self._failures: dict[str, tuple[Shard, SamplerBroke]] = {}
        """The first shard of a group known to break, and how."""
        self._closed = False

    @property
    def drawn(self) -> list[AnyPlan]:
        """The plans with random coins."""
        return [plan for plan in self.plans if plan.fixed is None and not isinstance(plan, ProbePlan)]

    @property
    def abreast(self) -> int:
        """How many of the workers run at the same time: no more than there are cores."""
        return min(len(self._workers), self._cores)

    def claims(self) -> dict[str, object]:
        """Import the sampler and return the fields of its claims; raises SamplerBroke."""
        self._workers[0].start()
        return self._workers[0].claims

    @property
    def notes(self) -> list[str]:
        """What looks like a slip in the sampler, once its claims are known."""
        return self._workers[0].notes

    def estimate(self) -> float | None:
        """Return the seconds that verify would take for all draws on one worker; None where it breaks.

        From the median of the first calls of the smallest and of the largest group, of single steps where there are
        such, whose draws are dropped; a row's time is taken to grow linearly with N * V in between. A group that breaks
        here is broken.
        """
        timed = [plan for plan in self.drawn if not isinstance(plan, SequencePlan)] or self.drawn
        sizes = [plan.group.nodes * plan.group.vocab for plan in timed]
        ends: list[float] = []
        for size in (min(sizes), max(sizes)):
            seconds = self._row_seconds(timed[sizes.index(size)])
            if seconds is None:
                return None
            ends.append(seconds)
        drawn = [plan.group.nodes * plan.group.vocab for plan in self.drawn]
        row_seconds = np.interp(drawn, [min(sizes), max(sizes)], ends)
        return float(np.dot(row_seconds, [plan.rows for plan in self.drawn]))

    def _row_seconds(self, plan: AnyPlan) -> float | None:
        """Return the median seconds a row in verify over the first calls of a plan."""
        worker, shard = self._workers[0], Shard(0, min(_timed_calls(plan), plan.calls))
        worker.seconds.clear()
        if self._drawn(worker, plan, shard) is None:
            return None
        return statistics.median(worker.seconds) / plan.rows_per_call

    def pace(self, plan: AnyPlan) -> Pace | None:
        """Time the first calls of a plan, whose draws are dropped; None where it breaks."""
        worker, more = self._workers[0], min(_timed_calls(plan), plan.calls - 1)
        with contextlib.suppress(SamplerBroke):  # which comes again below
            worker.start()
        took: list[float] = []
        run = GroupRun(plan)
        for calls in (1, 1 + more):
            started = time.perf_counter()
            drawn = self._drawn(worker, plan, Shard(0, calls))
            took.append(time.perf_counter() - started)
            if drawn is None:
                return None
            run.counts, run.pairs = drawn
        call = max(0.0, took[1] - took[0]) / more if more else took[1]
        return Pace(max(0.0, took[1] - (1 + more) * call), call, run)

    def run(self, shrink: int = 0, keeper: Keeper | None = None) -> Iterator[GroupRun]:
        """Run the first n / 2^shrink draws of every plan; yield the groups in order, each when it is done.

        Groups that ``keeper`` has are not run again, and it is handed the others as soon as they are finished.
        """
        jobs: queue.SimpleQueue[tuple[AnyPlan, Shard]] = queue.SimpleQueue()
        done: queue.SimpleQueue[str | BaseException] = queue.SimpleQueue()
        finished: set[str] = set()
        for plan in self.plans:
            shards, kept = plan.shards(shrink), keeper and keeper.load(plan, shrink)
            self._runs[plan.group.name] = kept or GroupRun(plan)
            self._left[plan.group.name] = 0 if kept else len(shards)
            if kept:
                finished.add(plan.group.name)
                continue
            for shard in shards:
                jobs.put((plan, shard))
        needed = jobs.qsize()

        def finish(plan: AnyPlan) -> None:
            whole = [plan.rows_per_case * plan.shards(shrink)[-1].stop] * len(plan.group)
            run = self._runs[plan.group.name]
            done_whole = [part.n for part in run.counts] == whole or len(run.probed) == len(plan.group)
            if keeper and plan.group.name not in self._failures and done_whole:
                keeper.save(run, shrink)
            done.put(plan.group.name)

        def serve(worker: Worker) -> None:
            try:
                while not self._closed:
                    plan, shard = jobs.get_nowait()
                    self._shard(worker, plan, shard)
                    with self._lock:
                        self._left[plan.group.name] -= 1
                        last = self._left[plan.group.name] == 0
                    if last:
                        finish(plan)
            except queue.Empty:
                return
            except BaseException as error:
                done.put(error)

        for worker in self._workers[:needed]:
            threading.Thread(target=serve, args=(worker,), daemon=True).start()
        for number, plan in enumerate(self.plans):
            while plan.group.name not in finished and self._end()[0] >= number:
                name = done.get()
                if isinstance(name, BaseException):
                    raise name
                finished.add(name)
            yield self._outcome(number)

    def close(self) -> None:
        """End the workers."""
        self._closed = True
        for worker in self._workers:
            worker.end()

    def _outcome(self, number: int) -> GroupRun:
        """Return what came of a plan, once all plans up to it are done."""
        run = self._runs[self.plans[number].group.name]
        last, reason = self._end()
        if number > last:
            return GroupRun(run.plan, skipped=reason)
        failure = self._failures.get(run.plan.group.name)
        if failure is not None:
            return GroupRun(run.plan, broken=str(failure[1]), trace=failure[1].trace, seconds=run.seconds)
        return run

    def _end(self) -> tuple[int, str]:
        """Return the number of the plan at which the sweep ends, as far as is known, and why.

        Rests on groups that are done alone, since in others an earlier shard may yet break in another way.
        """
        crashes = 0
        for number, plan in enumerate(self.plans):
            failure = self._failures.get(plan.group.name)
            if failure is None or self._left[plan.group.name]:
                continue
            broke = failure[1]
            crashes += broke.how == "crash"
            if broke.how in ("hang", "fatal", "usage"):
                return number, f"the sampler was ended: {broke}"
            if crashes >= self._limits.crashes:
                return number, f"the sampler was ended after {crashes} crashes"
        return len(self.plans), ""

    def _shard(self, worker: Worker, plan: AnyPlan, shard: Shard) -> None:
        """Run one shard and add its counts to its group's, unless the group or the sweep has ended before it."""
        run = self._runs[plan.group.name]
        with self._lock:
            failure = self._failures.get(plan.group.name)
            if (failure and failure[0].start <= shard.start) or self.plans.index(plan) > self._end()[0]:
                return
        started = time.perf_counter()
        if isinstance(plan, ProbePlan):
            run.probed = self._tried(plan, shard, worker.probe) or []
            run.seconds = time.perf_counter() - started
            return
        drawn = self._drawn(worker, plan, shard)
        with self._lock:
            run.seconds += time.perf_counter() - started
            if drawn:
                counts, pairs = drawn
                if run.counts:
                    counts = [SequenceCounts.merge(pair) for pair in zip(run.counts, counts, strict=True)]
                run.counts = counts
                run.pairs = pairs if run.pairs is None else PairCounts.merge([run.pairs, pairs])

    def _drawn(self, worker: Worker, plan: AnyPlan, shard: Shard) -> tuple[list[SequenceCounts], PairCounts] | None:
        """Return the counts of one shard; where the sampler breaks, take note and return None."""
        return self._tried(plan, shard, worker.run)

    def _tried(self, plan: AnyPlan, shard: Shard, serve: Callable[[ShardJob], T]) -> T | None:
        """Return what came of one shard; where the sampler breaks, take note and return None."""
        try:
            return serve(ShardJob(plan, shard))
        except SamplerBroke as broke:
            with self._lock:
                failure = self._failures.get(plan.group.name)
                if failure is None or shard.start < failure[0].start:
                    self._failures[plan.group.name] = shard, broke
            return None


def _timed_calls(plan: AnyPlan) -> int:
    """Return how many calls tell the pace of a plan: one where it is many of verify."""
    return 1 if isinstance(plan, SequencePlan) else TIMED_CALLS
