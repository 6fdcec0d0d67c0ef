"""Worker processes seen from outside: time limits, crashes, and what is left to say about them."""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
import pickle
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from .counts import SequenceCounts
from .errors import UsageError, told
from .matches import PairCounts
from .measured import Measured
from .poison import ENVIRONMENT
from .probegroup import ProbePlan
from .protocol import Beat, Channel, Failed, Garbled, ProbeDone, Ready, Reply, ShardDone, ShardJob, decode

__all__ = ["Limits", "SamplerBroke", "Worker"]

_ROOT = Path(__file__).resolve().parent.parent
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from harness.worker import main; main(*map(eval, sys.argv[2:]))"
_LAST_WORDS = 2000
_DRAINED_WITHIN = 0.05
"""Seconds after which what a sampler printed before its reply has come."""
_PIPE_BYTES = 1 << 20
_THREADS = "CHITREE_THREADS"
_GUARD = ["/bin/sh", "-c", "read line; kill -9 0"]
"""Run in the worker's process group: its input ends when the gate dies, however, and then the group ends too."""


@dataclass(frozen=True)
class Limits:
    """Bounds on a worker.

    ``first_call`` seconds from the start of a shard to the return of its first call, import included; ``call`` seconds
    for a later one, or ``factor`` times the median so far, whichever is more; ``memory`` bytes of data; ``output``
    bytes printed in a call; so many ``crashes`` end a sampler.
    """

    first_call: float = 60.0
    call: float = 10.0
    factor: float = 20.0
    memory: int = 8 << 30
    output: int = 64 << 20
    crashes: int = 3

    @classmethod
    def from_environment(cls) -> Limits:
        """Return the defaults, the two time limits shortened by CHITREE_FIRST_CALL_LIMIT and CHITREE_CALL_LIMIT.

        A UsageError where these are no times, or CHITREE_THREADS, which samplers are handed on, is no number of them.
        """
        threads = os.environ.get(_THREADS, "1")
        if not (threads.isascii() and threads.isdigit() and int(threads) > 0):
            raise UsageError(f"{_THREADS} must be a number of threads, 1 at least, got {threads!r}")
        return cls(
            first_call=_seconds("CHITREE_FIRST_CALL_LIMIT", cls.first_call),
            call=_seconds("CHITREE_CALL_LIMIT", cls.call),
        )


