"""The main job: run cases against samplers, decide, and keep what was found.

For every sampler: its groups of cases become shards of calls, worker processes run them, the emitted sequences of each
case are held against its exact law, and the verdicts are written down group by group, so that a run that is killed
leaves what it had.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from . import __version__
from .budget import fitting
from .case import Case
from .claimed import TOKEN_DECIDES, Unstated, claimed_law
from .coincase import CoinCase, impossible, judge_coins
from .counts import SequenceCounts, prefix_counts
from .drafted import by_position
from .errors import Unavailable, UsageError
from .followed import followed
from .groups import Group, Plan
from .known import Seen
from .law import Law
from .matches import KINDS, Matches, PairCounts
from .picture import picture
from .results import CaseResult, MinDetectable, Results, SamplerResult, Where, merged, read, worst, write
from .rules import exact_law, rule
from .runfolder import Kept, Recorded, RunFolder
from .samplers.base import Claims
from .samplers.registry import is_plugin, sampler
from .selection import Selection, select
from .stats.evidence import combine
from .stats.independence import AcrossCases
from .stats.power import min_detectable
from .stats.verdict import Judgement, judge
from .streams import stream
from .suite import Suite
from .supervisor import Limits, SamplerBroke
from .sweep import GroupRun, Sweep

__all__ = ["GateOptions", "gate"]

MOST_SHRINK = 16
ROWS_OF_A_PASS = 8
"""Rows of the ranking that are kept of a case that passes: there are many such cases."""


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
    """
    began = time.monotonic()
    options.check()
    selection = select(suite, options.cases)
    folder, before = _folder(suite, options)
    if before is not None and folder is not None and folder.finished:
        return before
    results = Results(
        chitree=__version__,
        created=folder.created if folder else datetime.now(UTC).isoformat(timespec="seconds"),
        seed=options.seed,
        alpha=options.alpha,
        suite=suite.name,
        verdict="pass",
    )

    def keep(found: SamplerResult) -> None:
        judged(found)
        if options.out is not None:
            write(results if before is None else merged(results, before), options.out / "results.json")

    laws = {name: exact_law(selection.suite.case(name), path) for name, path in selection.files.items()}
    for i, name in enumerate(options.samplers):
        chosen = selection if options.only is None else selection.narrowed(options.only[name])
        budget = None
        if options.budget is not None:
            budget = (options.budget - (time.monotonic() - began)) / (len(options.samplers) - i)
        kept = None if folder is None else folder.of(name)
        _gate_one(name, chosen, options, budget, kept, laws, results, progress, keep)
    broken = any(_breaks(found) for found in results.samplers)
    if before is not None:
        results = merged(results, before)
    if options.out is not None:
        write(results, options.out / "results.json")
    if folder is not None and not broken:
        folder.finish()
    return results


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

    def conclude(reason: str | None = None) -> None:
        found.reason = reason
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
    sweep = Sweep(name, min(options.workers, most), options.threads, options.limits)
    try:
        claims = known.claims if known else Claims.from_wire(sweep.claims())
        entries = selection.groups(claims.rules)
        plans = suite.plans(entries, options.seed)
        plans += [entry.plan(suite.name, options.seed) for entry in selection.coin_groups(name, claims)]
        selected = [replace(plan, group=_as_claimed(plan.group, claims)) for plan in plans]
        usual = claims.semantics is None and claims.dtype == "float32" and not claims.own_drafts
        judge_of = _Judge(name, found.versions, selection, options, claims, laws if usual else {})
        for plan in selected:
            misfit = _misfit(plan, claims)
            if misfit:
                found.cases += judge_of.group(GroupRun(plan, skipped=misfit))
        sweep.plans = [plan for plan in selected if not _misfit(plan, claims)]
        if not sweep.plans:
            return conclude(f"no case of suite {suite.name} to run for {name}")
        own = known.shrink.get(suite.name, 0) if known else None
        decide = partial(_shrink, own, sweep, suite, options, budget, judge_of)
        shrink, why = kept.shrink(decide) if kept else decide()[:2]
        found.shrink = {"k": shrink, "reason": why}
        judge_of = replace(judge_of, shrink=shrink)
        progress(name, None, 0, len(sweep.plans))
        for done, run in enumerate(sweep.run(shrink, kept), 1):
            found.cases += judge_of.group(run)
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


