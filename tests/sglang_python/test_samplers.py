"""The samplers coin for coin against plain loops, and what they leave in the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from harness.filters import SamplingParams
from harness.request import Request
from harness.samplers.base import Verifier
from harness.samplers.sglang_ops import SglangOps
from harness.samplers.standin import NotThere
from tests.sglang_python.conftest import call
from tests.sglang_python.oracle import verified

Get = Callable[[str], Verifier]

NEAR = 1e-5
"""Rows with a coin nearer to a boundary than this are left out: float32 may decide them otherwise."""
PARAMS = {
    "temperature": SamplingParams(0.6),
    "top-k": SamplingParams(top_k=3),
    "top-p": SamplingParams(top_p=0.7),
    "all": SamplingParams(1.7, top_k=4, top_p=0.8, min_p=0.3),
}


def agree(got: Verifier, request: Request, ties: str = "all", rows: int = 96) -> int:
    """Compare the first rows of a request with the oracle, and return how many of them could be compared."""
    request.threshold_single = request.threshold_acc = 1.0
    result, compared = got.verify(request), 0
    for b in range(min(rows, request.batch)):
        expected = verified(request, b, ties)
        if expected.nearest > NEAR:
            compared += 1
            assert result.lengths[b] == len(expected.tokens), b
            assert result.tokens[b, : result.lengths[b]].tolist() == expected.tokens, b
    return compared


def with_params(request: Request, params: SamplingParams) -> Request:
    request.temperature[:], request.top_p[:], request.min_p[:] = params.temperature, params.top_p, params.min_p
    request.top_k[:] = params.top_k or request.vocab
    request.threshold_single = request.threshold_acc = 1.0
    return request


@pytest.mark.parametrize("name", ["sglang-eagle", "sglang-dflash", "sglang-dflash-top-k"])
@pytest.mark.parametrize("params", PARAMS)
def test_each_filter_in_every_row(sampler: Get, name: str, params: str) -> None:
    request = with_params(call("target-only/tiny-0", chains="dflash" in name), PARAMS[params])
    ties = "exact" if name != "sglang-eagle" and PARAMS[params].top_k else "all"
    request.target_logits[:] += np.random.default_rng(0).normal(0.0, 0.01, request.target_logits.shape)  # no ties
    assert agree(sampler(name), request, ties) >= 80


@pytest.mark.parametrize("name", ["sglang-eagle", "sglang-dflash", "sglang-dflash-top-k"])
@pytest.mark.parametrize("group", ["tiny-1", "small-0", "small-1"])
def test_mixed_parameters_in_a_batch(sampler: Get, name: str, group: str) -> None:
    request = call(f"target-only/{group}", chains="dflash" in name)
    if name == "sglang-dflash-top-k":
        request.target_logits[:] += np.random.default_rng(0).normal(0.0, 0.01, request.target_logits.shape)
    assert agree(sampler(name), request) >= 70


@pytest.mark.parametrize("name", ["sglang-eagle", "sglang-dflash"])
def test_a_vocabulary_with_the_other_top_p_kernel(sampler: Get, name: str) -> None:
    group = next(g for g in ("target-only/wide-0", "target-only/wide-1"))
    request = with_params(call(group, chains=name == "sglang-dflash"), SamplingParams(0.9, top_k=60, top_p=0.8))
    request.top_k[0] = request.vocab  # DFlash's other way
    assert agree(sampler(name), request, rows=12) >= 8


@pytest.mark.parametrize("name", ["sglang-eagle", "sglang-dflash"])
@pytest.mark.parametrize("others", [False, True])
def test_temperature_0(sampler: Get, name: str, others: bool) -> None:
    request = with_params(call("target-only/tiny-0", chains=name == "sglang-dflash"), SamplingParams(0.0))
    request.target_logits[:] += np.random.default_rng(0).normal(0.0, 0.01, request.target_logits.shape)
    if others:  # or else SGLang takes its greedy branch
        request.temperature[1::2] = 1.0
    assert agree(sampler(name), request) >= 80


def test_thresholds_are_the_server_s(sampler: Get) -> None:
    request = with_params(call("target-only/tiny-0"), SamplingParams())
    lossless = sampler("sglang-eagle").verify(request).lengths
    request.threshold_single, request.threshold_acc = 0.0, 0.5
    lossy = sampler("sglang-eagle").verify(request).lengths
    assert lossy.sum() > 1.1 * lossless.sum()
    request.threshold_single, request.threshold_acc = 1.0, 1.0
    np.testing.assert_array_equal(sampler("sglang-eagle").verify(request).lengths, lossless)


def test_padding_and_depth_limit_reach_the_kernel(sampler: Get) -> None:
    request = call("target-only/tiny-0")
    assert (request.node_count < request.nodes).any()
    result = sampler("sglang-eagle").verify(request)
    assert result.nodes is not None
    assert (result.nodes < request.node_count[:, None]).all()
    assert result.lengths.max() <= request.depth_limit


def test_chains_alone_are_taken(sampler: Get) -> None:
    with pytest.raises(ValueError, match="chains of all nodes are expected"):
        sampler("sglang-dflash").verify(call("target-only/tiny-0"))


def test_seeds_and_lengths_decide(sampler: Get) -> None:
    seeds = sampler("sglang-eagle-seeds")
    request = with_params(call("target-only/tiny-0"), SamplingParams())
    first = seeds.verify(request).tokens
    request.coins[:], request.final_coins[:] = 0.0, 0.0
    np.testing.assert_array_equal(seeds.verify(request).tokens, first)
    request.positions += 10_000
    assert (seeds.verify(request).tokens != first).any()


def test_coins_from_seeds_are_the_hash(sampler: Get) -> None:
    request = with_params(call("target-only/tiny-0"), SamplingParams())
    first = sampler("sglang-eagle-seeds").verify(request).tokens
    hashes = [
        [murmur(seed, position, column) for column in range(request.nodes + 1)]
        for seed, position in zip(request.seeds.tolist(), request.positions.tolist(), strict=True)
    ]
    coins = np.minimum(np.array(hashes) / (2.0**32 - 1), 1.0 - 2.0**-24).astype(np.float32)
    request.coins, request.final_coins = np.ascontiguousarray(coins[:, :-1]), np.ascontiguousarray(coins[:, -1])
    np.testing.assert_array_equal(sampler("sglang-eagle").verify(request).tokens, first)


def murmur(seed: int, position: int, column: int) -> int:
    """MurmurHash3, x86, 32 bits, of 16 bytes, one word after the other."""

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) % 2**32

    h = 0
    for k in (seed % 2**32, seed >> 32 & 0xFFFFFFFF, position, column):
        h ^= rotated(k * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32
        h = (rotated(h, 13) * 5 + 0xE6546B64) % 2**32
    h ^= 16
    h = (h ^ h >> 16) * 0x85EBCA6B % 2**32
    h = (h ^ h >> 13) * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


@pytest.mark.parametrize(
    ("key", "expected"),
    [((0, 0, 0), 2167721464), ((1, 2, 3), 599080849), ((42, 100, 7), 2956432154), ((2**31 - 1, 1, 0), 3036896504)],
)
def test_the_hash_is_murmur3(key: tuple[int, int, int], expected: int) -> None:
    assert murmur(*key) == expected  # of another library, mmh3 5


def test_coins_must_be_asked_for(sampler: Get) -> None:
    eagle = sampler("sglang-eagle")
    dealer = eagle._dealer  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match=r"random numbers of \(3,\) were asked for, coins of \[\] are left"):
        dealer.rand((3,))
    with pytest.raises(RuntimeError, match=r"coins of \[\(2,\)\] were not asked for"), dealer.dealing([np.zeros(2)]):
        pass


def test_nothing_of_the_vendor_s_is_left_in_the_process(sampler: Get) -> None:
    sampler("sglang-eagle").verify(call("target-only/tiny-0"))
    sampler("sglang-dflash").verify(call("target-only/tiny-0", chains=True))
    names = [name for name in sys.modules if name.partition(".")[0] in ("sglang", "flashinfer", "sgl_kernel", "triton")]
    assert not names


def test_the_parent_imports_neither_torch_nor_the_vendor_s() -> None:
    code = (
        "import sys; from harness.samplers.registry import SAMPLERS\n"
        "for s in SAMPLERS.values():\n    s.versions() if 'gpu' not in s.name else None\n"
        "assert not {'torch', 'sglang', 'triton'} & {n.partition('.')[0] for n in sys.modules}\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_other_kernels_are_not_there(sampler: Get) -> None:
    with pytest.raises(NotThere, match="the module of kernels other is not simulated"):
        SglangOps().load_jit("other")
