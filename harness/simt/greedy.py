"""SGLang's greedy tree verification kernel, ``VerifyTreeGreedy``, on the CPU."""

from __future__ import annotations

import numpy as np

from harness.simt.arrays import check_array, check_range
from harness.simt.kernels import load_kernel
from harness.simt.launch import CompiledKernel
from harness.simt.nvrtc import Program
from harness.simt.wheels import Sources, fetch

__all__ = ["EAGLE_HEADER", "TreeGreedy", "tree_greedy"]

#: The header that holds the kernel, and the one that builds EAGLE's trees.
EAGLE_HEADER = "sgl_kernel/speculative/eagle.cuh"
#: The header's only call: a warning about trees that the launchers here refuse.
WITHOUT_PRINTF = "#define printf(...) ((void)0)\n"


def tree_greedy(*, sources: Sources | None = None) -> TreeGreedy:
    """Compile the kernel, or take it from the cache.

    Parameters
    ----------
    sources
        Headers to compile from; default: those that :func:`harness.simt.wheels.fetch` brings.

    Raises
    ------
    Unavailable
        No headers, no NVRTC or no C compiler; the error says which.
    """
    sources = sources or fetch()
    kernel = load_kernel(eagle_program("VerifyTreeGreedy<int, long long>", sources)).kernel
    return TreeGreedy(kernel, dict(sources.versions))


def eagle_program(kernel: str, sources: Sources) -> Program:
    """Return the program for one kernel of :data:`EAGLE_HEADER`."""
    source = f"{WITHOUT_PRINTF}#include <{EAGLE_HEADER}>\n"
    return Program(source, (f"sglang::speculative::{kernel}",), sources)


class TreeGreedy:
    """The compiled kernel; call it as the vendor's launcher is called, on NumPy arrays.

    Parameters
    ----------
    kernel
        The compiled instance.
    versions
        Of the vendor's packages.
    """

    def __init__(self, kernel: CompiledKernel, versions: dict[str, str]) -> None:
        self.kernel = kernel
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
        target_predict: np.ndarray,
        *,
        threads: int | None = None,
    ) -> None:
        """Verify B trees of N nodes, at most S - 1 drafts each.

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
        target_predict
            int64 [B, N]: the target's argmax after each node, in the order of global ids.
        threads
            As in :meth:`harness.simt.launch.CompiledKernel.launch`.

        Raises
        ------
        ValueError
            For a wrong dtype, shape, layout or index; naming the array, what was expected and what came.
        """
        if np.ndim(candidates) != 2:
            raise ValueError(f"candidates must be [B, N], got shape {np.shape(candidates)}")
        batch, nodes = np.shape(candidates)
        depth = np.shape(accept_index)[1] if np.ndim(accept_index) == 2 else 0
        check_array("predicts", predicts, np.int32, (batch * nodes,), writable=True)
        check_array("accept_index", accept_index, np.int32, (batch, depth), writable=True)
        check_array("accept_token_num", accept_token_num, np.int32, (batch,), writable=True)
        if min(nodes, depth) < 1:
            raise ValueError(f"need N and S of at least 1, got N={nodes}, S={depth}")
        links = {"retrieve_next_token": retrieve_next_token, "retrieve_next_sibling": retrieve_next_sibling}
        read = {"candidates": candidates, "retrieve_index": retrieve_index, "target_predict": target_predict, **links}
        for name, array in read.items():
            check_array(name, array, np.int64, (batch, nodes))
        check_range("retrieve_index", retrieve_index, 0, batch * nodes)
        for name, array in links.items():
            check_range(name, array, -1, nodes)
        written = (predicts, accept_index, accept_token_num)
        tree = (candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling)
        self.kernel.launch(batch, 1, 0, (*written, *tree, target_predict, batch, depth, nodes), threads=threads)
