"""Sampler sglang-tree-gpu: how the op is found, and its marshalling, by stand-ins that run the simulated kernel."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.catalogue import suite
from harness import cli
from harness.asked import samplers_asked
from harness.errors import Unavailable
from harness.groups import Plan
from harness.request import Request
from harness.samplers import sglang_tree_gpu
from harness.samplers.registry import SAMPLERS
from harness.samplers.sglang_tree import SGLANG_TREE, SglangTree
from harness.samplers.sglang_tree_gpu import SglangTreeGpu, find_op, launch, look

pytest.importorskip("torch")
STANDINS = Path(__file__).resolve().parent / "standins"
GROUPS = [entry for entry in suite("smoke").groups if entry.rule == "target-only"]
ROWS = 96
Use = Callable[[str], None]


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    why = SGLANG_TREE.unavailable()
    if why:
        pytest.skip(why)
    try:
        SGLANG_TREE.prepare()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that installs a stand-in, for this process and those it starts."""
    before = set(sys.modules)

    def install(name: str) -> None:
        folders = [str(STANDINS / name), str(STANDINS)]
        monkeypatch.setattr(sys, "path", [*folders, *sys.path])
        monkeypatch.setenv("PYTHONPATH", ":".join(folders))
        importlib.invalidate_caches()

    yield install
    for name in set(sys.modules) - before:
        if name.split(".")[0] in ("sgl_kernel", "sglang"):
            del sys.modules[name]


def request_of(entry: Any) -> Request:
    request, _ = Plan(entry.group, "gpu", 0, entry.n).call(0)
    return request.take(np.arange(min(ROWS, request.batch)))


@pytest.mark.parametrize(
    ("name", "entry"),
    [*(("compiled", entry) for entry in GROUPS), ("jit", GROUPS[0])],
    ids=lambda part: part if isinstance(part, str) else part.name,
)
def test_it_emits_what_the_kernel_emits(entry: Any, name: str, use: Use) -> None:
    use(name)
    expected = SglangTree(1024).verify(request_of(entry))
    found = SglangTreeGpu("cpu").verify(request_of(entry))
    for field in ("tokens", "lengths", "nodes"):
        assert (getattr(found, field) == getattr(expected, field)).all(), field


def test_arrays_of_other_strides_and_dtypes_are_marshalled(use: Use) -> None:
    use("compiled")
    entry = GROUPS[1]
    expected, request = SglangTree(1024).verify(request_of(entry)), request_of(entry)
    request.candidates = np.asfortranarray(request.candidates)
    request.retrieve_next_token = request.retrieve_next_token.astype(np.int32)
    request.retrieve_next_sibling = np.repeat(request.retrieve_next_sibling, 2, axis=1)[:, ::2]
    request.coins = request.coins.astype(np.float64)
    request.target_probs = np.asfortranarray(request.target_probs)
    found = SglangTreeGpu("cpu").verify(request)
    assert (found.tokens == expected.tokens).all()


def test_inputs_are_left_alone_and_zeros_are_fresh(use: Use) -> None:
    """The op writes into draft_probs; the second of two calls of one instance gets zeros again."""
    use("compiled")
    sampler, request = SglangTreeGpu("cpu"), request_of(GROUPS[2])
    first, probs = sampler.verify(request), request.target_probs.copy()
    assert (sampler.verify(request).tokens == first.tokens).all()
    assert (request.target_probs == probs).all()


def test_what_the_op_leaves_unwritten_is_no_result() -> None:
    request = request_of(GROUPS[1])
    outputs = launch(
        lambda **_: None,
        "cpu",
        **{
            name: getattr(request, name)
            for name in ("candidates", "retrieve_index", "retrieve_next_token", "retrieve_next_sibling", "coins")
        },
        final_coins=request.final_coins,
        target_probs=request.target_probs,
        depth_limit=request.depth_limit,
    )
    assert [output.dtype for output in outputs] == [np.int32] * 3
    assert all((output == -1).all() for output in outputs)
    assert (SglangTreeGpu("cpu", lambda **_: None).verify(request).lengths == 0).all()  # below 1: broken


def test_a_cuda_error_ends_the_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def op(**_: Any) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def leave(code: int) -> None:
        raise SystemExit(code)

    monkeypatch.setattr("os._exit", leave)
    with pytest.raises(SystemExit):
        SglangTreeGpu("cpu", op).verify(request_of(GROUPS[1]))
    assert "illegal memory access" in capsys.readouterr().err

    def other(**_: Any) -> None:
        raise RuntimeError("predicts: wrong dtype")

    with pytest.raises(RuntimeError, match="wrong dtype"):
        SglangTreeGpu("cpu", other).verify(request_of(GROUPS[1]))


# ---- finding the op


