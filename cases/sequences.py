"""The suites' cases of many steps: requests decoded together, DDTree, EAGLE and chain, greedy and sampled.

A target is peaked and has few tokens in a state, so that the sequences of eight tokens and more are few enough for a
certificate. The tokens that the filters leave in a state are one, or more than a node has children: where children
cover what is left, float32 sums decide, and that is what coin cases are for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from distributions import DRAFTS, SHAPES
from harness.builders import argmax_chain, ddtree, eagle
from harness.decode.drafting import Drawn
from harness.decode.markov import marginals, state
from harness.decode.sequences import SequenceCase, SequenceGroup
from harness.filters import SamplingParams, softmax, target_probs
from harness.streams import stream
from harness.suite import SequenceEntry
from harness.tree import Tree

from .cuts import clear_cuts

__all__ = ["Target", "sequence_case", "sequence_groups"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
P = SamplingParams


WIDTH = 2
"""Candidates of a depth, or of a node."""


@dataclass(frozen=True)
class Target:
    """What the laws of a target look like.

    ``support`` tokens are possible in a state, the likeliest with a mass within ``peak``; the filters leave one of
    them, or more than ``children``.
    """

    vocab: int
    support: int
    peak: tuple[float, float]
    children: int


@dataclass(frozen=True)
class Drafts:
    """How a group's drafts come about: the builder, its name, N and S, and the rules that it is for."""

    name: str
    how: Drawn
    nodes: int
    depth_limit: int
    target: Target


TREES = (
    Drafts("ddtree", "given", 9, 5, Target(8, 4, (0.93, 0.995), 2)),
    Drafts("eagle", "given", 9, 4, Target(6, 4, (0.93, 0.995), 2)),
    Drafts("chain", "given", 5, 5, Target(5, 4, (0.93, 0.995), 1)),
)
DRAWN_CHAIN = Drafts("chain", "position", 5, 5, Target(6, 4, (0.93, 0.995), 1))
DRAWN_TREES = {
    "rejection-replacement": Drafts("tree", "replacement", 7, 4, Target(6, 4, (0.93, 0.995), 2)),
    "rejection-no-replacement": Drafts("tree", "no-replacement", 7, 4, Target(6, 4, (0.93, 0.995), 2)),
}
ROOT = Drafts("root", "given", 1, 1, Target(6, 4, (0.93, 0.995), 0))
OF_RULE = {
    "plain": (ROOT,),
    "greedy": TREES,
    "target-only": TREES,
    "sampler-match": TREES,
    "none": TREES,
    "rejection": (DRAWN_CHAIN,),
    "block": (DRAWN_CHAIN,),
    "none-chain": (DRAWN_CHAIN,),
    **{rule: (drafts,) for rule, drafts in DRAWN_TREES.items()},
}
"""The drafts of each rule's groups."""

REQUESTS = (
    ("none", P(), 3, 8, None),
    ("temperature-top-k", P(1.1, top_k=3), 2, 9, 1),
    ("top-p", P(top_p=0.985), 6, 8, None),
    ("all", P(0.9, top_k=3, top_p=0.999, min_p=0.0005), 4, 10, 0),
)
"""Filters, tokens of the prompt, the most tokens decoded, and the token that ends a sequence."""
GREEDY = tuple((f"argmax-{i}", P(0.0, top_k=2 * (i == 1)), 2 + i, 9 + i, i if i % 2 else None) for i in range(4))


def sequence_groups(draws: int) -> tuple[SequenceEntry, ...]:
    """Return the groups of all rules, of ``draws`` sequences a case."""
    return tuple(_entry(rule, drafts, draws) for rule, several in OF_RULE.items() for drafts in several)


