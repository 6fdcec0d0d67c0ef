"""Plugins that break, each in its own way; where they do not, they verify right."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from harness import Request, Result


class Walks:
    """The reference walk: right."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        from harness.rules import RULES

        return RULES["target-only"].walk(request)


class Counting(Walks):
    """Does something at one call."""

    at = 0

    def __init__(self) -> None:
        self.calls = itertools.count()

    def verify(self, request: Request) -> Any:
        if next(self.calls) == self.at:
            self.happen(request)
        return super().verify(request)

    def happen(self, request: Request) -> None:
        """Do what breaks."""


class ConstructorRaises(Walks):
    def __init__(self) -> None:
        raise RuntimeError("no weights here")


class ConstructorExits(Walks):
    def __init__(self) -> None:
        sys.exit(0)


class VerifyRaises(Counting):
    def happen(self, request: Request) -> None:
        raise ValueError("first line\nsecond [/red] line")


class VerifyExits(Counting):
    def happen(self, request: Request) -> None:
        sys.exit(0)


class Interrupts(Counting):
    def happen(self, request: Request) -> None:
        raise KeyboardInterrupt


class Wordless(Counting):
    """Raises an error whose text cannot be had."""

    def happen(self, request: Request) -> None:
        class Error(Exception):
            def __str__(self) -> str:
                raise RuntimeError("no text")

        raise Error


class Unprintable(Counting):
    """Raises an error whose text is no Unicode, with a colour in it."""

    def happen(self, request: Request) -> None:
        raise ValueError("lone \udcff surrogate \x1b[31m red \x00 zero")


class LeavesQuietly(Counting):
    def happen(self, request: Request) -> None:
        os._exit(0)


class KilledByRealTimeSignal(Counting):
    def happen(self, request: Request) -> None:
        os.kill(os.getpid(), signal.SIGRTMIN + 3)
        time.sleep(60)