@pytest.mark.parametrize(
    ("name", "module"), [("compiled", "sgl_kernel"), ("jit", "sglang.kernels.ops.speculative.sampling")]
)
def test_found_in_a_process_of_its_own(name: str, module: str, use: Use) -> None:
    use(name)
    found = look("cpu")
    assert found.reason is None
    assert found.versions["op"] == module
    assert found.versions["device"] == "cpu"
    assert "torch" in found.versions
    assert not {"sgl_kernel", "sglang"} & set(sys.modules)


def test_a_wrapper_without_the_op_is_told(use: Use) -> None:
    use("gone")
    found = look("cpu")
    assert found.reason is not None
    assert "\n" not in found.reason
    assert "sgl_kernel: AttributeError: '_OpNamespace' 'sgl_kernel' object has no attribute" in found.reason
    assert "sglang.kernels.ops.speculative.sampling: ModuleNotFoundError: No module named 'sglang'" in found.reason


def test_another_signature_is_told(monkeypatch: pytest.MonkeyPatch, use: Use) -> None:
    use("compiled")
    module = importlib.import_module("sgl_kernel")
    monkeypatch.setattr(module, sglang_tree_gpu.NAME, lambda predicts, accept_index: None)
    with pytest.raises(Unavailable, match=r"sgl_kernel: TypeError: .*unexpected keyword argument"):
        find_op("cpu")


def test_a_crash_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "sgl_kernel.py").write_text("import os; print('last words', flush=True); os.abort()")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert look("cpu").reason == "a process that looks for the op ended with code -6; it last said: last words"


def test_without_a_driver_nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(name: str) -> Any:
        raise OSError(name)

    def no_process(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr("ctypes.CDLL", no_library)
    monkeypatch.setattr("subprocess.run", no_process)
    assert look("cuda").reason == "no CUDA device: there is no NVIDIA driver (libcuda.so.1)"


class Driver:
    """A driver that finds so many devices."""

    def __init__(self, code: int, count: int) -> None:
        self.code, self.count = code, count

    def cuInit(self, flags: int) -> int:  # noqa: N802
        return self.code

    def cuDeviceGetCount(self, where: Any) -> int:  # noqa: N802
        where._obj.value = self.count
        return 0


@pytest.mark.parametrize(
    ("driver", "torch", "says"),
    [
        (Driver(100, 0), "2.9.1", "no CUDA device: the NVIDIA driver finds none (error 100)"),
        (Driver(0, 0), "2.9.1", "no CUDA device: the NVIDIA driver finds none"),
        (Driver(0, 1), "2.13.0+cpu", "torch 2.13.0+cpu is built without CUDA"),
        (Driver(0, 1), "2.9.1", None),
    ],
)
def test_reasons(monkeypatch: pytest.MonkeyPatch, driver: Driver, torch: str, says: str | None) -> None:
    monkeypatch.setattr("ctypes.CDLL", lambda name: driver)
    assert sglang_tree_gpu._absent("cuda", torch) == says


def test_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert sglang_tree_gpu._absent("cuda", "") == "torch is not installed"


# ---- the command line


def found(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> None:
    known = replace(SAMPLERS["sglang-tree-gpu"], unavailable=lambda: reason, versions=dict)
    monkeypatch.setitem(SAMPLERS, "sglang-tree-gpu", known)


def test_named_without_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found(monkeypatch, "no CUDA device: none")
    code = cli.run(["gate", "--sampler", "sglang-tree-gpu", "--suite", "smoke", "--out", str(tmp_path / "out")])
    assert code == 3
    assert "no CUDA device: none" in capsys.readouterr().out
    assert cli.run(["samplers"]) == 0
    assert "runs on gpu; cannot run here: no CUDA device: none" in capsys.readouterr().out


@pytest.mark.parametrize("reason", [None, "no CUDA device: none"])
def test_default_samplers(monkeypatch: pytest.MonkeyPatch, reason: str | None) -> None:
    found(monkeypatch, reason)
    native = () if reason else ("sglang-tree-gpu",)
    assert samplers_asked((), suite("smoke"), ()) == ("sglang-tree", "reference", *native)
    assert samplers_asked((), suite("smoke"), ("block/*",)) == ("reference",)
    assert "sglang-tree-gpu" in samplers_asked(["all"], suite("smoke"), ())
    assert "sglang-tree-gpu" not in samplers_asked(["all-cpu"], suite("smoke"), ())


# ---- natively


def test_on_a_gpu_the_accept_path_is_that_of_the_simulated_kernel() -> None:
    """How often the last token differs, benchmarks/gpu_compare.py says."""
    why = SAMPLERS["sglang-tree-gpu"].unavailable()
    if why:
        pytest.skip(why)
    native, simulated = SAMPLERS["sglang-tree-gpu"].make("target-only"), SglangTree(1024)
    for entry in GROUPS:
        expected, found = simulated.verify(request_of(entry)), native.verify(request_of(entry))
        assert (found.lengths == expected.lengths).all(), entry.name
        assert (found.nodes == expected.nodes).all(), entry.name
