"""SGLang's own Python around its verification kernels, on the CPU: files of its wheel, unmodified, kernels simulated.

What runs is the vendor's: the functions that make a batch's sampling parameters, filter the target's probabilities,
draw or hash the coins, and call the verification. What is stood in for is said in :func:`_given`: the platform (CUDA,
one rank), the server's settings (its defaults), the modules of kernels that are compiled on a GPU, FlashInfer's two
renormalisations and one hash, all by :mod:`.sglang_ops`. Tensors are on the CPU.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from functools import cache
from importlib import metadata
from pathlib import Path, PurePosixPath
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from ..filters import GREEDY_BELOW, SamplingParams, Semantics
from ..request import Request
from ..simt.greedy import tree_greedy
from ..simt.renorm import RADIX_FROM, TopKRenorm, TopPRenorm
from ..simt.wheels import SGLANG, fetch
from .sglang_ops import SglangOps, murmur_hash32
from .sglang_tree import SGLANG_TREE
from .standin import StandIns

__all__ = [
    "SEMANTICS",
    "SglangPython",
    "accompanied",
    "greedy",
    "plain_sampler",
    "prepare",
    "unavailable",
    "versions",
]

PACKAGES = ("sglang", "flashinfer", "sgl_kernel", "triton")
PLAIN = "sglang.srt.layers.sampler"
SEMANTICS = Semantics("sequential without min-p", min_p="ignored")
"""How the filters in front of the kernels read a request."""
NO_TOP_K = -1
"""How a request says that it has no top-k."""


class SglangPython:
    """SGLang's modules, and requests and batches in the form in which its functions take them.

    The server's settings are its defaults.
    """

    def __init__(self) -> None:
        self._settings = SimpleNamespace(
            speculative_use_rejection_sampling=False,
            speculative_use_block_verification=False,
            speculative_accept_threshold_single=1.0,
            speculative_accept_threshold_acc=1.0,
        )
        self._deterministic = SimpleNamespace(enable_deterministic_inference=False)
        files = _files(fetch().folders[0])
        del files[PLAIN]  # the others use nothing of it, and it has torch load its compiler
        self._standins = StandIns(PACKAGES, files, _given(self._settings, self._deterministic))

    def module(self, name: str) -> ModuleType:
        """Return a module of the wheel, below ``sglang``."""
        return self._standins.load(f"sglang.{name}")

    def present(self) -> AbstractContextManager[None]:
        """Have SGLang's modules in ``sys.modules``: some functions import when they are called."""
        return self._standins.present()

    def thresholds(self, request: Request) -> None:
        """Set the server's thresholds to those of ``request``."""
        self._settings.speculative_accept_threshold_single = request.threshold_single
        self._settings.speculative_accept_threshold_acc = request.threshold_acc

    def sampling_info(self, request: Request, *, seeded: bool = False) -> Any:
        """Return the vendor's ``SamplingBatchInfo`` of a batch of requests with these parameters.

        ``seeded``: the requests have seeds, and the server was started for deterministic inference.
        """
        params = self.module("srt.sampling.sampling_params").SamplingParams
        info = self.module("srt.sampling.sampling_batch_info").SamplingBatchInfo

        def of(temperature: float, top_k: int, top_p: float, min_p: float, seed: int | None) -> Any:
            k = NO_TOP_K if top_k >= request.vocab else top_k
            return _asked(params(temperature=temperature, top_k=k, top_p=top_p, min_p=min_p, sampling_seed=seed))

        columns = [column.tolist() for column in (request.temperature, request.top_k, request.top_p, request.min_p)]
        seeds: Sequence[int | None] = request.seeds.tolist() if seeded else [None] * request.batch
        once = cache(of)
        with self.present():
            reqs = [once(*row) for row in zip(*columns, seeds, strict=True)]
            self._deterministic.enable_deterministic_inference = seeded
            return info.from_schedule_batch(SimpleNamespace(reqs=reqs, device="cpu"), request.vocab)


def accompanied(request: Request, *company: SamplingParams) -> Request:
    """Return the batch of ``request`` with a request more at its end for each of ``company``.

    Which filters a batch goes through depends on all of its requests: they see to it that it is the same ones whoever
    else is in it, so that equal requests with equal coins give equal results, to the last bit of a probability.
    """
    if not company:
        return request
    batch = request.take(np.concatenate([np.arange(request.batch), np.zeros(len(company), np.int64)]))
    for row, params in enumerate(company, request.batch):
        batch.temperature[row], batch.top_p[row], batch.min_p[row] = params.temperature, params.top_p, params.min_p
        batch.top_k[row] = params.top_k or request.vocab
    return batch


