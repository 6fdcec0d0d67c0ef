"""Samplers sglang-eagle and sglang-eagle-seeds: SGLang's ``eagle_sample``, with its filters and kernels, on the CPU.

The function is that of the wheel: it applies the temperature, renormalises by top-k and top-p, draws the coins and
launches the tree kernel; a batch of greedy requests alone takes its greedy branch. It draws coins with ``torch.rand``,
so the module's ``torch`` is one that deals the request's coins there. With seeds, as in deterministic inference, it
hashes them from each request's seed and length, and nothing is dealt.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ..filters import SamplingParams
from ..request import Request, Result
from .base import Claims, Sampler
from .sglang_python import SEMANTICS, SglangPython, accompanied, greedy, prepare, unavailable, versions
from .sglang_tree import read_outputs

__all__ = ["SGLANG_EAGLE", "SGLANG_EAGLE_SEEDS", "SglangEagle"]

FILTERED = SamplingParams(top_k=1, top_p=0.5)
"""Of the request beside those of a call, so that every batch goes through both filters."""


class SglangEagle:
    """Verifies by ``eagle_sample``; ``seeded``: by seeds and lengths of the requests instead of their coins."""

    rule = "target-only"
    takes = "logits"
    semantics = SEMANTICS

    def __init__(self, seeded: bool = False) -> None:
        self.coins = not seeded
        self._python = SglangPython()
        module = self._python.module("srt.speculative.eagle_utils")
        self._dealer = _Dealer(module.torch)
        module.torch = self._dealer  # type: ignore[attr-defined]
        self._sample = module.eagle_sample

    def verify(self, request: Request) -> Any:
        """Make a batch of the request, verify it, and read what was emitted."""
        batch = accompanied(request, *(() if greedy(request).all() else (FILTERED,)))
        result = self._verify(batch)
        return Result(*(part[: request.batch] for part in (result.tokens, result.lengths, result.nodes)))

    def _verify(self, request: Request) -> Any:
        tensors = request.torch()
        info = self._python.sampling_info(request, seeded=not self.coins)
        self._python.thresholds(request)
        verify_input = SimpleNamespace(
            draft_token=tensors.candidates.flatten(),
            draft_token_num=request.nodes,
            max_tree_depth=request.depth_limit,
            tree_topk=-1,
            retrieve_index=tensors.retrieve_index,
            retrieve_next_token=tensors.retrieve_next_token,
            retrieve_next_sibling=tensors.retrieve_next_sibling,
        )
        batch = SimpleNamespace(
            device="cpu",
            forward_mode=SimpleNamespace(is_idle=lambda: False),
            seq_lens=tensors.positions,
            sampling_info=info,
        )
        logits = SimpleNamespace(next_token_logits=tensors.target_logits.flatten(0, 1))
        dealt = [tensors.coins, tensors.final_coins] if self.coins and not info.is_all_greedy else []
        with self._python.present(), self._dealer.dealing(dealt):
            predicts, lengths, accept_index = self._sample(verify_input, batch, logits)
        return read_outputs(predicts.numpy(), accept_index.numpy(), (lengths - 1).numpy(), request.nodes)


class _Dealer:
    """The module torch, but that ``rand`` and ``rand_like`` return the tensors that are dealt, in turn."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._dealt: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._torch, name)

    @contextmanager
    def dealing(self, tensors: list[Any]) -> Iterator[None]:
        """Deal ``tensors`` within, all of them."""
        self._dealt = tensors
        try:
            yield
            if self._dealt:
                raise RuntimeError(f"coins of {self._held} were not asked for")
        finally:
            self._dealt = []

    def rand(self, size: Any, **_: Any) -> Any:
        """Return the next tensor, of shape ``size``."""
        if not self._dealt or tuple(self._dealt[0].shape) != tuple(size):
            raise RuntimeError(f"random numbers of {tuple(size)} were asked for, coins of {self._held} are left")
        return self._dealt.pop(0)

    def rand_like(self, like: Any, **_: Any) -> Any:
        """Return the next tensor, of the shape of ``like``."""
        return self.rand(like.shape)

    @property
    def _held(self) -> list[tuple[int, ...]]:
        return [tuple(tensor.shape) for tensor in self._dealt]


def _sampler(name: str, summary: str, *, seeded: bool) -> Sampler:
    return Sampler(
        name=name,
        summary=summary,
        claims=Claims(("target-only",), "logits", coins=not seeded, semantics=SEMANTICS),
        runs_on="cpu-simulated",
        make=lambda rule: SglangEagle(seeded),
        versions=versions,
        unavailable=unavailable,
        prepare=prepare,
        shrink={"standard": 2, "deep": 2},
    )


SGLANG_EAGLE = _sampler(
    "sglang-eagle", "SGLang's EAGLE verification: its Python, filters and kernels, on the CPU", seeded=False
)
SGLANG_EAGLE_SEEDS = _sampler("sglang-eagle-seeds", "the same with coins from the requests' seeds", seeded=True)
