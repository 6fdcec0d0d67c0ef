"""The main job: run cases against samplers, decide, and keep what was found.

For every sampler: its groups of cases become shards of calls, worker processes run them, the emitted sequences of each
case are held against its exact law, and the verdicts are written down group by group, so that a run that is killed
leaves what it had.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from msgspec import UNSET

from . import __version__
from .broken import put_broken
from .budget import fitting
from .chained import chained
from .decode.sequences import AnyPlan, SequencePlan
from .drafted import by_position
from .errors import Unavailable, Unwritten, UsageError
from .judge import Judge
from .law import Law
from .results import SLIP, Results, SamplerResult, Unfinished, merged, read, worst, write
from .rules import exact_law
from .runfolder import Kept, Recorded, RunFolder
from .samplers.base import Claims
from .samplers.registry import is_plugin, sampler
from .selection import Selection, select
from .stats.independence import AcrossCases
from .suite import Suite
from .supervisor import Limits, SamplerBroke
from .sweep import GroupRun, Sweep

__all__ = ["GateOptions", "gate"]

MOST_SHRINK = 16
MOST_WORKERS = 64
"""Worker processes that may be asked for where there are few cores."""


@dataclass(frozen=True)
class GateOptions:
    """What ``chitree gate`` was asked for.

    Parameters
    ----------
    samplers : names of built-in samplers, MODULE:ATTR or FILE.py:ATTR
    cases : globs of case names, and names of case files; none means all
    alpha : probability that a correct sampler raises any alarm in the whole run
    seed : of every random stream
    workers, threads : processes for each sampler, and the threads that they share
    shrink : k of n / 2^k; None lets a plugin's speed decide
    out : where results.json is written; None writes nothing
    only : of the cases, those of these names for each sampler; None means all. No share of alpha depends on it
    budget : seconds that the run should take at most; None lets each sampler's own rule decide how many draws it takes
    fail_fast : end a sampler at its first group with a biased case
    strict : a known finding counts as a bias for the exit code
    resume : go on with the run in ``out``
    poison : fresh memory of the samplers' processes holds garbage
    """

    samplers: tuple[str, ...]
    cases: tuple[str, ...] = ()
    alpha: float = 1e-6
    seed: int = 0
    workers: int = 2
    threads: int = 2
    shrink: int | None = None
    out: Path | None = None
    limits: Limits = field(default_factory=Limits)
    only: Mapping[str, Collection[str]] | None = None
    budget: float | None = None
    fail_fast: bool = False
    strict: bool = False
    resume: bool = False
    poison: bool = False

    def check(self) -> None:
        """Raise a UsageError where there is no such sampler, or a number is out of range."""
        for name in self.samplers:
            if not is_plugin(name):
                sampler(name)
        if not 0.0 < self.alpha < 1.0:
            raise UsageError(f"--alpha must lie strictly between 0 and 1, got {self.alpha}")
        if self.seed < 0:
            raise UsageError(f"--seed must be at least 0, got {self.seed}")
        if self.shrink is not None and not 0 <= self.shrink <= MOST_SHRINK:
            raise UsageError(f"--shrink must lie in [0, {MOST_SHRINK}], got {self.shrink}")
        most = max(MOST_WORKERS, 4 * self.threads)
        if not 1 <= self.workers <= most:
            raise UsageError(f"--workers must lie in [1, {most}], got {self.workers}")
        if self.budget is not None and not 0.0 < self.budget < math.inf:
            raise UsageError(f"--budget must be a number of seconds above 0, got {self.budget:g}")
        if self.budget is not None and self.shrink is not None:
            raise UsageError("--budget and --shrink both say how many draws are taken; leave one of them out")

    def recorded(self, suite: str) -> Recorded:
        """Return what a run must be resumed with."""
        return Recorded(
            sampler=list(self.samplers),
            case=list(self.cases),
            suite=suite,
            alpha=self.alpha,
            seed=self.seed,
            shrink=self.shrink,
            budget=self.budget,
            fail_fast=self.fail_fast,
            strict=self.strict,
            poison=self.poison,
        )


Progress = Callable[[str, GroupRun | None, int, int], None]
"""Called with the sampler, the group just judged (None at the start), groups done, and groups in all."""
Judged = Callable[[SamplerResult], None]
"""Called with what was found of a sampler so far, after each group and at its end."""


def gate(
    suite: Suite, options: GateOptions, progress: Progress = lambda *_: None, judged: Judged = lambda _: None
) -> Results:
    """Run ``suite`` as ``options`` say and return what was found.

    Raises
    ------
    UsageError
        Before anything runs: no such sampler, a case glob that matches nothing, an option out of range; and where a
        plugin turns out to be no sampler.
    Unwritten
        What is found cannot be written; the error has what was found until then.
    """
    began = time.monotonic()
    options.check()
    selection = select(suite, options.cases)
    folder, before = _folder(suite, options)
    if before is not None and folder is not None and folder.finished:
        return before
    unfinished = Unfinished(cases=dict.fromkeys(options.samplers), resumable=folder is not None)
    if before is not None and before.unfinished is not UNSET:
        unfinished.cases |= before.unfinished.cases
    results = Results(
        chitree=__version__,
        created=folder.created if folder else datetime.now(UTC).isoformat(timespec="seconds"),
        seed=options.seed,
        alpha=options.alpha,
        suite=suite.name,
        poison=options.poison,
        unfinished=unfinished,
        verdict="pass",
    )

    def whole() -> Results:
        return results if before is None else merged(results, before)

    def keep(found: SamplerResult) -> None:
        judged(found)
        if options.out is not None:
            with contextlib.suppress(Unwritten):  # the run goes on, and tries again
                write(whole(), options.out / "results.json")

    laws = {name: exact_law(selection.suite.case(name), path) for name, path in selection.files.items()}
    try:
        for i, name in enumerate(options.samplers):
            chosen = selection if options.only is None else selection.narrowed(options.only[name])
            budget = None
            if options.budget is not None:
                budget = (options.budget - (time.monotonic() - began)) / (len(options.samplers) - i)
            kept = None if folder is None else folder.of(name)
            _gate_one(name, chosen, options, budget, kept, laws, results, progress, keep)
        broken = any(_breaks(found) for found in results.samplers)
        results.unfinished = UNSET
        if options.out is not None:
            write(whole(), options.out / "results.json")
        if folder is not None and not broken:
            folder.finish()
    except Unwritten as error:
        error.results = whole()
        raise
    return whole()


def _folder(suite: Suite, options: GateOptions) -> tuple[RunFolder | None, Results | None]:
    """Begin a run in the folder of the results, or go on with the one there; return also what was found before."""
    if options.out is None or options.only is not None:
        return None, None
    recorded = options.recorded(suite.name)
    if not options.resume:
        return RunFolder.start(options.out, recorded), None
    folder = RunFolder.resume(options.out, recorded)
    try:
        before = read(options.out / "results.json")
    except UsageError:  # it was interrupted before there was anything to write
        return folder, None
    return folder, before if before.created == folder.created else None


def _breaks(found: SamplerResult) -> bool:
    """Whether there is something to run again when the run is resumed."""
    return found.reason is not None or any(case.verdict == "broken" for case in found.cases)


def _gate_one(
    name: str,
    selection: Selection,
    options: GateOptions,
    budget: float | None,
    kept: Kept | None,
    laws: dict[str, Law],
    results: Results,
    progress: Progress,
    judged: Judged,
) -> None:
    """Run one sampler and append what was found to ``results``; ``judged`` hears of it after every group."""
    suite = selection.suite
    known = None if is_plugin(name) else sampler(name)
    found = SamplerResult(
        name=name,
        runs_on=known.runs_on if known else "cpu",
        versions=dict(known.versions()) if known else {},
        verdict="pass",
    )
    results.samplers.append(found)
    told: list[tuple[str, str]] = []

    def asked(cases: int) -> None:
        if results.unfinished is not UNSET:
            results.unfinished.cases[name] = cases

    def conclude(reason: str | None = None) -> None:
        found.reason = reason
        if reason is not None:
            asked(len(found.cases))
        verdicts = [case.verdict for case in found.cases]
        verdicts += ["biased"] if any(test["biased"] for test in found.suite_tests) else []
        found.verdict = "broken" if reason else worst(verdicts)
        results.verdict = worst([entry.verdict for entry in results.samplers])
        judged(found)

    if known:
        reason = known.unavailable()
        if reason:
            return conclude(reason)
        try:
            known.prepare()
        except Unavailable as error:
            return conclude(str(error))
    most = known.workers if known and known.workers else options.workers
    sweep = Sweep(name, min(options.workers, most), options.threads, options.limits, options.poison)
    try:
        claims = known.claims if known else Claims.from_wire(sweep.claims())
        found.not_tried += [{"kind": SLIP, "reason": note} for note in sweep.notes]
        entries = selection.groups(claims.rules)
        plans: list[AnyPlan] = [*suite.plans(entries, options.seed)]
        plans += [entry.plan(suite.name, options.seed) for entry in selection.sequence_groups(claims.rules)]
        plans += [entry.plan(suite.name, options.seed) for entry in selection.coin_groups(name, claims)]
        asked(sum(len(selection.names[plan.group.name]) for plan in plans))
        conclude()
        selected = [_as_claimed(plan, claims) for plan in plans]
        usual = claims.semantics is None and claims.dtype == "float32" and not claims.own_drafts
        judge_of = Judge(
            name,
            found.versions,
            selection,
            options.seed,
            options.alpha,
            claims,
            laws if usual else {},
            poison=options.poison,
        )
        for plan in selected:
            misfit = _misfit(plan, claims)
            if misfit:
                found.cases += judge_of.group(GroupRun(plan, skipped=misfit))
            else:
                sweep.plans.append(plan)
        if not sweep.plans:
            return conclude(_nothing(name, suite, options, selection, claims, found))
        own = known.shrink.get(suite.name, 0) if known else None
        decide = partial(_shrink, own, sweep, suite, options, budget, judge_of)
        shrink, why = kept.shrink(decide) if kept else decide()[:2]
        found.shrink = {"k": shrink, "reason": why}
        judge_of = replace(judge_of, shrink=shrink)
        progress(name, None, 0, len(sweep.plans))
        for done, run in enumerate(sweep.run(shrink, kept), 1):
            found.cases += judge_of.group(run)
            if run.trace:
                told.append((run.broken or run.plan.group.name, run.trace))
            _sort(found, suite)
            conclude()
            progress(name, run, done, len(sweep.plans))
            if options.fail_fast and "biased" in (case.verdict for case in found.cases):
                for plan in sweep.plans[done:]:
                    found.cases += judge_of.group(GroupRun(plan, skipped="--fail-fast: a bias was found before"))
                _sort(found, suite)
                return conclude()
        judge_of.suite_tests(found)
        return conclude()
    except SamplerBroke as error:
        if error.how == "usage":
            raise error.as_usage(name) from None
        if error.trace:
            told.append((str(error), error.trace))
        return conclude(str(error))
    finally:
        sweep.close()
        if options.out is not None and (told or found.cases):
            put_broken(options.out, name, told)


def _as_claimed(plan: AnyPlan, claims: Claims) -> AnyPlan:
    """Return the plan for a sampler of these claims.

    Law rows are in its format, by position where it draws the drafts; trees are chains where it takes no others.
    """
    if isinstance(plan, SequencePlan):
        return replace(plan, group=plan.group.rounded(claims.dtype))
    if claims.chains:
        plan = chained(plan)
    group = plan.group.rounded(claims.dtype)
    return replace(plan, group=by_position(group) if claims.own_drafts else group)


def _nothing(
    name: str, suite: Suite, options: GateOptions, selection: Selection, claims: Claims, found: SamplerResult
) -> str:
    """Say why a sampler has nothing to run: what was asked for, and which rule is its own."""
    text = f"no case of suite {suite.name} to run for {name}"
    if found.cases:
        return f"{text}: all {len(found.cases)} are skipped, the first since {found.cases[0].reason}"
    own = f"its rule{'s are' if len(claims.rules) > 1 else ' is'} {', '.join(claims.rules)}"
    if not options.cases:
        return f"{text}: {own}"
    named = " ".join(f"--case {glob}" for glob in options.cases)
    if selection.rules.intersection(claims.rules):  # fixed coins and probes
        return f"{text}: the cases of {named} are for samplers with coins = True"
    return f"{text}: {own}, and {named} names cases of rule {', '.join(sorted(selection.rules))}"


def _misfit(plan: AnyPlan, claims: Claims) -> str | None:
    """Say why a sampler of these claims is not run on a group, or None."""
    group = plan.group
    if claims.max_vocab is not None and group.vocab > claims.max_vocab:
        return f"the sampler's max_vocab is {claims.max_vocab}, the case has V = {group.vocab}"
    if claims.max_nodes is not None and group.nodes > claims.max_nodes:
        return f"the sampler's max_nodes is {claims.max_nodes}, the case has N = {group.nodes}"
    if not claims.thresholds and min(group.cases[0].threshold_single, group.cases[0].threshold_acc) < 1.0:
        return "the sampler takes no thresholds below 1"
    if not claims.greedy and any(case.params.greedy for case in group.cases):
        return "the sampler takes no temperature 0"
    if claims.chains and isinstance(plan, SequencePlan) and not plan.group.chains:
        return "the sampler takes chains alone"
    return None


def _shrink(
    own: int | None, sweep: Sweep, suite: Suite, options: GateOptions, budget: float | None, judge_of: Judge
) -> tuple[int, str, bool]:
    """Return k of n / 2^k and the reason for it: given, a built-in sampler's own, or from speed.

    Also whether it stands, should the run be interrupted.
    """
    if options.shrink is not None:
        return options.shrink, "--shrink", True
    if not sweep.drawn:
        return 0, "no case is drawn", True
    untimed = 0, "the sampler could not be timed", False
    if budget is not None:
        trial = replace(judge_of, across=AcrossCases())
        found = fitting(sweep, trial.group, budget, MOST_SHRINK)
        return untimed if found is None else (*found, True)
    if own is not None:
        return own, f"fixed for this sampler in suite {suite.name}", True
    seconds = sweep.estimate()
    if seconds is None:
        return untimed
    seconds /= sweep.abreast
    k = 0
    while seconds / 2**k > suite.seconds and k < MOST_SHRINK:
        k += 1
    rate = f"about {seconds:.0f} s for all draws, against {suite.seconds:.0f} s allowed"
    return k, f"speed of its first calls: {rate}", True


def _sort(found: SamplerResult, suite: Suite) -> None:
    """Put cases into the suite's order, whichever group was done first."""
    order = {name: i for i, name in enumerate(suite.all_names)}
    found.cases.sort(key=lambda result: order[result.case])