def _entry(rule: str, drafts: Drafts, draws: int) -> SequenceEntry:
    name = f"sequences/{rule}/{drafts.name}"
    requests = GREEDY if rule == "greedy" else REQUESTS
    names = tuple(f"{name}/{request[0]}" for request in requests)

    def make() -> SequenceGroup:
        made = (sequence_case(key, rule, drafts, *request[1:]) for key, request in zip(names, requests, strict=True))
        return SequenceGroup(name, tuple(made))

    return SequenceEntry(name, rule, names, draws, make, drafts.target.vocab, drafts.nodes, drafts.depth_limit)


def sequence_case(
    name: str,
    rule: str,
    drafts: Drafts,
    params: SamplingParams,
    prompt: int,
    new_tokens: int,
    eos: int | None,
) -> SequenceCase:
    """Return the case of this name, whose laws and prompt of so many tokens are drawn from the stream of its name."""
    rng, vocab = stream("sequences", name), drafts.target.vocab
    logits = np.concatenate([_row(rng, drafts.target, params, eos) for _ in range(vocab**2)])
    law = 0.9 * DRAFTS["noisy"].make(rng, softmax(logits)).astype(np.float64) + 0.1 / vocab
    draft = (law / law.sum(axis=1, keepdims=True)).astype(np.float32)
    return SequenceCase(
        name=name,
        rule=rule,
        logits=logits,
        draft=draft,
        trees=_trees(rng, drafts, draft.astype(np.float64)),
        prompt=tuple(rng.integers(vocab, size=prompt).tolist()),
        new_tokens=new_tokens,
        how=drafts.how,
        eos=eos,
        params=params,
        nodes=drafts.nodes,
        depth_limit=drafts.depth_limit,
    )


def _row(rng: np.random.Generator, target: Target, params: SamplingParams, eos: int | None) -> Singles:
    """Draw the law of one state, float32 logits [1, V]: the first that the filters leave enough of.

    The token that ends a sequence is not the likeliest, but for a state in eight at temperature 0.
    """
    while True:
        mass = np.zeros(target.vocab)
        ids = rng.permutation(target.vocab)[: target.support]
        if ids[0] == eos and not (params.greedy and rng.random() < 1 / 2):
            continue
        mass[ids] = rng.dirichlet(np.ones(target.support))
        peak = rng.uniform(*target.peak)
        mass *= (1.0 - peak) / (mass.sum() - mass[ids[0]])
        mass[ids[0]] = peak
        with np.errstate(divide="ignore"):
            logits = np.log(mass[None]).astype(np.float32)
        clear_cuts(logits, None, params)
        left = int(np.count_nonzero(target_probs(logits, params)))
        if left == 1 or left > target.children:
            return logits


def _trees(rng: np.random.Generator, drafts: Drafts, law: Floats) -> tuple[Tree, ...]:
    """Return the draft tree of each state for a draft law [V^2, V]; the shape alone where drafts are drawn.

    DDTree and the chain know the law of each depth, whatever the tokens before; EAGLE that after each path.
    """
    vocab, nodes = law.shape[1], drafts.nodes
    if drafts.how != "given":
        parents = SHAPES["chain" if drafts.how == "position" else "binary"](rng, nodes)
        return (Tree(np.zeros(nodes, np.int64), parents),)
    laws = marginals(law, drafts.depth_limit - 1)
    if drafts.name == "ddtree":
        return tuple(ddtree(laws[s], s % vocab, nodes, width=WIDTH).by_weight().tree for s in range(len(law)))
    if drafts.name == "eagle":
        steps = drafts.depth_limit - 1
        return tuple(
            eagle(partial(_after, law, s), WIDTH, steps, nodes).tree(s % vocab).by_weight().tree
            for s in range(len(law))
        )
    return tuple(argmax_chain(laws[s], s % vocab).tree for s in range(len(law)))


def _after(law: Floats, start: int, path: tuple[int, ...]) -> Floats:
    """Return the draft law after a path of tokens from a state."""
    vocab = law.shape[1]
    for token in path:
        start = int(state(start % vocab, token, vocab))
    row: Floats = law[start]
    return row
