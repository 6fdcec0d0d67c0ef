"""Verifiers that are right as long as memory that they never wrote to is zero, as that of large allocations is."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from plugins import Right

from harness import Request

SIZE = 1 << 23
"""Float64 numbers: more than any C library keeps back, so that they come fresh from the system."""


class Fresh(Right):
    """Adds a workspace to each law row."""

    def __init__(self) -> None:
        self.workspace = self.allocated()

    def allocated(self) -> Any:
        return np.empty(SIZE)

    def row(self, request: Request, b: int, node: int) -> np.ndarray:
        return super().row(request, b, node) + self.workspace[: request.vocab]


class FromTheLibrary(Fresh):
    def allocated(self) -> Any:
        malloc = ctypes.CDLL(None).malloc
        malloc.restype = ctypes.c_void_p
        address = malloc(ctypes.c_size_t(8 * SIZE))
        return np.ctypeslib.as_array((ctypes.c_double * SIZE).from_address(address))


class OfTorch(Fresh):
    def allocated(self) -> Any:
        import torch

        return torch.empty(SIZE, dtype=torch.float64).numpy()


class OfAnArray(Fresh):
    def allocated(self) -> Any:
        return np.ndarray(SIZE)


class Initialised(Fresh):
    """Right."""

    def allocated(self) -> Any:
        return np.zeros(SIZE)
