"""The folder of a run: what was asked for, and the groups that are done, so that an interrupted run can go on.

``run.json`` holds what the run was asked for and how many draws each sampler takes; ``progress/`` the counts of every
finished group, a file each, which appear whole or not at all. Both are there from before the first draw until nothing
is left to do. Groups that broke are not kept: a worker may have been killed by others, and going on runs them again.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from . import __version__
from .decode.sequences import AnyPlan, SequencePlan
from .errors import Unwritten, UsageError
from .protocol import CaseCounts, Garbled, PackedPairs, PackedProbe
from .sweep import GroupRun

__all__ = ["Kept", "Recorded", "RunFolder", "recorded"]

SCHEMA = 1
RUN, PROGRESS = "run.json", "progress"


class Recorded(msgspec.Struct, kw_only=True):
    """The options that a run's results follow from, named as on the command line."""

    sampler: list[str]
    case: list[str]
    suite: str
    alpha: float
    seed: int
    shrink: int | None
    budget: float | None
    fail_fast: bool
    strict: bool
    poison: bool = False


class _Run(msgspec.Struct):
    """What run.json holds."""

    schema: int
    chitree: str
    options: Recorded
    created: str
    shrink: dict[str, tuple[int, str]] = msgspec.field(default_factory=dict)
    """k of n / 2^k of each sampler for which it is decided, and the reason."""
    finished: bool = False


class _Saved(msgspec.Struct):
    """A finished group; ``digest`` tells it from the group of another case file, seed or number of draws."""

    digest: str
    seconds: float
    cases: list[CaseCounts]
    pairs: PackedPairs | None
    probed: list[PackedProbe] = []


class RunFolder:
    """The folder of one run; see the module."""

    def __init__(self, path: Path, run: _Run) -> None:
        self.path = path
        self._run = run

    @classmethod
    def start(cls, path: Path, options: Recorded) -> RunFolder:
        """Begin a run with these ``options``; what was kept of an earlier run is dropped."""
        folder = cls(path, _Run(SCHEMA, __version__, options, datetime.now(UTC).isoformat(timespec="seconds")))
        shutil.rmtree(path / PROGRESS, ignore_errors=True)
        folder._record()
        return folder

    @classmethod
    def resume(cls, path: Path, options: Recorded) -> RunFolder:
        """Go on with a run, which must have been begun with the same ``options``; else a UsageError names the one."""
        run = _read(path)
        for name in Recorded.__struct_fields__:
            was, value = getattr(run.options, name), getattr(options, name)
            if was != value:
                raise UsageError(
                    f"--{name.replace('_', '-')}: the run in {path} was begun with {_shown(was)}, got "
                    f"{_shown(value)}; leave the option out, or begin a new run"
                )
        return cls(path, run)

    @property
    def created(self) -> str:
        """When the run was begun, UTC."""
        return self._run.created

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self._run.finished

    def of(self, sampler: str) -> Kept:
        """Return what is kept of one sampler."""
        return Kept(self, sampler)

    def finish(self) -> None:
        """Note that nothing is left to do, and drop what was kept for going on."""
        self._run.finished = True
        self._record()
        shutil.rmtree(self.path / PROGRESS, ignore_errors=True)

    def _record(self) -> None:
        _put(self.path / RUN, msgspec.json.format(msgspec.json.encode(self._run), indent=1) + b"\n")


@dataclass(frozen=True)
class Kept:
    """What is kept of one sampler of a run."""

    folder: RunFolder
    sampler: str

    def shrink(self, decide: Callable[[], tuple[int, str, bool]]) -> tuple[int, str]:
        """Return k of n / 2^k and its reason: as decided before, or by ``decide``, which says whether that stands."""
        decided = self.folder._run.shrink
        if self.sampler not in decided:
            k, why, stands = decide()
            if not stands:
                return k, why
            decided[self.sampler] = k, why
            self.folder._record()
        return decided[self.sampler]

    def save(self, run: GroupRun, shrink: int) -> None:
        """Keep a finished group, durably; where that is not possible, the run goes on without."""
        saved = _Saved(
            _digest(run.plan, shrink),
            run.seconds,
            [CaseCounts.of(counts) for counts in run.counts],
            None if run.pairs is None else PackedPairs.of(run.pairs),
            [PackedProbe.of(part) for part in run.probed],
        )
        with contextlib.suppress(Unwritten):
            _put(self._file(run.plan), zlib.compress(msgspec.msgpack.encode(saved), 1))

    def load(self, plan: AnyPlan, shrink: int) -> GroupRun | None:
        """Return a group that was finished with just these draws, or None."""
        try:
            data = zlib.decompress(self._file(plan).read_bytes())
            saved = msgspec.msgpack.decode(data, type=_Saved)
            if saved.digest != _digest(plan, shrink):
                return None
            counts = [part.unpack() for part in saved.cases]
            group = plan.group
            pairs = None if saved.pairs is None else saved.pairs.unpack(len(group))
            probed = [part.unpack(group.nodes, group.vocab) for part in saved.probed]
            return GroupRun(plan, counts, pairs, probed, seconds=saved.seconds)
        except (OSError, zlib.error, msgspec.DecodeError, Garbled):
            return None  # none, or damaged: it is run again

    def _file(self, plan: AnyPlan) -> Path:
        key = hashlib.sha256(f"{self.sampler}\0{plan.group.name}".encode(errors="surrogateescape")).hexdigest()
        return self.folder.path / PROGRESS / key[:32]


def recorded(path: Path) -> Recorded:
    """Return the options that the run in ``path`` was begun with; a UsageError where there is none to go on with."""
    return _read(path).options


def _read(path: Path) -> _Run:
    try:
        run = msgspec.json.decode((path / RUN).read_bytes(), type=_Run)
    except OSError as error:
        raise UsageError(f"--resume {path}: no run to go on with: {RUN} cannot be read: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"--resume {path}: {RUN} is damaged: {' '.join(str(error).split())}") from None
    if run.schema != SCHEMA or run.chitree != __version__:
        raise UsageError(
            f"--resume {path}: the run was begun by chitree {run.chitree}, this is {__version__}; begin a new run"
        )
    return run


def _shown(value: Any) -> str:
    if value in (None, False, []):
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _digest(plan: AnyPlan, shrink: int) -> str:
    """Return a hash of all that the draws of a group follow from."""
    if isinstance(plan, SequencePlan):
        return f"{plan.digest}-{shrink}"
    group = plan.group
    head = (group.name, plan.suite, plan.seed, plan.n, shrink, type(plan).__name__)
    sha = hashlib.sha256(repr(head).encode(errors="surrogateescape"))
    for case in group.cases:
        shape = (case.rule, case.params, case.depth_limit, case.nodes, case.tree.children)
        rest = (case.name, case.dtype, case.replacement, case.threshold_single, case.threshold_acc)
        sha.update(repr((shape, rest)).encode(errors="surrogateescape"))
        for array in (case.tree.tokens, case.tree.parents, case.target_logits, case.target_probs, case.draft_probs):
            sha.update(b"-" if array is None else array.tobytes())
    if plan.fixed is not None:
        sha.update(plan.fixed.nodes.tobytes() + plan.fixed.final.tobytes())
    return sha.hexdigest()


def _put(path: Path, data: bytes) -> None:
    """Write a file whole or not at all, so that it outlives the machine's sudden end too."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink()
        raise Unwritten(path, error) from None
