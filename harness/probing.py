"""One sampler probed on one case, in a worker process of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .case import Case
from .chained import chained
from .claimed import Unstated
from .compared import Difference, compared
from .errors import ChitreeError, Unavailable, UsageError
from .groups import Group, Shard
from .measured import Measured
from .probegroup import ProbePlan
from .probejudge import ProbeJudgement, judge_probe, monte_carlo
from .protocol import ShardJob
from .reads import COINS, Subject
from .rules import rule
from .samplers.base import Claims
from .samplers.registry import is_plugin, sampler
from .supervisor import Limits, SamplerBroke, Worker

__all__ = ["CannotProbe", "Probed", "run_probe"]


class CannotProbe(ChitreeError):
    """The sampler broke while it was probed, or cannot run here."""

    exit_code = 3


@dataclass(frozen=True, eq=False)
class Probed:
    """What was found of a sampler on a case; ``seconds`` is what all calls together took, in verify and around it."""

    sampler: str
    runs_on: str
    versions: Mapping[str, str]
    seed: int
    subject: Subject
    measured: Measured
    judgement: ProbeJudgement
    seconds: float
    in_verify: float

    @cached_property
    def differences(self) -> list[Difference]:
        """What follows each prefix, by the law and as measured."""
        accepted = not rule(self.subject.case.rule).lossless_only and self.subject.drafted.distinct
        return compared(self.subject.law, self.measured, accepted=accepted)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The differences as numbers: ``bound`` and ``coins`` in coins of 2^24, ``draws`` for a standard error of one.

        Prefixes in order.
        """
        return [
            {
                "prefix": list(d.prefix),
                "node": d.node,
                "token": d.token,
                "kind": {"accepted-draft": "accepted", "accepted": "off the tree"}.get(d.kind, d.kind),
                "expected": d.expected,
                "observed": d.observed,
                "coins": d.coins,
                "bound": d.bound * COINS,
                "draws": monte_carlo(self.subject.law, d),
                "deviates": d.deviates,
            }
            for d in self.differences
        ]

    def summary(self) -> Iterator[str]:
        """Yield what there is to say in lines."""
        detail = self.judgement.detail
        yield (
            f"largest difference {detail['largest_difference']:.2g}, resolution 2^-24 = {1 / COINS:.2g}; "
            f"{len(self.measured.decisions)} decisions from {self.measured.rows:,} rows in {self.seconds:.2f} s "
            f"({self.in_verify:.2f} s in verify)"
        )
        yield f"draws that a standard error of one coin everywhere would take: {detail['samples_for_the_same']:.1e}"
        if detail["coins_never_read"]:
            names = ("the final one" if coin == self.measured.nodes else f"node {coin}'s" for coin in self._unread)
            yield f"coins that the rule reads and that decided nothing: {', '.join(names)}"
        for number, other in self.measured.swept:
            decision = self.measured.decisions[number]
            whose = "the final coin" if decision.coin == self.measured.nodes else f"the coin of node {decision.coin}"
            size = decision.stretches.high - decision.stretches.low
            split = len(decision.stretches.starts) - len(decision.labels)
            yield (
                f"swept {whose}: {size:,} values, {other:,} of them not as bisected, {len(decision.stretches.starts)} "
                f"stretches, {split} outcome{'s' * (split != 1)} split"
            )
        for entry in self.judgement.seen:
            after = " ".join(map(str, entry["prefix"])) or "nothing"
            yield f"known, {entry['known']}: after {after} token {entry['token']}, {entry['coins_of_2^24']:.6g} coins"
        for entry in self.judgement.diagnosis:
            yield entry["bug"]

    @property
    def _unread(self) -> list[int]:
        unread: list[int] = self.judgement.detail["coins_never_read"]
        return unread

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON has it; of a stretch, the value it starts at and what is emitted from there."""
        case, measured = self.subject.case, self.measured
        decisions = []
        for i, decision in enumerate(measured.decisions):
            prefix, last = measured.place(i)
            stretches = decision.stretches
            pairs = zip(stretches.starts.tolist(), stretches.labels.tolist(), strict=True)
            decisions.append(
                {
                    "prefix": list(prefix),
                    "last": last,
                    "coin": "final" if decision.coin == measured.nodes else decision.coin,
                    "after": decision.parent,
                    "branch": list(measured.sequences[decision.branch]) if decision.parent >= 0 else [],
                    "low": stretches.low,
                    "high": stretches.high,
                    "stretches": [[start, list(measured.sequences[label])] for start, label in pairs],
                }
            )
        return {
            "sampler": self.sampler,
            "runs_on": self.runs_on,
            "versions": dict(self.versions),
            "case": case.name,
            "rule": case.rule,
            "vocab": case.vocab,
            "nodes": case.nodes,
            "depth_limit": case.depth_limit,
            "seed": self.seed,
            "verdict": self.judgement.verdict,
            "reason": self.judgement.reason,
            "seconds": round(self.seconds, 3),
            **self.judgement.detail,
            "law": self.rows,
            "decisions": decisions,
            "swept": [{"decision": i, "not_as_bisected": other} for i, other in measured.swept],
            "known": self.judgement.seen,
            "followed": [entry["bug"] for entry in self.judgement.diagnosis],
        }


def run_probe(
    name: str, choose: Callable[[Claims], Case], suite_name: str, seed: int, sweep: int | None = None
) -> Probed:
    """Probe the sampler ``name`` on the case that ``choose`` returns for its claims.

    Raises
    ------
    UsageError
        No such sampler or node, or its randomness is not its coins.
    CannotProbe
        It cannot run here, or it broke.
    """
    from cases.findings import known_findings

    known = None if is_plugin(name) else sampler(name)
    if known is not None:
        try:
            reason = known.unavailable()
            if reason:
                raise Unavailable(reason)
            known.prepare()
        except Unavailable as error:
            raise CannotProbe(f"sampler {name}: {error}") from None
    worker = Worker(name, Limits.from_environment(), 1)
    try:
        worker.start()
        claims = known.claims if known else Claims.from_wire(worker.claims)
        if not claims.coins or claims.own_drafts:
            raise UsageError(
                f"sampler {name!r} cannot be probed: its randomness is not the coins of the request alone; "
                "set coins = True on a verifier that reads nothing else"
            )
        case = choose(claims)
        if sweep is not None and not 0 <= sweep < len(case.tree):
            raise UsageError(f"--sweep must be a node of case {case.name}, from 0 to {len(case.tree) - 1}, got {sweep}")
        plan = ProbePlan(Group(case.name, (case,)).rounded(claims.dtype), suite_name, seed, 1, sweep=sweep)
        plan = replace(plan, group=chained(plan).group) if claims.chains else plan
        subject = plan.subjects(claims)[0]
        started = time.perf_counter()
        (measured,) = worker.probe(ShardJob(plan, Shard(0, 1)))
        seconds = time.perf_counter() - started
        versions = dict(known.versions()) if known else {}
        findings = known_findings()
        excused, named = findings.of(name, versions, case.name), findings.naming(name, case.name)
        judgement = judge_probe(subject, measured, excused, named)
        runs_on = known.runs_on if known else "cpu"
        return Probed(name, runs_on, versions, seed, subject, measured, judgement, seconds, sum(worker.seconds))
    except SamplerBroke as broke:
        if broke.how == "usage":
            raise broke.as_usage(name) from None
        raise CannotProbe(f"sampler {name}: {broke}") from None
    except Unstated as why:
        raise UsageError(f"--case: {why}") from None
    finally:
        worker.end()
