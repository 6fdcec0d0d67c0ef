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

from .counts import SequenceCounts, distinct_rows
from .drafted import put_drafts
from .errors import ChitreeError, UsageError
from .matches import PairCounts
from .pairs import FirstTokens, PairRecorder
from .protocol import Beat, CaseCounts, Channel, Failed, PackedPairs, Ready, Reply, ShardDone, ShardJob, encode
from .request import Request
from .samplers.base import Claims, Verifier
from .samplers.registry import Plugin, is_plugin, sampler
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
    channel = Channel(socket.socket(fileno=_out_of_the_way(fd)))

    def reply(message: Reply) -> None:
        channel.send(encode(message))

    try:
        make, claims = _load(name)
    except _Broken as broken:
        reply(Failed(str(broken), usage=isinstance(broken.__cause__, UsageError), fatal=True))
        return
    reply(Ready(asdict(claims)))
    while True:
        try:
            job: ShardJob = pickle.loads(channel.receive())
        except EOFError:
            return
        try:
            counts, pairs = _run(job, make, claims, reply)
            reply(ShardDone([CaseCounts.of(part) for part in counts], PackedPairs.of(pairs)))
        except _Broken as broken:
            reply(Failed(str(broken), fatal=broken.fatal))


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


def _load(name: str) -> tuple[Callable[[str], Verifier], Claims]:
    if not is_plugin(name):
        known = sampler(name)
        return known.make, known.claims
    more = [os.getcwd(), *filter(None, os.environ.get(SEARCH_PATH, "").split(os.pathsep))]
    sys.path += [entry for entry in more if entry not in sys.path]  # last: our own packages are found first
    with _stage("import"):
        plugin = Plugin(name, os.environ.get(GIVEN))
    with _stage("constructor"):
        return lambda rule: plugin.make(), plugin.claims()


@contextlib.contextmanager
def _stage(stage: str, *, fatal: bool = True) -> Iterator[None]:
    """Turn whatever the sampler raises, exits and interrupts included, into _Broken."""
    try:
        yield
    except BaseException as error:
        raise _Broken(_line(stage, error), fatal) from error


def _line(stage: str, error: BaseException) -> str:
    """Return one line: at which stage what was raised, and where in the sampler's own code."""
    try:
        text = " ".join(str(error).split()).encode(errors="replace").decode()
    except BaseException:
        text = "an error without text"
    if isinstance(error, ChitreeError):
        return text if stage in ("import", "constructor") else f"{stage}: {text}"
    trace, place = error.__traceback__, ""
    while trace is not None:
        file = os.path.basename(trace.tb_frame.f_code.co_filename).encode(errors="replace").decode()
        place = f" ({file}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{stage} raised {type(error).__name__}{': ' if text else ''}{text[:500]}{place}"


def _run(
    job: ShardJob, make: Callable[[str], Verifier], claims: Claims, reply: Callable[[Reply], None]
) -> tuple[list[SequenceCounts], PairCounts]:
    """Run a shard and return the counts of each case of its group, and of pairs of rows."""
    plan, shard, group = job.plan, job.shard, job.plan.group
    with _stage("constructor"):
        verifier = make(group.rule)
    recorder = PairRecorder(FirstTokens.of(group, claims))
    counted: list[SequenceCounts] = []

    def rows(call: str, request: Request, which: NDArray[np.int64]) -> NDArray[np.int64]:
        started = time.perf_counter()
        if claims.own_drafts:
            with _stage(f"{call} of group {group.name}: draft", fatal=False):
                put_drafts(verifier, request)
        expected = Expected.of(request)
        with _stage(f"{call} of group {group.name}: verify", fatal=False):
            result = verifier.verify(request)
            seconds = time.perf_counter() - started
            tokens = emitted(result, expected)
        reply(Beat(seconds))
        return np.column_stack([which, tokens[:, : max(1, int((tokens >= 0).sum(axis=1).max()))]])

    for number, (request, which) in enumerate(plan.requests(shard), shard.start):
        found = rows(f"call {number}", request, which)
        distinct, inverse = distinct_rows(found)
        uniforms = stream("pairs", plan.seed, plan.suite, group.name, number).random(len(found))
        recorder.call(number, found, distinct, inverse, uniforms)
        counted.append(SequenceCounts(distinct, np.bincount(inverse)))
        if len(counted) > MERGE_EVERY:
            counted = [SequenceCounts.merge(counted)]
    if shard.start == 0 and not claims.own_drafts:
        request, which, twins = plan.repeats()
        recorder.repeats(rows("the reproducibility call", request, which), twins)
    with contextlib.suppress(Exception):
        getattr(verifier, "close", lambda: None)()
    return _by_case(SequenceCounts.merge(counted), len(group)), recorder.counts


def _by_case(counts: SequenceCounts, cases: int) -> list[SequenceCounts]:
    """Split counts whose first column is the case."""
    bounds = np.searchsorted(counts.tokens[:, 0], np.arange(cases + 1))
    return [SequenceCounts(counts.tokens[a:b, 1:], counts.counts[a:b]) for a, b in itertools.pairwise(bounds)]
