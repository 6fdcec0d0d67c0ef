"""Verdicts on measured laws: no noise, so no alpha either."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Literal

from .compared import Difference, compared
from .filters import target_probs
from .followed import MOST_VOCAB, readings
from .known import Excused, Finding
from .law import Law
from .measured import Measured
from .reads import COINS, Subject
from .results import Where
from .rules import rule

__all__ = ["Foreign", "ProbeJudgement", "foreign", "judge_probe", "monte_carlo"]

ROWS_OF_A_PASS = 4
MOST_WHERE = 64
NOTHING = Excused((), ())
UNRESOLVED = {
    "scattered": "what a coin decides is strewn over its values",
    "entangled": "several coins decide together, in no order",
    "too many": "more rows would have been asked than one coin for one thing takes",
}


@dataclass(frozen=True)
class Foreign:
    """What follows ``prefix``, at ``node``, is decided by ``coin`` (N: the final one), which is not its own."""

    prefix: tuple[int, ...]
    node: int
    last: bool
    """Which last token it is; else whether and where the step goes on."""
    coin: int

    def describe(self, nodes: int) -> str:
        """Say so in words."""
        after = f"after {' '.join(map(str, self.prefix))}" if self.prefix else "at the root"
        what = "the last token is drawn with" if self.last else "acceptance is decided by"
        whose = "the final coin" if self.coin == nodes else f"the coin of node {self.coin}"
        return f"{after} (node {self.node}) {what} {whose}"


@dataclass(frozen=True)
class ProbeJudgement:
    """The verdict on one case, what there is to say, and the entries of its result."""

    verdict: Literal["pass", "biased", "known", "fixed", "skipped"]
    reason: str | None
    detail: dict[str, Any]
    where: list[Where]
    seen: list[dict[str, Any]] = field(default_factory=list)
    """What is known and was seen, as entries of the evidence."""
    diagnosis: list[dict[str, Any]] = field(default_factory=list)


def judge_probe(
    subject: Subject, measured: Measured, excused: Excused = NOTHING, named: Finding | None = None
) -> ProbeJudgement:
    """Judge a measured law.

    Parameters
    ----------
    subject : Subject
        What was probed.
    measured : Measured
    excused : Excused
        What is known of the sampler's versions in this case.
    named : Finding or None
        A finding that names the sampler, in whatever versions, and this case: where nothing was found, it is gone.

    Raises
    ------
    Unstated
        No law of the case can be stated for the sampler.
    """
    law, accepted = subject.law, not rule(subject.case.rule).lossless_only and subject.drafted.distinct
    differences = compared(law, measured, accepted=accepted)
    detail = _detail(law, measured, differences, subject)
    bad = _worst(difference for difference in differences if difference.deviates)
    where = [_where(difference) for difference in bad[:MOST_WHERE] or _worst(differences)[:ROWS_OF_A_PASS]]
    diagnosis = _followed(subject, measured) if subject.claims.semantics is not None else []

    def judged(verdict: Any, reason: str | None, seen: Sequence[dict[str, Any]] = ()) -> ProbeJudgement:
        return ProbeJudgement(verdict, reason, detail, where, list(seen), diagnosis)

    faults = list(_faults(subject, measured))
    if faults:
        return judged("biased", "; ".join(faults))
    if measured.unresolved or measured.loose:
        reasons = {entry.reason for entry in measured.unresolved} or {"entangled"}
        return judged("skipped", f"not measured: {'; '.join(UNRESOLVED[reason] for reason in sorted(reasons))}")
    if not bad:
        if named is not None:
            return judged("fixed", f"does not happen any more: {named.describe()}")
        return judged("pass", None)
    seen = [
        (finding, outcome)
        for finding, outcome in zip(excused.findings, excused.outcomes, strict=True)
        if outcome.layer == "probe" and any((d.prefix, d.token) == (outcome.prefix, outcome.token) for d in bad)
    ]
    without: dict[tuple[int, ...], list[int]] = {}
    for _, outcome in seen:
        without.setdefault(outcome.prefix, []).append(outcome.token)
    if seen and not any(d.deviates for d in compared(law, measured, accepted=accepted, without=without)):
        rates = [_rate(differences, finding, outcome.prefix, outcome.token) for finding, outcome in seen]
        return judged("known", "; ".join(dict.fromkeys(finding.describe() for finding, _ in seen)), rates)
    return judged("biased", None)


def foreign(subject: Subject, measured: Measured) -> list[Foreign]:
    """Return the steps of a sampler of rule target-only that are not decided by the coins that the rule gives them."""
    nodes = measured.nodes
    found: dict[Foreign, None] = {}
    for decision in measured.decisions:
        labels = decision.stretches.labels.tolist()
        for one, other in pairwise(labels):
            a, b = measured.sequences[one], measured.sequences[other]
            place = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)) - 1)
            prefix, last = a[:place], len(a) == len(b) == place + 1
            m = subject.law.find(prefix)
            if m < 0:  # the law has no such prefix, and says so
                continue
            node = int(subject.law.node[m])
            if decision.coin != (nodes if last else node):
                found[Foreign(prefix, node, last, decision.coin)] = None
    return list(found)


def monte_carlo(law: Law, difference: Difference) -> float:
    """Return how many steps would have to be drawn for a standard error of one coin, 2^-24, in its place."""
    p = min(1.0, max(difference.expected, difference.observed, 1.0 / COINS))
    reach = float(law.reach[law.find(difference.prefix)])
    return p * max(1.0 - p, 1.0 / COINS) * float(COINS) ** 2 / reach


def _faults(subject: Subject, measured: Measured) -> Iterator[str]:
    """Yield what no sampler may do whose randomness is its coins, or whose rule says which coin decides what."""
    if measured.changed:
        yield f"{measured.changed} rows emitted something else when they were asked again with equal coins"
    if subject.case.rule != "target-only" or not subject.drafted.distinct:
        return
    for entry in foreign(subject, measured)[:4]:
        yield entry.describe(measured.nodes)
    for decision, label in measured.loose[:4]:
        path = " ".join(map(str, measured.sequences[label]))
        coin = measured.decisions[decision].coin
        whose = "the final coin" if coin == measured.nodes else f"the coin of node {coin}"
        yield f"what {whose} decides changes with other coins (where {path} is emitted)"
    if any(entry.reason == "entangled" for entry in measured.unresolved):
        yield "several coins decide one step"


def _detail(law: Law, measured: Measured, differences: Sequence[Difference], subject: Subject) -> dict[str, Any]:
    """Return the figures of a probe."""
    expected = {read.coin for leaf in measured.sequences for read in subject.reads(leaf) if read.open}
    unread = sorted(expected - measured.used) if not measured.unresolved else []
    return {
        "rows": measured.rows,
        "decisions": len(measured.decisions),
        "resolution": 1.0 / COINS,
        "largest_difference": max((abs(d.observed - d.expected) for d in differences), default=0.0),
        "largest_bound": max((d.bound for d in differences), default=0.0),
        "samples_for_the_same": max((monte_carlo(law, d) for d in differences), default=1.0),
        "coins_never_read": unread,
    }


def _worst(differences: Iterator[Difference] | Sequence[Difference]) -> list[Difference]:
    """Sort by how far beyond rounding they are, what is impossible first."""
    return sorted(
        differences,
        key=lambda d: (d.kind in ("accepted-draft", "last", "next"), d.bound - abs(d.observed - d.expected), d.prefix),
    )


def _where(difference: Difference) -> Where:
    return Where(
        list(difference.prefix),
        difference.node,
        difference.token,
        difference.expected,
        difference.observed,
        0.0 if difference.deviates else 1.0,
        difference.kind,
    )


def _rate(differences: Sequence[Difference], finding: Finding, prefix: tuple[int, ...], token: int) -> dict[str, Any]:
    """Return how often a known outcome comes, as an entry of the evidence that decides nothing."""
    observed = sum(d.observed for d in differences if (d.prefix, d.token) == (prefix, token))
    place = {"prefix": list(prefix), "token": token, "rate": observed, "coins_of_2^24": observed * COINS}
    return {"test": "probe", "p_value": 0.0, "decides": False, "known": finding.name, **place}


def _followed(subject: Subject, measured: Measured) -> list[dict[str, Any]]:
    """Return the readings of the filters that the measured law can be, as entries of a diagnosis; without noise.

    Nothing where all readings have one law.
    """
    claimed, case = subject.claims.semantics, subject.case
    assert claimed is not None
    if case.vocab > MOST_VOCAB or rule(case.rule).redraws:
        return []
    laws: dict[bytes, tuple[list[str], Law]] = {}
    for name, semantics in readings(claimed):
        rows = target_probs(case.target_logits, case.params, semantics)
        key = rows.round(9).tobytes()
        if key not in laws:
            laws[key] = [], rule(case.rule).law(case, rows)
        laws[key][0].append(name)
    if len(laws) < 2:
        return []
    accepted = not rule(case.rule).lossless_only
    return [
        {"bug": f"filters read as: {' or '.join(names)}", "log_likelihood_ratio": None, "fits": True}
        for names, law in laws.values()
        if not any(difference.deviates for difference in compared(law, measured, accepted=accepted))
    ]
