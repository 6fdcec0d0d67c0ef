"""Messages between the gate and a worker process: jobs one way (pickled, our own), replies the other (msgpack)."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from .counts import SequenceCounts
from .decode.sequences import AnyPlan
from .groups import Shard
from .matches import BINS, KINDS, TABLES, PairCounts
from .measured import Measured
from .measured import packed as measured_tables
from .measured import unpacked as from_tables

__all__ = [
    "Beat",
    "CaseCounts",
    "Channel",
    "Failed",
    "Garbled",
    "Grid",
    "PackedPairs",
    "PackedProbe",
    "ProbeDone",
    "Ready",
    "Reply",
    "ShardDone",
    "ShardJob",
    "decode",
    "encode",
]

A = TypeVar("A")
T = TypeVar("T")

_HEADER = struct.Struct("<4sI")
_MAGIC = b"\xfach1"
_MOST_BYTES = 1 << 30
_PIECE = 1 << 20
_LOOK_EVERY = 0.25
"""Seconds between two looks at whether the other side lives, while nothing comes."""


class Garbled(Exception):
    """What came over the channel is no message of this protocol: the sampler wrote to it."""


class Channel:
    """Whole messages over a socket, each within a time limit.

    ``alive`` says whether the other process lives: where the sampler has forked, the socket stays open after its death.
    """

    def __init__(self, end: socket.socket, alive: Callable[[], bool] = lambda: True) -> None:
        self._socket = end
        self._alive = alive

    def send(self, data: bytes, limit: float = float("inf")) -> None:
        """Send one message; TimeoutError where the other side does not take it in ``limit`` seconds, else OSError."""
        deadline = time.monotonic() + limit
        view = memoryview(_HEADER.pack(_MAGIC, len(data)) + data)
        while view:
            view = view[self._attempt(self._socket.send, view[:_PIECE], deadline) :]

    def receive(self, limit: float = float("inf")) -> bytes:
        """Return the next message.

        Raises
        ------
        TimeoutError
            It has not come whole within ``limit`` seconds.
        EOFError
            The other side has closed the channel, or died.
        Garbled
            What came is no message.
        """
        deadline = time.monotonic() + limit
        magic, size = _HEADER.unpack(self._read(_HEADER.size, deadline))
        if magic != _MAGIC or size > _MOST_BYTES:
            raise Garbled("what came is no message")
        return self._read(size, deadline)

    def close(self) -> None:
        """Close this end."""
        self._socket.close()

    def _read(self, size: int, deadline: float) -> bytes:
        data = bytearray()
        while len(data) < size:
            part = self._attempt(self._socket.recv, min(size - len(data), _PIECE), deadline)
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _attempt(self, step: Callable[[A], T], argument: A, deadline: float) -> T:
        """Return ``step(argument)`` as soon as the socket lets it."""
        while True:
            alive = self._alive()  # looked at before the step: what a dead process has sent is still there to be read
            self._socket.settimeout(max(1e-6, min(_LOOK_EVERY, deadline - time.monotonic())))
            try:
                return step(argument)
            except TimeoutError:
                if not alive:
                    raise EOFError from None
                if time.monotonic() >= deadline:
                    raise


@dataclass(frozen=True)
class ShardJob:
    """Run one shard of a plan with a fresh sampler."""

    plan: AnyPlan
    shard: Shard


class Ready(msgspec.Struct, tag=True):
    """The sampler is imported; ``claims`` holds the fields of :class:`harness.samplers.base.Claims`."""

    claims: dict[str, object]
    notes: list[str] = []
    """What the user may want to know of the sampler: names that look like slips."""


class Beat(msgspec.Struct, tag=True):
    """A call has returned and was found to be a result; ``seconds`` is what verify took."""

    seconds: float


class CaseCounts(msgspec.Struct):
    """A :class:`SequenceCounts` on the wire; the arrays are raw little-endian int64."""

    width: int
    tokens: bytes
    counts: bytes

    @classmethod
    def of(cls, counts: SequenceCounts) -> CaseCounts:
        """Pack counts."""
        return cls(counts.tokens.shape[1], counts.tokens.tobytes(), counts.counts.tobytes())

    def unpack(self) -> SequenceCounts:
        """Return the counts; Garbled where the arrays do not fit together."""
        try:
            tokens = np.frombuffer(self.tokens, np.int64).reshape(-1, self.width)
            counts = np.frombuffer(self.counts, np.int64)
        except ValueError as error:
            raise Garbled(str(error)) from None
        if len(tokens) != len(counts):
            raise Garbled(f"{len(tokens)} sequences, {len(counts)} counts")
        return SequenceCounts(tokens, counts)


class Grid(msgspec.Struct):
    """A two-dimensional array on the wire, raw little-endian int64."""

    width: int
    data: bytes

    @classmethod
    def of(cls, array: NDArray[np.int64]) -> Grid:
        """Pack an array."""
        return cls(array.shape[1], array.tobytes())

    def unpack(self) -> NDArray[np.int64]:
        """Return the array; Garbled where the data are no rows of that width."""
        try:
            return np.frombuffer(self.data, np.int64).reshape(-1, self.width)
        except ValueError as error:
            raise Garbled(str(error)) from None


class PackedPairs(msgspec.Struct):
    """A :class:`PairCounts` on the wire."""

    pairs: Grid
    first: list[CaseCounts]
    whole: list[CaseCounts]
    tables: Grid
    openings: dict[int, Grid]

    @classmethod
    def of(cls, counts: PairCounts) -> PackedPairs:
        """Pack counts."""
        first, whole = ([CaseCounts.of(part) for part in parts] for parts in (counts.first, counts.whole))
        openings = {start: Grid.of(rows) for start, rows in counts.openings.items()}
        return cls(Grid.of(counts.pairs), first, whole, Grid.of(counts.tables), openings)

    def unpack(self, cases: int) -> PairCounts:
        """Return the counts; Garbled where they are not those of a group of so many cases."""
        pairs, tables = self.pairs.unpack(), self.tables.unpack()
        first, whole = ([part.unpack() for part in parts] for parts in (self.first, self.whole))
        openings = {start: rows.unpack() for start, rows in self.openings.items()}
        columns = [part.tokens[:, 0] for part in (*first, *whole) if len(part.counts)]
        columns += [rows[:, 0] for rows in openings.values()]
        shapes = (pairs.shape, tables.shape, len(first), len(whole))
        if shapes != ((len(KINDS), cases), (len(TABLES), BINS * BINS), len(KINDS), len(KINDS)) or any(
            column.min(initial=0) < 0 or column.max(initial=0) >= cases for column in columns
        ):
            raise Garbled("pairs of another group")
        return PairCounts(pairs, first, whole, tables, openings)


class ShardDone(msgspec.Struct, tag=True):
    """All calls of the shard are counted, one entry a case of the group, and their pairs of rows."""

    cases: list[CaseCounts]
    pairs: PackedPairs | None = None


class PackedProbe(msgspec.Struct):
    """A :class:`Measured` on the wire: its tables, see :func:`harness.measured.packed`."""

    counts: list[int]
    bounds: list[float]
    tables: list[Grid]
    reasons: list[str]

    @classmethod
    def of(cls, measured: Measured) -> PackedProbe:
        """Pack a measured law."""
        counts, bounds, tables, reasons = measured_tables(measured)
        return cls(counts, bounds, [Grid.of(table) for table in tables], reasons)

    def unpack(self, nodes: int, vocab: int) -> Measured:
        """Return the measured law; Garbled where it is none of a case of so many nodes and tokens."""
        tables = [grid.unpack() for grid in self.tables]
        try:
            return from_tables(self.counts, self.bounds, tables, self.reasons, nodes, vocab)
        except ValueError as error:
            raise Garbled(str(error)) from None


class ProbeDone(msgspec.Struct, tag=True):
    """The law of the sampler is measured, one entry a case of the group."""

    cases: list[PackedProbe]


class Failed(msgspec.Struct, tag=True):
    """The sampler broke, or (``usage``) what was asked for is no sampler; one line says how."""

    message: str
    usage: bool = False
    fatal: bool = False
    """True where no shard of this sampler can run: it cannot be imported or made."""
    trace: str = ""
    """The traceback, for who wants to read it."""


Reply = Ready | Beat | ShardDone | ProbeDone | Failed

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reply)


def encode(reply: Reply) -> bytes:
    """Return a reply as bytes."""
    return _encoder.encode(reply)


def decode(data: bytes) -> Reply:
    """Return the reply of these bytes; Garbled where they are none."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as error:
        raise Garbled(str(error)) from None
