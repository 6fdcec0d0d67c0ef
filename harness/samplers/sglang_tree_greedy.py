"""Sampler sglang-tree-greedy: SGLang's greedy tree kernel, CUDA source from its wheel, run on the CPU.

In production the kernel is given the argmax of every node's raw logits, which PyTorch finds; here NumPy does, and of
equal maxima it takes the first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..filters import SEMANTICS
from ..request import Request
from ..simt.greedy import TreeGreedy, tree_greedy
from .base import Claims, Sampler
from .sglang_tree import fresh_outputs, read_outputs, unavailable, versions

__all__ = ["SGLANG_TREE_GREEDY", "SglangTreeGreedy"]


class SglangTreeGreedy:
    """Runs the kernel, one thread a request."""

    rule = "greedy"
    takes = "logits"
    coins = True

    def __init__(self) -> None:
        self._kernel: TreeGreedy | None = None

    def verify(self, request: Request) -> Any:
        """Marshal the request into the kernel's buffers, launch, and read what it emitted."""
        self._kernel = self._kernel or tree_greedy()
        outputs = fresh_outputs(request)
        self._kernel(
            *outputs,
            request.candidates,
            request.retrieve_index,
            request.retrieve_next_token,
            request.retrieve_next_sibling,
            request.target_logits.argmax(axis=2),
        )
        return read_outputs(*outputs, request.nodes)


def _prepare() -> None:
    tree_greedy()


SEMANTICS_HERE = replace(SEMANTICS["sequential"], name="argmax", greedy_ties="first")
SGLANG_TREE_GREEDY = Sampler(
    name="sglang-tree-greedy",
    summary="SGLang's greedy tree kernel, CUDA source on the CPU",
    claims=Claims(("greedy",), takes="logits", coins=True, semantics=SEMANTICS_HERE),
    runs_on="cpu-simulated",
    make=lambda rule: SglangTreeGreedy(),
    versions=versions,
    unavailable=unavailable,
    prepare=_prepare,
)
