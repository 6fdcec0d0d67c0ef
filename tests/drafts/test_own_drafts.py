"""Samplers with a method ``draft``: cases by position, what they return, and that shared noise is found."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cases.catalogue import suite as catalogue
from harness.case import Case
from harness.drafted import by_position, put_drafts
from harness.errors import UsageError
from harness.filters import SamplingParams
from harness.gate import GateOptions, gate
from harness.groups import Group, Plan
from harness.redraw import POSITIONAL, next_state
from harness.rules import rule
from harness.streams import stream
from harness.suite import Suite, SuiteGroup
from harness.tree import Tree

from . import plugins

FILE = Path(__file__).resolve().parent / "plugins.py"
STATES, VOCAB, NODES = 5, 6, 5


def case(name: str, rule_name: str, size: int = 4) -> Case:
    """Return a chain whose nodes are numbered at random."""
    rng = stream("own drafts", rule_name, name)
    new = np.concatenate([[0], 1 + rng.permutation(size - 1)])
    tree = Tree(rng.integers(VOCAB, size=size), np.arange(-1, size - 1)).renumbered(new)
    draft = rng.dirichlet(np.full(VOCAB, 0.7), STATES)
    params = SamplingParams(top_k=4) if name == "top-k" else SamplingParams()
    logits = rng.normal(0.0, 1.0, (STATES, VOCAB)).astype(np.float32)
    return Case(name, rule_name, tree, logits, params, depth_limit=4, nodes=NODES, draft=draft.astype(np.float32))


def group(rule_name: str) -> Group:
    return Group("own", (case("full", rule_name, 5), case("padded", rule_name, 3), case("top-k", rule_name)))


@cache
def suite() -> Suite:
    names = ("rejection", "block", "none-chain")
    groups = [
        Group(name, tuple(case(f"{name}/{c.name}", name, len(c.tree)) for c in group(name).cases)) for name in names
    ]
    return Suite("smoke", tuple(SuiteGroup.of(entry, 1 << 13) for entry in groups), 15.0)


def run(attribute: str) -> Any:
    return gate(suite(), GateOptions((f"{FILE}:{attribute}",), workers=1, shrink=0))


@pytest.mark.parametrize("name", ["Right", "RightBlock", "RightUnclaimed", "ByCoins", "PaddingOfMinusOne"])
def test_right(name: str) -> None:
    results = run(name)
    (sampler,) = results.samplers
    assert results.exit_code == 0, (sampler.reason, [c.reason for c in sampler.cases], sampler.suite_tests)
    assert len(sampler.cases) == 3
    assert all(found.verdict == "pass" and found.n == 1 << 13 for found in sampler.cases)
    assert [entry["kind"] for entry in sampler.not_tried] == ["reproducibility"]


@pytest.mark.parametrize("name", ["SharedNoise", "GreedyDrafts"])
def test_biased(name: str) -> None:
    results = run(name)
    assert results.exit_code == 1
    assert all(found.verdict == "biased" for found in results.samplers[0].cases)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("TokenV", "drafts must lie in [0, 6), got 6 in row 0, column 0"),
        ("WithTheRoot", "drafts must have shape"),
        ("Floats", "drafts must be of an integer dtype, got float32"),
        ("Nothing", "draft must return an integer array [B, N - 1], got None"),
        ("Raises", "draft raised ValueError: no drafts today (plugins.py:"),
    ],
)
def test_broken(name: str, says: str) -> None:
    results = run(name)
    assert results.exit_code == 3
    assert {found.verdict for found in results.samplers[0].cases} == {"broken"}
    assert all(says in found.reason for found in results.samplers[0].cases)
    assert all("call 0 of group rejection: draft" in found.reason for found in results.samplers[0].cases)


@pytest.mark.parametrize(
    ("name", "says"), [("OnATree", "leave it out under rule target-only"), ("NoMethod", "draft must be a method")]
)
def test_bad_input(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(name)


def test_states_follow_from_positions_alone() -> None:
    states = np.arange(POSITIONAL)
    after = next_state(states[:, None], np.arange(50), POSITIONAL)
    assert (after == after[:, :1]).all()
    visited, state = [0], 0
    for _ in range(15):
        state = next_state(state, 3, POSITIONAL)
        visited.append(state)
    assert len(set(visited)) == 16


@pytest.mark.parametrize("rule_name", ["rejection", "block"])
def test_law_rows_by_position(rule_name: str) -> None:
    """After a prefix of i tokens, whatever they are, the law is that of state i of the case."""
    for given, made in zip(group(rule_name).cases, by_position(group(rule_name)).cases, strict=True):
        rule(rule_name).check(made)
        assert made.tree.order == tuple(range(len(given.tree)))
        law = rule(rule_name).law(made)
        assert law.size > VOCAB
        np.testing.assert_allclose(law.rows, given.law_rows[law.depth], atol=1e-12)


def test_requests_have_rows_by_position() -> None:
    made = by_position(group("rejection"))
    request, which = Plan(made, "smoke", 0, 256).call(0)
    for g, given in enumerate(group("rejection").cases):
        real = len(given.tree)
        for name in ("target_probs", "draft_probs"):
            rows = getattr(request, name)[which == g, :real]
            assert (rows == getattr(given, name)[:real]).all()


def test_drafts_are_put_behind_the_root() -> None:
    request, _ = Plan(by_position(group("rejection")), "smoke", 0, 256).call(0)
    roots = request.candidates[:, 0].copy()
    probs = request.draft_probs.copy()

    class Counting:
        def draft(self, given: Any) -> Any:
            given.candidates[:] = 99
            return np.broadcast_to(np.arange(NODES - 1), (given.batch, NODES - 1)).copy()

        def verify(self, given: Any) -> Any:
            raise NotImplementedError

    put_drafts(Counting(), request)
    assert (request.candidates[:, 0] == roots).all()
    real = np.arange(NODES) < request.node_count[:, None]
    expected = np.where(real, np.arange(-1, NODES - 1), 0)
    assert (request.candidates[:, 1:] == expected[:, 1:]).all()
    assert (request.draft_probs == probs).all()


@pytest.mark.parametrize("name", ["Right", "RightBlock"])
def test_the_catalogue(name: str) -> None:
    """Every chain of the smoke suite but the wide ones, at few draws."""
    rule_name = getattr(plugins, name).rule
    cases = (f"{rule_name}/tiny*", f"{rule_name}/small*", f"{rule_name}/one-outcome*")
    options = GateOptions((f"{FILE}:{name}",), cases=cases, workers=1, shrink=5)
    assert gate(catalogue("smoke"), options).exit_code == 0
