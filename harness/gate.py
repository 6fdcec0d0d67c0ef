"""The main job: run cases against samplers, decide, and keep what was found.

For every sampler: its groups of cases become shards of calls, worker processes run them, the emitted sequences of each
case are held against its exact law, and the verdicts are written down group by group, so that a run that is killed
leaves what it had.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from . import __version__
from .case import Case
from .claimed import Unstated, claimed_law
from .drafted import by_position
from .errors import Unavailable, UsageError
from .followed import followed
from .groups import Group, Plan
from .law import Law
from .matches import KINDS, PairCounts
from .picture import picture
from .results import CaseResult, MinDetectable, Results, SamplerResult, Where, worst, write
from .rules import exact_law, rule
from .samplers.base import Claims
from .samplers.registry import is_plugin, sampler
from .selection import Selection, select
from .stats.independence import AcrossCases
from .stats.power import min_detectable
from .stats.verdict import judge
from .streams import stream
from .suite import Suite
from .supervisor import Limits, SamplerBroke
from .sweep import GroupRun, Sweep

__all__ = ["GateOptions", "gate"]

MOST_SHRINK = 16


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

    def check(self) -> None:
        """Raise a UsageError where there is no such sampler, or a number is out of range."""
        for name in self.samplers:
            if not is_plugin(name):
                sampler(name)
        if not 0.0 < self.alpha < 1.0:
            raise UsageError(f"--alpha must lie strictly between 0 and 1, got {self.alpha}")
        if self.shrink is not None and not 0 <= self.shrink <= MOST_SHRINK:
            raise UsageError(f"--shrink must lie in [0, {MOST_SHRINK}], got {self.shrink}")
        if self.workers < 1:
            raise UsageError(f"--workers must be at least 1, got {self.workers}")


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
    """
    options.check()
    selection = select(suite, options.cases)
    results = Results(
        chitree=__version__,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        seed=options.seed,
        alpha=options.alpha,
        suite=suite.name,
        verdict="pass",
    )
    laws = {name: exact_law(selection.suite.case(name), path) for name, path in selection.files.items()}
    for name in options.samplers:
        chosen = selection if options.only is None else selection.narrowed(options.only[name])
        _gate_one(name, chosen, options, laws, results, progress, judged)
    return results


def _gate_one(
    name: str,
    selection: Selection,
    options: GateOptions,
    laws: dict[str, Law],
    results: Results,
    progress: Progress,
    judged: Judged,
) -> None:
    """Run one sampler and append what was found to ``results``, writing the file after every group."""
    suite = selection.suite
    known = None if is_plugin(name) else sampler(name)
    found = SamplerResult(
        name=name,
        runs_on=known.runs_on if known else "cpu",
        versions=dict(known.versions()) if known else {},
        verdict="pass",
    )
    results.samplers.append(found)

    def conclude(reason: str | None = None) -> None:
        found.reason = reason
        verdicts = [case.verdict for case in found.cases]
        verdicts += ["biased"] if any(test["biased"] for test in found.suite_tests) else []
        found.verdict = "broken" if reason else worst(verdicts)
        results.verdict = worst([entry.verdict for entry in results.samplers])
        judged(found)
        if options.out is not None:
            write(results, options.out / "results.json")

    if known:
        reason = known.unavailable()
        if reason:
            return conclude(reason)
        try:
            known.prepare()
        except Unavailable as error:
            return conclude(str(error))
    most = known.workers if known and known.workers else options.workers
    sweep = Sweep(name, min(options.workers, most), options.threads, options.limits)
    try:
        claims = known.claims if known else Claims.from_wire(sweep.claims())
        entries = selection.groups(claims.rules)
        selected = [replace(plan, group=_as_claimed(plan.group, claims)) for plan in suite.plans(entries, options.seed)]
        usual = claims.semantics is None and claims.dtype == "float32" and not claims.own_drafts
        judge_of = _Judge(name, selection, options, claims, laws if usual else {})
        for plan in selected:
            misfit = _misfit(plan, claims)
            if misfit:
                found.cases += judge_of.group(GroupRun(plan, skipped=misfit))
        sweep.plans = [plan for plan in selected if not _misfit(plan, claims)]
        if not sweep.plans:
            return conclude(f"no case of suite {suite.name} to run for {name}")
        shrink, why = _shrink(known.shrink.get(suite.name, 0) if known else None, sweep, suite, options)
        found.shrink = {"k": shrink, "reason": why}
        judge_of = replace(judge_of, shrink=shrink)
        progress(name, None, 0, len(sweep.plans))
        for done, run in enumerate(sweep.run(shrink), 1):
            found.cases += judge_of.group(run)
            _sort(found, suite)
            conclude()
            progress(name, run, done, len(sweep.plans))
        judge_of.suite_tests(found)
        return conclude()
    except SamplerBroke as error:
        if error.how == "usage":
            raise error.as_usage(name) from None
        return conclude(str(error))
    finally:
        sweep.close()


def _as_claimed(group: Group, claims: Claims) -> Group:
    """Return the group for a sampler of these claims: law rows in its format, by position where it draws the drafts."""
    group = group.rounded(claims.dtype)
    return by_position(group) if claims.own_drafts else group


def _misfit(plan: Plan, claims: Claims) -> str | None:
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
    return None


