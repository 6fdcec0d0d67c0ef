"""Layer probe of the gate, through worker processes: verdicts, evidence, known findings, resuming."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cases.probes import probe_groups
from harness.claimed import claimed_law
from harness.measured import Measured
from harness.probegroup import ProbeGroup
from harness.results import Results, read
from harness.samplers.base import Claims

from .conftest import Command, plugin

DYADIC = ("probe/target-only/dyadic/bush-0", "probe/target-only/dyadic/padded-1", "probe/target-only/dyadic/bush-2")


def results(folder: Path) -> Results:
    found = read(folder / "results.json")
    for sampler in found.samplers:
        for case in sampler.cases:
            case.seconds = 0.0
    return found


@pytest.mark.parametrize("name", ["Right", "Single", "Reversed"])
def test_right_verifiers_pass(gate: Command, name: str) -> None:
    run = gate(plugin(name))
    assert run.code == 0, run.out
    assert tuple(run.cases) == DYADIC
    for case in run.cases.values():
        (entry,) = case["evidence"]
        assert (case["verdict"], case["alpha"], case["p_value"]) == ("pass", 0.0, 1.0)
        assert (entry["test"], entry["p_value"], entry["decides"]) == ("probe", 1.0, True)
        assert case["n"] == entry["rows"] > 0
        assert entry["resolution"] == 2.0**-24
        assert entry["largest_difference"] < 2.0**-24
        assert entry["samples_for_the_same"] > 1e9
        assert case["reproduce"].startswith("chitree gate --sampler")


@pytest.mark.parametrize(
    ("name", "node", "coins"), [("OffByMillionth", 1, 17), ("LastOffByMillionth", 0, None), ("OneCoin", None, 1)]
)
def test_wrong_ones_exit_1_with_their_node(gate: Command, name: str, node: int | None, coins: int | None) -> None:
    run = gate(plugin(name))
    assert run.code == 1, run.out
    case = run.cases[DYADIC[0]]
    top = case["where"][0]
    assert case["verdict"] == "biased"
    assert case["p_value"] == 0.0
    assert case["evidence"][0]["p_value"] == 0.0
    assert node is None or top["node"] == node
    apart = (top["observed"] - top["expected"]) * 2**24
    assert coins is None or round(abs(apart)) == coins
    assert "coins of 2^24 too" in run.out


def test_foreign_coins_are_named(gate: Command) -> None:
    run = gate(plugin("RootsCoinAtTheEnd"))
    assert run.code == 1
    assert "the last token is drawn with the coin of node 0" in run.cases[DYADIC[0]]["reason"]


def test_what_cannot_be_measured_is_skipped(gate: Command) -> None:
    run = gate(plugin("Scattered"))
    assert run.code == 0, run.out
    assert {case["verdict"] for case in run.cases.values()} == {"skipped"}


def test_samplers_with_noise_of_their_own_have_none(gate: Command) -> None:
    run = gate(plugin("NotByCoins", "breakers.py"))
    assert run.code == 3
    assert "no case of suite smoke to run" in run.results["samplers"][0]["reason"]


@pytest.mark.parametrize(("name", "words"), [("Raises", "on purpose"), ("Dies", "SIGKILL")])
def test_breaking_while_probed(gate: Command, name: str, words: str) -> None:
    run = gate(plugin(name, "breakers.py"))
    assert run.code == 3, run.out
    for case in run.cases.values():
        assert case["verdict"] == "broken"
        assert words in case["reason"]
        assert "of group probe/target-only/dyadic" in case["reason"]


def test_known_findings_of_the_port(gate: Command) -> None:
    run = gate("sglang-tree-port", case="probe/target-only/*")
    assert run.code == 0, run.out
    known = {name: case for name, case in run.cases.items() if case["verdict"] == "known"}
    assert {name.rpartition("/")[0] for name in known} == {
        "probe/target-only/gap",
        "probe/target-only/repeated-siblings",
    }
    for name, case in known.items():
        first, seen = case["evidence"]
        assert (first["test"], first["decides"]) == ("probe", False)
        assert (seen["test"], seen["decides"], seen["p_value"]) == ("probe", False, 0.0)
        if "gap" in name:
            assert seen["rate"] == 2.0**-24
            assert case["reason"].startswith("coin in the gap (bug)")
        else:
            assert seen["rate"] == pytest.approx(0.8, abs=1e-6)
            assert case["reason"].startswith("repeated siblings (contract violation)")
    strict = gate("sglang-tree-port", "--strict", case="probe/target-only/gap/*", out="strict")
    assert strict.code == 1


def test_the_same_for_any_number_of_workers_and_when_resumed(gate: Command, tmp_path: Path) -> None:
    """Groups that are kept are not measured again, one whose file is gone is, and all come out as they were."""
    case = "probe/target-only/[dl]*"
    one = gate("reference", "--workers", "1", case=case, out="one")
    two = gate("reference", "--workers", "2", case=case, out="two")
    assert one.code == two.code == 0
    whole = results(tmp_path / "one")
    assert {c.case: c.evidence for c in whole.samplers[0].cases} == {
        c.case: c.evidence for c in results(tmp_path / "two").samplers[0].cases
    }
    folder = tmp_path / "one"
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "finished": False}))
    shutil.rmtree(folder / "progress", ignore_errors=True)
    again = gate("", "--resume", str(folder), out="one")
    assert again.code == 0
    assert results(folder).samplers == whole.samplers


def test_groups_that_are_kept(tmp_path: Path) -> None:
    from harness.runfolder import Recorded, RunFolder
    from harness.sweep import GroupRun

    from . import plugins
    from .asking import measured

    recorded = Recorded(
        sampler=["x"], case=[], suite="smoke", alpha=1e-6, seed=0, shrink=None, budget=None, fail_fast=False,
        strict=False, poison=False,
    )  # fmt: skip
    kept = RunFolder.start(tmp_path, recorded).of("x")
    group = next(group for group in probe_groups("smoke") if group.name == "probe/target-only/dyadic")
    plan, found = measured(ProbeGroup(group.name, group.cases[:1]), plugins.Single())
    assert kept.load(plan, 0) is None
    kept.save(GroupRun(plan, probed=found), 0)
    back = kept.load(plan, 0)
    assert back is not None
    assert not back.counts
    (one,) = back.probed
    assert isinstance(one, Measured)
    assert list(one.leaves()) == list(found[0].leaves())
    other = type(plan)(plan.group, plan.suite, 1, plan.n)
    assert kept.load(other, 0) is None


def test_laws_can_be_stated_for_samplers_that_filter_themselves() -> None:
    from harness.filters import SEMANTICS

    claims = Claims(("target-only",), "logits", coins=True, semantics=SEMANTICS["sequential"])
    for group in probe_groups("smoke"):
        if group.name == "probe/target-only/rounded":
            for case in group.cases:
                law = claimed_law(case, claims)
                assert law.undecided is None or not law.undecided.tokens.any(), case.name
