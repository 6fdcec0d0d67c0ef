"""Random streams that derive from names, so that no result depends on order, workers or chance."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

__all__ = ["COIN_STEP", "coins", "stream"]

COIN_STEP = 2.0**-24
"""Coins are multiples of this in [0, 1), the resolution of the uniforms that production samplers draw."""


def stream(*names: str | int) -> np.random.Generator:
    """Return the generator of these names; equal names give equal streams, different ones independent streams."""
    text = "\x1f".join(f"{type(name).__name__}:{name}" for name in names)
    digest = hashlib.sha256(text.encode()).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(digest[:16], "little")))


def coins(rng: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return float32 uniforms of ``shape``: each multiple of 2^-24 in [0, 1) is equally likely."""
    return rng.random(shape, dtype=np.float32)
