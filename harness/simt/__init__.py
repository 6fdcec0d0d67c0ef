"""CUDA kernels on the CPU: vendor sources through NVRTC to PTX, to C, to a shared object that Python launches.

:mod:`~harness.simt.wheels` brings the sources, :mod:`~harness.simt.nvrtc` makes PTX of them, :mod:`~harness.simt.parse`
reads it, :mod:`~harness.simt.codegen` writes C, :mod:`~harness.simt.compile` compiles and
:mod:`~harness.simt.launch` runs it; :mod:`~harness.simt.kernels` joins these, and :mod:`~harness.simt.tree` is the
kernel that all this is for.
"""

from harness.simt.tree import TreeTargetOnly, tree_target_only
from harness.simt.wheels import Sources, fetch

__all__ = ["Sources", "TreeTargetOnly", "fetch", "tree_target_only"]
