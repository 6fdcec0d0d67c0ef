"""Worker processes seen from outside: time limits, crashes, and what is left to say about them."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import statistics
import subprocess
import sys
import threading
from collections import deque
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import IO

import msgspec

from .protocol import Beat, Failed, Ready, Reply, ShardDone, ShardJob, decode

__all__ = ["Limits", "SamplerBroke", "Worker"]

_ROOT = Path(__file__).resolve().parent.parent
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from harness.worker import main; main(*map(eval, sys.argv[2:]))"
_LAST_WORDS = 2000


@dataclass(frozen=True)
class Limits:
    """Bounds on a worker.

    ``first_call`` seconds from the start of a shard to the return of its first call, import included; ``call`` seconds
    for a later one, or ``factor`` times the median so far, whichever is more; ``memory`` bytes of data; so many
    ``crashes`` end a sampler.
    """

    first_call: float = 60.0
    call: float = 10.0
    factor: float = 20.0
    memory: int = 8 << 30
    crashes: int = 3

    @classmethod
    def from_environment(cls) -> Limits:
        """Return the defaults, the two time limits shortened by CHITREE_FIRST_CALL_LIMIT and CHITREE_CALL_LIMIT."""
        first = float(os.environ.get("CHITREE_FIRST_CALL_LIMIT", cls.first_call))
        return cls(first_call=first, call=float(os.environ.get("CHITREE_CALL_LIMIT", cls.call)))


class SamplerBroke(Exception):
    """A sampler could not do its work.

    ``how`` is "hang", "crash", "raised", "fatal" (it cannot be imported or made) or "usage" (it is no sampler, or
    claims what is not there).
    """

    def __init__(self, how: str, message: str) -> None:
        super().__init__(message)
        self.how = how


@dataclass
class Worker:
    """One worker process for one sampler; started at the first job and again after a death.

    ``threads`` is what the sampler may use of the machine.
    """

    sampler: str
    limits: Limits
    threads: int
    seconds: list[float] = field(default_factory=list)
    """What the calls so far took in verify."""
    claims: dict[str, object] = field(default_factory=dict)
    """The fields of the sampler's claims, once it has been imported."""
    _process: subprocess.Popen[bytes] | None = None
    _words: deque[bytes] = field(default_factory=deque)

    def start(self) -> None:
        """Start the process and wait until the sampler is imported; raises SamplerBroke."""
        if self._process is not None:
            return
        self._connection, theirs = Pipe()
        threads = str(self.threads)
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads)
        arguments = [str(_ROOT), str(theirs.fileno()), repr(self.sampler), str(self.limits.memory)]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _BOOT, *arguments],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**environment, "CHITREE_THREADS": threads, **os.environ},
        )
        theirs.close()
        self._words = deque(maxlen=8)
        assert self._process.stdout is not None
        self._drain = threading.Thread(target=_drain, args=(self._process.stdout, self._words), daemon=True)
        self._drain.start()
        ready = self._receive(self.limits.first_call, "import")
        if isinstance(ready, Ready):
            self.claims = ready.claims
        elif isinstance(ready, Failed):
            self.close()
            raise SamplerBroke("usage" if ready.usage else "fatal", ready.message)

    def run(self, job: ShardJob) -> ShardDone:
        """Run one shard; raises SamplerBroke, after which the next job starts a fresh process if this one died."""
        self.start()
        try:
            self._connection.send_bytes(pickle.dumps(job, pickle.HIGHEST_PROTOCOL))
        except OSError:
            self._died("before the call")
        number, limit, own = job.shard.start, self.limits.first_call, []
        while True:
            reply = self._receive(limit, f"call {number} of group {job.plan.group.name}")
            if isinstance(reply, Beat):
                own.append(reply.seconds)
                self.seconds.append(reply.seconds)
                number += 1
                limit = max(self.limits.call, self.limits.factor * statistics.median(own))
            elif isinstance(reply, ShardDone):
                return reply
            elif isinstance(reply, Failed):
                raise SamplerBroke("fatal" if reply.fatal else "raised", reply.message)

    def close(self) -> None:
        """End the process and everything that it started."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()
        self._drain.join(timeout=1.0)
        self._process = None

    def _receive(self, limit: float, during: str) -> Reply:
        try:
            if not self._connection.poll(limit):
                self.close()
                raise SamplerBroke("hang", f"{during} did not return within {limit:.0f} s")
            return decode(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._died(during)
        except msgspec.DecodeError:
            self.close()
            raise SamplerBroke("crash", f"{during}: the worker's reply is garbled") from None
        raise AssertionError

    def _died(self, during: str) -> None:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5.0)
        except subprocess.TimeoutExpired:
            code = None  # the connection was closed, the process lives on
        self.close()
        if code is None:
            how = "closed its connection"
        elif code < 0:
            how = f"was killed by {signal.Signals(-code).name}"
        else:
            how = f"exited with code {code} without a reply"
        words = " ".join(b"".join(self._words)[-_LAST_WORDS:].decode(errors="replace").split())
        raise SamplerBroke(
            "crash", f"{during}: the worker {how}" + (f"; it last said: {words[-300:]}" if words else "")
        )


def _drain(stream: IO[bytes], words: deque[bytes]) -> None:
    """Read what a sampler prints and keep the end of it; a sampler that prints without end is not slowed by us."""
    with stream:
        while data := os.read(stream.fileno(), 1 << 16):
            words.append(data[-_LAST_WORDS:])