def greedy(request: Request) -> NDArray[np.bool_]:
    """Return which requests are greedy, bool [B]."""
    found: NDArray[np.bool_] = request.temperature < GREEDY_BELOW
    return found


def plain_sampler() -> ModuleType:
    """Return the module of the samplers that SGLang has without speculative decoding.

    One of its functions would be compiled; ``torch.compile`` does nothing while the module is imported.
    """
    import torch

    given = _given(SimpleNamespace(), SimpleNamespace())
    standins = StandIns(PACKAGES, _files(fetch().folders[0]), given)
    with mock.patch.object(torch, "compile", _as_written):
        return standins.load(PLAIN)


def versions() -> dict[str, str]:
    """Return the versions of the vendor's packages, of the tools that the kernels are made with, and of torch."""
    found = dict(SGLANG_TREE.versions())
    with suppress(metadata.PackageNotFoundError):
        found["torch"] = metadata.version("torch")
    return found


def unavailable() -> str | None:
    """Say why it cannot run here, or None; torch is not imported for that."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed; pip install 'chitree[torch]'"
    return SGLANG_TREE.unavailable()


def prepare() -> None:
    """Bring the files, and have every kernel compiled."""
    SGLANG_TREE.prepare()
    tree_greedy()
    top_k, top_p = TopKRenorm(), TopPRenorm()
    for vocab in (1, 2, 4, RADIX_FROM):
        nothing = np.empty((0, vocab), np.float32)
        top_k(nothing, np.empty(0, np.int32))
        top_p(nothing, np.empty(0, np.float32))


def _asked(params: Any) -> Any:
    """Return a request of the scheduler's, as far as its sampling parameters go."""
    return SimpleNamespace(
        sampling_params=params,
        custom_logit_processor=None,
        return_sampling_mask=False,
        sampling_logprobs_mode=None,
    )


def _files(folder: Path) -> dict[str, Path]:
    """Return the files that the wheel's modules are in."""
    files = {}
    for name in SGLANG.modules:
        parts = PurePosixPath(name).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = folder / name
    return files


def _given(settings: SimpleNamespace, deterministic: SimpleNamespace) -> dict[str, Mapping[str, Any]]:
    """Return what stand-ins hold: everything that the files use and that is none of them."""
    ops = SglangOps()
    platform = {f"is_{name}": _no for name in ("cpu", "hip", "musa", "npu", "xpu")} | {"is_cuda": lambda: True}
    switched_off = {"enable_custom_logit_processor": False, "enable_watermark": False}
    server = SimpleNamespace(deterministic=deterministic, features=SimpleNamespace(**switched_off))
    one_rank = SimpleNamespace(tp_group=SimpleNamespace(world_size=1))
    return {
        # the platform
        "sglang.srt.utils": platform,
        "sglang.srt.utils.common": platform
        | {"get_bool_env_var": _no, "is_gfx1250_supported": _no, "is_pin_memory_available": _no},
        "sglang.srt.layers.dp_attention": {"is_dp_attention_enabled": _no},
        "sglang.srt.model_executor.runner_utils.pool": {"borrow_graph_pool": lambda user: nullcontext()},
        # the server
        "sglang.srt.runtime_context": {
            "get_exec": lambda: server,
            "get_parallel": lambda: one_rank,
            "get_spec": lambda: settings,
        },
        "sglang.srt.managers.schedule_batch": {"ScheduleBatch": type("ScheduleBatch", (), {})},
        "sglang.srt.sampling.penaltylib": {
            "BatchedPenalizerOrchestrator": lambda **_: SimpleNamespace(is_required=False)
        },
        "sglang.srt.sampling.watermarking.core": {"normalize_watermark_request": lambda asked: asked},
        "sglang.srt.speculative.spec_utils": {"SIMULATE_ACC_LEN": -1.0, "SIMULATE_ACC_TOKEN_MODE": "fixed"},
        "sglang.utils": {"LazyImport": _lazy},
        # kernels
        "triton": {"jit": _as_written},
        "sglang.kernels.jit.utils": {"cache_once": cache, "load_jit": ops.load_jit},
        "sglang.kernels.ops.sampling.murmur_hash": {"murmur_hash32": murmur_hash32},
        "flashinfer.sampling": {
            "top_k_renorm_probs": ops.top_k_renorm_probs,
            "top_p_renorm_probs": ops.top_p_renorm_probs,
        },
    }


def _no(*_: object) -> bool:
    return False


def _lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function that is looked up when it is called."""
    return lambda *args, **named: getattr(importlib.import_module(module), name)(*args, **named)


def _as_written(kernel: Any = None, **_: object) -> Any:
    """Decorate a Triton kernel: nothing here launches one."""
    return _as_written if kernel is None else kernel
