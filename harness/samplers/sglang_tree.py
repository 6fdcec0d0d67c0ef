"""Samplers sglang-tree and sglang-tree-32: SGLang's own tree kernel, CUDA source from its wheel, run on the CPU.

``sglang-tree`` is the production instantiation (1024 threads, vec = gcd(4, V), deterministic); ``sglang-tree-32`` the
same source with 32 threads, which differs in the float order of the last draw only and is much quicker.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import Unavailable
from ..poison import unwritten
from ..request import Request, Result
from ..simt.compile import find_compiler
from ..simt.headers import find_toolkit
from ..simt.tree import TreeTargetOnly, tree_target_only
from ..simt.wheels import FLASHINFER, SGLANG
from .base import Claims, Sampler

__all__ = ["SGLANG_TREE", "SGLANG_TREE_32", "SglangTree", "fresh_outputs", "read_outputs", "unavailable", "versions"]


class SglangTree:
    """Runs the kernel with ``threads`` threads a block, one block a request; compiled once for each vec."""

    rule = "target-only"
    coins = True

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._kernels: dict[int, TreeTargetOnly] = {}

    def verify(self, request: Request) -> Any:
        """Marshal the request into the kernel's buffers, launch, and read what it emitted."""
        vec = math.gcd(4, request.vocab)
        if vec not in self._kernels:
            self._kernels[vec] = tree_target_only(threads=self._threads, vec=vec)
        outputs = fresh_outputs(request)
        target_probs = request.target_probs
        self._kernels[vec](
            *outputs,
            request.candidates,
            request.retrieve_index,
            request.retrieve_next_token,
            request.retrieve_next_sibling,
            request.coins,
            request.final_coins,
            target_probs,
            np.zeros_like(target_probs),
            request.threshold_single,
            request.threshold_acc,
        )
        return read_outputs(*outputs, request.nodes)


def fresh_outputs(request: Request) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return buffers for a tree kernel to write what :func:`read_outputs` reads; garbage where memory is poisoned."""
    predicts = unwritten(request.batch * request.nodes, np.int32, -1)
    accept_index = unwritten((request.batch, request.depth_limit), np.int32, -1)
    return predicts, accept_index, unwritten(request.batch, np.int32, 0)


def read_outputs(
    predicts: NDArray[np.int32], accept_index: NDArray[np.int32], accept_token_num: NDArray[np.int32], nodes: int
) -> Result[NDArray[np.int64]]:
    """Turn the kernel's output buffers into a result.

    ``predicts`` int32 [B * N] is the token emitted after each node, by global node; ``accept_index`` int32 [B, S] the
    accepted global nodes, the root first; ``accept_token_num`` int32 [B] the accepted drafts.
    """
    batch, limit = accept_index.shape
    lengths = accept_token_num.astype(np.int64) + 1
    written = np.arange(limit) < lengths[:, None]
    at = np.where(written, accept_index, np.arange(batch)[:, None] * nodes)
    tokens = np.where(written, predicts[at], -1).astype(np.int64)
    local = np.where(written, accept_index - np.arange(batch)[:, None] * nodes, -1).astype(np.int64)
    return Result(tokens, lengths, local)


def versions() -> dict[str, str]:
    """Return the versions of the vendor's packages and of the compiler that the kernels are simulated with."""
    found = {"sglang": SGLANG.version, "flashinfer": FLASHINFER.version}
    with contextlib.suppress(Unavailable):
        found |= find_toolkit().versions
    return found


def unavailable() -> str | None:
    """Return why kernels cannot be simulated here, or None."""
    try:
        find_compiler()
        find_toolkit()
    except Unavailable as error:
        return str(error)
    return None


def _prepare(threads: int) -> None:
    for vec in (1, 2, 4):
        tree_target_only(threads=threads, vec=vec)


def _sampler(name: str, threads: int, summary: str, shrink: Mapping[str, int]) -> Sampler:
    return Sampler(
        name=name,
        summary=summary,
        claims=Claims(("target-only",), coins=True),
        runs_on="cpu-simulated",
        make=lambda rule: SglangTree(threads),
        versions=versions,
        unavailable=unavailable,
        prepare=lambda: _prepare(threads),
        shrink=shrink,
    )


SGLANG_TREE = _sampler(
    "sglang-tree", 1024, "SGLang's tree kernel as in production, CUDA source on the CPU", {"standard": 2, "deep": 2}
)
SGLANG_TREE_32 = _sampler("sglang-tree-32", 32, "the same kernel with 32 threads a block, for volume", {})
