"""The worker process: imports one sampler, runs shards of calls with it, and replies with counts.

Whatever a sampler does happens here: an exception becomes a reply, and a crash, a hang or a runaway allocation ends
this process alone. Nothing of the protocol goes through stdout or stderr, which belong to the sampler.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import pickle
import resource
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from .broken import place, trace
from .counts import SequenceCounts, distinct_rows
from .decode.sequences import SequencePlan
from .drafted import put_drafts
from .errors import ChitreeError, UsageError, told
from .pairs import PairRecorder
from .poison import poison_numpy, poisoned
from .probegroup import ProbePlan, probed
from .protocol import (
    Beat,
    CaseCounts,
    Channel,
    Failed,
    PackedPairs,
    PackedProbe,
    ProbeDone,
    Ready,
    Reply,
    ShardDone,
    ShardJob,
    encode,
)
from .request import Request
from .samplers.base import Claims, Verifier
from .samplers.registry import Plugin, is_plugin, sampler
from .served import ManySteps, SingleSteps
from .session import GIVEN, IN_WORKER, SEARCH_PATH
from .streams import stream
from .validate import Expected, emitted

__all__ = ["main"]

MERGE_EVERY = 16
_FAR_FD = 500
"""The channel's file descriptor: a sampler that closes and opens low ones does not get it by chance."""


def main(fd: int, name: str, memory: int) -> None:
    """Serve the socket at ``fd`` with the sampler ``name`` until it closes, in at most ``memory`` bytes of data."""
    _guard(memory)
    os.environ[IN_WORKER] = "1"
    if poisoned():
        poison_numpy()
    channel = Channel(socket.socket(fileno=_out_of_the_way(fd)))
    process = os.getpid()

    def reply(message: Reply) -> None:
        if os.getpid() != process:  # the sampler has forked, and this is the child
            os._exit(1)
        channel.send(encode(message))

    try:
        make, claims, notes = _load(name)
    except _Broken as broken:
        usage = issubclass(type(broken.__cause__), UsageError)
        reply(Failed(str(broken), usage=usage, fatal=True, trace=_trace(broken)))
        return
    reply(Ready(asdict(claims), notes))
    while True:
        try:
            job: ShardJob = pickle.loads(channel.receive())
        except EOFError:
            return
        try:
            reply(_run(job, make, claims, reply))
        except _Broken as broken:
            reply(Failed(str(broken), fatal=broken.fatal, trace=_trace(broken)))


class _Broken(Exception):
    """The sampler broke in a way that this process survived."""

    def __init__(self, message: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


def _guard(memory: int) -> None:
    """Fail an allocation beyond ``memory`` rather than take the machine down, and write no core files."""
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if hard == resource.RLIM_INFINITY else min(memory, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _out_of_the_way(fd: int) -> int:
    """Move ``fd`` to a high number that programs started by the sampler do not inherit."""
    try:
        moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FAR_FD)
    except OSError:  # few descriptors are allowed
        os.set_inheritable(fd, False)
        return fd
    os.close(fd)
    return moved


def _load(name: str) -> tuple[Callable[[str], Verifier], Claims, list[str]]:
    if not is_plugin(name):
        known = sampler(name)
        return known.make, known.claims, []
    more = [os.getcwd(), *filter(None, os.environ.get(SEARCH_PATH, "").split(os.pathsep))]
    sys.path += [entry for entry in more if entry not in sys.path]  # last: our own packages are found first
    with _stage("import"):
        plugin = Plugin(name, os.environ.get(GIVEN))
    with _stage("constructor"):
        claims = plugin.claims()
        return lambda rule: plugin.make(), claims, plugin.notes


@contextlib.contextmanager
def _stage(stage: str, *, fatal: bool = True) -> Iterator[None]:
    """Turn whatever the sampler raises, exits and interrupts included, into _Broken."""
    try:
        yield
    except BaseException as error:
        raise _Broken(_line(stage, error), fatal) from error


def _trace(broken: _Broken) -> str:
    """Return the traceback of what the sampler raised, once what it has printed is on its way."""
    for printed in (sys.stdout, sys.stderr):
        with contextlib.suppress(BaseException):
            printed.flush()
    return "" if broken.__cause__ is None else trace(broken.__cause__)


def _line(stage: str, error: BaseException) -> str:
    """Return one line: at which stage what was raised, and where in the sampler's own code."""
    text = told(lambda: str(error), "an error without text")
    if issubclass(type(error), ChitreeError):
        return text if stage in ("import", "constructor") else f"{stage}: {text}"
    kind, where = told(lambda: type(error).__name__, "an error", 100), told(lambda: place(error), "", 200)
    return f"{stage} raised {kind}{': ' if text else ''}{text}{' ' if where else ''}{where}"


def _run(
    job: ShardJob, make: Callable[[str], Verifier], claims: Claims, reply: Callable[[Reply], None]
) -> ShardDone | ProbeDone:
    """Run a shard and return the counts of each case of its group, and of pairs of rows; or the measured laws."""
    plan, shard, group = job.plan, job.shard, job.plan.group
    with _stage("constructor"):
        verifier = make(group.rule)
    counted: list[SequenceCounts] = []

    def put(call: str, request: Request) -> None:
        with _stage(f"{call} of group {group.name}: draft", fatal=False):
            put_drafts(verifier, request)

    def verify(call: str, request: Request) -> NDArray[np.int64]:
        started = time.perf_counter()
        expected = Expected.of(request)
        with _stage(f"{call} of group {group.name}: verify", fatal=False):
            result = verifier.verify(request)
            seconds = time.perf_counter() - started
            tokens = emitted(result, expected)
        reply(Beat(seconds))
        return tokens[:, : max(1, int((tokens >= 0).sum(axis=1).max()))]

    def close() -> None:
        with contextlib.suppress(BaseException):
            getattr(verifier, "close", lambda: None)()

    if isinstance(plan, ProbePlan):
        measured = probed(plan, claims, verify)
        close()
        return ProbeDone([PackedProbe.of(part) for part in measured])
    calls: SingleSteps | ManySteps
    if isinstance(plan, SequencePlan):
        calls = ManySteps(plan, claims, verify, put if claims.own_drafts else None)
    else:
        calls = SingleSteps(plan, claims, verify, put if claims.own_drafts else None)
    recorder = PairRecorder(calls.places)
    for number in range(shard.start, shard.stop):
        found = calls.rows(number)
        distinct, inverse = distinct_rows(found)
        uniforms = stream("pairs", plan.seed, plan.suite, group.name, number).random(len(found))
        recorder.call(number, found, distinct, inverse, uniforms)
        counted.append(SequenceCounts(distinct, np.bincount(inverse)))
        if len(counted) > MERGE_EVERY:
            counted = [SequenceCounts.merge(counted)]
    if shard.start == 0 and not claims.own_drafts:
        recorder.repeats(*calls.repeats())
    close()
    counts = _by_case(SequenceCounts.merge(counted), len(group))
    return ShardDone([CaseCounts.of(part) for part in counts], PackedPairs.of(recorder.counts))


def _by_case(counts: SequenceCounts, cases: int) -> list[SequenceCounts]:
    """Split counts whose first column is the case."""
    bounds = np.searchsorted(counts.tokens[:, 0], np.arange(cases + 1))
    return [SequenceCounts(counts.tokens[a:b, 1:], counts.counts[a:b]) for a, b in itertools.pairwise(bounds)]
