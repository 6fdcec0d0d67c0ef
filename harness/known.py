"""Known findings: deviations of released software that are understood and documented, and what they excuse.

A finding names samplers with their versions, and outcomes: a case, the tokens emitted before, the token that then comes
though it should not (or not so often), and the layer of evidence that it fails. That outcome alone is excused: it is
left out, and what remains of the case is held against its law given that the outcome does not come, which decides.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import numpy as np

from .counts import PrefixCounts, Stray
from .errors import UsageError
from .law import Law, Undecided
from .stats.cells import two_sided

__all__ = ["Excused", "Finding", "Known", "Outcome", "Seen", "load"]

SCHEMA = 1
MOST_BYTES = 1 << 22
NO_ENTRIES = "reference"
"""The sampler that is right by definition."""

Text = Annotated[str, msgspec.Meta(min_length=1)]
Token = Annotated[int, msgspec.Meta(ge=0)]


class Outcome(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is excused: in the cases of this name or glob, ``token`` after exactly ``prefix``, where ``layer`` fails.

    Layer "support" is a token that the law finds impossible there, "cells" one that comes too often or too rarely, and
    "probe" either, as measured without noise.
    """

    case: Text
    prefix: tuple[Token, ...]
    token: Token
    layer: Literal["support", "cells", "probe"]


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A deviation that is understood.

    Parameters
    ----------
    name : str
        A few words to call it by.
    kind : "bug", "documented precondition" or "contract violation"
        A fault of the software; something that it asks of its callers in writing; or a request that callers must not
        make by the harness's own contract.
    summary : str
        What happens and why, in a sentence.
    source : str
        Where it is documented.
    samplers : mapping of str to mapping of str to tuple of str
        For each sampler the versions of its packages that have it, as the sampler states them.
    outcomes : tuple of Outcome
    """

    name: Text
    kind: Literal["bug", "documented precondition", "contract violation"]
    summary: Text
    source: Text
    samplers: dict[Text, dict[Text, Annotated[tuple[Text, ...], msgspec.Meta(min_length=1)]]]
    outcomes: Annotated[tuple[Outcome, ...], msgspec.Meta(min_length=1)]

    def holds(self, sampler: str, versions: Mapping[str, str]) -> bool:
        """Whether it is known of ``sampler`` in these versions of its packages."""
        packages = self.samplers.get(sampler, {})
        return bool(packages) and all(versions.get(name) in listed for name, listed in packages.items())

    def describe(self) -> str:
        """Return what is known, in a line."""
        return f"{self.name} ({self.kind}): {self.summary}"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Literal[1]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Excused:
    """The outcomes that are excused in one case of one sampler."""

    findings: tuple[Finding, ...]
    outcomes: tuple[Outcome, ...]

    def excuses(self, prefix: Sequence[int], token: int, layer: str = "support") -> Finding | None:
        """Return the finding that excuses ``token`` after ``prefix`` at ``layer``, or None."""
        for finding, outcome in zip(self.findings, self.outcomes, strict=True):
            if (list(outcome.prefix), outcome.token, outcome.layer) == (list(prefix), token, layer):
                return finding
        return None

    def without(self, law: Law, counts: PrefixCounts, *, stops_known: bool) -> tuple[Law, PrefixCounts]:
        """Return law and counts for a test of what remains, given that no excused outcome comes.

        The outcomes become undecided tokens of the law, which are left out of every test of cells, and the steps that
        took an impossible one are no strays any more.
        """
        tokens = np.zeros(law.rows.shape, bool) if law.undecided is None else law.undecided.tokens.copy()
        strays = counts.strays
        for outcome in self.outcomes:
            m = law.find(outcome.prefix)
            if m < 0 or outcome.token >= law.vocab or outcome.layer == "probe":
                continue
            if (law.rows[m, outcome.token] > 0.0) != (outcome.layer == "cells"):
                continue
            tokens[m, outcome.token] = True
            strays = [stray for stray in strays if not _is(stray, m, outcome.token)]
        if law.undecided is not None:
            stops_known = law.undecided.stops_known
        return replace(law, undecided=Undecided(tokens, stops_known)), replace(counts, strays=strays)

    def seen(self, law: Law, counts: PrefixCounts, alpha: float) -> list[Seen]:
        """Return the findings whose outcome shows: an impossible one came, or a cell is off at level ``alpha``."""
        found = []
        for finding, outcome in zip(self.findings, self.outcomes, strict=True):
            m = law.find(outcome.prefix)
            if m < 0 or outcome.token >= law.vocab or outcome.layer == "probe":
                continue
            at = (counts.prefix == m) & (counts.token == outcome.token)
            count, probability = int(counts.count[at].sum()), float(law.rows[m, outcome.token])
            possible = probability > 0.0
            (p_value,) = two_sided(np.array([count]), counts.reached[[m]], np.array([probability]))
            if possible == (outcome.layer == "cells") and (p_value <= alpha if possible else count > 0):
                found.append(Seen(finding, outcome, count, float(p_value)))
        return found


@dataclass(frozen=True)
class Seen:
    """A finding whose outcome shows in counts: how often it came, and how likely so many or few are by the law."""

    finding: Finding
    outcome: Outcome
    count: int
    p_value: float

    @property
    def evidence(self) -> dict[str, object]:
        """As an entry of a case's evidence, which decides nothing."""
        found = {"known": self.finding.name, "prefix": list(self.outcome.prefix), "token": self.outcome.token}
        return {"test": self.outcome.layer, "p_value": self.p_value, "decides": False, "observed": self.count, **found}


