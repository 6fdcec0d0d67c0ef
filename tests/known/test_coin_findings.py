"""Coin cases and known findings through the command line: what is known, fixed, and never excused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from cases.coins import coin_groups
from cases.findings import PATH, known_findings
from cases.probes import probe_groups
from harness.case import Case
from harness.coincase import CoinCase, Impossible, impossible, judge_coins
from harness.counts import count_sequences
from harness.known import Excused, load
from harness.rules import rule
from harness.samplers.base import Claims
from harness.samplers.registry import SAMPLERS
from harness.selection import select
from harness.suite import Suite
from harness.tree import Tree

from .conftest import GAPS, ODD, PORT, Gate, drawn, finding, outcome, plugin

ZERO = outcome("coins/zero-mass/at-the-root", 3)


def test_right_verifiers_pass(gate: Gate) -> None:
    for name in ("reference", plugin("Right")):
        run = gate("--sampler", name)
        assert run.code == 0, run.out
        assert set(run.verdicts.values()) == {"pass"}
        assert len(run.verdicts) == sum(len(group.names) for group in coin_groups() if not group.outside)
        (sampler,) = run.results["samplers"]
        for case in sampler["cases"]:
            assert case["n"] == 1
            assert case["alpha"] == 0.0
            assert case["rule"] == "target-only"
            assert [part["test"] for part in case["evidence"]] == ["support"]


def test_port_has_the_kernels_findings(gate: Gate) -> None:
    run = gate("--sampler", PORT, known=json.loads(PATH.read_text())["findings"])
    assert run.code == 0, run.out
    known = {name for name, verdict in run.verdicts.items() if verdict == "known"}
    assert known == {
        *(name for group in coin_groups() for name in group.names if group.name in ("coins/gap", "coins/gap-odd")),
        "coins/repeated-siblings/between",
    }
    assert set(run.verdicts.values()) == {"known", "pass"}
    case = run.case("coins/gap/below-a-draft")
    assert case["where"][0]["prefix"] == [5]
    assert case["where"][0]["token"] == 15
    assert case["reason"].startswith("coin in the gap (bug): ")
    assert case["evidence"][0]["coins"] == [0.0, 1 - 2**-24]


@pytest.mark.parametrize("kernel", ["sglang-tree", "sglang-tree-32"], indirect=True)
def test_kernel_has_its_findings(gate: Gate, kernel: str) -> None:
    run = gate("--sampler", kernel, known=json.loads(PATH.read_text())["findings"])
    assert run.code == 0, run.out
    assert list(run.verdicts.values()).count("known") == 7
    assert {"known", "pass"} == set(run.verdicts.values())


def test_strict(gate: Gate) -> None:
    known = [finding(*GAPS, *ODD)]
    assert gate("--sampler", PORT, known=known).code == 0
    strict = gate("--sampler", PORT, "--strict", known=known)
    assert strict.code == 1
    assert strict.results["verdict"] == "pass"
    assert "6 known findings" in strict.out
    assert gate("--sampler", "reference", "--strict", known=known).code == 0


def test_nothing_is_excused_without_an_entry(gate: Gate) -> None:
    run = gate("--sampler", PORT, known=[finding(*GAPS)])
    assert run.code == 1
    assert {run.verdicts[name] for name in run.verdicts if name.startswith("coins/gap/")} == {"known"}
    assert {run.verdicts[name] for name in run.verdicts if name.startswith("coins/gap-odd/")} == {"biased"}


@pytest.mark.parametrize(
    "change",
    [
        {"samplers": {PORT: {"port of sglang": ["0.5.22", "0.5.24"]}}},
        {"samplers": {PORT: {"port of sglang": ["0.5.23"], "port of flashinfer": ["0.6"]}}},
        {"samplers": {PORT: {"no such package": ["0.5.23"]}}},
        {"samplers": {"sglang-tree": {"sglang": ["0.5.23"]}}},
        {"outcomes": [{**entry, "token": 14} for entry in GAPS]},
        {"outcomes": [{**entry, "prefix": [1]} for entry in GAPS]},
        {"outcomes": [{**entry, "layer": "cells"} for entry in GAPS]},
        {"outcomes": [{**entry, "case": "coins/gap"} for entry in GAPS]},
    ],
    ids=["versions", "one of two versions", "package", "sampler", "token", "prefix", "layer", "case"],
)
def test_what_an_entry_does_not_name_is_not_excused(gate: Gate, change: dict[str, Any]) -> None:
    run = gate("--sampler", PORT, known=[finding(*GAPS, **change)], case="coins/gap/*")
    assert run.code == 1, run.out
    assert set(run.verdicts.values()) == {"biased"}


def test_plugins_are_never_excused(gate: Gate) -> None:
    for name, group in (("Gap", "gap"), ("ZeroMass", "zero-mass")):
        run = gate("--sampler", plugin(name), known=[finding(*GAPS, *ODD, ZERO)], case=f"coins/{group}/*")
        assert run.code == 1
        assert "biased" in run.verdicts.values()
        assert not {"known", "fixed"} & set(run.verdicts.values())


def test_fixed(gate: Gate) -> None:
    """A finding that is gone is said to be, in the versions that it names and in others."""
    for versions in (["0.5.23"], ["0.5.19"]):
        entry = finding(ZERO, samplers={PORT: {"port of sglang": versions}})
        run = gate("--sampler", PORT, "--strict", known=[entry], case="coins/zero-mass/*")
        assert run.code == 0
        assert run.case("coins/zero-mass/at-the-root")["verdict"] == "fixed"
        assert "does not happen any more" in run.case("coins/zero-mass/at-the-root")["reason"]
        assert set(run.verdicts.values()) == {"fixed", "pass"}


def test_what_verifiers_need_not_take_is_put_to_those_named(gate: Gate) -> None:
    run = gate("--sampler", plugin("Right"), case="coins/*")
    assert not any(name.startswith("coins/repeated") for name in run.verdicts)
    alone = gate("--sampler", "reference", case="coins/repeated-siblings/*")
    assert alone.code == 3
    assert "no case" in alone.results["samplers"][0]["reason"]


def test_only_samplers_without_noise_of_their_own(gate: Gate) -> None:
    run = gate("--sampler", plugin("OwnCoins"), case="*")
    assert run.code == 0
    assert set(run.verdicts) == set(drawn().names)


def test_shares_of_alpha_are_undisturbed(gate: Gate) -> None:
    run = gate("--sampler", plugin("Right"), case="*")
    (sampler,) = run.results["samplers"]
    shares = {case["case"]: case["alpha"] for case in sampler["cases"]}
    assert [shares[name] for name in drawn().names] == [pytest.approx(1e-6 * 0.8 / 4)] * 4
    assert list(shares)[:4] == list(drawn().names)
    assert set(list(shares.values())[4:]) == {0.0}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["known.json", "known findings"]),
        ("[]", ["Expected `object`"]),
        ('{"schema": 2, "findings": []}', ["schema", "2"]),
        ('{"schema": 1, "findings": [], "more": 1}', ["more"]),
        ('{"schema": 1, "findings": [{"name": "x"}]}', ["kind", "findings[0]"]),
    ],
)
def test_malformed_file(gate: Gate, text: str, words: list[str]) -> None:
    check(gate("--sampler", "reference", known=text), words)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "feature"}, ["kind", "feature"]),
        ({"name": ""}, ["name"]),
        ({"samplers": {}}, ["a finding", "samplers"]),
        ({"samplers": {PORT: {}}}, [PORT, "versions"]),
        ({"samplers": {PORT: {"port of sglang": []}}}, ["samplers"]),
        ({"samplers": {"reference": {"numpy": ["2"]}}}, ["reference", "right"]),
        ({"samplers": {"mine.py:Mine": {"x": ["1"]}}}, ["mine.py:Mine", "released"]),
        ({"outcomes": []}, ["outcomes"]),
        ({"outcomes": [{**ZERO, "token": -1}]}, ["outcomes[0].token"]),
        ({"outcomes": [{**ZERO, "layer": "chi-square"}]}, ["outcomes[0].layer"]),
        ({"outcomes": [{**ZERO, "prefix": "0"}]}, ["outcomes[0].prefix"]),
        ({"excuse": "all"}, ["excuse"]),
    ],
)
def test_malformed_finding(gate: Gate, changes: dict[str, Any], words: list[str]) -> None:
    check(gate("--sampler", "reference", known=[{**finding(ZERO), **changes}]), words)


def test_finding_that_is_there_twice(gate: Gate) -> None:
    check(gate("--sampler", "reference", known=[finding(ZERO), finding(ZERO)]), ["a finding", "twice"])


def check(run: Any, words: list[str]) -> None:
    assert run.code == 2, run.out
    assert len(run.err.strip().splitlines()) == 1
    assert run.err.startswith("chitree: ")
    for word in words:
        assert word in run.err
    assert not run.results


def test_packaged_file() -> None:
    """Every entry names a sampler and a case that are there, and none of the reference."""
    known = known_findings()
    assert known == load(PATH)
    names = {name for group in (*coin_groups(), *probe_groups("standard")) for name in group.names}
    for entry in known.findings:
        assert set(entry.samplers) <= set(SAMPLERS)
        assert {named.case for named in entry.outcomes} <= names
        for name in names:
            assert known.naming("reference", name) is None
            assert not known.of("reference", SAMPLERS["reference"].versions(), name).outcomes


def test_judgement_on_coins() -> None:
    known = load(PATH)
    versions, case = {"port of sglang": "0.5.23"}, "coins/gap/support-3"
    excused, named = known.of(PORT, versions, case), known.naming(PORT, case)
    at = {"prefix": (), "node": 0, "token": 15, "kind": "token"}
    assert judge_coins(Impossible(**at), excused, named)[0] == "known"
    for change in ({"token": 14}, {"prefix": (1,)}, {"kind": "accepted"}, {"kind": "length"}):
        assert judge_coins(Impossible(**{**at, **change}), excused, named)[0] == "biased"
    assert judge_coins(None, excused, named)[0] == "fixed"
    nothing = Excused((), ())
    assert judge_coins(None, nothing, None) == ("pass", None)
    assert judge_coins(Impossible(**at), nothing, named)[0] == "biased"


def test_groups_of_coin_cases() -> None:
    suite = Suite("s", (drawn(),), 1.0, coin_groups())
    chosen = select(suite, ["coins/*", "trees/1"])
    assert chosen.coin_cases("x", Claims(("plain",), coins=True)) == []
    wanted = [name for group in coin_groups() if not group.outside for name in group.names]
    assert chosen.coin_cases("x", Claims(("target-only",), coins=True)) == wanted
    assert suite.case("coins/gap/support-3").vocab == 16
    assert suite.names == drawn().names
    assert suite.sizes == {"target-only": 4}
    for group in coin_groups():
        request, which = group.plan("s", 0).call(0)
        assert sorted(which) == list(range(len(group.members)))
        for row, g in enumerate(which):
            member = group.members[g]
            assert request.final_coins[row] == np.float32(member.final_coin)
            assert tuple(request.coins[row, : len(member.coins)]) == member.coins
            if member.case.tree.has_distinct_siblings:
                rule("target-only").check(member.case)


def test_sums_that_leave_a_gap() -> None:
    for group in coin_groups()[:2]:
        for member in group.members:
            node = len(member.coins) - 1
            row = member.case.target_probs[node]
            tokens = member.case.tree.child_tokens(node)
            assert np.add.accumulate(row[list(tokens)], dtype=np.float32)[-1] == np.float32(1 - 2**-24)
            assert set(np.flatnonzero(row)) == set(tokens)


def test_impossible_steps() -> None:
    logits = np.zeros((3, 4), np.float32)
    logits[0, 3] = -np.inf
    case = Case("c", "target-only", Tree(np.array([0, 1, 2]), np.array([-1, 0, 1])), logits, depth_limit=2)
    member, law = CoinCase(case), rule("target-only").law(case)

    def found(*tokens: int) -> Impossible | None:
        return impossible(member, law, count_sequences(np.array([tokens])))

    assert found(0, -1) is None
    assert found(1, 3) is None
    assert found(3, -1) == Impossible((), 0, 3, "token")
    assert found(0, 1) == Impossible((), 0, 0, "accepted")
    assert found(1, 2, 0) == Impossible((1,), 1, 2, "length")
    with pytest.raises(ValueError, match="multiples of 2"):
        CoinCase(case, (0.1,))
    with pytest.raises(ValueError, match="at most the 3"):
        CoinCase(case, (0.0,) * 4)
