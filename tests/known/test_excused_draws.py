"""Known findings in drawn cases: the outcome that is named is left out, and what remains is still judged."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from harness.counts import SequenceCounts, count_sequences
from harness.judge import Judge
from harness.known import Excused, Finding, Known
from harness.matches import PairCounts
from harness.results import CaseResult
from harness.rules import RULES, rule
from harness.samplers.registry import SAMPLERS
from harness.selection import select
from harness.stats.verdict import judge
from harness.streams import stream
from harness.suite import Suite
from harness.sweep import GroupRun

from .conftest import PORT, drawn, finding, outcome

Ints = NDArray[np.int64]
CASE, IMPOSSIBLE, POSSIBLE = "trees/1", 7, 5


@cache
def right() -> Ints:
    """Return what a right verifier emits for CASE, int64 [n, S]."""
    (plan,) = Suite("smoke", (drawn(),), 15.0).plans([drawn()], 0)
    rows = []
    for shard in plan.shards():
        for request, which in plan.requests(shard):
            rows.append(RULES["target-only"].walk(request).tokens[which == 1])
    return np.concatenate(rows)


def some(rate: float, where: NDArray[np.bool_] | None = None, seed: str = "") -> NDArray[np.bool_]:
    """Choose rows at random, among those ``where``."""
    chosen = stream("excused", rate, seed).random(len(right())) < rate
    return chosen if where is None else chosen & where


def replaced(tokens: Ints, rows: NDArray[np.bool_], *instead: int) -> Ints:
    """Let these rows emit ``instead``."""
    out = tokens.copy()
    out[rows] = -1
    out[rows, : len(instead)] = instead
    return out


def found(tokens: Ints, *outcomes: dict[str, object], name: str = PORT) -> CaseResult:
    """Judge tokens of CASE as the gate does for the port, of which these outcomes are known."""
    known = Known((msgspec.convert(finding(*outcomes), Finding),)) if outcomes else Known()
    suite = Suite("smoke", (drawn(),), 15.0, known=known)
    (plan,) = suite.plans([drawn()], 0)
    sampler = SAMPLERS[PORT]
    judging = Judge(name, sampler.versions(), select(suite, [CASE]), 0, 1e-6, sampler.claims, {})
    counts = [SequenceCounts.empty()] * 4
    counts[1] = count_sequences(tokens)
    (result,) = judging.group(GroupRun(plan, counts, PairCounts.empty(4)))
    return result


LEAK = outcome(CASE, IMPOSSIBLE)
MORE = outcome(CASE, POSSIBLE, layer="cells")


def leaky() -> Ints:
    return replaced(right(), some(0.02), IMPOSSIBLE)


def frequent() -> Ints:
    return replaced(right(), some(0.1), POSSIBLE)


def test_right_draws_pass_with_and_without_an_entry() -> None:
    for outcomes in ((), (LEAK,), (MORE,), (LEAK, MORE)):
        result = found(right(), *outcomes)
        assert result.verdict == "pass"
        assert result.reason is None


@pytest.mark.parametrize(("draws", "entry"), [(leaky, LEAK), (frequent, MORE)], ids=["support", "cells"])
def test_what_is_known_is_excused(draws: Callable[[], Ints], entry: dict[str, object]) -> None:
    assert found(draws()).verdict == "biased"
    result = found(draws(), entry)
    assert result.verdict == "known"
    assert result.reason == "a finding (bug): something happens"
    assert result.p_value is not None
    assert result.p_value > result.alpha, "of what remains"
    (excused,) = (part for part in result.evidence if part.get("known"))
    assert not excused["decides"]
    assert excused["test"] == entry["layer"]
    assert excused["observed"] > 100
    assert (result.where[0].prefix, result.where[0].token) == ([], entry["token"])


@pytest.mark.parametrize("name", ["sglang-tree", "mine.py:Mine"])
def test_another_sampler_is_not(name: str) -> None:
    assert found(leaky(), LEAK, name=name).verdict == "biased"


@pytest.mark.parametrize(
    "entry",
    [
        outcome(CASE, IMPOSSIBLE - 1),
        outcome(CASE, IMPOSSIBLE, prefix=(2,)),
        outcome(CASE, IMPOSSIBLE, layer="cells"),
        outcome("trees/0", IMPOSSIBLE),
        outcome(CASE, 99),
        outcome(CASE, IMPOSSIBLE, prefix=(99,)),
        outcome(CASE, POSSIBLE),
    ],
)
def test_another_outcome_is_not(entry: dict[str, object]) -> None:
    assert found(leaky(), entry).verdict == "biased"


def begins(token: int, tokens: Ints) -> NDArray[np.bool_]:
    chosen: NDArray[np.bool_] = tokens[:, 0] == token
    return chosen


@pytest.mark.parametrize("draws", [leaky, frequent], ids=["support", "cells"])
@pytest.mark.parametrize(
    "more",
    [
        lambda tokens: replaced(tokens, some(0.001, seed="b"), IMPOSSIBLE - 1),
        lambda tokens: replaced(tokens, some(0.01, begins(2, tokens), "b"), 2, IMPOSSIBLE),
        lambda tokens: replaced(tokens, some(0.3, begins(4, tokens), "b"), 0),
        lambda tokens: replaced(tokens, some(0.5, begins(2, tokens), "b"), 2, 1, 0),
        lambda tokens: replaced(tokens, some(0.01, begins(5, tokens), "b"), 5, 0),
        lambda tokens: replaced(tokens, some(0.2, begins(3, tokens), "b"), 3),
    ],
    ids=["another token", "another prefix", "root cells", "deeper cells", "no path", "ends early"],
)
def test_other_bias_in_the_case_is_seen(draws: Callable[[], Ints], more: Callable[[Ints], Ints]) -> None:
    result = found(more(draws()), LEAK, MORE)
    assert result.verdict == "biased"
    assert not any(part.get("known") for part in result.evidence)


def test_a_cell_that_is_right_excuses_nothing() -> None:
    """The bias is another one, and the entry's cell is as it should be."""
    other = replaced(right(), some(0.3, begins(4, right())), 0)
    assert found(other, MORE).verdict == "biased"


@pytest.mark.parametrize("layer", ["support", "cells"])
def test_size_of_what_remains(layer: str) -> None:
    """Among right draws but for a leak of 5%, the rest fails at 1e-2 no more often than 1 in 100."""
    case = drawn().group.cases[1]
    law = rule("target-only").law(case)
    token = IMPOSSIBLE if layer == "support" else POSSIBLE
    known = msgspec.convert(finding(outcome(CASE, token, layer=layer)), Finding)
    excused = Excused((known,), known.outcomes)
    without = partial(excused.without, stops_known=True)
    tokens = right()
    failures = 0
    for i in range(100):
        rng = stream("size", layer, i)
        rows = tokens[rng.integers(len(tokens), size=800)]
        rows = rows.copy()
        leaks = rng.random(len(rows)) < 0.05
        rows[leaks] = -1
        rows[leaks, 0] = token
        failures += judge(law, count_sequences(rows), 1e-2, rng, nodes=case.nodes, without=without).biased
    assert failures <= 6, "more with a probability of 1e-4 at most"
