"""Sampler sglang-tree-gpu: SGLang's tree kernel as production runs it, by the vendor's own launcher on a GPU.

Two packages hold the op: sgl-kernel up to 0.3.21 has it compiled, sglang compiles it when it is first called. Later
kernel packages keep a Python wrapper of the same name around an op that is gone, so the op is looked for by calling it
on a tiny input. That is done in a process of its own: the gate's process makes no CUDA context, and a driver that
crashes takes nothing down.

CHITREE_DEVICE names the torch device, ``cuda`` unless set.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ..errors import Unavailable
from ..request import Request
from .base import Claims, Sampler
from .sglang_tree import read_outputs

__all__ = ["SGLANG_TREE_GPU", "Op", "SglangTreeGpu", "find_op", "launch", "look"]

Counts = NDArray[np.int32]

NAME = "tree_speculative_sampling_target_only"
COMPILED = "sgl_kernel"
PLACES: Mapping[str, tuple[str, ...]] = {
    COMPILED: ("sgl-kernel", "sglang-kernel"),
    "sglang.kernels.ops.speculative.sampling": ("sglang",),
}
"""Modules that may hold the op, in the order in which they are tried, and the distributions that install each."""
TINY, OTHERS = (4,), (6, 5)
"""V of the tiny inputs: one has every instance of the kernel, by gcd(4, V), compiled. The others are for later."""
PATIENCE = 600.0
"""Seconds for a process that looks for the op; sglang compiles it there, an instance at a time."""

_ROOT = Path(__file__).resolve().parents[2]
_LOOK = "import sys; sys.path.insert(0, sys.argv[1]); from harness.samplers.sglang_tree_gpu import _tell; _tell()"


@dataclass(frozen=True)
class Op:
    """The op, called with the keywords that SGLang calls it with, the module it is from and that package's version."""

    call: Callable[..., None]
    module: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Found:
    """What a look for the op found: why there is none (None where there is one), and the versions of what was found."""

    reason: str | None
    versions: Mapping[str, str]


class SglangTreeGpu:
    """Runs the op on ``device``, one launch a call; without an op, the one that :func:`find_op` finds."""

    rule = "target-only"
    coins = True

    def __init__(self, device: str = "cuda", op: Callable[..., None] | None = None) -> None:
        self._device = device
        self._op = op or find_op(device).call

    def verify(self, request: Request) -> Any:
        """Marshal the request into tensors on the device, launch, and read what was emitted."""
        try:
            outputs = launch(
                self._op,
                self._device,
                candidates=request.candidates,
                retrieve_index=request.retrieve_index,
                retrieve_next_token=request.retrieve_next_token,
                retrieve_next_sibling=request.retrieve_next_sibling,
                coins=request.coins,
                final_coins=request.final_coins,
                target_probs=request.target_probs,
                depth_limit=request.depth_limit,
                threshold_single=request.threshold_single,
                threshold_acc=request.threshold_acc,
            )
        except RuntimeError as error:
            if "CUDA error" in str(error):  # it stays with the process: the next group gets a fresh one
                print(error, file=sys.stderr, flush=True)
                os._exit(1)
            raise
        return read_outputs(*outputs, request.nodes)


def launch(
    op: Callable[..., None],
    device: str,
    *,
    candidates: NDArray[np.int64],
    retrieve_index: NDArray[np.int64],
    retrieve_next_token: NDArray[np.int64],
    retrieve_next_sibling: NDArray[np.int64],
    coins: NDArray[np.float32],
    final_coins: NDArray[np.float32],
    target_probs: NDArray[np.float32],
    depth_limit: int,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
) -> tuple[Counts, Counts, Counts]:
    """Launch the op on tensors on ``device`` and return its outputs.

    ``draft_probs`` is fresh zeros, as SGLang gives it: the kernel writes the target's mass of rejected siblings there.
    Outputs start at -1, so that what the op leaves unwritten is no token.

    Parameters
    ----------
    op : callable
    device : str
        Of torch.
    candidates, retrieve_index, retrieve_next_token, retrieve_next_sibling : int64 [B, N]
    coins, final_coins : float32 [B, N] and [B]
    target_probs : float32 [B, N, V]
    depth_limit : int
        S.
    threshold_single, threshold_acc : float

    Returns
    -------
    predicts, accept_index, accept_token_num : int32 [B * N], [B, S] and [B]
    """
    import torch

    def tensor(array: NDArray[Any], dtype: DTypeLike) -> Any:
        return torch.from_numpy(np.ascontiguousarray(array, dtype)).to(device)

    def output(*shape: int) -> Any:
        return torch.full(shape, -1, dtype=torch.int32, device=device)

    batch, nodes = candidates.shape
    predicts, accept_index, accept_token_num = output(batch * nodes), output(batch, depth_limit), output(batch)
    probs = tensor(target_probs, np.float32)
    op(
        predicts=predicts,
        accept_index=accept_index,
        accept_token_num=accept_token_num,
        candidates=tensor(candidates, np.int64),
        retrive_index=tensor(retrieve_index, np.int64),
        retrive_next_token=tensor(retrieve_next_token, np.int64),
        retrive_next_sibling=tensor(retrieve_next_sibling, np.int64),
        uniform_samples=tensor(coins, np.float32),
        uniform_samples_for_final_sampling=tensor(final_coins, np.float32),
        target_probs=probs,
        draft_probs=torch.zeros_like(probs),
        threshold_single=threshold_single,
        threshold_acc=threshold_acc,
        deterministic=True,
    )
    return predicts.cpu().numpy(), accept_index.cpu().numpy(), accept_token_num.cpu().numpy()


