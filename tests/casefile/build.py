"""Hypothesis strategies for cases of every rule, and a small case file as JSON to change."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import strategies as st

from distributions import strategies
from harness.case import Case
from harness.filters import SamplingParams, softmax
from harness.rules import RULES, Rule
from harness.tree import Tree

THREE = {
    "name": "three",
    "rule": "target-only",
    "tree": {"tokens": [2, 0, 1], "parents": [-1, 0, 0]},
    "logits": [[0.5, "-inf", 1, 2], [0, 0, None, 0.25], [1, 2, 3, 4]],
}
"""The least that a file says: three nodes, V = 4."""

DRAWN = {
    "name": "drawn",
    "rule": "rejection",
    "tree": {"tokens": [1, 0, 0], "parents": [-1, 0, 1]},
    "probs": [[0.5, 0.25, 0.25], [0, 0.5, 0.5]],
    "draft": [[0.25, 0.5, 0.25], [1, 0, 0]],
}
"""A file of a rule that draws its drafts, with two states."""


def text(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields).encode()


def changed(fields: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy with what stands at a dotted path put in the place of what was there; ``...`` takes it away."""
    copy = json.loads(json.dumps(fields))
    *above, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    at = copy
    for step in above:
        at = at[step]
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return copy


@st.composite
def parameters(draw: st.DrawFn, rule: Rule, vocab: int) -> SamplingParams:
    zero = st.just(0.0)
    return SamplingParams(
        temperature=draw(zero if rule.greedy else st.one_of(st.just(1.0), zero, st.floats(1e-3, 10))),
        top_k=draw(st.integers(-1, vocab + 1)),
        top_p=draw(st.one_of(st.just(1.0), st.floats(1e-3, 1))),
        min_p=draw(st.one_of(zero, st.floats(0, 1))),
    )


@st.composite
def trees(draw: st.DrawFn, rule: Rule, vocab: int) -> Tree:
    if rule.shape == "root":
        return Tree([draw(st.integers(0, vocab - 1))], [-1])
    if rule.shape == "chain":
        tokens = draw(st.lists(st.integers(0, vocab - 1), min_size=1, max_size=4))
        return Tree(tokens, range(-1, len(tokens) - 1))
    parents, tokens, places = draw(strategies.ordered_trees(max_nodes=6, vocab=vocab))
    tree = Tree(tokens, parents)
    tree = tree.reordered([sorted(listed, key=lambda child: places[child]) for listed in tree.children])
    return tree.renumbered([0, *draw(st.permutations(range(1, len(tree))))])


@st.composite
def drawn_cases(draw: st.DrawFn, name: str | None = None) -> Case:
    """Cases of any rule, or of the one named."""
    rule = RULES[name or draw(st.sampled_from(sorted(RULES)))]
    vocab = draw(st.integers(1, 5))
    tree = draw(trees(rule, vocab))
    rows = draw(st.integers(1, 4)) if rule.redraws else len(tree)
    logits, probs, draft = draw(strategies.logits(rows, vocab)), None, None
    if draw(st.booleans()):
        probs = np.array([draw(strategies.probabilities(vocab)) for _ in range(rows)], np.float32)
        with np.errstate(divide="ignore"):
            logits = np.log(probs)
    if rule.redraws:
        weights = 0.01 + np.array([draw(strategies.probabilities(vocab)) for _ in range(rows)])
        draft = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    thresholds = st.one_of(st.just(1.0), st.floats(0, 1)) if rule.lossy else st.just(1.0)
    return Case(
        name=draw(st.sampled_from(["x", "a/b-1", "Tree “ß” [1]", '"\\'])),
        rule=rule.name,
        tree=tree,
        logits=logits,
        probs=probs,
        draft=draft,
        replacement=rule.drafts != "no-replacement",
        params=draw(parameters(rule, vocab)),
        depth_limit=draw(st.integers(1, 6)),
        nodes=len(tree) + draw(st.integers(0, 2)),
        threshold_single=draw(thresholds),
        threshold_acc=draw(thresholds),
    )


def case_of(rule: str, *, vocab: int = 5, seed: int = 0, name: str = "made") -> Case:
    """One plain case of a rule, drawn by its seed: three to four nodes, padded, lossy where the rule may be."""
    known, rng = RULES[rule], np.random.default_rng(seed)
    parents = {"root": [-1], "chain": [-1, 0, 1], "tree": [-1, 0, 0, 1]}[known.shape]
    rows = 3 if known.redraws else len(parents)
    logits = rng.normal(0, 1.5, (rows, vocab)).astype(np.float32)
    logits[-1, 0] = -np.inf
    return Case(
        name=name,
        rule=rule,
        tree=Tree([1, 2, 3, 0][: len(parents)], parents),
        logits=logits,
        draft=softmax(rng.normal(0, 1.5, (rows, vocab))).astype(np.float32) if known.redraws else None,
        replacement=known.drafts != "no-replacement",
        params=SamplingParams(0.0 if known.greedy else 1.25),
        nodes=len(parents) + (known.shape != "root"),
        threshold_acc=0.75 if known.lossy else 1.0,
    )
