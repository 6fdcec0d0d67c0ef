"""Strategies for cases with redrawn drafts, and the named cases that walks and laws are compared on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from distributions import DRAFTS, SHAPES, TARGETS, strategies
from harness.case import Case
from harness.counts import SequenceCounts, count_sequences
from harness.filters import SamplingParams, softmax
from harness.groups import Group, Plan
from harness.law import Law
from harness.request import Request
from harness.rules import RULES
from harness.tree import Tree
from harness.validate import Expected, emitted

from .oracles import generator

Singles = NDArray[np.float32]

MOST_DRAFTS = 256
"""Most assignments that a drawn case has, times or so."""


def law_rows(rows: Sequence[Sequence[float]]) -> Singles:
    """Weights as float32 laws."""
    weights = np.array(rows, np.float64)
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)


def redrawn(
    rule: str, parents: Sequence[int], target: Sequence[Sequence[float]], draft: Sequence[Sequence[float]], **more: int
) -> Case:
    """Case with drafts drawn afresh; rows are weights, as many as there are states; siblings in the order of nodes."""
    tree = Tree(np.zeros(len(parents)), np.array(parents))
    p, q = law_rows(target), law_rows(draft)
    replacement = rule != "rejection-no-replacement"
    with np.errstate(divide="ignore"):
        return Case(rule, rule, tree, np.log(p), probs=p, draft=q, replacement=replacement, **more)


def weights(vocab: int, least: int = 1) -> st.SearchStrategy[list[int]]:
    """Whole weights of a law, zeros among them, ``least`` of them above zero."""

    def mend(row: list[int]) -> list[int]:
        short = least - sum(map(bool, row))
        zeros = [i for i, weight in enumerate(row) if not weight][: max(short, 0)]
        return [1 if i in zeros else weight for i, weight in enumerate(row)]

    return st.lists(st.integers(0, 4), min_size=vocab, max_size=vocab).map(mend)


@st.composite
def pairs(draw: st.DrawFn, vocab: int, least: int) -> tuple[list[int], list[int]]:
    """Target and draft weights: unrelated, equal, disjoint, or the draft a scaled part of the target."""
    p, q = draw(weights(vocab)), draw(weights(vocab, least))
    kind = draw(st.sampled_from(["any", "any", "equal", "disjoint", "inside"]))
    if kind == "equal":
        return q, q
    if kind == "inside":
        return [a + b for a, b in zip(p, q, strict=True)], q
    if kind == "disjoint":
        rest = [1 if not weight else 0 for weight in q]
        return (rest if any(rest) else p), q
    return p, q


@st.composite
def drafted_cases(draw: st.DrawFn, rule: str) -> Case:
    """Small cases of a rule with redrawn drafts: trees or chains, one-node trees, padding and depth limits included."""
    vocab = draw(st.integers(1, 4))
    most = 1 + min(5, int(math.log(MOST_DRAFTS, vocab)) if vocab > 1 else 5)
    if rule in ("rejection", "block"):
        parents = np.arange(-1, draw(st.integers(1, most)) - 1)
    else:
        distinct = rule == "rejection-no-replacement"
        parents = draw(strategies.parents(most, max_children=vocab if distinct else None))
    widest = int(np.bincount(parents[1:], minlength=1).max()) if rule == "rejection-no-replacement" else 1
    states = draw(st.integers(1, 4))
    rows = [draw(pairs(vocab, max(widest, 1))) for _ in range(states)]
    case = redrawn(rule, parents.tolist(), [p for p, _ in rows], [q for _, q in rows])
    tree = case.tree
    order = [draw(st.permutations(listed)) for listed in tree.children]
    new = [0, *draw(st.permutations(range(1, len(tree))))]
    return replace(
        case,
        tree=tree.reordered(order).renumbered(new),
        depth_limit=draw(st.integers(1, int(tree.depth.max()) + 2)),
        nodes=len(tree) + draw(st.integers(0, 2)),
    )


@st.composite
def fixed_cases(draw: st.DrawFn, rule: str) -> Case:
    """Cases of sampler-match or greedy: drafts as given, distinct among siblings."""
    vocab = draw(st.integers(1, 5))
    parents, tokens, places = draw(strategies.ordered_trees(max_nodes=8, vocab=vocab))
    children = tuple(
        tuple(sorted(np.flatnonzero(parents == node).tolist(), key=lambda child: places[child]))
        for node in range(len(parents))
    )
    tree = Tree(tokens, parents, children)
    tree = tree.renumbered([0, *draw(st.permutations(range(1, len(tree))))])
    return Case(
        rule,
        rule,
        tree,
        draw(strategies.logits(len(tree), vocab)),
        params=SamplingParams(0.0 if rule == "greedy" else draw(st.sampled_from([1.0, 0.7]))),
        depth_limit=draw(st.integers(1, int(tree.depth.max()) + 2)),
        nodes=len(tree) + draw(st.integers(0, 2)),
    )


# ---- named cases

DRAFTED = ("rejection", "rejection-replacement", "rejection-no-replacement", "block")

SHAPE_OF = {
    "rejection": "chain",
    "block": "chain",
    "rejection-replacement": "wide-random",
    "rejection-no-replacement": "binary",
    "sampler-match": "random-recursive",
    "greedy": "random-recursive",
    "target-only": "random-recursive",
    "plain": "chain",
}


def named_group(rule: str) -> Group:
    """Four cases of a rule with laws of four kinds, padded and limited in depth, from streams of their names."""
    vocab, states = 6, 5
    cases = []
    drafts = ("noisy", "flatter", "shifted", "equal")
    families = ("flat", "zipf", "bimodal", "peaked")
    for draft, family in zip(drafts, families, strict=True):
        name = f"{rule} {family} {draft}"
        rng = generator(name)
        size = 1 if rule == "plain" else int(rng.integers(4, 7))
        parents = SHAPES[SHAPE_OF[rule]](rng, size)
        params = SamplingParams(0.0 if rule == "greedy" else 1.0)
        tokens = np.zeros(size, np.int64)
        tokens[0] = rng.integers(vocab)
        if rule in DRAFTED:
            logits = TARGETS[family].make(rng, states, vocab)
            q = DRAFTS[draft].make(rng, softmax(logits))
            more = {"draft": q, "replacement": rule != "rejection-no-replacement"}
        else:
            logits, more = TARGETS[family].make(rng, size, vocab), {}
            for parent in range(size):
                siblings = np.flatnonzero(parents == parent)
                tokens[siblings] = rng.permutation(vocab)[: len(siblings)]
        cases.append(Case(name, rule, Tree(tokens, parents), logits, params, depth_limit=4, nodes=7, **more))
    return Group(rule, tuple(cases))


def sample(plan: Plan, verify: object = None) -> list[SequenceCounts]:
    """Return what ``verify`` (default: the rule's own walk) emits in all calls of a plan, per case."""
    walk = verify or RULES[plan.group.rule].walk
    parts: list[list[SequenceCounts]] = [[] for _ in plan.group.cases]
    for number in range(plan.calls):
        request, which = plan.call(number)
        expected = Expected.of(request)
        tokens = emitted(walk(request), expected)  # type: ignore[operator]
        for g, part in enumerate(parts):
            part.append(count_sequences(tokens[which == g]))
    return [SequenceCounts.merge(part) for part in parts]


def one_call(group: Group, rows: int, *, seed: int = 0) -> tuple[Request, NDArray[np.int64]]:
    """Request with ``rows`` (a power of two) rows of each case."""
    plan = Plan(group, "rules", seed, 64 * rows)
    assert plan.rows_per_case == rows
    return plan.call(0)


def sequences_of(law: Law) -> dict[tuple[int, ...], float]:
    """P(emitted sequence) of a law, by plain loops."""
    found = {}
    for m in range(law.size):
        for token in range(law.vocab):
            probability = float(law.outcome(np.array([m]), np.array([token]))[0])
            if probability > 0:
                found[(*law.prefix(m), token)] = probability
    return found