def _shrink(
    own: int | None, sweep: Sweep, suite: Suite, options: GateOptions, budget: float | None, judge_of: _Judge
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
        found = fitting(sweep, trial.group, budget, options.workers, MOST_SHRINK)
        return untimed if found is None else (*found, True)
    if own is not None:
        return own, f"fixed for this sampler in suite {suite.name}", True
    seconds = sweep.estimate()
    if seconds is None:
        return untimed
    k = 0
    while seconds / 2**k > suite.seconds * options.workers and k < MOST_SHRINK:
        k += 1
    rate = f"about {seconds / options.workers:.0f} s for all draws, against {suite.seconds:.0f} s allowed"
    return k, f"speed of its first calls: {rate}", True


@dataclass(frozen=True)
class _Judge:
    """Holds the draws of cases against their laws, for one sampler of these ``claims``."""

    name: str
    versions: Mapping[str, str]
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
        if run.plan.fixed is not None:
            (entry,) = (entry for entry in self.selection.suite.coins if entry.name == run.plan.group.name)
            return [self._coins(run, g, member) for g, member in enumerate(entry.members) if member.name in names]
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

    def _coins(self, run: GroupRun, g: int, member: CoinCase) -> CaseResult:
        """Return what was found of a coin case, which spends nothing of alpha."""
        case, result = run.plan.group.cases[g], self._result(run, g, 0.0)
        if not run.counts:
            return result
        emitted = run.counts[g]
        law = claimed_law(case, self.claims) if member.right is None else None
        found = impossible(member, law, emitted)
        known = self.selection.suite.known
        excused = known.of(self.name, self.versions, case.name)
        result.verdict, result.reason = judge_coins(found, excused, known.naming(self.name, case.name))
        p_value = 1.0 if found is None else 0.0
        result.n, result.p_value = 1, None if result.verdict == "known" else p_value
        deciding = {"p_value": p_value, "decides": result.verdict != "known", "share": 1.0}
        given = {"coins": list(member.coins), "final_coin": member.final_coin}
        tokens = [int(token) for token in emitted.tokens[0] if token >= 0]
        result.evidence = [{"test": "support", **deciding, **given, "emitted": tokens}]
        if found is not None:
            result.where = [Where(list(found.prefix), found.node, found.token, 0.0, 1.0, 0.0, found.kind)]
        return result

    def _result(self, run: GroupRun, g: int, alpha: float) -> CaseResult:
        """Return the result of a case before its draws are looked at."""
        case = run.plan.group.cases[g]
        return CaseResult(
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

    def _case(self, run: GroupRun, g: int, pairs: PairCounts | None) -> CaseResult:
        case = run.plan.group.cases[g]
        alpha = self.selection.alpha(case.name, self.claims.rules, self.options.alpha)
        result = self._result(run, g, alpha)
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
        biased, stated = judgement.biased, law
        seen: list[Seen] = []
        if biased:
            judgement, seen, stated = self._excused(case, law, counts, matches, judgement)
            biased = not seen
        self.across.add_case(
            case.name,
            stated,
            matches,
            judgement.evidence,
            conditional=lossless_only,
            redrawn=case.draft is not None,
        )
        result.n = judgement.n
        result.verdict = "biased" if biased else "known" if seen else "pass"
        result.p_value = judgement.p_value
        result.reason = "; ".join(one.finding.describe() for one in seen) or judgement.reason
        result.evidence = [
            {"test": part.test, "p_value": part.p_value, "decides": part.decides, "share": part.share, **part.detail}
            for part in judgement.evidence
        ]
        result.evidence += [one.evidence for one in seen]
        result.certified_tv = judgement.certified_tv
        result.min_detectable = MinDetectable(**min_detectable(law, judgement.n, alpha, conditional=lossless_only))
        deviates = result.verdict != "pass"
        result.where = [Where(**asdict(row)) for row in judgement.where[: None if deviates else ROWS_OF_A_PASS]]
        result.tree = picture(case, law, counts, judgement.where, reach_known=not lossless_only, full=deviates)
        if self.claims.semantics is not None and (biased or law.undecided is not None):
            result.diagnosis = followed(case, self.claims.semantics, counts, alpha, rng)
        return result

    def _excused(
        self, case: Case, law: Law, counts: SequenceCounts, matches: Mapping[str, Matches], whole: Judgement
    ) -> tuple[Judgement, list[Seen], Law]:
        """Judge what is left of a biased case without the outcomes that are known of the sampler.

        Returns the judgement on the rest, what is known and was seen, and the law without it; or, where the rest fails
        too or nothing known was seen, the ``whole``, nothing and the law.
        """
        excused = self.selection.excused(self.name, self.versions, case.name)
        prefixes = prefix_counts(law, counts)
        seen = excused.seen(law, prefixes, whole.alpha)
        if not seen:
            return whole, [], law
        stops_known = case.rule in TOKEN_DECIDES
        without = partial(excused.without, stops_known=stops_known)
        rng = stream("pit", self.options.seed, self.selection.suite.name, case.name, "without what is known")
        rest = judge(
            law,
            counts,
            whole.alpha,
            rng,
            conditional=rule(case.rule).lossless_only,
            nodes=case.nodes,
            matches=matches,
            without=without,
        )
        # Where it is not known how often a step goes on after a token, the rest says nothing of acceptance.
        unseen = [] if stops_known else [part for part in whole.evidence if part.test == "acceptance"]
        if rest.biased or combine(unseen) <= whole.alpha:
            return whole, [], law
        return replace(rest, where=whole.where), seen, without(law, prefixes)[0]

    def _reproduce(self, case: Case) -> str:
        chosen, options = self.selection, self.options
        command = ["chitree", "gate", "--sampler", self.name, "--case", chosen.argument(case.name)]
        command += ["--suite", chosen.suite.name, "--seed", str(options.seed)]
        command += ["--alpha", repr(chosen.alone(case.name, options.alpha)), "--shrink", str(self.shrink)]
        return shlex.join(command)


def _sort(found: SamplerResult, suite: Suite) -> None:
    """Put cases into the suite's order, whichever group was done first."""
    order = {name: i for i, name in enumerate(suite.all_names)}
    found.cases.sort(key=lambda result: order[result.case])
