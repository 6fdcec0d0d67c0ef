"""Stand-in for sglang-kernel 0.4: the Python wrapper is there, the op behind it is not."""

import torch


def tree_speculative_sampling_target_only(*arguments: torch.Tensor, **keywords: torch.Tensor) -> None:
    """Call what is not registered, as the wrapper does."""
    torch.ops.sgl_kernel.tree_speculative_sampling_target_only.default(*arguments, **keywords)
