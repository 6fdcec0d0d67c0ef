"""Stand-in for the op that sglang compiles when it is first called: its signature, the simulated kernel."""

import simulated_op
import torch


def tree_speculative_sampling_target_only(
    predicts: torch.Tensor,
    accept_index: torch.Tensor,
    accept_token_num: torch.Tensor,
    candidates: torch.Tensor,
    retrive_index: torch.Tensor,
    retrive_next_token: torch.Tensor,
    retrive_next_sibling: torch.Tensor,
    uniform_samples: torch.Tensor,
    uniform_samples_for_final_sampling: torch.Tensor,
    target_probs: torch.Tensor,
    draft_probs: torch.Tensor,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    deterministic: bool = True,
) -> None:
    """Run the simulated kernel on CPU tensors."""
    tensors = {name: value for name, value in locals().items() if name in simulated_op.NAMES.split()}
    simulated_op.run(tensors, threshold_single, threshold_acc, deterministic)
