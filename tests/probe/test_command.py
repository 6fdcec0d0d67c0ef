"""``chitree probe``: what it prints, as text and JSON, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cases.catalogue import suite
from cases.probes import default_case
from harness.casefile import dump
from harness.conditional import Drafted
from harness.probe import probe as measure
from harness.probe import swept
from harness.reads import COINS, Subject
from harness.rules import RULES
from harness.samplers.base import Claims
from harness.streams import stream

from .conftest import Command, plugin

PORT = "sglang-tree-port"


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, marks=[] if rule in ("plain", "block", "rejection-no-replacement") else [pytest.mark.slow])
        for rule in RULES
        if rule != "none-chain"
    ],
)
def test_reference_in_every_rule(probe: Command, rule: str) -> None:
    run = probe("reference", "--rule", rule, "--json")
    assert run.code == 0, run.out + run.err
    found = run.results
    assert (found["verdict"], found["rule"], found["vocab"]) == ("pass", rule, 16)
    assert found["resolution"] == 2.0**-24
    assert found["law"]
    prefixes = {tuple(row["prefix"]) for row in found["law"]}
    for prefix in prefixes:
        rows = [row for row in found["law"] if tuple(row["prefix"]) == prefix]
        assert sum(row["observed"] for row in rows) == pytest.approx(1.0, abs=1e-12)
        assert sum(row["expected"] for row in rows) == pytest.approx(1.0, abs=1e-9)


def test_law_to_1e_7_at_every_node_and_token(probe: Command) -> None:
    found = probe(PORT, "--json").results
    case = default_case("target-only")
    assert case is not None
    assert found["case"] == case.name
    assert {row["node"] for row in found["law"]} == set(range(8))
    assert all(abs(row["observed"] - row["expected"]) < 1e-7 for row in found["law"])
    tokens = {(row["node"], row["token"]) for row in found["law"]}
    assert tokens >= {(node, token) for node in range(8) for token in np.flatnonzero(case.target_probs[node]).tolist()}
    for decision in found["decisions"]:
        starts = [start for start, _ in decision["stretches"]]
        assert starts[0] == decision["low"] == 0
        assert starts == sorted(set(starts))
        assert decision["high"] == COINS


@pytest.mark.parametrize("kernel", ["sglang-tree", "sglang-tree-32"], indirect=True)
def test_kernel(probe: Command, kernel: str) -> None:
    found = probe(kernel, "--json").results
    assert found["verdict"] == "pass"
    assert found["runs_on"] == "cpu-simulated"
    assert found["versions"]["sglang"]
    assert found["largest_difference"] < 1e-7


def test_text(probe: Command) -> None:
    run = probe(PORT)
    assert run.code == 0
    case = default_case("target-only")
    assert case is not None
    assert case.name in run.out
    assert "draws for the same" in run.out
    assert "resolution 2^-24" in run.out
    assert run.out.rstrip().endswith("PASS")
    assert run.out.count("accepted") == 7


def test_biased(probe: Command) -> None:
    run = probe(plugin("OffByMillionth"))
    assert run.code == 1
    assert "+17.00" in run.out
    assert "BIASED" in run.out
    foreign = probe(plugin("RootsCoinAtTheEnd"))
    assert foreign.code == 1
    assert "BIASED: " in foreign.out
    assert "the last token is drawn with the coin of node 0" in foreign.out


def test_not_measured(probe: Command) -> None:
    run = probe(plugin("Scattered"))
    assert run.code == 3
    assert "not measured" in run.out


def test_known_finding(probe: Command) -> None:
    run = probe(PORT, "--case", "probe/target-only/gap/support-3")
    assert run.code == 0
    assert "known, coin in the gap: after nothing token 15, 1 coins" in run.out
    assert "KNOWN: coin in the gap (bug)" in run.out


def test_case_of_a_file_and_of_a_suite(probe: Command, tmp_path: Path) -> None:
    case = default_case("target-only")
    assert case is not None
    path = tmp_path / "case.json"
    path.write_bytes(dump(case))
    assert probe(PORT, "--case", str(path), "--json").results["law"] == probe(PORT, "--json").results["law"]
    name = suite("smoke").groups[0].names[0]
    drawn = probe("reference", "--case", name, "--suite", "smoke", "--seed", "3", "--json")
    assert drawn.code == 0
    assert (drawn.results["case"], drawn.results["seed"]) == (name, 3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no-such",), ["no such sampler"]),
        (("reference", "--rule", "no-such"), ["no such rule"]),
        (("reference", "--rule", "none-chain"), ["cannot be probed", "drafts' own randomness"]),
        ((PORT, "--rule", "plain"), ["--rule plain", "target-only"]),
        ((PORT, "--case", "no/such"), ["matches no case"]),
        ((PORT, "--case", "probe/plain/dyadic/root-0"), ["its rule is plain"]),
        ((PORT, "--rule", "target-only", "--case", "x"), ["--rule is for the default case"]),
        ((PORT, "--sweep", "8"), ["--sweep", "from 0 to 7"]),
        ((plugin("NotByCoins", "breakers.py"),), ["cannot be probed", "coins = True"]),
        ((plugin("NoSuchThing"),), ["no attribute"]),
    ],
)
def test_bad_input(probe: Command, arguments: tuple[str, ...], words: list[str]) -> None:
    run = probe(*arguments)
    assert run.code == 2, run.out
    assert len(run.err.strip().splitlines()) == 1
    for word in words:
        assert word in run.err


def test_breaking(probe: Command) -> None:
    run = probe(plugin("Raises", "breakers.py"))
    assert run.code == 3
    assert "on purpose" in run.err
    assert len(run.err.strip().splitlines()) == 1


@pytest.mark.slow
def test_sweep_of_all_values(probe: Command) -> None:
    """Two decisions at a leaf's parent: acceptance and the last draw, 2^24 values each."""
    found = probe(PORT, "--sweep", "7", "--json").results
    assert found["verdict"] == "pass"
    assert [entry["not_as_bisected"] for entry in found["swept"]] == [0]


def test_a_sweep_finds_what_lies_between_the_points() -> None:
    """An island of 40 coins in the last draw of a single node, of a function that costs nothing."""
    case = default_case("plain")
    assert case is not None
    law = np.cumsum(case.target_probs[0].astype(np.float64))
    subject = Subject(Drafted.given(case), Claims(("plain",), coins=True))
    token = int(np.flatnonzero(case.target_probs[0])[0])

    def ask(which: np.ndarray, coins: np.ndarray) -> np.ndarray:
        tokens = np.searchsorted(law, coins[:, -1] / COINS, side="right")
        return np.where((coins[:, -1] >= 9_000_000) & (coins[:, -1] < 9_000_040), token, tokens)[:, None]

    (found,) = measure([subject], ask, stream("sweep"))
    exact = swept(subject, found, 0, ask)
    assert exact.swept == [(0, 40)]
    before, after = found.decisions[0].stretches, exact.decisions[0].stretches
    assert len(after.starts) == len(before.starts) + 2
    label = next(i for i, tokens in enumerate(found.sequences) if tokens == (token,))
    assert after.count(label) == before.count(label) + 40
