"""SGLang's tree verification kernel, ``TreeSpeculativeSamplingTargetOnly``, on the CPU.

The kernel is the vendor's: its template is instantiated from the headers of the pinned wheels. Here is only what the
vendor's launcher does around it: the instance, the size of shared memory, the arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np

from harness.simt.arrays import check_array, check_range
from harness.simt.kernels import load_kernel
from harness.simt.launch import CompiledKernel
from harness.simt.nvrtc import Program
from harness.simt.wheels import Sources, fetch

__all__ = ["HEADER", "TreeTargetOnly", "tree_program", "tree_target_only"]

#: The header that holds the kernel; what ``edit`` is given.
HEADER = "sgl_kernel/speculative/sampling.cuh"
#: Name of a variable that carries the size of the kernel's dynamic shared memory out of the compiler.
SHARED_BYTES = "chitree_shared_bytes"
ALGORITHMS = "flashinfer::sampling::SCAN_ALGO, flashinfer::sampling::REDUCE_ALGO"
BLOCK_THREADS = 1024  # the vendor's launcher


def tree_target_only(
    *,
    vec: int,
    threads: int = BLOCK_THREADS,
    deterministic: bool = True,
    edit: Callable[[str], str] | None = None,
    sources: Sources | None = None,
) -> TreeTargetOnly:
    """Compile the kernel, or take it from the cache.

    Parameters
    ----------
    vec
        Tokens a thread loads at a time: 1, 2 or 4. The vendor's launcher takes ``gcd(4, V)``.
    threads
        Threads of a block, a multiple of 32. The vendor's launcher takes 1024; 32 is an order of magnitude faster, and
        differs only in the order of float additions in the last draw.
    deterministic
        The vendor's template parameter.
    edit
        Changes the text of the header :data:`HEADER` before it is compiled; it must change something.
    sources
        Headers to compile from; default: those that :func:`harness.simt.wheels.fetch` brings.

    Raises
    ------
    ValueError
        For a template parameter that the vendor has no instance for, or an edit without effect.
    Unavailable
        No headers, no NVRTC or no C compiler; the error says which.
    """
    sources = sources or fetch()
    overrides = {}
    if edit is not None:
        text = sources.read_header(HEADER)
        overrides[HEADER] = edit(text)
        if overrides[HEADER] == text:
            raise ValueError(f"edit changes nothing in {HEADER}")
    program = tree_program(sources, vec=vec, threads=threads, deterministic=deterministic, overrides=overrides)
    loaded = load_kernel(program, constants=(SHARED_BYTES,))
    return TreeTargetOnly(loaded.kernel, threads, vec, loaded.constants[SHARED_BYTES], dict(sources.versions))


def tree_program(
    sources: Sources,
    *,
    vec: int,
    threads: int = BLOCK_THREADS,
    deterministic: bool = True,
    overrides: Mapping[str, str] | None = None,
) -> Program:
    """Return the program that instantiates the kernel; arguments as for :func:`tree_target_only`."""
    if vec not in (1, 2, 4):
        raise ValueError(f"vec must be 1, 2 or 4, got {vec}")
    if not (32 <= threads <= 1024 and threads % 32 == 0):
        raise ValueError(f"threads must be a multiple of 32 up to 1024, got {threads}")
    storage = f"flashinfer::sampling::SamplingTempStorage<{threads}u, {ALGORITHMS}>"
    return Program(
        source=f"#include <{HEADER}>\n__device__ unsigned {SHARED_BYTES} = sizeof({storage});\n",
        expressions=(
            "sglang::speculative_sampling::TreeSpeculativeSamplingTargetOnly<"
            f"{threads}u, {ALGORITHMS}, {vec}u, {str(deterministic).lower()}, float, int, long long>",
        ),
        sources=sources,
        overrides=overrides or {},
    )


class TreeTargetOnly:
    """The compiled kernel; call it as the vendor's launcher is called, on NumPy arrays.

    Parameters
    ----------
    kernel
        The compiled instance.
    threads, vec
        Its template parameters.
    shared_bytes
        Dynamic shared memory that the vendor's launcher asks for.
    versions
        Of the vendor's packages.
    """

    def __init__(
        self, kernel: CompiledKernel, threads: int, vec: int, shared_bytes: int, versions: dict[str, str]
    ) -> None:
        self.kernel = kernel
        self.threads = threads
        self.vec = vec
        self.shared_bytes = shared_bytes
        self.versions = versions

    def __call__(
        self,
        predicts: np.ndarray,
        accept_index: np.ndarray,
        accept_token_num: np.ndarray,
        candidates: np.ndarray,
        retrieve_index: np.ndarray,
        retrieve_next_token: np.ndarray,
        retrieve_next_sibling: np.ndarray,
        coins: np.ndarray,
        final_coins: np.ndarray,
        target_probs: np.ndarray,
        draft_probs: np.ndarray,
        threshold_single: float = 1.0,
        threshold_acc: float = 1.0,
        *,
        threads: int | None = None,
        fill: int | None = 0xA5,
    ) -> None:
        """Verify B trees of N nodes over V tokens, at most S - 1 drafts each.

        Parameters
        ----------
        predicts
            int32 [B*N], written: the token emitted after each accepted node; other entries are left as they were.
        accept_index
            int32 [B, S], written: global ids of accepted nodes, the root first; the rest is left as it was.
        accept_token_num
            int32 [B], written: accepted drafts.
        candidates
            int64 [B, N]: token of each node.
        retrieve_index
            int64 [B, N]: global id of each node.
        retrieve_next_token, retrieve_next_sibling
            int64 [B, N]: first child and next sibling, -1 for none.
        coins
            float32 [B, N]: the uniform at a node decides among its children.
        final_coins
            float32 [B]: the uniform of the last draw.
        target_probs
            float32 [B, N, V]: what follows each node.
        draft_probs
            float32 [B, N, V], zeros on entry, written: rejected siblings' target mass.
        threshold_single, threshold_acc
            In [0, 1]; the latter is raised to 1e-9 as the vendor's launcher does.
        threads, fill
            As in :meth:`harness.simt.launch.CompiledKernel.launch`.

        Raises
        ------
        ValueError
            For a wrong dtype, shape, layout or index; naming the array, what was expected and what came.
        """
        batch, nodes, vocab = _shape_of(target_probs)
        depth = np.shape(accept_index)[1] if np.ndim(accept_index) == 2 else 0
        written: dict[str, tuple[np.ndarray, type[np.generic], tuple[int, ...]]] = {
            "predicts": (predicts, np.int32, (batch * nodes,)),
            "accept_index": (accept_index, np.int32, (batch, depth)),
            "accept_token_num": (accept_token_num, np.int32, (batch,)),
            "draft_probs": (draft_probs, np.float32, (batch, nodes, vocab)),
        }
        read: dict[str, tuple[np.ndarray, type[np.generic], tuple[int, ...]]] = {
            "candidates": (candidates, np.int64, (batch, nodes)),
            "retrieve_index": (retrieve_index, np.int64, (batch, nodes)),
            "retrieve_next_token": (retrieve_next_token, np.int64, (batch, nodes)),
            "retrieve_next_sibling": (retrieve_next_sibling, np.int64, (batch, nodes)),
            "coins": (coins, np.float32, (batch, nodes)),
            "final_coins": (final_coins, np.float32, (batch,)),
            "target_probs": (target_probs, np.float32, (batch, nodes, vocab)),
        }
        for name, (array, dtype, shape) in {**written, **read}.items():
            check_array(name, array, dtype, shape, writable=name in written)
        if min(nodes, depth, vocab) < 1:
            raise ValueError(f"need N, S and V of at least 1, got N={nodes}, S={depth}, V={vocab}")
        if vocab % self.vec:
            raise ValueError(f"V={vocab} is not a multiple of vec={self.vec}; take vec={math.gcd(4, vocab)}")
        check_range("candidates", candidates, 0, vocab)
        check_range("retrieve_index", retrieve_index, 0, batch * nodes)
        check_range("retrieve_next_token", retrieve_next_token, -1, nodes)
        check_range("retrieve_next_sibling", retrieve_next_sibling, -1, nodes)
        single, acc = _thresholds(threshold_single, threshold_acc)
        arrays = (predicts, accept_index, accept_token_num, candidates, retrieve_index, retrieve_next_token)
        rest = (retrieve_next_sibling, coins, final_coins, target_probs, draft_probs)
        args = (*arrays, *rest, batch, depth, nodes, vocab, single, acc)
        self.kernel.launch(batch, self.threads, self.shared_bytes, args, threads=threads, fill=fill)


def _shape_of(target_probs: np.ndarray) -> tuple[int, int, int]:
    if np.ndim(target_probs) != 3:
        raise ValueError(f"target_probs must be [B, N, V], got shape {np.shape(target_probs)}")
    batch, nodes, vocab = np.shape(target_probs)
    return batch, nodes, vocab


def _thresholds(single: float, acc: float) -> tuple[float, float]:
    for name, value in (("threshold_single", single), ("threshold_acc", acc)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie in [0, 1], got {value}")
    return float(np.float32(single)), float(max(np.float32(acc), np.float32(1e-9)))
