"""FlashInfer's ``top_k_renorm_probs`` and ``top_p_renorm_probs`` on the CPU: the filters in front of the tree kernel.

The kernels are the vendor's. Here is only what the vendor's launchers do around them: the instance for V, the buffers,
the arguments. For top-p these take one of two algorithms: from V = 2048 on a radix search over three kernels, below it
a ternary search in one.

Where a GPU's shared memory does not hold a row (a H100's takes V = 57,592), the vendor's top-k launcher divides the
row among blocks that wait for each other, which blocks cannot do here: one block takes the row, and the sum that the
row is divided by is added up in another order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from harness.simt.arrays import check_array
from harness.simt.kernels import LoadedKernel, load_kernel
from harness.simt.nvrtc import Program
from harness.simt.wheels import Sources, fetch

__all__ = ["RADIX_FROM", "TopKRenorm", "TopPRenorm", "renorm_program"]

RADIX_FROM = 2048
"""The V from which the vendor's launcher takes the radix search for top-p."""
BLOCK_THREADS = 1024  # the vendor's launchers, on any GPU since 2020
RADIX_THREADS, INIT_THREADS = 512, 256
RADIX_STEPS = 3  # 11 bits of a float at a time
BUCKETS = 2048
HISTOGRAM_BINS = 256  # of top-k
COUNTER_BYTES = "chitree_counter_bytes"
SHARED_BYTES = "chitree_shared_bytes"