def _is(stray: Stray, prefix: int, token: int) -> bool:
    return (stray.prefix, stray.token, stray.kind) == (prefix, token, "token")


@dataclass(frozen=True)
class Known:
    """The findings that a suite is run with."""

    findings: tuple[Finding, ...] = ()

    def of(self, sampler: str, versions: Mapping[str, str], case: str) -> Excused:
        """Return what is excused in ``case`` for a sampler whose packages have these versions."""
        pairs = [
            (finding, outcome)
            for finding in self.findings
            if finding.holds(sampler, versions)
            for outcome in finding.outcomes
            if fnmatchcase(case, outcome.case)
        ]
        return Excused(tuple(finding for finding, _ in pairs), tuple(outcome for _, outcome in pairs))

    def naming(self, sampler: str, case: str) -> Finding | None:
        """Return the first finding that names ``sampler``, in whatever versions, and ``case``; or None."""
        for finding in self.findings:
            if sampler in finding.samplers and any(fnmatchcase(case, outcome.case) for outcome in finding.outcomes):
                return finding
        return None


def load(path: Path) -> Known:
    """Read known findings; a UsageError says in a line what is wrong with the file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: known findings cannot be read: {error.strerror}") from None
    try:
        if len(data) > MOST_BYTES:
            raise ValueError(f"more than {MOST_BYTES} bytes")
        file = msgspec.json.decode(data, type=_File)
        _check(file.findings)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        text = " ".join(str(error).split())
        raise UsageError(f"{path}: known findings of schema {SCHEMA} are expected: {text}") from None
    return Known(file.findings)


def _check(findings: Iterable[Finding]) -> None:
    """Check what types cannot say."""
    names: set[str] = set()
    for finding in findings:
        where = f"finding {json.dumps(finding.name)}"
        if finding.name in names:
            raise ValueError(f"{where} is there twice")
        names.add(finding.name)
        if not finding.samplers:
            raise ValueError(f"{where}: samplers: one at least is expected")
        for sampler, packages in finding.samplers.items():
            named = f"{where}: samplers: {json.dumps(sampler)}"
            if ":" in sampler or "*" in sampler:
                raise ValueError(f"{named}: only released samplers, by their names, have known findings")
            if sampler == NO_ENTRIES:
                raise ValueError(f"{named} is a right verifier, of which nothing is known")
            if not packages:
                raise ValueError(f"{named}: the versions of one package at least are expected")
