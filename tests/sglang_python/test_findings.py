"""The figures of docs/findings.md: where SGLang's verification differs from its plain sampling, or from itself."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from cases.boundaries import BOUNDARIES
from cases.coins import coin_groups
from harness.chained import chained
from harness.filters import SamplingParams, softmax, target_probs
from harness.samplers.base import Verifier
from harness.samplers.sglang_dflash import EXACTLY_K
from harness.samplers.sglang_python import SEMANTICS, SglangPython, plain_sampler
from harness.simt.renorm import TopKRenorm, TopPRenorm

Floats = NDArray[np.float64]
FREE = SamplingParams()
FILTERED = SamplingParams(top_k=1, top_p=0.5)


@pytest.fixture(scope="module")
def python(sampler: object) -> SglangPython:
    return SglangPython()


@pytest.fixture(scope="module")
def plain(sampler: object) -> ModuleType:
    return plain_sampler()


def info(python: SglangPython, params: list[SamplingParams], vocab: int, *, seeded: bool = False) -> Any:
    """Return the vendor's description of a batch of requests with these parameters."""
    request = SimpleNamespace(
        temperature=np.array([p.temperature for p in params]),
        top_k=np.array([p.top_k or vocab for p in params]),
        top_p=np.array([p.top_p for p in params]),
        min_p=np.array([p.min_p for p in params]),
        seeds=np.arange(len(params)),
        batch=len(params),
        vocab=vocab,
    )
    return python.sampling_info(request, seeded=seeded)  # type: ignore[arg-type]


def verified(python: SglangPython, logits: NDArray[np.float32], params: list[SamplingParams]) -> NDArray[np.float32]:
    """Return the laws that DFlash's verification has for a batch of one row a request."""
    import torch

    build = python.module("srt.speculative.dflash_utils").build_speculative_verify_target_probs
    batch = info(python, params, logits.shape[1])
    with python.present():
        laws = build(
            next_token_logits=torch.from_numpy(logits),
            sampling_info=batch,
            draft_token_num=1,
            bs=len(params),
            max_top_k=int(batch.top_ks.max()),
        )
    found: NDArray[np.float32] = laws[:, 0].numpy()
    return found


def sampled(python: SglangPython, plain: ModuleType, logits: NDArray[np.float32], params: SamplingParams) -> Floats:
    """Return the law that the plain sampler's torch backend draws from."""
    import torch

    batch = info(python, [params], len(logits))
    probs = torch.softmax(torch.from_numpy(logits[None]) / batch.temperatures, dim=-1)
    _, weights, ids, _ = plain.top_k_top_p_min_p_sampling_from_probs_torch(
        probs,
        batch.top_ks,
        batch.top_ps,
        batch.min_ps,
        batch.need_min_p_sampling,
        None,
        torch.zeros(1),
        return_filtered_probs=True,
    )
    law = np.zeros(len(logits))
    law[ids[0].numpy()] = weights[0].numpy()
    return law / law.sum()


def apart(p: NDArray[Any], q: NDArray[Any]) -> float:
    """Total variation."""
    return float(0.5 * np.abs(p - q).sum())


@pytest.mark.parametrize(
    ("name", "distance"),
    [("min-p-applied-or-ignored", 0.2), ("top-k-then-top-p-or-joint", 3 / 7), ("temperature-first-or-last", 0.0)],
)
def test_verification_and_plain_sampling(python: SglangPython, plain: ModuleType, name: str, distance: float) -> None:
    logits, params = BOUNDARIES[name].logits, BOUNDARIES[name].params
    law = verified(python, np.stack([logits] * 3), [params, FREE, FILTERED])[0]
    np.testing.assert_allclose(law, target_probs(logits, params, SEMANTICS), atol=1e-6)
    assert apart(law, sampled(python, plain, logits, params)) == pytest.approx(distance, abs=1e-6)


@pytest.mark.parametrize("name", ["top-k-ties", "top-k-ties-cold"])
def test_ties_depend_on_the_batch(python: SglangPython, name: str) -> None:
    logits, params = BOUNDARIES[name].logits, BOUNDARIES[name].params
    beside_one_without = verified(python, np.stack([logits] * 2), [params, FREE])[0]
    beside_others = verified(python, np.stack([logits] * 2), [params, SamplingParams(top_k=1)])[0]
    np.testing.assert_allclose(beside_one_without, target_probs(logits, params, SEMANTICS), atol=1e-6)
    assert (beside_others > 0).sum() == params.top_k
    np.testing.assert_allclose(np.sort(beside_others), np.sort(target_probs(logits, params, EXACTLY_K)), atol=1e-6)
    assert apart(beside_one_without, beside_others) == pytest.approx(0.4 if name == "top-k-ties" else 0.2987, abs=1e-3)