class TopKRenorm:
    """``top_k_renorm_probs``: keep the tokens that are at least as likely as the k-th likeliest, and renormalise.

    Parameters
    ----------
    threads
        Threads of a block: a multiple of 32 from 256 on. The vendor's launcher takes 1024; the order of additions
        depends on it.
    sources
        Headers to compile from; default: those that :func:`harness.simt.wheels.fetch` brings.

    Raises
    ------
    ValueError
        For a number of threads that no instance has.
    Unavailable
        No headers, no NVRTC or no C compiler; the error says which. Compiling is done when V is known.
    """

    def __init__(self, threads: int = BLOCK_THREADS, sources: Sources | None = None) -> None:
        if not (HISTOGRAM_BINS <= threads <= 1024 and threads % 32 == 0):
            raise ValueError(f"threads must be a multiple of 32 from {HISTOGRAM_BINS} to 1024, got {threads}")
        self.threads = threads
        self._kernels = _Kernels(threads, sources)

    def __call__(self, probs: np.ndarray, top_k: np.ndarray, *, threads: int | None = None) -> np.ndarray:
        """Filter R rows over V tokens.

        Parameters
        ----------
        probs
            float32 [R, V], finite and not negative.
        top_k
            int32 [R]; V or more keeps the row whole, and so does a negative number, which the kernel reads as unsigned.
        threads
            As in :meth:`harness.simt.launch.CompiledKernel.launch`.

        Returns
        -------
        numpy.ndarray
            float32 [R, V].

        Raises
        ------
        ValueError
            For a wrong dtype, shape, layout or value; naming the array, what was expected and what came.
        """
        rows, vocab = _check_probs(probs)
        check_array("top_k", top_k, np.int32, (rows,))
        kernel = self._kernels.load("top-k", math.gcd(4, vocab)).kernel
        renormed = np.empty_like(probs)
        fixed = -(-(4 * (2 * HISTOGRAM_BINS + 4) + 4) // 16) * 16  # two histograms, four numbers and the sum
        args = (probs, renormed, top_k, 0, vocab, rows, None, vocab, 1)
        kernel.launch(rows, self.threads, fixed + 4 * vocab, args, threads=threads)
        return renormed


class TopPRenorm:
    """``top_p_renorm_probs``: keep the likeliest tokens until their mass reaches ``top_p``, and renormalise.

    Equally likely tokens are kept together.

    Parameters
    ----------
    threads
        Threads of a block in the ternary search: a multiple of 32. The vendor's launcher takes 1024; 32 is many times
        as fast, and differs in the order of additions only. The radix search has its own.
    sources
        As for :class:`TopKRenorm`.

    Raises
    ------
    ValueError, Unavailable
        As :class:`TopKRenorm`.
    """

    def __init__(self, threads: int = BLOCK_THREADS, sources: Sources | None = None) -> None:
        if not (32 <= threads <= 1024 and threads % 32 == 0):
            raise ValueError(f"threads must be a multiple of 32 up to 1024, got {threads}")
        self.threads = threads
        self._kernels = _Kernels(threads, sources)

    def __call__(self, probs: np.ndarray, top_p: np.ndarray, *, threads: int | None = None) -> np.ndarray:
        """Filter R rows over V tokens.

        Parameters
        ----------
        probs
            float32 [R, V], finite and not negative.
        top_p
            float32 [R], in (0, 1].
        threads
            As in :meth:`harness.simt.launch.CompiledKernel.launch`.

        Returns
        -------
        numpy.ndarray
            float32 [R, V].

        Raises
        ------
        ValueError
            As :meth:`TopKRenorm.__call__`.
        """
        rows, vocab = _check_probs(probs)
        check_array("top_p", top_p, np.float32, (rows,))
        if rows and not ((top_p > 0) & (top_p <= 1)).all():
            raise ValueError(f"top_p must lie in (0, 1], got {top_p.min()} to {top_p.max()}")
        if vocab >= RADIX_FROM:
            return self._radix_search(probs, top_p, threads)
        loaded = self._kernels.load("top-p", math.gcd(4, vocab))
        renormed = np.empty_like(probs)
        args = (probs, renormed, top_p, 1.0, vocab)
        loaded.kernel.launch(rows, self.threads, loaded.constants[SHARED_BYTES], args, threads=threads)
        return renormed

    def _radix_search(self, probs: np.ndarray, top_p: np.ndarray, threads: int | None) -> np.ndarray:
        """Run the kernels of the radix search, a block a row, as the vendor's launcher does for some hundred rows.

        For fewer rows it puts several blocks on each, which changes the order of additions.
        """
        rows, vocab = probs.shape
        first, search, last = (self._kernels.load(name) for name in ("radix-init", "radix", "radix-apply"))
        counters = _aligned(rows * first.constants[COUNTER_BYTES], 128)
        histograms, counts = np.empty((rows, BUCKETS), np.float32), np.empty((rows, BUCKETS), np.int32)
        buffers = np.empty((2, rows, -(-(vocab // 32) // 256) * 256), np.float32)
        renormed = np.empty_like(probs)
        prepare = (counters, vocab, probs, top_p, 1.0, histograms, counts)
        first.kernel.launch(rows, INIT_THREADS, 0, prepare, threads=threads)
        for step in range(RADIX_STEPS):
            args = (counters, histograms, counts, step, *buffers)
            search.kernel.launch((1, rows), RADIX_THREADS, 0, args, threads=threads)
        last.kernel.launch(rows, BLOCK_THREADS, 0, (probs, renormed, counters, vocab), threads=threads)
        return renormed


@dataclass(frozen=True)
class _Instance:
    """Header, template instance and constants of a kernel, with places for ``threads`` and ``vec``."""

    header: str
    kernel: str
    constants: tuple[tuple[str, str], ...] = ()


_RADIX = "flashinfer/air_top_p.cuh"
_REDUCE = "flashinfer::sampling::REDUCE_ALGO"
_INSTANCES = {
    "top-k": _Instance(
        "flashinfer/sampling.cuh",
        "flashinfer::sampling::RadixTopKRenormProbKernel_MultiCTA<{threads}u, {vec}u, true, false, float, int>",
    ),
    "top-p": _Instance(
        "flashinfer/sampling.cuh",
        f"flashinfer::sampling::TopPRenormProbKernel<{{threads}}u, {_REDUCE}, {{vec}}u, float>",
        ((SHARED_BYTES, f"flashinfer::sampling::RenormTempStorage<{{threads}}u, {_REDUCE}>"),),
    ),
    "radix-init": _Instance(
        _RADIX,
        "flashinfer::sampling::air_top_p::AirTopPRenormInitKernel<float, float>",
        ((COUNTER_BYTES, "flashinfer::sampling::air_top_p::Counter<float>"),),
    ),
    "radix": _Instance(_RADIX, "flashinfer::sampling::air_top_p::AirTopPRenormRadixKernel<false, float>"),
    "radix-apply": _Instance(_RADIX, "flashinfer::sampling::air_top_p::AirTopPRenormApplyKernel<float>"),
}


def renorm_program(name: str, sources: Sources, *, vec: int, threads: int) -> Program:
    """Return the program that instantiates a kernel: "top-k", "top-p", "radix-init", "radix" or "radix-apply"."""
    instance = _INSTANCES[name]
    sizes = "".join(f"__device__ unsigned {key} = sizeof({of});\n" for key, of in instance.constants)
    source = f"#include <{instance.header}>\n{sizes.format(threads=threads)}"
    return Program(source, (instance.kernel.format(threads=threads, vec=vec),), sources)


class _Kernels:
    """The instances for a number of threads, each compiled or taken from the cache when it is first asked for."""

    def __init__(self, threads: int, sources: Sources | None) -> None:
        self._threads = threads
        self._sources = sources or fetch()
        self._loaded: dict[tuple[str, int], LoadedKernel] = {}

    def load(self, name: str, vec: int = 1) -> LoadedKernel:
        key = (name, vec)
        if key not in self._loaded:
            program = renorm_program(name, self._sources, vec=vec, threads=self._threads)
            self._loaded[key] = load_kernel(program, constants=(size for size, _ in _INSTANCES[name].constants))
        return self._loaded[key]


def _aligned(size: int, to: int) -> np.ndarray:
    """Return ``size`` bytes that begin at a multiple of ``to``."""
    raw = np.empty(size + to, np.uint8)
    start = -raw.ctypes.data % to
    return raw[start : start + size]


def _check_probs(probs: np.ndarray) -> tuple[int, int]:
    """Refuse what the kernel was not made for: it might read elsewhere, or search for ever."""
    if np.ndim(probs) != 2:
        raise ValueError(f"probs must be [R, V], got shape {np.shape(probs)}")
    rows, vocab = np.shape(probs)
    check_array("probs", probs, np.float32, (rows, vocab))
    if vocab < 1:
        raise ValueError("need V of at least 1, got V=0")
    if rows and not (probs.min() >= 0 and probs.max() < np.inf):
        raise ValueError("probs must be finite and not negative")
    return rows, vocab
