"""results.json, schema 1: what a run found, and reading and writing it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from .errors import Unwritten, UsageError

__all__ = [
    "EXIT_CODES",
    "SLIP",
    "CaseResult",
    "Cells",
    "MinDetectable",
    "Results",
    "SamplerResult",
    "TreeNode",
    "TreePicture",
    "Unfinished",
    "Where",
    "merged",
    "read",
    "worst",
    "write",
]

SCHEMA = 1
SLIP = "attribute"
"""The kind of ``not_tried`` that names what looks like a slip in a verifier."""
EXIT_CODES = {"pass": 0, "biased": 1, "broken": 3}

Verdict = Literal["pass", "biased", "broken"]
CaseVerdict = Literal["pass", "biased", "broken", "skipped", "known", "fixed"]


class Where(msgspec.Struct):
    """One next-token probability, conditional on the prefix: what the law says and what was seen.

    ``kind`` is "cell", or says why an emission is impossible: "token" (probability 0), "accepted" (nothing may follow
    that token there) or "length" (more tokens than the depth limit allows). Of a law that was measured it says what
    comes with this probability: "accepted-draft" (the step goes on after the token), "last" (it ends with it) or "next"
    (either).
    """

    prefix: list[int]
    node: int
    token: int
    expected: float
    observed: float
    p_value: float
    kind: str = "cell"


class Cells(msgspec.Struct, kw_only=True):
    """Next tokens at one node, a column each: what the law says given the node, and what came of ``trials`` draws.

    ``low`` and ``high`` bound the rate of each token exactly (Clopper-Pearson) at the picture's level, one at a time.
    ``possible`` counts the tokens that the law allows there, shown or not.
    """

    trials: int
    possible: int
    token: list[int]
    expected: list[float]
    count: list[int]
    low: list[float]
    high: list[float]


class TreeNode(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A place that a step can stand at: how often the law and the draws come there, and what they do next.

    ``parent`` is an index into the picture's nodes, -1 at the root; ``token`` led here. ``reach`` is the law's
    probability of getting here and going on, None where it is not known, and ``reached`` the number of draws that did,
    ``low`` and ``high`` their exact interval as a rate. ``p_value`` is the least exact one of what was tested here, not
    corrected; ``impossible`` counts the draws that did something impossible here.
    """

    node: int
    parent: int
    token: int
    reached: int
    low: float
    high: float
    reach: float | None = None
    p_value: float | None = None
    impossible: int = 0
    cells: Cells | None = None


class TreePicture(msgspec.Struct, kw_only=True):
    """Law and draws along the tree, for a drawing: parents before children, ``left_out`` nodes not shown.

    ``level`` is that of the exact intervals; ``redrawn`` says that drafts were drawn afresh for every row, so that
    nodes stand for emitted tokens and not for drafts of one tree.
    """

    level: float
    redrawn: bool
    left_out: int
    nodes: list[TreeNode]


class MinDetectable(msgspec.Struct, omit_defaults=True):
    """The smallest biases that a case sees with 90% power; None where there is no such bias, or where it sees none.

    ``unseen`` names the latter: of whatever size, a bias of that kind is not known to be seen.
    """

    move: float | None
    leak: float | None
    temperature: float | None
    unseen: list[str] = []


class CaseResult(msgspec.Struct, kw_only=True):
    """What was found of one case; contract, section 4."""

    case: str
    group: str
    rule: str
    n: int
    alpha: float
    verdict: CaseVerdict
    reason: str | None = None
    p_value: float | None = None
    evidence: list[dict[str, Any]] = msgspec.field(default_factory=list)
    certified_tv: float | None = None
    min_detectable: MinDetectable
    seconds: float
    where: list[Where] = msgspec.field(default_factory=list)
    diagnosis: list[dict[str, Any]] = msgspec.field(default_factory=list)
    tree: TreePicture | None = None
    reproduce: str

    @property
    def random(self) -> bool:
        """Whether it has random draws: a coin case has one step with fixed coins, and spends nothing of alpha."""
        return self.n > 0 and self.alpha > 0.0


class SamplerResult(msgspec.Struct, kw_only=True):
    """What was found of one sampler; ``shrink`` is k of n / 2^k, with the reason for it."""

    name: str
    runs_on: str | None
    versions: dict[str, str]
    verdict: Verdict
    reason: str | None = None
    shrink: dict[str, Any] = msgspec.field(default_factory=dict)
    not_tried: list[dict[str, str]] = msgspec.field(default_factory=list)
    suite_tests: list[dict[str, Any]] = msgspec.field(default_factory=list)
    cases: list[CaseResult] = msgspec.field(default_factory=list)


