"""Garbage in fresh memory (``--poison``), so that a sampler that reads what it never wrote gives itself away.

Fresh memory is zero more often than not, and zero is often right: a missing initialisation goes unseen until memory is
used again. Under poison a worker's allocations hold a byte that is a large number as an integer or a float of any
width: what malloc gives, what ``numpy.empty`` gives, the buffers that our own samplers hand to kernels, and the
registers, local and shared memory of a simulated block. Memory of a GPU is left as it is.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["BYTE", "ENVIRONMENT", "poison_numpy", "poisoned", "unwritten"]

BYTE = 0x5A
"""As float32 1.5e16, as float64 2.3e127, as int32 1.5e9, as int64 6.5e18."""
_VARIABLE = "CHITREE_POISON"
ENVIRONMENT = {_VARIABLE: "1", "MALLOC_PERTURB_": str(BYTE ^ 0xFF), "PYTHONMALLOC": "debug"}
"""What a process needs from its start: glibc fills what malloc gives with the complement of its variable's byte."""


def poisoned() -> bool:
    """Return True in a process whose fresh memory is to hold garbage."""
    return os.environ.get(_VARIABLE) == "1"


def unwritten(shape: int | tuple[int, ...], dtype: type[np.generic], usual: int) -> NDArray[Any]:
    """Return a buffer for others to write to; ``usual`` stands in it, or garbage where memory is poisoned."""
    if not poisoned():
        return np.full(shape, usual, dtype)
    return np.frombuffer(bytearray([BYTE]) * np.empty(shape, dtype).nbytes, dtype).reshape(shape)


def poison_numpy() -> None:
    """Have ``numpy.empty`` and ``numpy.empty_like`` give garbage, since NumPy keeps small blocks back from malloc."""
    for name in ("empty", "empty_like"):
        setattr(np, name, _filled(getattr(np, name)))


def _filled(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def call(*args: Any, **kwargs: Any) -> Any:
        array = make(*args, **kwargs)
        if not array.dtype.hasobject:
            ctypes.memset(array.ctypes.data, BYTE, array.nbytes)
        return array

    return call
