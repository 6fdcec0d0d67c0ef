"""Equal runs give equal results, whatever the workers, the selection and the order of samplers."""

from __future__ import annotations

from typing import Any

import pytest

from harness.stats.alpha import RUN

from .running import QUICK, Gate, plugin, stable
from .small import suite

SOME = tuple(word for group in ("four", "six", "padded", "plain") for word in ("--case", f"{group}/*"))
OPTIONS = ("--suite", "smoke", *SOME, "--shrink", "2")


def by_case(sampler: dict[str, Any]) -> dict[str, Any]:
    return {case["case"]: stable(case) for case in sampler["cases"]}


def test_workers_change_nothing(gate: Gate) -> None:
    runs = [
        gate("--sampler", "reference", *OPTIONS, "--workers", str(workers), out=f"out-{workers}") for workers in (1, 2)
    ]
    assert [run.code for run in runs] == [0, 0]
    assert stable(runs[0].results) == stable(runs[1].results)


def test_workers_change_nothing_about_a_bias(gate: Gate) -> None:
    runs = [
        gate("--sampler", plugin("LastFromWhole"), *OPTIONS, "--workers", str(workers), out=f"out-{workers}")
        for workers in (1, 3)
    ]
    assert [run.code for run in runs] == [1, 1]
    assert stable(runs[0].results) == stable(runs[1].results)


def test_case_asked_for_alone_is_the_same(gate: Gate) -> None:
    every = by_case(gate("--sampler", "reference", *OPTIONS).samplers[0])
    for name in ("six/star", "padded/root-only", "plain/top-k"):
        run = gate("--sampler", "reference", *OPTIONS[:2], "--case", name, "--shrink", "2", out="alone")
        assert by_case(run.samplers[0]) == {name: every[name]}


def test_order_of_samplers_changes_nothing(gate: Gate) -> None:
    names = ("reference", plugin("Walks", "breakers.py"), plugin("TokenV"))
    words = [word for name in names for word in ("--sampler", name)]
    turned = [word for name in reversed(names) for word in ("--sampler", name)]
    one, other = gate(*words, *QUICK, out="one"), gate(*turned, *QUICK, out="other")
    assert one.code == other.code == 3
    assert stable(one.samplers) == stable(other.samplers)[::-1]


def test_equal_verifiers_get_equal_draws(gate: Gate) -> None:
    """The reference and a plugin that walks as it does differ in names and in the share of alpha alone."""
    run = gate("--sampler", "reference", "--sampler", plugin("Walks", "breakers.py"), *QUICK)
    one, other = (by_case(sampler) for sampler in run.samplers)
    for name, case in one.items():
        assert case["n"] == other[name]["n"]
        assert case["where"] == other[name]["where"]
        assert case["evidence"] == other[name]["evidence"]


def test_another_seed_gives_other_draws(gate: Gate) -> None:
    runs = [gate("--sampler", "reference", *QUICK, "--seed", seed, out=seed) for seed in ("0", "1")]
    assert runs[0].cases[0]["where"] != runs[1].cases[0]["where"]


def test_share_of_alpha_is_over_the_suite(gate: Gate) -> None:
    sizes = suite().sizes
    run = gate("--sampler", plugin("Walks", "breakers.py"), "--sampler", "reference", *QUICK, "--alpha", "1e-4")
    for sampler, size in zip(run.samplers, (sizes["target-only"], sum(sizes.values())), strict=True):
        for case in sampler["cases"]:
            assert case["alpha"] == pytest.approx(1e-4 * RUN["cases"] / size, rel=1e-12)


def test_shrink_is_followed_and_said(gate: Gate) -> None:
    run = gate("--sampler", "reference", *QUICK)
    assert {case["n"] for case in run.cases} == {256}
    assert run.samplers[0]["shrink"]["k"] == 5
    assert all("--shrink 5" in case["reproduce"] for case in run.cases)


@pytest.mark.parametrize(
    "kernel", ["sglang-tree", pytest.param("sglang-tree-32", marks=pytest.mark.slow)], indirect=True
)
def test_vendor_kernel_passes(gate: Gate, kernel: str) -> None:
    """The real kernel, shortly: the probability that a right one fails is 1e-6."""
    run = gate("--sampler", kernel, "--suite", "smoke", "--case", "four/*", "--case", "lossy/*", "--shrink", "3")
    assert run.code == 0, run.out
    (sampler,) = run.samplers
    assert sampler["runs_on"] == "cpu-simulated"
    assert sampler["versions"]["sglang"]
    assert {case["verdict"] for case in sampler["cases"]} == {"pass"}
