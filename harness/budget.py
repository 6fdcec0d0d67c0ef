"""How many draws fit into a time budget, from the pace of a sampler's first calls."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from .sweep import GroupRun, Sweep

__all__ = ["fitting"]

SPARE = 1.5
"""Times are planned to be so many times what was seen: other programs run too."""


def fitting(
    sweep: Sweep, judge: Callable[[GroupRun], object], seconds: float, workers: int, most: int
) -> tuple[int, str] | None:
    """Return the least k for which n / 2^k draws of all plans fit into ``seconds``, and the reason; None if it breaks.

    From the first calls of the smallest and of the largest group, and how long ``judge`` takes over them; what a group
    takes is taken to grow linearly with N * V in between.
    """
    began = time.monotonic()
    sizes = [plan.group.nodes * plan.group.vocab for plan in sweep.drawn]
    ends, judging = [], []
    for size in (min(sizes), max(sizes)):
        plan = sweep.drawn[sizes.index(size)]
        pace = sweep.pace(plan)
        if pace is None:
            return None
        ends.append((pace.start, pace.call / (plan.rows_per_case * len(plan.group))))
        started = time.perf_counter()
        judge(pace.run)
        judging.append(time.perf_counter() - started)
    left = seconds - (time.monotonic() - began)
    start, row = (np.interp(sizes, [min(sizes), max(sizes)], part) for part in zip(*ends, strict=True))
    judged = float(np.interp(sizes, [min(sizes), max(sizes)], judging).sum())

    def needed(k: int) -> float:
        drawn = 0.0
        for plan, before, each in zip(sweep.drawn, start, row, strict=True):
            shards = plan.shards(k)
            drawn += len(shards) * float(before) + shards[-1].stop * plan.rows_per_case * len(plan.group) * float(each)
        return SPARE * (drawn / workers + judged)

    k = 0
    while needed(k) > left and k < most:
        k += 1
    planned = f"about {needed(0):.3g} s planned for all draws" + (f", {needed(k):.3g} s for these" if k else "")
    over = "" if needed(k) <= left else "; fewer are not to be had"
    return k, f"--budget: {planned}, against {max(0.0, left):.3g} s left for this sampler{over}"