class FloatTokens(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        return Result(tokens=result.tokens.astype(np.float32), lengths=result.lengths)


class NotANumber(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        return Result(tokens=np.full(result.tokens.shape, np.nan), lengths=result.lengths)


class WrongShape(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        return Result(tokens=result.tokens[:-1], lengths=result.lengths)


class LengthZero(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        result.lengths[3] = 0
        return result


class LengthBeyond(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        result.lengths[3] = request.depth_limit + 1
        return result


class DisagreeingNodes(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        row = int(np.argmax(result.lengths))
        if result.lengths[row] > 1:  # else it is the last token, which no node has
            result.tokens[row, 0] = (result.tokens[row, 0] + 1) % request.vocab
        return result


class NoPath(Walks):
    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        row = int(np.argmax(result.lengths))
        result.nodes[row, 1] = 0
        return result


class Nothing(Walks):
    def verify(self, request: Request) -> Any:
        return None


class TakesTenGigabytes(Counting):
    def happen(self, request: Request) -> None:
        np.ones(10 << 30, np.uint8)


class HangsInCall50(Counting):
    at = 50

    def happen(self, request: Request) -> None:
        time.sleep(3600)


class AbortsAtOddVocab(Walks):
    def verify(self, request: Request) -> Any:
        if request.vocab == 5:
            print("about to abort", flush=True)
            os.abort()
        return super().verify(request)


class AbortsOften(Walks):
    """Aborts everywhere but at V = 4; later at V = 5, so that other workers' crashes come first."""

    def verify(self, request: Request) -> Any:
        if request.vocab == 5:
            time.sleep(0.6)
        if request.vocab != 4:
            os.abort()
        return super().verify(request)


class Slow(Walks):
    """Takes half a second a call."""

    def verify(self, request: Request) -> Any:
        time.sleep(0.5)
        return super().verify(request)


class Floods(Counting):
    """Prints a gigabyte, part of it to stderr."""

    def happen(self, request: Request) -> None:
        block = b"torrent " * (1 << 18)
        for i in range(1 << 10 >> 1):
            os.write(1 + i % 2, block)
        print("torrent", "x" * (1 << 22), file=sys.stderr)


class FloodsForEver(Counting):
    at = 1

    def happen(self, request: Request) -> None:
        while True:
            os.write(1, b"torrent " * (1 << 18))


class ClosesDescriptors(Counting):
    """Closes every descriptor and opens files in their place, which must stay empty."""

    def happen(self, request: Request) -> None:
        os.closerange(3, 4096)
        for i in range(40):
            os.open(f"{os.environ['CHITREE_TEST_FOLDER']}/opened-{i}", os.O_WRONLY | os.O_CREAT)


def _sockets() -> list[int]:
    numbers = []
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{entry}").startswith("socket:"):
                numbers.append(int(entry))
    return numbers


class WritesGarbage(Counting):
    def happen(self, request: Request) -> None:
        for number in _sockets():
            os.write(number, b"garbage of the sampler" * 100)


class WritesHalfAMessage(Counting):
    """Announces a message and never ends it."""

    def happen(self, request: Request) -> None:
        for number in _sockets():
            os.write(number, b"\xfach1" + struct.pack("<I", 1 << 29) + b"x")
        time.sleep(3600)


class ForgesCounts(Counting):
    """Sends counts of its own, well-formed and of the wrong number."""

    def happen(self, request: Request) -> None:
        from harness.counts import SequenceCounts
        from harness.protocol import CaseCounts, ShardDone, encode

        data = encode(ShardDone([CaseCounts.of(SequenceCounts(np.zeros((1, 1), np.int64), np.ones(1, np.int64)))] * 4))
        for number in _sockets():
            os.write(number, b"\xfach1" + struct.pack("<I", len(data)) + data)


def _note(*pids: int) -> None:
    part = Path(os.environ["CHITREE_TEST_FOLDER"], f"pids.{os.getpid()}.part")
    part.write_text(" ".join(map(str, pids)))
    part.rename(part.with_suffix(""))


class HasChildren(Counting):
    """Starts a program and forks, with every descriptor left open in both, and leaves them behind."""

    def __init__(self) -> None:
        super().__init__()
        program = subprocess.Popen(["sleep", "1000"], close_fds=False)
        child = os.fork()
        if not child:
            time.sleep(1000)
            os._exit(0)
        _note(os.getpid(), program.pid, child)


class HasChildrenAndAborts(HasChildren):
    def happen(self, request: Request) -> None:
        os.abort()


class HasChildrenAndHangsLater(HasChildren):
    """Verifies at V = 4 and hangs beyond."""

    def verify(self, request: Request) -> Any:
        if request.vocab != 4:
            Path(os.environ["CHITREE_TEST_FOLDER"], "hangs").touch()
            time.sleep(1000)
        return super().verify(request)


class HasThreads(Counting):
    """Leaves threads behind, one of which would keep the interpreter from ending."""

    def happen(self, request: Request) -> None:
        for daemon in (True, False):
            threading.Thread(target=time.sleep, args=(1000,), daemon=daemon).start()


class Dirty(Walks):
    """Overwrites every input after use, and returns a buffer that it uses again."""

    def __init__(self) -> None:
        self.buffer = np.zeros(0, np.int64)

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        for name in ("candidates", "parents", "retrieve_next_token", "retrieve_next_sibling", "node_count"):
            getattr(request, name).fill(-7)
        for name in ("target_probs", "target_logits", "coins", "final_coins"):
            getattr(request, name).fill(np.nan)
        if self.buffer.shape != result.tokens.shape:
            self.buffer = np.empty_like(result.tokens)
        self.buffer[:] = result.tokens
        return Result(tokens=self.buffer, lengths=result.lengths)


class Stateful(Walks):
    """Breaks where it meets another shape than at first, or more calls than a shard has, reproducibility included."""

    def __init__(self) -> None:
        self.shape: Any = None
        self.calls = 0

    def verify(self, request: Request) -> Any:
        self.calls += 1
        shape = (request.batch, request.nodes, request.vocab)
        if self.shape not in (None, shape) or self.calls > 65:
            raise RuntimeError(f"state of another shard: {self.shape}, call {self.calls}")
        self.shape = shape
        return super().verify(request)


class Holder:
    instance = Stateful()


instance = Stateful()


def factory() -> Stateful:
    """Return a fresh one."""
    return Stateful()


class NoVerify:
    rule = "target-only"


number = 3


class UnknownRule(Walks):
    rule = "no-such-rule"


class RuleNoString(Walks):
    rule = 3


class UnknownTakes(Walks):
    takes = "tokens"


class CoinsNoFlag(Walks):
    coins = "yes"


class ThresholdsNoFlag(Walks):
    thresholds = 1


class NoSize(Walks):
    max_vocab = 0


class TakesNothing(Walks):
    max_nodes = 1


class TakesFewTokens(Walks):
    max_vocab = 4
