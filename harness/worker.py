"""The worker process: imports one sampler, runs shards of calls with it, and replies with counts.

Whatever a sampler does happens here: an exception becomes a reply, and a crash, a hang or a runaway allocation ends
this process alone. Nothing of the protocol goes through stdout or stderr, which belong to the sampler.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import pickle
import resource
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection

import numpy as np

from .counts import SequenceCounts, count_sequences
from .errors import ChitreeError, UsageError
from .protocol import Beat, CaseCounts, Failed, Ready, Reply, ShardDone, ShardJob, encode
from .samplers.base import Claims, Verifier
from .samplers.registry import Plugin, is_plugin, sampler
from .validate import Expected, emitted

__all__ = ["main"]

MERGE_EVERY = 16
_PR_SET_PDEATHSIG = 1


def main(fd: int, name: str, memory: int) -> None:
    """Serve the connection at ``fd`` with the sampler ``name`` until it closes, in at most ``memory`` bytes of data."""
    _guard(memory)
    connection = Connection(fd)

    def reply(message: Reply) -> None:
        connection.send_bytes(encode(message))

    try:
        make, claims = _load(name)
    except BaseException as error:
        reply(Failed(_line("import", error), usage=isinstance(error, UsageError), fatal=True))
        return
    reply(Ready(asdict(claims)))
    while True:
        try:
            job: ShardJob = pickle.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            reply(ShardDone([CaseCounts.of(counts) for counts in _run(job, make, reply)]))
        except _Broken as broken:
            reply(Failed(str(broken), fatal=broken.fatal))


class _Broken(Exception):
    """The sampler broke in a way that this process survived."""

    def __init__(self, message: str, fatal: bool = False) -> None:
        super().__init__(message)
        self.fatal = fatal


def _guard(memory: int) -> None:
    """Die with the parent, and fail an allocation beyond ``memory`` rather than take the machine down."""
    with contextlib.suppress(OSError, AttributeError):  # Linux only
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _load(name: str) -> tuple[Callable[[str], Verifier], Claims]:
    if is_plugin(name):
        sys.path.append(os.getcwd())  # last: our own packages are found first
        plugin = Plugin(name)
        return lambda rule: plugin.make(), plugin.claims()
    known = sampler(name)
    return known.make, known.claims


def _line(stage: str, error: BaseException) -> str:
    """Return one line: at which stage what was raised, and where in the sampler's own code."""
    text = " ".join(str(error).split())
    if isinstance(error, ChitreeError):
        return text if stage == "import" else f"{stage}: {text}"
    trace, place = error.__traceback__, ""
    while trace is not None:
        place = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})"
        trace = trace.tb_next
    return f"{stage} raised {type(error).__name__}{': ' if text else ''}{text[:500]}{place}"


def _run(job: ShardJob, make: Callable[[str], Verifier], reply: Callable[[Reply], None]) -> list[SequenceCounts]:
    """Run a shard and return the counts of each case of its group."""
    group = job.plan.group
    try:
        verifier = make(group.rule)
    except BaseException as error:
        raise _Broken(_line("constructor", error), fatal=True) from error
    counted: list[SequenceCounts] = []
    for number, (request, which) in enumerate(job.plan.requests(job.shard), job.shard.start):
        expected = Expected.of(request)
        started = time.perf_counter()
        try:
            result = verifier.verify(request)
            seconds = time.perf_counter() - started
            tokens = emitted(result, expected)
        except BaseException as error:
            raise _Broken(_line(f"call {number} of group {group.name}: verify", error)) from error
        counted.append(count_sequences(np.column_stack([which, tokens])))
        if len(counted) > MERGE_EVERY:
            counted = [SequenceCounts.merge(counted)]
        reply(Beat(seconds))
    with contextlib.suppress(Exception):
        getattr(verifier, "close", lambda: None)()
    return _by_case(SequenceCounts.merge(counted), len(group))


def _by_case(counts: SequenceCounts, cases: int) -> list[SequenceCounts]:
    """Split counts whose first column is the case."""
    bounds = np.searchsorted(counts.tokens[:, 0], np.arange(cases + 1))
    return [SequenceCounts(counts.tokens[a:b, 1:], counts.counts[a:b]) for a, b in itertools.pairwise(bounds)]
