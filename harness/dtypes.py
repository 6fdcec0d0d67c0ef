"""Rounding of law rows to the 16-bit formats that a verifier can ask for; the values stay in float32 arrays."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["DTYPES", "Dtype", "rounded"]

Singles = NDArray[np.float32]
Dtype = Literal["float32", "float16", "bfloat16"]

DTYPES: tuple[Dtype, ...] = ("float32", "float16", "bfloat16")
"""Formats of law rows; float32 is what a verifier gets that asks for nothing else."""


def rounded(values: ArrayLike, dtype: Dtype) -> Singles:
    """Return ``values`` as float32, each rounded to the nearest number of ``dtype``, ties to even.

    Beyond the largest finite number lies infinity, below the smallest subnormal zero, as in a cast.
    """
    given = np.asarray(values, np.float32)
    if dtype == "float32":
        return given
    if dtype == "float16":
        with np.errstate(over="ignore", under="ignore"):
            return given.astype(np.float16).astype(np.float32)
    bits = np.ascontiguousarray(given).view(np.uint32)
    nearest = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
    nan = np.uint32(0x7FC00000)
    return np.where(np.isnan(given), nan, nearest).view(np.float32).reshape(given.shape)
