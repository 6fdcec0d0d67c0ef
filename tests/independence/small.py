"""A suite of one group of each of three rules, four cases each."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from harness.case import Case
from harness.filters import SamplingParams
from harness.gate import GateOptions, gate
from harness.groups import Group
from harness.results import SamplerResult
from harness.streams import stream
from harness.suite import Suite, SuiteGroup
from harness.tree import Tree

FILE = Path(__file__).resolve().parent / "plugins.py"
VOCAB, NODES = 16, 8
DRAWS = 1 << 13
"""Draws a case, all in one shard."""
TWO_SHARDS = 1 << 17
PARENTS = ([-1, 0, 1, 2, 3], [-1, 0, 0, 0, 1], [-1, 0, 0, 1, 1, 2, 3], [-1, 0, 1, 1, 2, 4])


def case(rule: str, number: int) -> Case:
    """Return a case of ``rule`` with one of four trees and logits of its own."""
    rng = stream("independence tests", rule, number)
    parents = PARENTS[number][: 1 if rule == "plain" else None]
    tokens = rng.permutation(VOCAB)[: len(parents)]
    return Case(
        name=f"{rule}/{number}",
        rule=rule,
        tree=Tree(tokens, np.array(parents)),
        logits=rng.normal(0.0, 1.5, (len(parents), VOCAB)).astype(np.float32),
        params=SamplingParams(top_k=10 if number == 2 else 0),
        depth_limit=1 if rule == "plain" else 4,
        nodes=1 if rule == "plain" else NODES,
    )


@cache
def group(rule: str) -> Group:
    return Group(rule, tuple(case(rule, number) for number in range(4)))


@cache
def suite(n: int) -> Suite:
    return Suite("smoke", tuple(SuiteGroup.of(group(rule), n) for rule in ("target-only", "none", "plain")), 15.0)


@cache
def found(attribute: str, n: int = DRAWS, workers: int = 1) -> SamplerResult:
    """Return what the gate finds of a verifier of plugins.py."""
    name = attribute if attribute == "reference" else f"{FILE}:{attribute}"
    (sampler,) = gate(suite(n), GateOptions((name,), shrink=0, workers=workers)).samplers
    assert sampler.reason is None, sampler.reason
    return sampler


def fired(sampler: SamplerResult) -> set[str]:
    """Return the names of the tests over all cases that fired."""
    return {test["test"] for test in sampler.suite_tests if test["biased"]}


def deciding(sampler: SamplerResult) -> dict[str, set[str]]:
    """Return, of each biased case, the tests that fired."""
    return {
        one.case: {
            part["test"]
            for part in one.evidence
            if part["decides"] and part["p_value"] is not None and part["p_value"] <= part["share"] * one.alpha
        }
        for one in sampler.cases
        if one.verdict == "biased"
    }


def evidence(sampler: SamplerResult, number: int, test: str) -> dict[str, Any]:
    return next(part for part in sampler.cases[number].evidence if part["test"] == test)
