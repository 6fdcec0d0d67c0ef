"""How long the gate takes over a quick plugin: a NumPy verifier of 500,000 rows/s and more at V = 16.

``python benchmarks/plugin_speed.py [SUITE ...]`` prints, for smoke and standard, the seconds against the limits of the
contract, and how the processor's time divides into the plugin's own, the rest of the workers' and the gate's process.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import Any, ClassVar

import numpy as np

import harness.sweep
from cases.catalogue import suite
from harness import Request, Result
from harness.gate import GateOptions, gate
from harness.groups import Plan
from harness.supervisor import Worker

RULE = "target-only"
CALLS = 16


class Quick:
    """Rule target-only with noise of its own, all rows at once."""

    rule = RULE

    def verify(self, request: Request) -> Any:
        """Accept child by child, level by level, then draw the last token."""
        rng = np.random.default_rng(request.seed)
        probs, batch = request.target_probs, len(request.candidates)
        tokens = np.full((batch, request.depth_limit), -1, np.int64)
        rest, depth, at = probs[:, 0].copy(), np.zeros(batch, np.int64), np.zeros(batch, np.int64)
        live, acc, single = np.arange(batch), max(request.threshold_acc, 1e-9), np.float32(request.threshold_single)
        for _ in range(1, request.depth_limit):
            node = at[live]
            child = request.retrieve_next_token[live, node]
            coin = rng.random(len(live)) * acc
            running, chosen = np.zeros(len(live)), np.full(len(live), -1)
            trying = np.flatnonzero(child >= 0)
            while len(trying):
                rows, draft = live[trying], child[trying]
                token = request.candidates[rows, draft]
                p = probs[rows, node[trying], token]
                running[trying] += p
                taken = (p > 0) & ((coin[trying] < running[trying]) | (p >= single))
                chosen[trying[taken]] = draft[taken]
                lost, rows, draft = trying[~taken], rows[~taken], draft[~taken]
                rest[rows, token[~taken]] = 0.0
                child[lost] = request.retrieve_next_sibling[rows, draft]
                trying = lost[child[lost] >= 0]
            live, chosen = live[chosen >= 0], chosen[chosen >= 0]
            if not len(live):
                break
            tokens[live, depth[live]] = request.candidates[live, chosen]
            depth[live] += 1
            at[live] = chosen
            rest[live] = probs[live, chosen]
        running = np.cumsum(rest, axis=1)
        mark = rng.random(batch, dtype=np.float32) * running[:, -1]
        last = (running <= mark[:, None]).sum(axis=1)
        tokens[np.arange(batch), depth] = np.minimum(last, rest.shape[1] - 1)
        return Result(tokens=tokens, lengths=depth + 1)


class Counted(Worker):
    """A worker process that is remembered, with the times of its calls."""

    made: ClassVar[list[Worker]] = []

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.made.append(self)


def rows_a_second() -> float:
    """Rows a second of the plugin at V = 16, where it is quickest."""
    entry = next(entry for entry in suite("standard").groups if entry.rule == RULE and entry.vocab == 16)
    plan, quick, times = Plan(entry.group, "standard", 0, entry.n), Quick(), []
    for number in range(CALLS):
        request, _ = plan.call(number)
        request.target_probs  # noqa: B018 - gathered by the harness
        started = time.process_time()
        quick.verify(request)
        times.append((time.process_time() - started) / request.batch)
    return 1.0 / min(times)


def measure(name: str) -> None:
    """Run a suite and print where its time went."""
    asked, workers = suite(name), 2
    harness.sweep.Worker = Counted  # type: ignore[misc]
    Counted.made.clear()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    started, here = time.perf_counter(), time.process_time()
    results = gate(asked, GateOptions((f"{__file__}:Quick",), workers=workers, threads=workers))
    wall, here = time.perf_counter() - started, time.process_time() - here
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    there = after.ru_utime + after.ru_stime - children.ru_utime - children.ru_stime
    own = sum(sum(worker.seconds) for worker in Counted.made)
    (sampler,) = results.samplers
    rows = sum(case.n for case in sampler.cases)
    assert sampler.shrink is not None
    print(
        f"{name}: {wall:.1f} s of {asked.seconds:.0f} s, {sampler.verdict}, {len(sampler.cases)} cases, "
        f"{rows / 1e6:.1f}M rows, k = {sampler.shrink['k']}\n"
        f"  processor: workers {there:.1f} s (in verify about {own:.1f} s by the clock), gate {here:.1f} s; "
        f"{(there + here) / workers:.1f} s on {workers} idle cores\n"
        f"  (workers + gate) / verify = {(there + here) / own:.2f}; load {os.getloadavg()[0]:.1f}"
    )


def main() -> None:
    """Measure the suites that are named, or smoke and standard."""
    print(f"plugin: {rows_a_second() / 1e3:,.0f}k rows/s at V = 16")
    for name in sys.argv[1:] or ["smoke", "standard"]:
        measure(name)


if __name__ == "__main__":
    main()
