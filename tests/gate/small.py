"""A suite of the tests' own, named smoke, so that they do not hang on what the catalogue holds."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

import cases.catalogue
from harness.case import Case
from harness.filters import SamplingParams
from harness.groups import Group
from harness.streams import stream
from harness.suite import Suite, SuiteGroup
from harness.tree import Tree

catalogue = cases.catalogue.suite
"""The real suites, by name."""

DRAWS = 1 << 13
RANDOM, CHAIN, STAR = "random", "chain", "star"
P = SamplingParams
DRIVER = """
import sys
sys.path[:0] = {paths!r}
from gate.small import use
use()
from harness.cli import main
main()
"""
"""What a process of its own runs to have the command line with this suite."""


def driver() -> str:
    """Return the text of DRIVER for this checkout."""
    tests = Path(__file__).resolve().parent.parent
    return DRIVER.format(paths=[str(tests.parent), str(tests)])


def use(monkeypatch: pytest.MonkeyPatch | None = None) -> None:
    """Put the suite in the place of the catalogue's smoke."""

    def named(name: str) -> Suite:
        return suite() if name == "smoke" else catalogue(name)

    if monkeypatch is None:
        cases.catalogue.suite = named
    else:
        monkeypatch.setattr(cases.catalogue, "suite", named)


def _tree(rng: np.random.Generator, shape: str, size: int, vocab: int) -> Tree:
    parents, tokens = [-1], [0]
    used: dict[int, list[int]] = {0: []}
    for node in range(1, size):
        open_nodes = [i for i in range(node) if len(used[i]) < vocab]
        parent = {CHAIN: node - 1, STAR: 0}.get(shape, int(rng.choice(open_nodes)))
        token = int(rng.choice([t for t in range(vocab) if t not in used[parent]]))
        used[parent].append(token)
        used[node] = []
        parents.append(parent)
        tokens.append(token)
    return Tree(np.array(tokens), np.array(parents))


def _case(
    name: str,
    vocab: int,
    shape: str,
    size: int,
    nodes: int,
    limit: int,
    params: SamplingParams,
    thresholds: tuple[float, float] = (1.0, 1.0),
    rule: str = "target-only",
) -> Case:
    rng = stream("gate tests", name)
    return Case(
        name=name,
        rule=rule,
        tree=_tree(rng, shape, size, vocab),
        logits=rng.normal(0.0, 1.2, (size, vocab)).astype(np.float32),
        params=params,
        depth_limit=limit,
        nodes=nodes,
        threshold_single=thresholds[0],
        threshold_acc=thresholds[1],
    )


def _group(name: str, vocab: int, nodes: int, limit: int, parts: dict[str, tuple[str, int, SamplingParams]]) -> Group:
    thresholds = (0.6, 0.8) if name == "lossy" else (1.0, 1.0)
    rule = "plain" if name == "plain" else "target-only"
    return Group(
        name,
        tuple(
            _case(f"{name}/{part}", vocab, shape, size, nodes, limit, params, thresholds, rule)
            for part, (shape, size, params) in parts.items()
        ),
    )


@cache
def suite() -> Suite:
    """Return the suite: nine groups of rule target-only, V from 4 to 600, and one of rule plain."""
    small = {"chain": (CHAIN, 5, P()), "star": (STAR, 4, P(1.5)), "random": (RANDOM, 6, P(0.7))}
    mixed = {
        "random": (RANDOM, 8, P()),
        "top-k": (RANDOM, 8, P(1.2, top_k=5)),
        "top-p": (RANDOM, 7, P(top_p=0.8)),
        "star": (STAR, 6, P(0.8)),
    }
    groups = (
        _group("four", 4, 6, 5, {**small, "hot": (RANDOM, 6, P(2.0))}),
        _group("five", 5, 7, 6, {**small, "top-k": (RANDOM, 6, P(top_k=3))}),
        _group("six", 6, 8, 5, {**small, "min-p": (RANDOM, 8, P(min_p=0.2))}),
        _group("sixteen", 16, 8, 6, mixed),
        _group("limited", 16, 8, 3, {**mixed, "chain": (CHAIN, 8, P())}),
        _group("padded", 16, 9, 5, {**mixed, "root-only": (CHAIN, 1, P()), "chain": (CHAIN, 4, P())}),
        _group("lossy", 16, 8, 5, mixed),
        _group("two", 2, 4, 4, {"chain": (CHAIN, 4, P()), "star": (STAR, 3, P()), "random": (RANDOM, 4, P(1.5))}),
        _group("wide", 600, 8, 4, mixed),
        _group("plain", 16, 1, 1, {name: (CHAIN, 1, params) for name, (_, _, params) in mixed.items()}),
    )
    return Suite("smoke", tuple(SuiteGroup.of(group, DRAWS) for group in groups), 15.0)
