"""Verifiers for a worker of their own: one returns what returned.py makes, the others do their process harm."""

from __future__ import annotations

import _thread
import atexit
import builtins
import contextlib
import ctypes
import itertools
import os
import random
import resource
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from harness import Request, Result
from harness.rules import RULES

sys.path.insert(0, str(Path(__file__).parents[1]))
from fuzz.returned import returned

walk = RULES["target-only"].walk


class Fuzzed:
    """Returns, or raises, what the seed of the call decides."""

    rule = "target-only"
    coins = True

    def __init__(self) -> None:
        with contextlib.suppress(ImportError):  # now, since it takes longer than a call may
            import torch  # noqa: F401

    def verify(self, request: Request) -> Any:
        with warnings.catch_warnings(action="ignore"):
            return returned(random.Random(request.seed), request, walk(request))


class _Harmful:
    """Does something at its second call, and returns what is right, or what ``happen`` makes of it."""

    rule = "target-only"
    coins = True

    def __init__(self) -> None:
        self.calls = itertools.count()

    def verify(self, request: Request) -> Any:
        result = walk(request)
        if next(self.calls) != 1:
            return result
        other = self.happen(request, result)
        return result if other is None else other

    def happen(self, request: Request, result: Result[Any]) -> Any:
        """Do what harms."""


HARM: dict[str, Callable[[Request, Result[Any]], Any]] = {}
"""By name, what happens; each is a class of that name in this module."""


def harm(function: Callable[[Request, Result[Any]], Any]) -> Callable[[Request, Result[Any]], Any]:
    """Make a verifier of a function: its name in capitals."""
    name = "".join(word.capitalize() for word in function.__name__.split("_"))
    HARM[name] = function
    globals()[name] = type(name, (_Harmful,), {"happen": staticmethod(function), "__doc__": function.__doc__})
    return function


@harm
def goes_elsewhere(request: Request, result: Result[Any]) -> None:
    os.chdir("/")
    os.umask(0o777)


@harm
def clears_the_environment(request: Request, result: Result[Any]) -> None:
    os.environ.clear()
    sys.path.clear()


@harm
def clears_modules(request: Request, result: Result[Any]) -> None:
    sys.modules.clear()


@harm
def sets_floating_errors(request: Request, result: Result[Any]) -> None:
    np.seterr(all="raise")
    warnings.simplefilter("error")


@harm
def lowers_the_recursion_limit(request: Request, result: Result[Any]) -> None:
    sys.setrecursionlimit(len_of_stack() + 8)


def len_of_stack() -> int:
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1  # type: ignore[assignment]
    return depth


@harm
def reads_address_zero(request: Request, result: Result[Any]) -> None:
    ctypes.string_at(0)


@harm
def stops_itself(request: Request, result: Result[Any]) -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


@harm
def sets_an_alarm(request: Request, result: Result[Any]) -> None:
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    time.sleep(3600)


@harm
def interrupts_later(request: Request, result: Result[Any]) -> None:
    threading.Timer(0.002, _thread.interrupt_main).start()


@harm
def raises_in_a_thread(request: Request, result: Result[Any]) -> None:
    thread = threading.Thread(target=lambda: 1 / 0)
    thread.start()
    thread.join()


@harm
def raises_when_it_goes(request: Request, result: Result[Any]) -> Any:
    class Goes(SimpleNamespace):
        def __del__(self) -> None:
            raise SystemExit("not so fast")

    return Goes(tokens=result.tokens, lengths=result.lengths)


@harm
def forks_and_both_go_on(request: Request, result: Result[Any]) -> None:
    os.fork()


@harm
def closes_its_output(request: Request, result: Result[Any]) -> None:
    sys.stdout = sys.stderr = None
    for number in (0, 1, 2):
        with contextlib.suppress(OSError):  # they are closed already
            os.close(number)


@harm
def traces_and_raises(request: Request, result: Result[Any]) -> None:
    def trace(*_: Any) -> Any:
        raise ValueError("traced")

    sys.setprofile(trace)


@harm
def replaces_functions_of_numpy(request: Request, result: Result[Any]) -> None:
    np.unique = np.bincount = np.where = lambda *_, **__: 3  # type: ignore[assignment]


@harm
def replaces_the_clock(request: Request, result: Result[Any]) -> None:
    time.perf_counter = lambda: "noon"  # type: ignore[assignment, return-value]


@harm
def replaces_builtins(request: Request, result: Result[Any]) -> None:
    builtins.len = builtins.isinstance = None  # type: ignore[assignment]


@harm
def replaces_sockets(request: Request, result: Result[Any]) -> None:
    socket.socket.settimeout = lambda *_: None  # type: ignore[assignment, method-assign]


@harm
def has_no_end(request: Request, result: Result[Any]) -> Any:
    class Endless:
        def __len__(self) -> int:
            return 3

        def __getitem__(self, key: int) -> int:
            return 1

    return Result(tokens=Endless(), lengths=result.lengths)


@harm
def hangs_when_it_is_copied(request: Request, result: Result[Any]) -> Any:
    class Array:
        def __array__(self, *_: Any, **__: Any) -> Any:
            time.sleep(3600)

    return Result(tokens=Array(), lengths=result.lengths)


@harm
def goes_on_for_ever(request: Request, result: Result[Any]) -> Any:
    wide = np.broadcast_to(np.int64(0), (request.batch, 1 << 40))
    return Result(tokens=wide, lengths=np.full(request.batch, 1 << 40))


@harm
def returns_a_wide_view(request: Request, result: Result[Any]) -> Any:
    tokens = np.zeros((request.batch, 1 << 24), np.int8)
    tokens[:, : request.depth_limit] = result.tokens
    return Result(tokens=tokens, lengths=result.lengths)


@harm
def floods_from_a_thread(request: Request, result: Result[Any]) -> None:
    def flood() -> None:
        while True:
            print("torrent " * 10000, file=sys.stderr)

    threading.Thread(target=flood, daemon=True).start()


@harm
def ends_at_the_exit(request: Request, result: Result[Any]) -> None:
    atexit.register(lambda: os._exit(5))


@harm
def empties_its_request(request: Request, result: Result[Any]) -> None:
    request.__dict__.clear()


@harm
def allows_itself_nothing(request: Request, result: Result[Any]) -> None:
    for what in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_AS):
        resource.setrlimit(what, (0, 0))


@harm
def kills_its_group(request: Request, result: Result[Any]) -> None:
    os.killpg(0, signal.SIGKILL)


@harm
def leaves_its_group_and_hangs(request: Request, result: Result[Any]) -> None:
    os.setpgid(0, os.getpgid(os.getppid()))
    time.sleep(3600)


@harm
def last_words_in_colour(request: Request, result: Result[Any]) -> None:
    os.write(2, b"\x1b[31m\x00 \xff\xfe \xe2\x80\xa8 the end\n")
    os.abort()


@harm
def changes_what_it_returned(request: Request, result: Result[Any]) -> None:
    tokens, count = result.tokens, itertools.count()

    def change() -> None:
        while next(count) < 10**6:
            tokens[:, 0] ^= 1 << 40

    threading.Thread(target=change, daemon=True).start()


@harm
def closes_and_raises(request: Request, result: Result[Any]) -> None:
    def close() -> None:
        raise SystemExit("closed")

    sys._getframe(1).f_locals["self"].close = close


@harm
def exits_in_a_thread(request: Request, result: Result[Any]) -> None:
    threading.Timer(0.002, lambda: os._exit(0)).start()
    with contextlib.suppress(Exception):
        time.sleep(1.0)
