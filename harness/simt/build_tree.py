"""SGLang's kernels that build EAGLE's trees, ``build_tree_efficient`` and its packed form, on the CPU.

Of k candidates a step, the first k are the root's children; each later step has k * k, the children of the k best of
the step before. A candidate is known by its number in that order. ``selected_index`` holds those that are in the tree,
ascending; ``parent_list`` the number of the candidate that each row of k candidates has as its parent, row 0 being the
root's.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import numpy as np

from harness.simt.arrays import check_array, check_range
from harness.simt.greedy import eagle_program
from harness.simt.kernels import load_kernel
from harness.simt.launch import CompiledKernel
from harness.simt.wheels import Sources, fetch

__all__ = ["BuildTree", "MaskMode", "build_tree", "mask_bytes"]

MOST_NODES = 1024  # a thread each


class MaskMode(enum.IntEnum):
    """What ``tree_mask`` holds: one of the vendor's modes."""

    FULL = 0
    """A byte for each node and each position of its request, the tree's nodes last."""
    QUERIES = 1
    """A byte for each pair of nodes."""
    PACKED = 2
    """A bit for each pair of nodes, in 1, 2 or 4 bytes a node."""


def build_tree(*, sources: Sources | None = None) -> BuildTree:
    """Compile the kernels, or take them from the cache.

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
    names = {False: "build_tree_efficient", True: "build_tree_efficient_partial_packed"}
    kernels = {packed: load_kernel(eagle_program(name, sources)).kernel for packed, name in names.items()}
    return BuildTree(kernels, dict(sources.versions))


def mask_bytes(mode: MaskMode, nodes: int, seq_lens: np.ndarray) -> int:
    """Return the size of ``tree_mask`` for requests of N ``nodes`` each behind ``seq_lens`` [B] tokens."""
    pairs = nodes * nodes * len(seq_lens)
    if mode == MaskMode.FULL:
        return int(seq_lens.sum()) * nodes + pairs
    return pairs if mode == MaskMode.QUERIES else len(seq_lens) * nodes * _packed_bytes(nodes)


def _packed_bytes(nodes: int) -> int:
    return 4 if nodes > 16 else 2 if nodes > 8 else 1


class BuildTree:
    """The compiled kernels; call them as the vendor's launcher is called, on NumPy arrays.

    Parameters
    ----------
    kernels
        The compiled kernels: the packed one under True.
    versions
        Of the vendor's packages.
    """

    def __init__(self, kernels: Mapping[bool, CompiledKernel], versions: dict[str, str]) -> None:
        self.kernels = kernels
        self.versions = versions

    def __call__(
        self,
        parent_list: np.ndarray,
        selected_index: np.ndarray,
        verified_seq_len: np.ndarray,
        tree_mask: np.ndarray,
        positions: np.ndarray,
        retrieve_index: np.ndarray,
        retrieve_next_token: np.ndarray,
        retrieve_next_sibling: np.ndarray,
        topk: int,
        depth: int,
        mode: MaskMode = MaskMode.FULL,
        *,
        threads: int | None = None,
    ) -> None:
        """Build B trees of N nodes from ``depth`` steps of ``topk`` candidates.

        Parameters
        ----------
        parent_list
            int64 [B, topk * (depth - 1) + 1], of any width where depth is 1.
        selected_index
            int64 [B, N - 1].
        verified_seq_len
            int64 [B]: tokens before the tree's root.
        tree_mask
            uint8 of :func:`mask_bytes` bytes, written: which nodes a node attends to. The kernel leaves what stands for
            the tokens before the tree as it was, and sets bits without clearing any in mode PACKED.
        positions
            int64 [B*N], written: where in its request each node stands.
        retrieve_index
            int64 [B, N], written: global id of each node.
        retrieve_next_token, retrieve_next_sibling
            int64 [B, N], -1 throughout on entry, written: first child and next sibling.
        topk, depth, mode
            As above.
        threads
            As in :meth:`harness.simt.launch.CompiledKernel.launch`.

        Raises
        ------
        ValueError
            For a wrong dtype, shape, layout or index, or a candidate whose parent is not selected; naming the array,
            what was expected and what came.
        """
        if np.ndim(retrieve_index) != 2:
            raise ValueError(f"retrieve_index must be [B, N], got shape {np.shape(retrieve_index)}")
        batch, nodes = np.shape(retrieve_index)
        if topk < 1 or depth < 1 or not 1 <= nodes <= MOST_NODES:
            raise ValueError(
                f"need topk and depth of at least 1 and N up to {MOST_NODES}, got {topk}, {depth}, {nodes}"
            )
        if mode == MaskMode.PACKED and nodes > 32:
            raise ValueError(f"a packed mask has 32 bits for a node at most, got N={nodes}")
        width = topk * (depth - 1) + 1 if depth > 1 or np.ndim(parent_list) != 2 else np.shape(parent_list)[1]
        check_array("parent_list", parent_list, np.int64, (batch, width))
        check_array("selected_index", selected_index, np.int64, (batch, nodes - 1))
        check_array("verified_seq_len", verified_seq_len, np.int64, (batch,))
        check_range("verified_seq_len", verified_seq_len, 0, 1 << 31)
        check_array("tree_mask", tree_mask, np.uint8, (mask_bytes(mode, nodes, verified_seq_len),), writable=True)
        check_array("positions", positions, np.int64, (batch * nodes,), writable=True)
        written = {"retrieve_next_token": retrieve_next_token, "retrieve_next_sibling": retrieve_next_sibling}
        for name, array in {"retrieve_index": retrieve_index, **written}.items():
            check_array(name, array, np.int64, (batch, nodes), writable=True)
        for name, array in written.items():
            if (array != -1).any():
                raise ValueError(f"{name} must be -1 throughout on entry")
        _check_selected(parent_list, selected_index, topk, depth)
        packed = mode == MaskMode.PACKED
        arrays = (parent_list, selected_index, verified_seq_len, tree_mask, positions, retrieve_index)
        numbers = (topk, depth, nodes, _packed_bytes(nodes) if packed else int(mode))
        args = (*arrays, retrieve_next_token, retrieve_next_sibling, *numbers)
        self.kernels[packed].launch(batch, nodes, 0, args, threads=threads)


def _check_selected(parent_list: np.ndarray, selected_index: np.ndarray, topk: int, depth: int) -> None:
    """Refuse what would have the kernel look for a parent for ever, or beyond its arrays."""
    check_range("selected_index", selected_index, 0, topk + (depth - 1) * topk * topk)
    if (np.diff(selected_index, axis=1) <= 0).any():
        raise ValueError("selected_index must be strictly ascending in each row")
    row = selected_index // topk
    deep = row > 0
    parent = np.take_along_axis(parent_list, np.where(deep, row, 0), axis=1) if deep.any() else row
    if (deep & (parent >= selected_index)).any():
        raise ValueError("parent_list must name candidates of the steps before")
    for request in np.flatnonzero(deep.any(axis=1)):
        orphans = ~np.isin(parent[request], selected_index[request]) & deep[request]
        if orphans.any():
            child = int(selected_index[request][orphans][0])
            raise ValueError(f"candidate {child} of request {request} is selected, but its parent is not")
