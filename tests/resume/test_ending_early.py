"""--fail-fast and --budget."""

from __future__ import annotations

import json
import time

import pytest

from harness.budget import SPARE, fitting
from harness.groups import Plan
from harness.sweep import GroupRun, Pace, Sweep

from .conftest import Gate, plugin, small

SOME = ("--case", "v4/*", "--case", "v5/*", "--case", "v6/*")


def test_fail_fast(gate: Gate) -> None:
    names = ("--sampler", plugin("Biased"), "--sampler", "reference", *SOME, "--shrink", "3")
    whole, run = gate(*names, out="whole"), gate(*names, "--fail-fast")
    assert run.code == whole.code == 1
    assert run.verdicts == {name: {"pass"} for name in ("v4", "v5", "v6")}, "other samplers are run"
    found = {case["case"]: case for case in run.results["samplers"][0]["cases"]}
    unbroken = {case["case"]: case for case in whole.results["samplers"][0]["cases"]}
    for name, case in found.items():
        if name.startswith(("v4", "v5")):
            assert case == unbroken[name]
        else:
            assert case["verdict"] == "skipped"
            assert case["reason"] == "--fail-fast: a bias was found before"
    assert "biased" in {case["verdict"] for case in found.values()}


def test_fail_fast_without_a_bias(gate: Gate) -> None:
    names = ("--sampler", "reference", *SOME, "--shrink", "3")
    assert gate(*names, "--fail-fast").results == gate(*names, out="whole").results


class Paced(Sweep):
    """A sweep whose calls are told rather than timed."""

    def __init__(self, start: float, call: float) -> None:
        super().__init__("reference", 2, 2, None)  # type: ignore[arg-type]
        self.plans = small().plans(small().groups, 0)
        self._pace = start, call

    def pace(self, plan: Plan) -> Pace | None:
        start, call = self._pace
        return None if call < 0 else Pace(start, call, GroupRun(plan))


@pytest.mark.parametrize("start", [0.0, 0.01])
@pytest.mark.parametrize("call", [1e-4, 1e-3, 0.1])
@pytest.mark.parametrize("seconds", [0.5, 5.0, 50.0])
def test_draws_that_fit(start: float, call: float, seconds: float) -> None:
    sweep = Paced(start, call)
    found = fitting(sweep, lambda _: None, seconds, 16)
    assert found is not None
    k, why = found

    def needed(k: int) -> float:
        shards = [plan.shards(k) for plan in sweep.plans]
        return SPARE * sum(len(some) * start + some[-1].stop * call for some in shards) / 2

    assert why.startswith("--budget: ")
    if k < 16:
        assert needed(k) <= seconds
    else:
        assert "fewer are not to be had" in why
    if k:
        assert needed(k - 1) > seconds - 0.1, "no fewer draws than need be"


def test_judging_counts_too() -> None:
    found = fitting(Paced(0.0, 1e-5), lambda _: time.sleep(0.05), 0.35, 16)
    assert found is not None
    assert found[0] == 16


def test_sampler_that_breaks_is_not_timed() -> None:
    assert fitting(Paced(0.0, -1.0), lambda _: None, 1.0, 16) is None


def test_budget(gate: Gate) -> None:
    names = ("--sampler", plugin("Slow"), *SOME)
    run = gate(*names, "--budget", "8")
    assert run.code == 0
    (sampler,) = json.loads((run.folder / "results.json").read_text())["samplers"]
    assert sum(case["seconds"] for case in sampler["cases"]) < 8, "all draws would take 10 s and more"
    shrink = run.results["samplers"][0]["shrink"]
    assert shrink["k"] >= 1
    assert shrink["reason"].startswith("--budget: ")
    assert {case["n"] for case in run.results["samplers"][0]["cases"]} == {1024 >> shrink["k"]}
    assert all(f"--shrink {shrink['k']}" in case["reproduce"] for case in run.results["samplers"][0]["cases"])


@pytest.mark.slow
def test_budget_with_time_to_spare(gate: Gate) -> None:
    """All draws, also where a sampler has a fixed part of them; and the number is kept for going on."""
    names = ("--sampler", "reference", "--sampler", plugin("Notes"), *SOME, "--budget", "3600")
    gate(*names, until=2)
    run = gate(resume=True)
    assert run.code == 0
    for sampler in run.results["samplers"]:
        assert sampler["shrink"]["k"] == 0
        assert sampler["shrink"]["reason"].startswith("--budget: ")


@pytest.mark.parametrize("value", ["0", "-1", "nan", "inf", "soon"])
def test_budget_that_is_none(gate: Gate, value: str) -> None:
    run = gate("--sampler", "reference", *SOME, "--budget", value)
    assert run.code == 2
    assert "--budget" in run.err
    assert not (run.folder / "results.json").exists()


def test_budget_and_shrink(gate: Gate) -> None:
    run = gate("--sampler", "reference", *SOME, "--budget", "5", "--shrink", "2")
    assert run.code == 2
    assert "--budget and --shrink" in run.err