def find_op(device: str, vocabs: tuple[int, ...] = TINY) -> Op:
    """Return the first op that can be called on ``device``, for each V of ``vocabs``.

    Raises
    ------
    Unavailable
        Saying for each module why it holds none.
    """
    why = []
    for module, distributions in PLACES.items():
        try:
            call = getattr(importlib.import_module(module), NAME)
            for vocab in vocabs:
                _try(call, device, vocab)
        except Exception as error:
            why.append(f"{module}: {_line(error)}")
        else:
            return Op(call, module, _installed(*distributions))
    raise Unavailable("; ".join(why))


def _try(call: Callable[..., None], device: str, vocab: int) -> None:
    """Call the op on one tree: a root and a draft, each followed by one token for certain."""
    probs = np.zeros((1, 2, vocab), np.float32)
    probs[0, 0, 1] = probs[0, 1, 2] = 1.0
    launch(
        call,
        device,
        candidates=np.array([[0, 1]]),
        retrieve_index=np.array([[0, 1]]),
        retrieve_next_token=np.array([[1, -1]]),
        retrieve_next_sibling=np.array([[-1, -1]]),
        coins=np.full((1, 2), 0.5, np.float32),
        final_coins=np.full(1, 0.5, np.float32),
        target_probs=probs,
        depth_limit=2,
    )


def _line(error: Exception) -> str:
    """Return what an error says in one line, with its type."""
    text = " ".join(str(error).split())[:300]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _installed(*distributions: str) -> dict[str, str]:
    """Return the versions of those of ``distributions`` that are installed."""
    versions = {}
    for name in distributions:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def look(device: str, vocabs: tuple[int, ...] = TINY) -> Found:
    """Look for the op: first for what it needs, then by calling it in a process of its own."""
    versions = _installed("torch")
    reason = _absent(device, versions.get("torch", ""))
    if reason is not None:
        return Found(reason, versions)
    command = [sys.executable, "-P", "-c", _LOOK, str(_ROOT), device, *map(str, vocabs)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return Found(f"a process that looks for the op did not end within {PATIENCE:g} s", versions)
    try:
        return Found(**json.loads(done.stdout.splitlines()[-1]))
    except (IndexError, TypeError, ValueError):
        words = " ".join((done.stdout + done.stderr).split())[-300:]
        return Found(
            f"a process that looks for the op ended with code {done.returncode}; it last said: {words}", versions
        )


def _absent(device: str, torch: str) -> str | None:
    """Say what the op lacks to be called here, as far as can be told without importing torch, or None."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    if not device.startswith("cuda"):
        return None
    try:
        driver = ctypes.CDLL("libcuda.so.1")
        count = ctypes.c_int(0)
        code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except OSError:
        return "no CUDA device: there is no NVIDIA driver (libcuda.so.1)"
    if code or not count.value:
        return f"no CUDA device: the NVIDIA driver finds none{f' (error {code})' if code else ''}"
    if torch.endswith("+cpu"):
        return f"torch {torch} is built without CUDA"
    return None


def _tell() -> None:
    """Print what :func:`look` asks for as the last line: the process of its own."""
    device, vocabs = sys.argv[2], tuple(map(int, sys.argv[3:]))
    versions = _installed("torch")
    reason: str | None = None
    try:
        op = find_op(device, vocabs)
        versions |= {**op.versions, "op": op.module, **_device_versions(device)}
    except Unavailable as error:
        reason = str(error)
    except Exception as error:
        reason = _line(error)
    print(flush=True)
    print(json.dumps({"reason": reason, "versions": versions}), flush=True)


def _device_versions(device: str) -> dict[str, str]:
    import torch

    if not device.startswith("cuda"):
        return {"device": device}
    return {"cuda": str(torch.version.cuda), "gpu": torch.cuda.get_device_name(device)}


def _device() -> str:
    return os.environ.get("CHITREE_DEVICE") or "cuda"


@cache
def _found(device: str) -> Found:
    return look(device)


def _prepare() -> None:
    """Have the other instances of the kernel compiled, where that is done when they are first called."""
    if _found(_device()).versions.get("op") == COMPILED:
        return
    reason = look(_device(), OTHERS).reason
    if reason is not None:
        raise Unavailable(reason)


SGLANG_TREE_GPU = Sampler(
    name="sglang-tree-gpu",
    summary="the same kernel on a GPU, by the launcher of sgl-kernel or sglang",
    claims=Claims(("target-only",), coins=True),
    runs_on="gpu" if _device().startswith("cuda") else "cpu",
    make=lambda rule: SglangTreeGpu(_device()),
    versions=lambda: _found(_device()).versions,
    unavailable=lambda: _found(_device()).reason,
    prepare=_prepare,
    shrink={"standard": 2, "deep": 2},
    workers=1,
)
