"""--poison: what is read before it was written shows, and nothing else does."""

from __future__ import annotations

import importlib.util
import platform
import subprocess
import sys

import numpy as np
import pytest

from harness.poison import BYTE, ENVIRONMENT, poisoned, unwritten

from .running import QUICK, Gate, plugin, stable

glibc = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="fills what malloc gives through glibc")


@pytest.mark.parametrize(
    "attribute",
    [
        "Fresh",
        pytest.param("FromTheLibrary", marks=glibc),
        pytest.param("OfAnArray", marks=[glibc, pytest.mark.slow]),
        pytest.param("OfTorch", marks=[glibc, pytest.mark.slow]),
    ],
)
def test_memory_that_was_never_written_shows(gate: Gate, attribute: str) -> None:
    if attribute == "OfTorch":
        pytest.importorskip("torch")
    verifier = plugin(attribute, "unwritten.py")
    usual = gate("--sampler", verifier, *QUICK, out="usual")
    assert usual.code == 0, usual.out
    assert usual.results["poison"] is False
    run = gate("--sampler", verifier, *QUICK, "--poison")
    assert run.code == 1, run.out
    assert "biased" in {case["verdict"] for case in run.cases}
    assert run.results["poison"] is True
    assert "poisoned" in run.out
    for case in run.cases:
        assert case["reproduce"].endswith(" --poison")
        assert "--poison" not in next(c for c in usual.cases if c["case"] == case["case"])["reproduce"]


@pytest.mark.parametrize("name", ["reference", "sglang-tree-port", plugin("Initialised", "unwritten.py")])
def test_right_samplers_pass_and_draw_the_same(gate: Gate, name: str) -> None:
    usual, run = gate("--sampler", name, *QUICK, out="usual"), gate("--sampler", name, *QUICK, "--poison")
    assert run.code == 0, run.out
    for one, other in zip(usual.cases, run.cases, strict=True):
        assert {**stable(other), "reproduce": ""} == {**stable(one), "reproduce": ""}


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["sglang-tree", "sglang-tree-32"], indirect=True)
def test_vendor_kernel_passes(gate: Gate, kernel: str) -> None:
    cases = ("--suite", "smoke", "--case", "four/*", "--case", "lossy/*", "--shrink", "3")
    run = gate("--sampler", kernel, *cases, "--poison")
    assert run.code == 0, run.out


SHOWN = """
import numpy as np
from harness.poison import poison_numpy, unwritten
poison_numpy()
made = [np.empty(3), np.empty((2, 5), np.float32, order="F"), np.empty(1000, np.int8), np.empty((), np.int64)]
made += [np.empty_like(made[1]), np.empty_like(np.zeros((4, 3)).T), np.empty((0, 3)), unwritten((3, 2), np.int32, -1)]
assert {byte for array in made for byte in array.tobytes()} == {%d}
assert np.empty(2, object).tolist() == [None, None]
assert np.empty_like(np.matrix([1])).shape == (1, 1)
assert made[-1].flags.writeable
assert not np.zeros(3).any() and (np.full(3, 7) == 7).all()
"""


def test_what_numpy_gives() -> None:
    """In a process of its own: it cannot be undone."""
    done = subprocess.run(
        [sys.executable, "-c", SHOWN % BYTE], env={**ENVIRONMENT, "PYTHONPATH": _root()}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def _root() -> str:
    spec = importlib.util.find_spec("harness")
    assert spec is not None
    assert spec.origin is not None
    return spec.origin.rpartition("/harness/")[0]


def test_buffers_of_a_process_that_is_not_poisoned() -> None:
    assert not poisoned()
    np.testing.assert_array_equal(unwritten((2, 3), np.int32, -1), np.full((2, 3), -1, np.int32))
