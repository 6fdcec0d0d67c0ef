"""Kernel ops of SGLang's Python verification on the CPU: torch tensors in, the simulated kernel, tensors out.

Each takes what the vendor's op of the same name takes. Tensors are on the CPU and share their memory with the arrays
that the kernels work on, so outputs are written in place, as on a device.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..simt.greedy import tree_greedy
from ..simt.renorm import TopKRenorm, TopPRenorm
from ..simt.tree import TreeTargetOnly, tree_target_only
from .standin import NotThere

__all__ = ["SglangOps", "murmur_hash32"]

Singles = NDArray[np.float32]
Words = NDArray[np.uint32]
Places = NDArray[np.intp]

MOST_KEPT = 1 << 27
"""Bytes of renormalised rows that are kept."""


class SglangOps:
    """The ops with their kernels, each of which is loaded when it is first called."""

    def __init__(self) -> None:
        self._trees: dict[tuple[int, bool], TreeTargetOnly] = {}
        self._top_k = _ByRow(TopKRenorm())
        self._top_p = _ByRow(TopPRenorm())

    def load_jit(self, name: str, *parameters: Any, **_: Any) -> Any:
        """Return what stands for a module of kernels that SGLang compiles when it is first called."""
        if name == "speculative_sampling":
            vec, deterministic = parameters
            return SimpleNamespace(sample=lambda *args: self._tree(vec, deterministic)(*map(_array, args)))
        if name == "speculative_tree":
            greedy = tree_greedy()
            return SimpleNamespace(verify_tree_greedy=lambda *args: greedy(*map(_array, args)))
        raise NotThere(f"the module of kernels {name} is not simulated")

    def _tree(self, vec: int, deterministic: bool) -> TreeTargetOnly:
        if (vec, deterministic) not in self._trees:
            self._trees[vec, deterministic] = tree_target_only(vec=vec, deterministic=deterministic)
        return self._trees[vec, deterministic]

    def top_k_renorm_probs(self, probs: Any, top_k: Any, **_: Any) -> Any:
        """Return FlashInfer's renormalisation of ``probs`` float [n, V] by ``top_k`` integer [n]."""
        return self._top_k(probs, _array(top_k).astype(np.int32))

    def top_p_renorm_probs(self, probs: Any, top_p: Any, **_: Any) -> Any:
        """Return FlashInfer's renormalisation of ``probs`` float [n, V] by ``top_p`` float [n]."""
        return self._top_p(probs, _array(top_p).astype(np.float32))


def _array(argument: Any) -> Any:
    """Return a tensor as the array that shares its memory, anything else as it is."""
    return argument.numpy() if hasattr(argument, "numpy") else argument


class _ByRow:
    """A kernel that has a block for each row, none of which sees another's: run once for each row and parameter.

    The law rows of a group come again in every call, and what became of them is kept.
    """

    def __init__(self, kernel: Callable[[Singles, Any], Singles]) -> None:
        self._kernel = kernel
        self._kept: dict[bytes, Singles] = {}

    def __call__(self, probs: Any, parameter: NDArray[Any]) -> Any:
        import torch

        rows = np.ascontiguousarray(_array(probs.float()))
        bits = np.column_stack([rows.view(np.uint32), parameter.view(np.uint32)])
        first, which = _distinct(bits)
        keys = [bits[i].tobytes() for i in first]
        fresh = [n for n, key in enumerate(keys) if key not in self._kept]
        if fresh:
            if len(self._kept) * 4 * rows.shape[1] > MOST_KEPT:
                self._kept.clear()
                fresh = list(range(len(keys)))
            at = first[fresh]
            done = self._kernel(rows[at], parameter[at])
            self._kept.update((keys[n], row) for n, row in zip(fresh, done, strict=True))
        return torch.from_numpy(np.stack([self._kept[key] for key in keys])[which])


def _distinct(bits: Words) -> tuple[Places, Places]:
    """Return the first places of distinct rows of ``bits`` [n, W], and which of them each row is."""
    weights = np.random.default_rng(0).integers(1 << 63, size=(bits.shape[1],), dtype=np.uint64)
    sums = np.zeros(len(bits), np.uint64)
    for start in range(0, bits.shape[1], 1 << 10):  # wraps round; a part at a time, for memory's sake
        part = slice(start, start + (1 << 10))
        sums += (bits[:, part] * weights[part]).sum(axis=1, dtype=np.uint64)
    _, first, which = np.unique(sums, return_index=True, return_inverse=True)
    if not np.array_equal(bits[first][which], bits):  # two rows of one sum, which is hardly to be expected
        _, first, which = np.unique(bits, axis=0, return_index=True, return_inverse=True)
    return first, which


def murmur_hash32(seed: Any, positions: Any, col_indices: Any) -> Any:
    """Return SGLang's hash of a seed, a position and a column, uint32 [n, m]; ``seed`` and ``positions`` are [n].

    MurmurHash3 (x86, 32 bits, seed 0) of 16 bytes: the seed in 64 bits, the position and the column in 32 each.
    """
    import torch

    seeds = _array(seed.to(torch.int64)).view(np.uint64)[:, None]
    h = np.zeros((len(seeds), len(col_indices)), np.uint32)
    for word in (seeds, seeds >> np.uint64(32), _array(positions.to(torch.int64))[:, None], _array(col_indices)[None]):
        h = _mix(h, (word.astype(np.uint64) & np.uint64(0xFFFFFFFF)).astype(np.uint32))
    h = h ^ np.uint32(16)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> np.uint32(13)) * np.uint32(0xC2B2AE35)
    return torch.from_numpy(h ^ h >> np.uint32(16))


def _mix(h: Words, k: Words) -> Words:
    k = _rotated(k * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(h ^ k, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _rotated(x: Words, by: int) -> Words:
    return x << np.uint32(by) | x >> np.uint32(32 - by)
