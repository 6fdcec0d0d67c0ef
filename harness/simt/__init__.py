"""CUDA kernels on the CPU: vendor sources through NVRTC to PTX, to C, to a shared object that Python launches.

:mod:`~harness.simt.wheels` brings the sources, :mod:`~harness.simt.nvrtc` makes PTX of them, :mod:`~harness.simt.parse`
reads it, :mod:`~harness.simt.codegen` writes C, :mod:`~harness.simt.compile` compiles and
:mod:`~harness.simt.launch` runs it; :mod:`~harness.simt.kernels` joins these, and :mod:`~harness.simt.tree` is the
kernel that all this is for. Beside it are the kernels around it: :mod:`~harness.simt.renorm` filters its laws,
:mod:`~harness.simt.greedy` verifies at temperature 0, and :mod:`~harness.simt.build_tree` makes EAGLE's trees.

Limits. PTX is not machine code: a GPU may contract a separate multiplication and addition, and its approximate
instructions may differ in the last places; the tree kernel has neither. Tensor cores, asynchronous copies, clusters,
texture and calls are not known and raise. A thread that spins on another thread of its warp never ends here, and nor do
blocks that wait for each other. Nothing checks a kernel's memory accesses: arrays must reach as far as it reads.
"""

from harness.simt.tree import TreeTargetOnly, tree_target_only
from harness.simt.wheels import Sources, fetch

__all__ = ["Sources", "TreeTargetOnly", "fetch", "tree_target_only"]