class Unfinished(msgspec.Struct, kw_only=True):
    """Of a run that goes on, or was ended before its time: what it was asked for.

    ``cases`` holds how many cases there are of each sampler, None while that is not known; ``resumable`` says whether
    ``chitree gate --resume`` can go on with it.
    """

    cases: dict[str, int | None]
    resumable: bool


class Results(msgspec.Struct, kw_only=True):
    """What a run found; ``poison`` says that fresh memory held garbage, ``unfinished`` is there until the run's end."""

    schema: int = SCHEMA
    chitree: str
    created: str
    seed: int
    alpha: float
    suite: str
    poison: bool = False
    unfinished: Unfinished | msgspec.UnsetType = msgspec.UNSET
    verdict: Verdict
    samplers: list[SamplerResult] = msgspec.field(default_factory=list)

    @property
    def known(self) -> int:
        """Cases in which a known finding was seen."""
        return sum(case.verdict == "known" for sampler in self.samplers for case in sampler.cases)

    @property
    def exit_code(self) -> int:
        """0 pass, 1 biased, 3 broken."""
        return EXIT_CODES[self.verdict]


def worst(verdicts: Sequence[str]) -> Verdict:
    """Return the verdict of several: bias beats broken, broken beats pass; skipped, known and fixed do not count."""
    if "biased" in verdicts:
        return "biased"
    return "broken" if "broken" in verdicts else "pass"


def merged(results: Results, before: Results) -> Results:
    """Return ``results`` of a resumed run with what was found before of samplers and cases that it has nothing of.

    That is the samplers that it has not come to, and the cases that it has not come to or that broke or were skipped.
    """
    earlier = {found.name: found for found in before.samplers}
    samplers = [
        _merged(found, earlier.pop(found.name)) if found.name in earlier else found for found in results.samplers
    ]
    samplers += earlier.values()
    return msgspec.structs.replace(results, samplers=samplers, verdict=worst([found.verdict for found in samplers]))


def _merged(now: SamplerResult, before: SamplerResult) -> SamplerResult:
    was = {case.case: case for case in before.cases}
    cases = []
    for case in now.cases:
        earlier = was.pop(case.case, case)
        cases.append(case if case.n else earlier)
    cases += was.values()
    verdict = worst([now.verdict, *(case.verdict for case in cases)])
    return msgspec.structs.replace(now, cases=cases, verdict=verdict)


def write(results: Results, path: Path) -> None:
    """Write results.json whole or not at all: readers never see half a file. NaN and infinity become null.

    A case is a line: thousands of them stay small, and two files can be compared line by line. Raises Unwritten.
    """
    samplers = [
        _opened(msgspec.structs.replace(entry, cases=[]), "cases", map(_encoded, entry.cases))
        for entry in results.samplers
    ]
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part.write_bytes(_opened(msgspec.structs.replace(results, samplers=[]), "samplers", samplers) + b"\n")
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise Unwritten(path, error) from None


def _opened(head: msgspec.Struct, name: str, lines: Iterable[bytes]) -> bytes:
    """Return ``head`` as JSON with its empty list ``name``, which is its last entry, filled with one line each."""
    return _encoded(head).removesuffix(b"]}") + b"\n" + b",\n".join(lines) + b"\n]}"


def _encoded(value: msgspec.Struct) -> bytes:
    """Return ``value`` as JSON, null for what is no number; names of files that are no text are escaped.

    The file is written anew after every group, so the walk over every entry is left to where it is needed.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_as_text(msgspec.to_builtins(value)))


def read(path: Path) -> Results:
    """Read results.json; a UsageError says what is wrong with it."""
    try:
        results = msgspec.json.decode(path.read_bytes(), type=Results)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise UsageError(f"{path}: expected results.json of schema {SCHEMA}: nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: expected results.json of schema {SCHEMA}: {error}") from None
    if results.schema != SCHEMA:
        raise UsageError(f"{path}: expected schema {SCHEMA}, got {results.schema}")
    return results


def _as_text(value: Any) -> Any:
    """Return ``value`` with escapes for letters that are none."""
    if isinstance(value, dict):
        return {_as_text(key): _as_text(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_as_text(entry) for entry in value]
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    return value
