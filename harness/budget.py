"""How many draws fit into a time budget, from the pace of a sampler's first calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from .decode.sequences import AnyPlan, SequencePlan
from .sweep import GroupRun, Sweep

__all__ = ["fitting"]

SPARE = 1.5
"""Times are planned to be so many times what was seen: other programs run too."""


def fitting(sweep: Sweep, judge: Callable[[GroupRun], object], seconds: float, most: int) -> tuple[int, str] | None:
    """Return the least k for which n / 2^k draws of all plans fit into ``seconds``, and the reason; None if it breaks.

    From the first calls of the smallest and of the largest group, and how long ``judge`` takes over them; what a group
    takes is taken to grow linearly with N * V in between. Groups of many steps are a kind of their own.
    """
    began = time.monotonic()
    paces: list[_Pace] = []
    for many in (False, True):
        plans = [plan for plan in sweep.drawn if isinstance(plan, SequencePlan) == many]
        found = _paces(sweep, judge, plans)
        if found is None:
            return None
        paces += found
    left = seconds - (time.monotonic() - began)

    def needed(k: int) -> float:
        drawn = 0.0
        for pace in paces:
            shards = pace.plan.shards(k)
            draws = shards[-1].stop * pace.plan.rows_per_case * len(pace.plan.group)
            drawn += len(shards) * pace.start + draws * pace.draw
        return SPARE * (drawn / sweep.abreast + sum(pace.judging for pace in paces))

    k = 0
    while needed(k) > left and k < most:
        k += 1
    planned = f"about {needed(0):.3g} s planned for all draws" + (f", {needed(k):.3g} s for these" if k else "")
    over = "" if needed(k) <= left else "; fewer are not to be had"
    return k, f"--budget: {planned}, against {max(0.0, left):.3g} s left for this sampler{over}"


@dataclass(frozen=True)
class _Pace:
    """Seconds that a plan takes: before the first call of a shard, a draw, and for being judged."""

    plan: AnyPlan
    start: float
    draw: float
    judging: float


def _paces(sweep: Sweep, judge: Callable[[GroupRun], object], plans: Sequence[AnyPlan]) -> list[_Pace] | None:
    """Return the pace of each of some plans of one kind; None where the sampler breaks."""
    if not plans:
        return []
    sizes = [plan.group.nodes * plan.group.vocab for plan in plans]
    ends = []
    for size in (min(sizes), max(sizes)):
        plan = plans[sizes.index(size)]
        pace = sweep.pace(plan)
        if pace is None:
            return None
        started = time.perf_counter()
        judge(pace.run)
        judging = time.perf_counter() - started
        ends.append((pace.start, pace.call / (plan.rows_per_case * len(plan.group)), judging))
    between = (np.interp(sizes, [min(sizes), max(sizes)], part) for part in zip(*ends, strict=True))
    return [_Pace(plan, *map(float, one)) for plan, *one in zip(plans, *between, strict=True)]
