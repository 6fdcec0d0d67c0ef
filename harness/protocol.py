"""Messages between the gate and a worker process: jobs one way (pickled, our own), replies the other (msgpack)."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np

from .counts import SequenceCounts
from .groups import Plan, Shard

__all__ = ["Beat", "CaseCounts", "Failed", "Ready", "Reply", "ShardDone", "ShardJob", "decode", "encode"]


@dataclass(frozen=True)
class ShardJob:
    """Run one shard of a plan with a fresh sampler."""

    plan: Plan
    shard: Shard


class Ready(msgspec.Struct, tag=True):
    """The sampler is imported; ``claims`` holds the fields of :class:`harness.samplers.base.Claims`."""

    claims: dict[str, object]


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
        """Return the counts."""
        tokens = np.frombuffer(self.tokens, np.int64).reshape(-1, self.width)
        return SequenceCounts(tokens, np.frombuffer(self.counts, np.int64))


class ShardDone(msgspec.Struct, tag=True):
    """All calls of the shard are counted, one entry a case of the group."""

    cases: list[CaseCounts]


class Failed(msgspec.Struct, tag=True):
    """The sampler broke, or (``usage``) what was asked for is no sampler; one line says how."""

    message: str
    usage: bool = False
    fatal: bool = False
    """True where no shard of this sampler can run: it cannot be imported or made."""


Reply = Ready | Beat | ShardDone | Failed

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Reply)


def encode(reply: Reply) -> bytes:
    """Return a reply as bytes."""
    return _encoder.encode(reply)


def decode(data: bytes) -> Reply:
    """Return the reply of these bytes; msgspec.DecodeError where they are none."""
    return _decoder.decode(data)
