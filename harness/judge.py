"""Verdicts on the draws of one sampler: each case's counts against its exact law, and the tests over all cases."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial

from .case import Case
from .claimed import TOKEN_DECIDES, Unstated, claimed_law
from .coincase import CoinCase, impossible, judge_coins
from .counts import SequenceCounts, prefix_counts
from .decode.sequences import SequenceCase, SequencePlan
from .followed import followed
from .groups import Plan
from .known import Seen
from .law import Law
from .matches import KINDS, Matches, PairCounts
from .picture import picture
from .probegroup import ProbePlan
from .probejudge import judge_probe
from .reads import Subject
from .results import CaseResult, MinDetectable, SamplerResult, Where
from .rules import rule
from .samplers.base import Claims
from .selection import Selection
from .stats.evidence import combine
from .stats.independence import AcrossCases
from .stats.power import min_detectable, unseen
from .stats.verdict import FOLLOWS, REFUTES, Judgement, judge
from .streams import stream
from .sweep import GroupRun

__all__ = ["Judge"]

ROWS_OF_A_PASS = 8
"""Rows of the ranking that are kept of a case that passes: there are many such cases."""


@dataclass(frozen=True)
class Judge:
    """Holds the draws of cases against their laws, for one sampler of these ``claims``."""

    name: str
    versions: Mapping[str, str]
    selection: Selection
    seed: int
    alpha: float
    """Of the whole run."""
    claims: Claims
    laws: dict[str, Law]
    shrink: int = 0
    across: AcrossCases = field(default_factory=AcrossCases)
    """Gathers what the tests over all cases need."""
    poison: bool = False

    def group(self, run: GroupRun) -> list[CaseResult]:
        """Return what was found of the wanted cases of a group."""
        names = self.selection.names[run.plan.group.name]
        if isinstance(run.plan, ProbePlan):
            probed = zip(run.plan.group.cases, run.plan.subjects(self.claims), strict=True)
            return [self._probe(run, case, g, one) for g, (case, one) in enumerate(probed) if case.name in names]
        if isinstance(run.plan, Plan) and run.plan.fixed is not None:
            (entry,) = (entry for entry in self.selection.suite.coins if entry.name == run.plan.group.name)
            judged = zip(run.plan.group.cases, entry.members, strict=True)
            return [self._coins(run, case, g, one) for g, (case, one) in enumerate(judged) if case.name in names]
        pairs = None
        if run.pairs is not None:
            pairs = run.pairs.between_instances()
            self.across.add_tables(pairs.tables)
        if isinstance(run.plan, SequencePlan):
            several = enumerate(run.plan.group.cases)
            return [self._sequences(run, case, g, pairs) for g, case in several if case.name in names]
        cases = enumerate(run.plan.group.cases)
        return [self._case(run, case, g, pairs) for g, case in cases if case.name in names]

    def suite_tests(self, found: SamplerResult) -> None:
        """Add the tests over all cases to ``found``, and say so where equal rows need not give equal results."""
        rng = stream("pairs", self.seed, self.selection.suite.name)
        tests = self.across.tests(self.alpha, self.claims.coins, rng)
        refuted = any(map(_refuted, found.cases))
        found.suite_tests += [
            {"test": test.test, "p_value": test.p_value, "alpha": test.alpha, "biased": test.biased, **test.detail}
            | ({"says": test.says + FOLLOWS * (refuted and test.rests_on_laws)} if test.biased else {})
            for test in tests
        ]
        reason = None
        if self.claims.own_drafts:
            reason = "the sampler draws its own drafts: equal rows need not get equal ones"
        elif not all(test.detail.get("judged", True) for test in tests):
            reason = "results do not follow from seeds and positions: equal rows need not give equal results"
        if reason is not None:
            found.not_tried.append({"kind": "reproducibility", "reason": reason})

    def _coins(self, run: GroupRun, case: Case, g: int, member: CoinCase) -> CaseResult:
        """Return what was found of a coin case, which spends nothing of alpha."""
        result = self._result(run, case, 0.0)
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

    def _probe(self, run: GroupRun, case: Case, g: int, subject: Subject) -> CaseResult:
        """Return what was found of a case whose law was measured, which spends nothing of alpha either."""
        result = self._result(run, case, 0.0)
        if not run.probed:
            return result
        known = self.selection.suite.known
        excused, named = known.of(self.name, self.versions, case.name), known.naming(self.name, case.name)
        try:
            judgement = judge_probe(subject, run.probed[g], excused, named)
        except Unstated as why:
            result.verdict, result.reason = "skipped", str(why)
            return result
        result.verdict, result.reason = judgement.verdict, judgement.reason
        result.n = run.probed[g].rows
        result.p_value = {"biased": 0.0, "known": None, "skipped": None}.get(judgement.verdict, 1.0)
        decides = judgement.verdict not in ("known", "skipped")
        found = {"p_value": 0.0 if judgement.verdict in ("biased", "known") else 1.0, "decides": decides, "share": 1.0}
        result.evidence = [{"test": "probe", **found, **judgement.detail}, *judgement.seen]
        result.where, result.diagnosis = judgement.where, judgement.diagnosis
        return result

    def _sequences(self, run: GroupRun, case: SequenceCase, g: int, pairs: PairCounts | None) -> CaseResult:
        """Return what was found of a case of many steps: whole sequences, under any rule."""
        alpha = self.selection.alpha(case.name, self.claims.rules, self.alpha)
        result = self._result(run, case, alpha)
        if pairs is None:
            return result
        try:
            law = self.laws.get(case.name) or case.law(self.claims)
        except Unstated as why:
            result.verdict, result.reason = "skipped", str(why)
            return result
        self.laws[case.name] = law
        rng = stream("pit", self.seed, self.selection.suite.name, result.group, case.name)
        matches = {kind: pairs.matches(kind, g) for kind in KINDS}
        judgement = judge(law, run.counts[g], alpha, rng, nodes=case.nodes, matches=matches)
        self.across.add_case(
            case.name, law, matches, judgement.evidence, conditional=False, redrawn=case.how != "given"
        )
        result.verdict = "biased" if judgement.biased else "pass"
        self._put(result, judgement, law, conditional=False)
        return result

    def _put(self, result: CaseResult, judgement: Judgement, law: Law, *, conditional: bool) -> None:
        """Write a judgement into the result of a case, whose verdict is there already."""
        result.n = judgement.n
        result.p_value = judgement.p_value
        result.reason = judgement.reason
        result.evidence = [
            {"test": part.test, "p_value": part.p_value, "decides": part.decides, "share": part.share, **part.detail}
            for part in judgement.evidence
        ]
        result.certified_tv = judgement.certified_tv
        least = min_detectable(law, judgement.n, result.alpha, conditional=conditional)
        result.min_detectable = MinDetectable(**least, unseen=unseen(law, least))
        shown = judgement.where[: ROWS_OF_A_PASS if result.verdict == "pass" else None]
        result.where = [Where(**asdict(row)) for row in shown]

    def _result(self, run: GroupRun, case: Case | SequenceCase, alpha: float) -> CaseResult:
        """Return the result of a case before its draws are looked at."""
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
            reproduce=self._reproduce(case.name),
        )

    def _case(self, run: GroupRun, case: Case, g: int, pairs: PairCounts | None) -> CaseResult:
        alpha = self.selection.alpha(case.name, self.claims.rules, self.alpha)
        result = self._result(run, case, alpha)
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
        rng = stream("pit", self.seed, self.selection.suite.name, result.group, case.name)
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
        result.verdict = "biased" if biased else "known" if seen else "pass"
        self._put(result, judgement, law, conditional=lossless_only)
        result.reason = "; ".join(one.finding.describe() for one in seen) or judgement.reason
        result.evidence += [one.evidence for one in seen]
        full = result.verdict != "pass"
        result.tree = picture(case, law, counts, judgement.where, reach_known=not lossless_only, full=full)
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
        rng = stream("pit", self.seed, self.selection.suite.name, case.name, "without what is known")
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

    def _reproduce(self, case: str) -> str:
        chosen = self.selection
        command = ["chitree", "gate", "--sampler", self.name, "--case", chosen.argument(case)]
        command += ["--suite", chosen.suite.name, "--seed", str(self.seed)]
        command += ["--alpha", repr(chosen.alone(case, self.alpha)), "--shrink", str(self.shrink)]
        command += ["--poison"] * self.poison
        return shlex.join(command)


def _refuted(case: CaseResult) -> bool:
    """Whether the law of a case itself is refuted, so that tests that rest on it are in doubt."""
    return case.verdict == "biased" and any(
        part["test"] in REFUTES and part["decides"] and part["p_value"] / part["share"] <= case.alpha
        for part in case.evidence
    )