def _shrink(fixed: int | None, sweep: Sweep, suite: Suite, options: GateOptions) -> tuple[int, str]:
    """Return k of n / 2^k and the reason for it: given, a built-in sampler's own, or from a plugin's speed."""
    if options.shrink is not None:
        return options.shrink, "--shrink"
    if fixed is not None:
        return fixed, f"fixed for this sampler in suite {suite.name}"
    seconds = sweep.estimate()
    if seconds is None:
        return 0, "the sampler could not be timed"
    k = 0
    while seconds / 2**k > suite.seconds * options.workers and k < MOST_SHRINK:
        k += 1
    rate = f"about {seconds / options.workers:.0f} s for all draws, against {suite.seconds:.0f} s allowed"
    return k, f"speed of its first calls: {rate}"


@dataclass(frozen=True)
class _Judge:
    """Holds the draws of cases against their laws, for one sampler of these ``claims``."""

    name: str
    selection: Selection
    options: GateOptions
    claims: Claims
    laws: dict[str, Law]
    shrink: int = 0
    across: AcrossCases = field(default_factory=AcrossCases)
    """Gathers what the tests over all cases need."""

    def group(self, run: GroupRun) -> list[CaseResult]:
        """Return what was found of the wanted cases of a group."""
        cases = run.plan.group.cases
        names = self.selection.names[run.plan.group.name]
        pairs = None
        if run.pairs is not None:
            pairs = run.pairs.between_instances()
            self.across.add_tables(pairs.tables)
        return [self._case(run, g, pairs) for g, case in enumerate(cases) if case.name in names]

    def suite_tests(self, found: SamplerResult) -> None:
        """Add the tests over all cases to ``found``, and say so where equal rows need not give equal results."""
        rng = stream("pairs", self.options.seed, self.selection.suite.name)
        tests = self.across.tests(self.options.alpha, self.claims.coins, rng)
        found.suite_tests += [
            {"test": test.test, "p_value": test.p_value, "alpha": test.alpha, "biased": test.biased, **test.detail}
            | ({"says": test.says} if test.biased else {})
            for test in tests
        ]
        reason = None
        if self.claims.own_drafts:
            reason = "the sampler draws its own drafts: equal rows need not get equal ones"
        elif not all(test.detail.get("judged", True) for test in tests):
            reason = "results do not follow from seeds and positions: equal rows need not give equal results"
        if reason is not None:
            found.not_tried.append({"kind": "reproducibility", "reason": reason})

    def _case(self, run: GroupRun, g: int, pairs: PairCounts | None) -> CaseResult:
        case = run.plan.group.cases[g]
        alpha = self.selection.alpha(case.name, self.claims.rules, self.options.alpha)
        result = CaseResult(
            case=case.name,
            group=run.plan.group.name,
            rule=case.rule,
            n=0,
            alpha=alpha,
            verdict="broken" if run.broken else "skipped",
            reason=run.broken or run.skipped,
            min_detectable=MinDetectable(None, None, None),
            seconds=round(run.seconds / len(run.plan.group), 3),
            reproduce=self._reproduce(case),
        )
        if pairs is None:
            return result
        counts = run.counts[g]
        try:
            if case.name not in self.laws:
                self.laws[case.name] = claimed_law(case, self.claims)
        except Unstated as why:
            result.verdict, result.reason = "skipped", str(why)
            return result
        law = self.laws[case.name]
        lossless_only = rule(case.rule).lossless_only
        rng = stream("pit", self.options.seed, self.selection.suite.name, result.group, case.name)
        matches = {kind: pairs.matches(kind, g) for kind in KINDS}
        judgement = judge(
            law, counts, alpha, rng, conditional=lossless_only, nodes=run.plan.group.nodes, matches=matches
        )
        self.across.add_case(case.name, law, matches, judgement.evidence, conditional=lossless_only)
        result.n = judgement.n
        result.verdict = "biased" if judgement.biased else "pass"
        result.p_value = judgement.p_value
        result.reason = judgement.reason
        result.evidence = [
            {"test": part.test, "p_value": part.p_value, "decides": part.decides, "share": part.share, **part.detail}
            for part in judgement.evidence
        ]
        result.certified_tv = judgement.certified_tv
        result.min_detectable = MinDetectable(**min_detectable(law, judgement.n, alpha, conditional=lossless_only))
        result.where = [Where(**asdict(row)) for row in judgement.where]
        result.tree = picture(case, law, counts, judgement.where, reach_known=not lossless_only, full=judgement.biased)
        if self.claims.semantics is not None and (judgement.biased or law.undecided is not None):
            result.diagnosis = followed(case, self.claims.semantics, counts, alpha, rng)
        return result

    def _reproduce(self, case: Case) -> str:
        chosen, options = self.selection, self.options
        command = ["chitree", "gate", "--sampler", self.name, "--case", chosen.argument(case.name)]
        command += ["--suite", chosen.suite.name, "--seed", str(options.seed)]
        command += ["--alpha", repr(chosen.alone(case.name, options.alpha)), "--shrink", str(self.shrink)]
        return shlex.join(command)


def _sort(found: SamplerResult, suite: Suite) -> None:
    """Put cases into the suite's order, whichever group was done first."""
    order = {name: i for i, name in enumerate(suite.names)}
    found.cases.sort(key=lambda result: order[result.case])