def _seconds(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise UsageError(f"{variable} must be a number of seconds above 0, got {text!r}")
    return seconds


class SamplerBroke(Exception):
    """A sampler could not do its work.

    ``how`` is "hang", "crash", "raised", "fatal" (it cannot be imported or made) or "usage" (it is no sampler, or
    claims what is not there); ``trace`` its traceback and the end of what it printed.
    """

    def __init__(self, how: str, message: str, trace: str = "") -> None:
        super().__init__(message)
        self.how = how
        self.trace = trace

    def as_usage(self, sampler: str) -> UsageError:
        """Return the error to raise where it was no sampler that was named."""
        return UsageError(str(self) if sampler in str(self) else f"sampler {sampler!r}: {self}")


@dataclass
class _Printed:
    """The end of what a sampler printed, and how many bytes came in this call; more than ``most`` is a flood."""

    most: int
    last: deque[bytes] = field(default_factory=lambda: deque(maxlen=8))
    amount: int = 0

    @property
    def flood(self) -> bool:
        return self.amount > self.most

    @property
    def text(self) -> str:
        return b"".join(self.last.copy()).decode(errors="replace").strip()


@dataclass
class Worker:
    """One worker process for one sampler; started at the first job and again after a death.

    ``threads`` is what the sampler may use of the machine.
    """

    sampler: str
    limits: Limits
    threads: int
    poison: bool = False
    """Whether its fresh memory holds garbage."""
    seconds: list[float] = field(default_factory=list)
    """What the calls so far took in verify."""
    claims: dict[str, object] = field(default_factory=dict)
    """The fields of the sampler's claims, once it has been imported."""
    notes: list[str] = field(default_factory=list)
    """What looks like a slip in it."""
    _process: subprocess.Popen[bytes] | None = None
    _guard: subprocess.Popen[bytes] | None = None
    _ended: bool = False

    def start(self) -> None:
        """Start the process and wait until the sampler is imported; raises SamplerBroke."""
        if self._process is not None:
            return
        if self._ended:
            raise SamplerBroke("fatal", "the run has ended")
        try:
            ours, theirs = socket.socketpair()
        except OSError as error:
            raise _unstarted(error) from None
        threads = str(self.threads)
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        arguments = [str(_ROOT), str(theirs.fileno()), repr(self.sampler), str(self.limits.memory)]
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, *arguments],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                process_group=0,
                env={**environment, _THREADS: threads, **os.environ, **(ENVIRONMENT if self.poison else {})},
            )
        except OSError as error:
            ours.close()
            raise _unstarted(error) from None
        finally:
            theirs.close()
        self._process = process
        self._channel = Channel(ours, lambda: process.poll() is None)
        with contextlib.suppress(OSError):  # it has died already
            self._guard = subprocess.Popen(
                _GUARD,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                process_group=process.pid,
            )
        self._printed = _Printed(self.limits.output)
        self._drain = threading.Thread(target=_drain, args=(process, self._printed), daemon=True)
        self._drain.start()
        if self._ended:  # meanwhile, by another thread
            self.close()
            raise SamplerBroke("fatal", "the run has ended")
        ready = self._receive(self.limits.first_call, "import")
        if isinstance(ready, Failed):
            self.close()
            raise SamplerBroke("usage" if ready.usage else "fatal", ready.message, self._left(ready.trace))
        if not isinstance(ready, Ready):
            raise self._garbled("import")
        self.claims, self.notes = ready.claims, ready.notes

    def run(self, job: ShardJob) -> tuple[list[SequenceCounts], PairCounts]:
        """Run one shard and return the counts of each case of its group, and those of pairs of rows.

        Raises SamplerBroke, after which the next job starts a fresh process if this one died.
        """
        reply, limit, during = self._served(job)
        group, shard = job.plan.group, job.shard
        if not isinstance(reply, ShardDone):
            raise self._garbled(during)
        with self._watched(limit, during):
            counts = [part.unpack() for part in reply.cases]
            pairs = reply.pairs.unpack(len(group)) if reply.pairs is not None else None
        expected = [job.plan.rows_per_case * (shard.stop - shard.start)] * len(group)
        known = all(part.tokens.max(initial=-1) < group.vocab for part in counts)
        if [part.n for part in counts] != expected or not known or pairs is None:
            raise self._garbled(during)
        return counts, pairs

    def probe(self, job: ShardJob) -> list[Measured]:
        """Run the only shard of a plan that is probed and return the measured law of each case; raises as run does."""
        reply, limit, during = self._served(job)
        group = job.plan.group
        if not isinstance(reply, ProbeDone) or len(reply.cases) != len(group):
            raise self._garbled(during)
        with self._watched(limit, during):
            return [part.unpack(group.nodes, group.vocab) for part in reply.cases]
        raise AssertionError

    def _served(self, job: ShardJob) -> tuple[Reply, float, str]:
        """Have one shard served and return the last reply, with the limit of the call before it and its name."""
        self.start()
        group, shard = job.plan.group, job.shard
        during = f"call {shard.start} of group {group.name}"
        with self._watched(self.limits.first_call, during):
            self._channel.send(pickle.dumps(job, pickle.HIGHEST_PROTOCOL), self.limits.first_call)
        limit, own = self.limits.first_call, []
        while True:
            reply = self._receive(limit, during)
            if isinstance(reply, Beat):
                own.append(reply.seconds)
                self.seconds.append(reply.seconds)
                self._printed.amount = 0
                last = len(own) if isinstance(job.plan, ProbePlan) else shard.stop - 1
                during = f"call {min(shard.start + len(own), last)} of group {group.name}"
                limit = max(self.limits.call, self.limits.factor * statistics.median(own))
            elif isinstance(reply, Failed):
                time.sleep(_DRAINED_WITHIN)
                raise SamplerBroke("fatal" if reply.fatal else "raised", reply.message, self._left(reply.trace))
            else:
                return reply, limit, during

    def close(self) -> None:
        """End the process and everything that it started."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()  # it may have left its group
        process.wait()
        if self._guard is not None:
            assert self._guard.stdin is not None
            self._guard.stdin.close()
            self._guard.wait()
            self._guard = None
        self._channel.close()
        self._drain.join(timeout=1.0)

    def end(self) -> None:
        """Close, and start no process any more."""
        self._ended = True
        self.close()

    def _receive(self, limit: float, during: str) -> Reply:
        with self._watched(limit, during):
            return decode(self._channel.receive(limit))
        raise AssertionError

    @contextlib.contextmanager
    def _watched(self, limit: float, during: str) -> Iterator[None]:
        """Turn what can go wrong between the two processes into SamplerBroke."""
        try:
            yield
        except TimeoutError:
            self.close()
            raise SamplerBroke("hang", f"{during} did not return within {limit:g} s", self._left()) from None
        except (EOFError, OSError):
            raise self._died(during) from None
        except Garbled:
            raise self._garbled(during) from None

    def _garbled(self, during: str) -> SamplerBroke:
        self.close()
        return SamplerBroke("crash", f"{during}: the worker's reply is garbled; did the sampler write to its socket?")

    def _died(self, during: str) -> SamplerBroke:
        if self._process is None:
            return SamplerBroke("fatal", "the run has ended")
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            code = None  # the socket was closed, the process lives on
        self.close()
        if self._printed.flood:
            return SamplerBroke("crash", f"{during}: it printed more than {self.limits.output >> 20} MiB", self._left())
        if code is None:
            how = "closed its connection"
        elif code < 0:
            how = f"was killed by {_signal(-code)}"
        else:
            how = f"exited with code {code} without a reply"
        words = told(lambda: self._printed.text[-_LAST_WORDS:], "", _LAST_WORDS)
        said = f"; it last said: {words[-300:]}" if words else ""
        return SamplerBroke("crash", f"{during}: the worker {how}{said}", self._left())

    def _left(self, trace: str = "") -> str:
        """Return a traceback with the end of what the sampler printed."""
        printed = self._printed.text
        return "\n".join(filter(None, [trace, f"-- it last printed:\n{printed}" if printed else ""]))


def _unstarted(error: OSError) -> SamplerBroke:
    return SamplerBroke("fatal", f"no process can be started for it here: {error.strerror}")


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _drain(process: subprocess.Popen[bytes], printed: _Printed) -> None:
    """Read what a sampler prints and keep the end of it; a flood ends its process."""
    stream = process.stdout
    assert stream is not None
    with contextlib.suppress(OSError, AttributeError):  # a longer pipe, where there is such a thing
        fcntl.fcntl(stream.fileno(), fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    with stream:
        while data := os.read(stream.fileno(), _PIPE_BYTES):
            printed.last.append(data[-_LAST_WORDS:])
            printed.amount += len(data)
            if printed.flood:
                process.kill()
