"""What launchers of kernels ask of their arrays: a kernel's own accesses are checked by nothing."""

from __future__ import annotations

import numpy as np

__all__ = ["check_array", "check_range"]


def check_array(
    name: str, array: np.ndarray, dtype: type[np.generic], shape: tuple[int, ...], *, writable: bool = False
) -> None:
    """Refuse an array that is not what the kernel takes; a ValueError names it, what was expected and what came."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} must be a NumPy array, got {type(array).__name__}")
    if array.dtype != dtype:
        raise ValueError(f"{name} must be {np.dtype(dtype)}, got {array.dtype}")
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {array.shape}")
    if not array.flags.c_contiguous:
        raise ValueError(f"{name} must be C-contiguous")
    if writable and not array.flags.writeable:
        raise ValueError(f"{name} is written to, but is read-only")


def check_range(name: str, array: np.ndarray, low: int, high: int) -> None:
    """Refuse indices that would have the kernel read or write outside its arrays."""
    if array.size and (array.min() < low or array.max() >= high):
        raise ValueError(f"{name} must lie in [{low}, {high}), got {array.min()} to {array.max()}")
