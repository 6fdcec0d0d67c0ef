"""One sampler over many plans: shards to workers, counts back, and what to do when it breaks."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from .counts import SequenceCounts
from .groups import Plan, Shard
from .protocol import ShardJob
from .supervisor import Limits, SamplerBroke, Worker

__all__ = ["GroupRun", "Sweep"]

TIMED_CALLS = 8


@dataclass
class GroupRun:
    """What a sampler emitted for one group.

    ``counts`` has one entry a case, empty where the sampler broke; ``broken`` or ``skipped`` then says why.
    """

    plan: Plan
    counts: list[SequenceCounts] = field(default_factory=list)
    broken: str | None = None
    skipped: str | None = None
    seconds: float = 0.0
    """Wall time of the group's shards, added up."""


class Sweep:
    """Runs one sampler over plans with ``workers`` processes that share ``threads`` threads.

    A broken call ends its group; one hang, ``limits.crashes`` crashes or a sampler that cannot be made end the sweep,
    and the groups that are left are skipped.
    """

    def __init__(self, sampler: str, plans: Sequence[Plan], workers: int, threads: int, limits: Limits) -> None:
        self.plans = list(plans)
        """What is run; may be narrowed once the claims are known."""
        self._limits = limits
        self._workers = [Worker(sampler, limits, max(1, threads // workers)) for _ in range(workers)]
        self._lock = threading.Lock()
        self._runs: dict[str, GroupRun] = {}
        self._crashes = 0
        self._end: str | None = None

    def claims(self) -> dict[str, object]:
        """Import the sampler and return the fields of its claims; raises SamplerBroke."""
        self._workers[0].start()
        return self._workers[0].claims

    def estimate(self) -> float | None:
        """Return the seconds that verify would take for all draws on one worker; None where it breaks.

        From the median of the first calls of the smallest and of the largest group, whose draws are dropped; a row's
        time is taken to grow linearly with N * V in between. A group that breaks here is broken.
        """
        sizes = [plan.group.nodes * plan.group.vocab for plan in self.plans]
        ends = [self._row_seconds(self.plans[sizes.index(size)]) for size in (min(sizes), max(sizes))]
        if None in ends:
            return None
        row_seconds = np.interp(sizes, [min(sizes), max(sizes)], np.array(ends, float))
        return float(np.dot(row_seconds, [plan.n * len(plan.group) for plan in self.plans]))

    def _row_seconds(self, plan: Plan) -> float | None:
        """Return the median seconds a row in verify over the first calls of a plan."""
        worker, run = self._workers[0], self._runs.setdefault(plan.group.name, GroupRun(plan))
        worker.seconds.clear()
        if self._counts(worker, run, Shard(0, min(TIMED_CALLS, plan.calls))) is None:
            return None
        return statistics.median(worker.seconds) / (plan.rows_per_case * len(plan.group))

    def run(self, shrink: int = 0) -> Iterator[GroupRun]:
        """Run the first n / 2^shrink draws of every plan; yield each group when it is done."""
        for plan in self.plans:
            self._runs.setdefault(plan.group.name, GroupRun(plan))
        left = {plan.group.name: len(plan.shards(shrink)) for plan in self.plans}
        jobs: queue.SimpleQueue[tuple[Plan, Shard]] = queue.SimpleQueue()
        done: queue.SimpleQueue[GroupRun | BaseException | None] = queue.SimpleQueue()
        for plan in self.plans:
            for shard in plan.shards(shrink):
                jobs.put((plan, shard))

        def serve(worker: Worker) -> None:
            try:
                while True:
                    plan, shard = jobs.get_nowait()
                    self._shard(worker, self._runs[plan.group.name], shard)
                    with self._lock:
                        left[plan.group.name] -= 1
                        finished = left[plan.group.name] == 0
                    if finished:
                        done.put(self._runs[plan.group.name])
            except queue.Empty:
                done.put(None)
            except BaseException as error:
                done.put(error)

        threads = [threading.Thread(target=serve, args=(worker,), daemon=True) for worker in self._workers]
        for thread in threads:
            thread.start()
        ended = 0
        while ended < len(threads):
            run = done.get()
            if run is None:
                ended += 1
            elif isinstance(run, BaseException):
                raise run
            else:
                yield run

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            worker.close()

    def _shard(self, worker: Worker, run: GroupRun, shard: Shard) -> None:
        """Run one shard and add its counts to its group's, unless the group or the sweep has ended."""
        if run.broken or run.skipped:
            return
        if self._end:
            run.skipped, run.counts = self._end, []
            return
        started = time.perf_counter()
        counts = self._counts(worker, run, shard)
        with self._lock:
            run.seconds += time.perf_counter() - started
            if counts and not run.broken and not run.skipped:
                if run.counts:
                    counts = [SequenceCounts.merge(pair) for pair in zip(run.counts, counts, strict=True)]
                run.counts = counts

    def _counts(self, worker: Worker, run: GroupRun, shard: Shard) -> list[SequenceCounts] | None:
        """Return the counts of one shard; where the sampler breaks, say so in ``run``, end what must end, give None."""
        try:
            return [part.unpack() for part in worker.run(ShardJob(run.plan, shard)).cases]
        except SamplerBroke as error:
            with self._lock:
                run.counts = []
                if self._end:  # it broke while another worker's break ended the sweep
                    run.skipped = self._end
                    return None
                run.broken = str(error)
                self._crashes += error.how == "crash"
                if error.how in ("hang", "fatal", "usage"):
                    self._end = f"the sampler was ended: {error}"
                elif self._crashes >= self._limits.crashes:
                    self._end = f"the sampler was ended after {self._crashes} crashes"
            return None
