"""The op of the stand-ins: checks what it is given as the vendor's launcher does, and runs the simulated kernel."""

from __future__ import annotations

import functools
import math

import torch

from harness.simt.tree import TreeTargetOnly, tree_target_only

NAMES = "predicts accept_index accept_token_num candidates retrive_index retrive_next_token retrive_next_sibling "
NAMES += "uniform_samples uniform_samples_for_final_sampling target_probs draft_probs"


@functools.cache
def kernel(vec: int) -> TreeTargetOnly:
    """Return the instance that the vendor's launcher takes."""
    return tree_target_only(vec=vec)


def run(tensors: dict[str, torch.Tensor], threshold_single: float, threshold_acc: float, deterministic: bool) -> None:
    """Check the eleven tensors, by name in the order of the ABI, and launch."""
    assert " ".join(tensors) == NAMES
    batch, nodes, vocab = tensors["target_probs"].shape
    shapes = {
        "predicts": (batch * nodes,),
        "accept_index": (batch, tensors["accept_index"].shape[1]),
        "accept_token_num": (batch,),
        "uniform_samples_for_final_sampling": (batch,),
        "target_probs": (batch, nodes, vocab),
        "draft_probs": (batch, nodes, vocab),
    }
    for place, (name, tensor) in enumerate(tensors.items()):
        dtype = torch.int32 if place < 3 else torch.int64 if place < 7 else torch.float32
        if tensor.dtype != dtype or tensor.shape != shapes.get(name, (batch, nodes)) or not tensor.is_contiguous():
            raise RuntimeError(f"{name}: {tensor.dtype} {list(tensor.shape)}, strides {tensor.stride()}")
    if tensors["draft_probs"].any() or tensors["draft_probs"].data_ptr() == tensors["target_probs"].data_ptr():
        raise RuntimeError("draft_probs must be zeros of their own")
    if not (tensors["accept_index"] == -1).all():
        raise RuntimeError("accept_index must be filled with -1")
    if deterministic is not True:
        raise RuntimeError(f"deterministic is {deterministic}")
    kernel(math.gcd(4, vocab))(*(tensor.numpy() for tensor in tensors.values()), threshold_single, threshold_acc)
