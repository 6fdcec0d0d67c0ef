"""A run of the gate in a process of its own, for pytest and for code: planned, asked for, and awaited case by case.

All processes of a test session (pytest-xdist has many) share one folder and the one run in it. So a sampler runs once,
on the draws of the command line and under its rules, whatever the order of the tests and wherever they run. Nothing
heavy is imported here, and none of our packages but this one: the process of the caller may have a ``cases`` or
``reports`` of its own.

Files in the folder appear by rename, each once: ``asked.json``, ``plan.json``, ``selection.json``, ``end.json``;
``outcomes`` grows by lines. ``owner.lock`` is held by the process that made the folder: when it goes, so does the run.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from .errors import ChitreeError, UsageError

__all__ = ["GIVEN", "IN_WORKER", "SEARCH_PATH", "Asked", "Outcome", "RunEnded", "Session", "held", "put", "search_path"]

SEARCH_PATH, GIVEN, IN_WORKER = "CHITREE_PATH", "CHITREE_GIVEN", "CHITREE_IN_WORKER"
"""Variables of a sampler's process: more folders of modules, the file of a verifier that was given, that it is one."""

T = TypeVar("T")

_ROOT = Path(__file__).resolve().parent.parent
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from harness.runner import main; main(sys.argv[2], sys.argv[3])"
_LOOK_EVERY = 0.03
_END_WITHIN = 10.0
"""Seconds that an ended run has to be gone."""


@dataclass(frozen=True)
class Asked:
    """What a session was asked for, in words as on the command line; None and nothing mean the defaults.

    ``folder`` is where the run takes place and relative names start; ``path`` is searched for plugins after all else;
    ``given`` names the file of a pickled verifier, which then is the only sampler, of the name in ``samplers``.
    ``whole`` says that all is run at once: there is no plan, no selection, and nothing to hear before the end.
    """

    samplers: Sequence[str] = ()
    suite: str = "smoke"
    cases: Sequence[str] = ()
    alpha: float = 1e-6
    seed: int = 0
    shrink: int | None = None
    workers: int | None = None
    out: str | None = None
    folder: str = field(default_factory=os.getcwd)
    path: Sequence[str] = ()
    given: str | None = None
    whole: bool = False


@dataclass(frozen=True)
class Outcome:
    """What came of a case, of the tests over all cases (``case`` None), or of a sampler that did not run at all.

    ``message`` is what to tell of it, in lines; ``facts`` are figures for machines. ``whole`` says that it is the
    sampler that broke, not this case.
    """

    sampler: str
    case: str | None
    verdict: str
    message: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    whole: bool = False


class RunEnded(ChitreeError):
    """The process of the run is gone before it was done."""

    exit_code = 3


class Session:
    """One run of the gate for all processes that know its ``folder``.

    Without a folder a new one is made, which goes with :meth:`close`, and the run with it.
    """

    def __init__(self, asked: Asked, folder: Path | None = None) -> None:
        self._asked = asked
        self._owner: int | None = None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="chitree-"))
            self._owner = _lock(folder / "owner.lock")
        self.folder = folder
        self._outcomes: dict[tuple[str, str | None], Outcome] = {}
        self._read = 0
        self._process: subprocess.Popen[bytes] | None = None

    def plan(self) -> dict[str, list[str]]:
        """Return the names of each sampler's cases, all that were asked for.

        Raises
        ------
        UsageError
            What was asked for is not there, or out of range.
        """
        self._start()
        plan = self._wait(lambda: self._get("plan.json"))
        _raise_usage(plan)
        return {sampler: list(names) for sampler, names in plan["samplers"].items()}

    def select(self, names: Mapping[str, Sequence[str]]) -> None:
        """Run the cases of these names of each sampler; the first call decides."""
        with _held(self.folder / "start.lock"):
            if not (self.folder / "selection.json").exists():
                put(self.folder / "selection.json", {sampler: list(some) for sampler, some in names.items()})

    def outcome(self, sampler: str, case: str | None) -> Outcome:
        """Wait for what comes of a selected case, or of the tests over all cases of a sampler."""

        def known() -> Outcome | None:
            self._catch_up()
            if (sampler, case) not in self._outcomes:
                _raise_usage(self._get("end.json") or {})
            return self._outcomes.get((sampler, case))

        return self._wait(known)

    def end(self) -> dict[str, Any]:
        """Wait for the end of the run; return ``verdict``, and ``lines`` that say more."""
        self._start()
        end: dict[str, Any] = self._wait(lambda: self._get("end.json"))
        _raise_usage(end)
        return end

    @property
    def progress(self) -> tuple[int, int]:
        """Outcomes of cases known so far, and selected cases; (0, 0) before anything was selected."""
        self._catch_up()
        selected = self._get("selection.json") or {}
        return sum(case is not None for _, case in self._outcomes), sum(max(len(some), 1) for some in selected.values())

    def close(self) -> None:
        """End the run, and remove the folder; nothing happens where the folder belongs to another process."""
        if self._owner is None:
            return
        os.close(self._owner)
        self._owner = None
        until = time.monotonic() + _END_WITHIN
        while self._runs() and time.monotonic() < until:
            time.sleep(_LOOK_EVERY)
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1.0)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _start(self) -> None:
        """Start the process, unless another of our processes has."""
        with _held(self.folder / "start.lock"):
            if not (self.folder / "asked.json").exists():
                self._spawn()

    def _spawn(self) -> None:
        """Start the process, which holds a lock as long as it lives."""
        put(self.folder / "asked.json", asdict(self._asked))
        lock = _lock(self.folder / "run.lock")
        try:
            with (self.folder / "log").open("wb") as log:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-c", _BOOT, str(_ROOT), str(self.folder), str(lock)],
                    cwd=self._asked.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[lock],
                    start_new_session=True,
                )
        finally:
            os.close(lock)

    def _runs(self) -> bool:
        return held(self.folder / "run.lock")

    def _get(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_bytes())
        except FileNotFoundError:
            return None

    def _wait(self, found: Callable[[], T | None]) -> T:
        """Return what ``found`` finds, as soon as it does."""
        while True:
            alive = self._runs()
            answer = found()
            if answer is not None:
                return answer
            if not alive:
                raise RunEnded(f"the process of the gate has ended: {self._last_words()}")
            time.sleep(_LOOK_EVERY)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = (self.folder / "log").read_text(errors="replace").split("\n")
            return next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return "its folder is gone"

    def _catch_up(self) -> None:
        """Read the outcomes that have come since the last look."""
        with contextlib.suppress(FileNotFoundError), (self.folder / "outcomes").open("rb") as stream:
            stream.seek(self._read)
            for line in stream:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                outcome = Outcome(**json.loads(line))
                self._outcomes[outcome.sampler, outcome.case] = outcome


def put(path: Path, value: Any) -> None:
    """Write a value as JSON; the file appears whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(value), encoding="utf-8")
    os.replace(part, path)


def held(path: Path) -> bool:
    """Return True while some process holds the lock at ``path``."""
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(file)
    return False


def search_path() -> list[str]:
    """Return sys.path, so that the run finds what this process would."""
    return [os.path.abspath(entry) for entry in sys.path]


def _lock(path: Path) -> int:
    """Return the descriptor of a lock, held until it is closed."""
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(file, fcntl.LOCK_EX)
    return file


@contextlib.contextmanager
def _held(path: Path) -> Iterator[None]:
    file = _lock(path)
    try:
        yield
    finally:
        os.close(file)


def _raise_usage(answer: Mapping[str, Any]) -> None:
    if answer.get("usage"):
        raise UsageError(answer["usage"])