def test_top_p_that_is_reached_exactly(python: SglangPython, plain: ModuleType) -> None:
    boundary = BOUNDARIES["top-p-reached-exactly"]
    law = verified(python, boundary.logits[None], [boundary.params])[0]
    assert (law > 0).sum() == 4
    assert (sampled(python, plain, boundary.logits, boundary.params) > 0).sum() == 3


@pytest.mark.parametrize("vocab", [5, 16, 64])
def test_a_neighbour_changes_the_last_bits(python: SglangPython, vocab: int) -> None:
    logits = np.random.default_rng(0).normal(0.0, 2.0, (1001, vocab)).astype(np.float32)
    alone = verified(python, logits[:1000], [FREE] * 1000)
    beside = verified(python, logits, [FREE] * 1000 + [FILTERED])[:1000]
    changed = (alone != beside).any(axis=1).mean()
    assert 0.19 <= changed < 0.24  # and up to 39% where the neighbour has one filter alone
    assert np.abs(alone - beside).max() < 3e-7


def test_a_neighbour_s_top_p_cuts_the_tail(python: SglangPython) -> None:
    logits = np.random.default_rng(0).normal(0.0, 2.0, (9, 4100)).astype(np.float32)
    alone = verified(python, logits[:8], [FREE] * 8)
    beside = verified(python, logits, [FREE] * 8 + [SamplingParams(top_p=0.9)])[:8]
    assert (alone > 0).all()
    assert ((beside == 0).sum(axis=1) > 0).sum() >= 4


@pytest.mark.parametrize(("kernel", "parameter"), [(TopKRenorm, np.int32(1)), (TopPRenorm, np.float32(0.3))])
def test_one_token_left_is_not_certain(sampler: object, kernel: Callable[[], Any], parameter: Any) -> None:
    rows = softmax(np.random.default_rng(0).normal(0.0, 2.0, (2000, 16))).astype(np.float32)
    left = kernel()(rows, np.full(2000, parameter))
    one = (left > 0).sum(axis=1) == 1
    assert one.mean() > 0.5
    assert 0.13 < (left[one].max(axis=1) < 1.0).mean() < 0.15
    assert left[one].max(axis=1).min() == np.float32(1.0 - 2.0**-24)


@pytest.mark.parametrize("name", ["sglang-eagle", "sglang-dflash", "sglang-dflash-top-k"])
def test_and_then_an_impossible_token_comes(sampler: Callable[[str], Verifier], name: str) -> None:
    (entry,) = (group for group in coin_groups() if group.name == "coins/gap-filtered")
    plan = entry.plan("smoke", 0)
    request, which = (plan if name == "sglang-eagle" else chained(plan)).call(0)
    tokens = sampler(name).verify(request).tokens
    assert {key: row[row >= 0].tolist() for key, row in zip(which.tolist(), tokens, strict=True)} == {
        0: [15],
        1: [2, 15],
    }
    below = np.float32(1.0 - 2.0**-23)
    request.coins[request.coins > 0.5] = below  # one coin less is right
    assert (sampler(name).verify(request).tokens[which == 0, 0] == 5).all()


def test_dflash_forgets_the_seeds(python: SglangPython) -> None:
    import torch

    logits = torch.from_numpy(np.random.default_rng(0).normal(0.0, 1.0, (512, 8)).astype(np.float32))
    batch = info(python, [FREE] * 256, 8, seeded=True)
    assert batch.sampling_seed.tolist() == list(range(256))
    dflash = python.module("srt.speculative.dflash_utils").compute_dflash_sampling_correct_drafts_and_bonus

    def once() -> list[int]:
        candidates = torch.ones((256, 2), dtype=torch.int64)
        with python.present():
            bonus: list[int] = dflash(candidates=candidates, next_token_logits=logits, sampling_info=batch)[1].tolist()
        return bonus

    with torch.random.fork_rng():
        torch.manual_seed(0)
        assert once() != once()
