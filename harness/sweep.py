"""One sampler over many plans: shards to workers, counts back, and what to do when it breaks."""

from __future__ import annotations

import queue
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

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

        From the median of the first calls of the first plan, whose draws are dropped; a row's time is taken to grow
        with N * V.
        """
        plan = self.plans[0]
        worker = self._workers[0]
        try:
            worker.run(ShardJob(plan, Shard(0, min(TIMED_CALLS, plan.calls))))
        except SamplerBroke:
            worker.close()  # the same happens again in the run, and is reported there
            return None
        row = statistics.median(worker.seconds) / (plan.rows_per_case * len(plan.group))
        size = plan.group.nodes * plan.group.vocab
        return sum(row * max(1.0, p.group.nodes * p.group.vocab / size) * p.n * len(p.group) for p in self.plans)

    def run(self, shrink: int = 0) -> Iterator[GroupRun]:
        """Run the first n / 2^shrink draws of every plan; yield each group when it is done."""
        self._runs = {plan.group.name: GroupRun(plan) for plan in self.plans}
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
                    self._shard(worker, plan, shard)
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

    def _shard(self, worker: Worker, plan: Plan, shard: Shard) -> None:
        run = self._runs[plan.group.name]
        if run.broken or run.skipped:
            return
        if self._end:
            run.skipped = self._end
            run.counts = []
            return
        started = time.perf_counter()
        try:
            counts = [part.unpack() for part in worker.run(ShardJob(plan, shard)).cases]
        except SamplerBroke as error:
            with self._lock:
                run.broken, run.counts = str(error), []
                self._crashes += error.how == "crash"
                if error.how in ("hang", "fatal", "usage"):
                    self._end = f"the sampler was ended: {error}"
                elif self._crashes >= self._limits.crashes:
                    self._end = f"the sampler was ended after {self._crashes} crashes"
            return
        with self._lock:
            run.seconds += time.perf_counter() - started
            if not run.broken and not run.skipped:
                if run.counts:
                    counts = [SequenceCounts.merge(pair) for pair in zip(run.counts, counts, strict=True)]
                run.counts = counts
