"""Samplers sglang-dflash and sglang-dflash-top-k: SGLang's verification of DFlash's chains, on the CPU.

``compute_dflash_sampling_correct_drafts_and_bonus`` and the filters that it calls are those of the wheel, and so is
what verifies a batch of greedy requests alone. The coins are given by the arguments that the function has for them.
What the worker does around it is small, and done here: the largest top-k of the batch, and the tokens to commit.

Which filters run depends on the batch. Where one of its requests has no top-k, all go through FlashInfer's top-k, which
keeps every token as likely as the k-th; that is ``sglang-dflash``, which takes batches as they come. Where all have
one, ``torch.topk`` takes exactly k: ``sglang-dflash-top-k`` puts requests with a top-k into batches of their own. Which
of equal tokens these are is torch's choice, and another one on a GPU.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..filters import SamplingParams
from ..request import Request, Result
from .base import Claims, Sampler
from .sglang_python import SEMANTICS, SglangPython, accompanied, greedy, prepare, unavailable, versions

__all__ = ["SGLANG_DFLASH", "SGLANG_DFLASH_TOP_K", "SglangDflash"]

EXACTLY_K = replace(SEMANTICS, name="sequential without min-p, exactly k", top_k_ties="any")

MOST_TOP_K = 64
"""The top-k of the request beside those that have one: as many tokens are sorted, if none wants more."""


class SglangDflash:
    """Verifies chains without padding; ``apart``: requests with a top-k in a batch of their own."""

    rule = "target-only"
    takes = "logits"
    coins = True

    def __init__(self, apart: bool = False) -> None:
        self.semantics = EXACTLY_K if apart else SEMANTICS
        self._apart = apart
        self._python = SglangPython()
        self._sampled = self._python.module("srt.speculative.dflash_utils")
        self._greedy = self._python.module("kernels.ops.speculative.dflash")

    def verify(self, request: Request) -> Any:
        """Verify the request's chains, in one batch or two."""
        if not (request.retrieve_next_token[:, :-1] == np.arange(1, request.nodes)).all():
            raise ValueError("chains of all nodes are expected, node i + 1 being the only child of node i")
        if request.depth_limit != request.nodes:
            raise ValueError(f"chains of {request.nodes} nodes have no depth limit, got {request.depth_limit}")
        self._python.thresholds(request)
        accepted, bonus = np.zeros(request.batch, np.int64), np.zeros(request.batch, np.int64)
        for rows, company in self._batches(request):
            if not len(rows):
                continue
            batch = request.take(rows)
            if not greedy(batch).all():
                batch = accompanied(batch, *company)
            accepted[rows], bonus[rows] = (part[: len(rows)] for part in self._verify(batch))
        return _committed(request.candidates, accepted, bonus)

    def _batches(self, request: Request) -> list[tuple[NDArray[np.int64], tuple[SamplingParams, ...]]]:
        """Return the rows of each batch, and the requests beside them, so that it goes through the same filters."""
        if not self._apart:
            return [(np.arange(request.batch), (SamplingParams(), SamplingParams(top_k=1, top_p=0.5)))]
        has_top_k = (request.top_k < request.vocab) | greedy(request)
        largest = SamplingParams(top_k=min(request.vocab - 1, MOST_TOP_K), top_p=0.5)
        return [
            (np.flatnonzero(has_top_k), (largest,)),
            (np.flatnonzero(~has_top_k), (SamplingParams(top_p=0.5),)),
        ]

    def _verify(self, request: Request) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the accepted drafts and the token after them of each chain of a batch, int64 [B]."""
        tensors = request.torch()
        info = self._python.sampling_info(request)
        logits = tensors.target_logits.flatten(0, 1)
        with self._python.present():
            if info.is_all_greedy:
                best = logits.argmax(dim=-1).view(request.batch, request.nodes)
                accepted, bonus = self._greedy.compute_dflash_correct_drafts_and_bonus(
                    candidates=tensors.candidates, target_predict=best
                )
            else:
                largest, smallest = int(info.top_ks.max()), int(info.top_ks.min())
                accepted, bonus = self._sampled.compute_dflash_sampling_correct_drafts_and_bonus(
                    candidates=tensors.candidates,
                    next_token_logits=logits,
                    sampling_info=info,
                    max_top_k=largest,
                    uniform_top_k_value=largest if largest == smallest else None,
                    uniform_samples=tensors.coins,
                    uniform_samples_for_final_sampling=tensors.final_coins,
                )
        return accepted.numpy().astype(np.int64), bonus.numpy().astype(np.int64)


def _committed(candidates: NDArray[np.int64], accepted: NDArray[np.int64], bonus: NDArray[np.int64]) -> Any:
    """Return the accepted drafts and the token after them."""
    places = np.arange(candidates.shape[1])
    drafts = np.column_stack([candidates[:, 1:], bonus])
    tokens = np.where(places < accepted[:, None], drafts, np.where(places == accepted[:, None], bonus[:, None], -1))
    nodes = np.where(places <= accepted[:, None], places, -1)
    return Result(tokens, accepted + 1, nodes)


def _sampler(name: str, summary: str, *, apart: bool) -> Sampler:
    return Sampler(
        name=name,
        summary=summary,
        claims=Claims(("target-only",), "logits", coins=True, semantics=EXACTLY_K if apart else SEMANTICS, chains=True),
        runs_on="cpu-simulated",
        make=lambda rule: SglangDflash(apart),
        versions=versions,
        unavailable=unavailable,
        prepare=prepare,
        shrink={"standard": 2, "deep": 2},
    )


SGLANG_DFLASH = _sampler(
    "sglang-dflash", "SGLang's DFlash verification: its Python, filters and kernels, on the CPU", apart=False
)
SGLANG_DFLASH_TOP_K = _sampler(
    "sglang-dflash-top-k", "the same, requests with a top-k in batches of their own", apart=True
)
