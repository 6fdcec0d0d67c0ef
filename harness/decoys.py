"""Decoys: seeded cases of the shape of a given one, so that its rows have neighbours with other laws and trees.

A case alone in its calls cannot show rows that are mixed up. Decoys share its rule, V, N, S, thresholds and number of
law rows; they are drawn like it, and nobody judges them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from distributions import sibling_tokens

from .case import Case
from .filters import SamplingParams, softmax
from .groups import Group
from .rules import rule
from .streams import stream
from .tree import Tree

__all__ = ["DECOYS", "surrounded"]

DECOYS = 7
WIDEST = 4
"""Most children of a node."""


def surrounded(case: Case) -> Group:
    """Return the group of ``case`` and its decoys, which derive from its name and shape; the case comes first."""
    return Group(f"file/{case.name}", (case, *(_decoy(case, number) for number in range(1, DECOYS + 1))))


def _decoy(case: Case, number: int) -> Case:
    rng = stream("decoy", case.name, case.rule, case.vocab, case.nodes, number)
    parents = _parents(rng, case.nodes if number == 1 else int(rng.integers(1, case.nodes + 1)), case)
    size = len(parents)
    rows = case.states or size
    logits = _logits(rng, rows, case.vocab, holes=number % 2 == 0)
    tokens = np.full(size, rng.integers(case.vocab), np.int64)
    if case.draft is None and size > 1:
        tokens = sibling_tokens(rng, parents, softmax(logits), by="sampled")
    tree = Tree(tokens, parents)
    return Case(
        name=f"{case.name} (decoy {number})",
        rule=case.rule,
        tree=tree.reordered([rng.permutation(children).tolist() for children in tree.children]),
        logits=logits,
        params=_params(case, number),
        depth_limit=case.depth_limit,
        nodes=case.nodes,
        threshold_single=case.threshold_single,
        threshold_acc=case.threshold_acc,
        draft=None if case.draft is None else softmax(_logits(rng, rows, case.vocab)).astype(np.float32),
        replacement=case.replacement,
    )


def _parents(rng: np.random.Generator, size: int, case: Case) -> NDArray[np.int64]:
    """Return the parents of a random tree of the rule's shape, numbered at random below the root."""
    shape = rule(case.rule).shape
    widest = 1 if shape == "chain" else min(WIDEST, case.vocab)
    parents, room = np.full(1 if shape == "root" else size, -1, np.int64), {0: widest}
    for node in range(1, len(parents)):
        parent = list(room)[int(rng.integers(len(room)))] if widest > 1 else node - 1
        parents[node] = parent
        room[parent] -= 1
        if not room[parent]:
            del room[parent]
        room[node] = widest
    new = np.concatenate([[0], 1 + rng.permutation(len(parents) - 1)])
    return Tree(np.zeros(len(parents), np.int64), parents).renumbered(new).parents


def _logits(rng: np.random.Generator, rows: int, vocab: int, *, holes: bool = False) -> NDArray[np.float32]:
    """Draw normal logits of another scale in each row; with ``holes`` some tokens are impossible, never all."""
    scale = rng.uniform(0.5, 3.0, (rows, 1)).astype(np.float32)
    logits = scale * rng.standard_normal((rows, vocab), dtype=np.float32)
    if holes:
        best = logits.argmax(axis=1)
        gone = rng.random((rows, vocab), dtype=np.float32) < 0.3
        gone[np.arange(rows), best] = False
        logits[gone] = -np.inf
    return logits


def _params(case: Case, number: int) -> SamplingParams:
    """Return the parameters of the case, or others, in turn; temperature 0 only where the rule is for nothing else."""
    if rule(case.rule).greedy:
        return case.params
    half = max(1, case.vocab // 2)
    others = (SamplingParams(), SamplingParams(0.7), SamplingParams(1.5, top_k=half), SamplingParams(top_p=0.9))
    return others[number // 2] if number % 2 or case.params.greedy else case.params
