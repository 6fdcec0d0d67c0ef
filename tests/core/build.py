"""Hypothesis strategies for trees, cases and groups, and what tests make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from distributions import strategies
from harness.case import Case
from harness.filters import SamplingParams
from harness.groups import Group, Plan
from harness.law import Law, LawBuilder
from harness.request import Request
from harness.tree import Tree

UNIT = 16
"""Dyadic laws and thresholds are multiples of 1/UNIT."""


def tree_of(parents: Iterable[int], tokens: Iterable[int], places: Iterable[int] | None = None) -> Tree:
    """Return the tree of a parent array, siblings in the order of their places (by default: of their numbers)."""
    parents = list(parents)
    places = list(range(len(parents)) if places is None else places)
    children = [
        tuple(sorted((i for i in range(1, len(parents)) if parents[i] == node), key=lambda i: places[i]))
        for node in range(len(parents))
    ]
    return Tree(np.array(list(tokens)), np.array(parents), tuple(children))


def renumberings(size: int) -> st.SearchStrategy[list[int]]:
    """Return permutations of the nodes that leave the root alone."""
    return st.permutations(range(1, size)).map(lambda rest: [0, *rest])


@st.composite
def trees(draw: st.DrawFn, *, max_nodes: int = 9, vocab: int = 5) -> Tree:
    """Draw trees with distinct siblings, in any sibling order and numbering."""
    tree = tree_of(*draw(strategies.ordered_trees(max_nodes=max_nodes, vocab=vocab)))
    return tree.renumbered(draw(renumberings(len(tree))))


def splits(total: int, parts: int) -> st.SearchStrategy[list[int]]:
    """Return lists of ``parts`` whole numbers >= 0 that sum to ``total``."""
    cuts = st.lists(st.integers(0, total), min_size=parts - 1, max_size=parts - 1).map(sorted)
    return cuts.map(lambda at: [b - a for a, b in zip([0, *at], [*at, total], strict=True)])


@dataclass(frozen=True)
class Dyadic:
    """A case whose laws and thresholds are whole numbers of 1/UNIT."""

    case: Case
    parts: list[list[int]]
    single: int
    acc: int


@st.composite
def dyadic_cases(draw: st.DrawFn, *, max_nodes: int = 6, max_vocab: int = 4, lossless: bool = False) -> Dyadic:
    """Draw small cases of rule target-only: covered support, drafts without mass, depth limits and padding included."""
    vocab = draw(st.integers(1, max_vocab))
    tree = draw(trees(max_nodes=max_nodes, vocab=vocab))
    parts = []
    for node in range(len(tree)):
        drafted = tree.child_tokens(node)
        if drafted and draw(st.integers(0, 3)) == 0:  # nothing but the children has mass
            row = [0] * vocab
            for token, part in zip(drafted, draw(splits(UNIT, len(drafted))), strict=True):
                row[token] = part
        else:
            row = draw(splits(UNIT, vocab))
        parts.append(row)
    threshold = st.just(UNIT) if lossless else st.one_of(st.just(UNIT), st.integers(0, UNIT))
    single, acc = draw(threshold), draw(threshold)
    probs = np.array(parts, np.float32) / np.float32(UNIT)
    with np.errstate(divide="ignore"):
        case = Case(
            "dyadic",
            "target-only",
            tree,
            np.log(probs),
            depth_limit=draw(st.integers(1, int(tree.depth.max()) + 2)),
            nodes=len(tree) + draw(st.integers(0, 2)),
            threshold_single=single / UNIT,
            threshold_acc=acc / UNIT,
            probs=probs,
        )
    return Dyadic(case, parts, single, acc)


@st.composite
def params(draw: st.DrawFn, vocab: int) -> SamplingParams:
    """Draw sampling parameters: each filter on or off."""
    return SamplingParams(
        temperature=draw(st.one_of(st.just(1.0), st.floats(0.3, 3), st.just(0.0))),
        top_k=draw(st.integers(0, vocab)),
        top_p=draw(st.one_of(st.just(1.0), st.floats(0.05, 1))),
        min_p=draw(st.one_of(st.just(0.0), st.floats(0, 1))),
    )


@st.composite
def groups(draw: st.DrawFn, *, lossless: bool = False) -> Group:
    """Draw groups of 1 to 4 cases of rule target-only: laws of any kind, filtered, padded, limited in depth."""
    vocab = draw(st.integers(1, 7))
    forest = [draw(trees(max_nodes=8, vocab=vocab)) for _ in range(draw(st.integers(1, 4)))]
    nodes = max(map(len, forest)) + draw(st.integers(0, 2))
    limit = draw(st.integers(1, max(int(tree.depth.max()) for tree in forest) + 2))
    threshold = st.just(UNIT) if lossless else st.one_of(st.just(UNIT), st.integers(0, UNIT))
    single, acc = draw(threshold) / UNIT, draw(threshold) / UNIT
    return Group(
        "drawn",
        tuple(
            Case(
                f"case {i}",
                "target-only",
                tree,
                draw(strategies.logits(len(tree), vocab)),
                params=draw(params(vocab)),
                depth_limit=limit,
                nodes=nodes,
                threshold_single=single,
                threshold_acc=acc,
            )
            for i, tree in enumerate(forest)
        ),
    )


def plan(group: Group, rows: int, *, seed: int = 0, suite: str = "test") -> Plan:
    """Return a plan in which a call has ``rows`` (a power of two) rows of each case."""
    made = Plan(group, suite, seed, 64 * rows)
    assert made.rows_per_case == rows
    return made


def one_case(case: Case, rows: int, *, seed: int = 0) -> Request:
    """Return a request of ``rows`` rows of one case."""
    return plan(Group("one", (case,)), rows, seed=seed).call(0)[0]


@st.composite
def laws(draw: st.DrawFn, *, max_vocab: int = 4, max_depth: int = 3) -> Law:
    """Draw irregular laws: impossible tokens, absent prefixes, random stops."""
    vocab = draw(st.integers(1, max_vocab))
    limit = draw(st.integers(1, max_depth))
    rng = draw(strategies.generators())
    builder = LawBuilder(limit)
    queue = [(-1, -1, 1.0, 0)]
    for parent, token, reach, depth in queue:
        row = rng.dirichlet(np.ones(vocab)) * (rng.random(vocab) < 0.7)
        row = row / row.sum() if row.sum() > 0 else np.eye(vocab)[rng.integers(vocab)]
        index = builder.add(parent, token, int(rng.integers(50)), reach, row)
        for child in rng.permutation(np.flatnonzero(row)):
            if depth + 1 < limit and rng.random() < 0.6:
                goes_on = rng.choice([1.0, rng.uniform(0.1, 1.0)])
                queue.append((index, int(child), reach * float(row[child]) * goes_on, depth + 1))
    return builder.build()


def outcomes_of(law: Law) -> dict[tuple[int, ...], float]:
    """Return P(emitted sequence) of a law, by plain loops over its prefixes and tokens."""
    tokens: list[tuple[int, ...]] = []
    found: dict[tuple[int, ...], float] = {}
    for m in range(law.size):
        tokens.append((*tokens[law.parent[m]], int(law.token[m])) if m else ())
        for token in range(law.vocab):
            if law.rows[m, token] > 0:
                found[(*tokens[m], token)] = float(law.reach[m] * law.rows[m, token])
    for m in range(1, law.size):
        found[tokens[m]] -= float(law.reach[m])
    return found
