"""The suites' cases whose law is measured, for samplers all of whose randomness is the coins of a request.

dyadic
    Laws of whole 4096ths, on which counts of coins are exact. In some cases drafts have no mass, or all of it, or cover
    the support of their parent.
limited
    The same under a depth limit that bites: every number of accepted drafts up to it.
rounded
    Laws as they come, under temperature, top-k, top-p and min-p, and with a mass too small for a normal float32.
lossy, permissive, sure
    Thresholds below 1, and thresholds of 0 for one draft and for all together.
drafted
    Drafts of the rules that redraw them, held, with law rows of the token path.
boundaries
    The cases that tell readings of the filters apart (:mod:`.boundaries`), for samplers that filter for themselves.
one-token
    V = 1.
wide
    V = 4100, where 1024 threads go over the vocabulary twice.
gap, repeated-siblings
    The coin cases of these names (:mod:`.coins`), to say how often it happens.

The coins asked are both ends, 0 and 1 - 2^-24, every threshold with a coin to either side, and random ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.filters import SamplingParams, softmax
from harness.probegroup import ProbeGroup
from harness.streams import stream
from harness.tree import Tree

from .boundaries import boundary_groups
from .coins import coin_groups

__all__ = ["default_case", "probe_groups"]

Floats = NDArray[np.float64]
Rows = Callable[[np.random.Generator, int], Floats]
"""Draws laws, float64 [n, V], of so many nodes."""

VOCAB, NODES, DEPTH, LIMITED = 16, 8, 5, 3
PARTS = 4096
STATES = 13
TINY = 1e-40
TREES: dict[str, tuple[int, ...]] = {
    "bush": (-1, 0, 0, 1, 1, 2, 3, 3),
    "padded": (-1, 0, 0, 1, 1),
    "chain": tuple(range(-1, NODES - 1)),
    "star": (-1, *(0,) * (NODES - 1)),
    "comb": (-1, 0, 0, 0, 1, 1, 4, 4),
    "pair": (-1, 0, 1),
    "root": (-1,),
}
"""Parents of the nodes."""
FEW, MANY = ("bush", "padded"), ("bush", "padded", "chain", "star", "comb")
TREE_RULES = ("target-only", "sampler-match", "none")
DRAFTED = {
    "rejection": ("chain", 4),
    "block": ("chain", 4),
    "rejection-replacement": ("bush", NODES),
    "rejection-no-replacement": ("bush", NODES),
}
"""The tree and N of the rules that redraw drafts."""
FILTERS = (
    SamplingParams(),
    SamplingParams(1.3, top_k=11),
    SamplingParams(0.8, top_p=0.97),
    SamplingParams(1.2, top_k=13, top_p=0.98, min_p=0.01),
    SamplingParams(min_p=0.005),
)
RULES = ("plain", "greedy", *TREE_RULES, *DRAFTED)
THRESHOLDS = {"lossy": (0.6, 0.8), "permissive": (0.0, 1.0), "sure": (1.0, 0.0)}


@cache
def probe_groups(name: str) -> tuple[ProbeGroup, ...]:
    """Return the groups of a suite: in smoke two trees each, in the others more."""
    small = name == "smoke"
    return tuple(group for rule in RULES for group in _groups(rule, FEW if small else MANY, wide=not small))


@cache
def default_case(rule: str) -> Case | None:
    """Return the case of a rule that is probed where none is named, V = 16 and 8 nodes; None where rules have none.

    A chain of 4 where drafts are drawn in order, a single node where there are no drafts.
    """
    if rule not in RULES:
        return None
    return next(_groups(rule, FEW, wide=False)).cases[0]


def _groups(rule: str, trees: Sequence[str], *, wide: bool) -> Iterator[ProbeGroup]:
    name = f"probe/{rule}"
    if rule in DRAFTED:
        yield ProbeGroup(f"{name}/drafted", tuple(_drafted(f"{name}/drafted/{i}", rule) for i in range(4)))
        return
    if rule == "greedy":
        greedy = [(tree, _rough, SamplingParams(0.0)) for tree in trees]
        yield _group(f"{name}/argmax", rule, greedy)
        return
    if rule == "plain":
        trees = ("root",)
    dyadic = [(tree, _dyadic, FILTERS[0]) for tree in trees]
    zero = [("bush", _with_zeros, FILTERS[0])] if rule != "plain" else []
    yield _group(f"{name}/dyadic", rule, [*dyadic, *zero])
    several = [(tree, _rough, params) for tree, params in zip((*trees, *trees, *trees), FILTERS, strict=False)]
    yield _group(f"{name}/rounded", rule, [*several, (trees[0], _with_tiny, FILTERS[0])])
    if rule != "none":
        for group in boundary_groups(rule):
            if group.name.endswith("/boundaries"):
                renamed = (replace(case, name=f"probe/{case.name}") for case in group.cases)
                yield ProbeGroup(f"probe/{group.name}", tuple(renamed))
    if rule == "target-only":
        yield _group(f"{name}/limited", rule, [(tree, _dyadic, FILTERS[0]) for tree in trees], depth=LIMITED)
        for key, thresholds in THRESHOLDS.items():
            some = [(tree, _rough if key == "lossy" else _dyadic, FILTERS[0]) for tree in trees]
            yield _group(f"{name}/{key}", rule, [*some, *zero], thresholds=thresholds)
        yield ProbeGroup(f"{name}/one-token", (_case(f"{name}/one-token/chain", rule, "chain", _only),))
        yield from _of_coins(name, wide=wide)
    if wide and rule in ("plain", "target-only"):
        tree = "root" if rule == "plain" else "pair"
        yield ProbeGroup(f"{name}/wide", (_case(f"{name}/wide/{tree}", rule, tree, _wide, SamplingParams(top_k=60)),))


def _of_coins(name: str, *, wide: bool) -> Iterator[ProbeGroup]:
    """Yield the coin cases that are known to go wrong, without their coins."""
    for group in coin_groups():
        key = group.name.removeprefix("coins/")
        if key in ("gap", "repeated-siblings") or (wide and key == "gap-odd"):
            made = (replace(member.case, name=member.name.replace("coins/", f"{name}/")) for member in group.members)
            yield ProbeGroup(f"{name}/{key}", tuple(made), group.members[0].outside)


def _group(
    name: str,
    rule: str,
    several: Sequence[tuple[str, Rows, SamplingParams]],
    depth: int = DEPTH,
    thresholds: tuple[float, float] = (1.0, 1.0),
) -> ProbeGroup:
    cases = []
    for i, (tree, rows, params) in enumerate(several):
        case = _case(f"{name}/{tree}-{i}", rule, tree, rows, params)
        nodes = 1 if rule == "plain" else NODES
        single, acc = thresholds
        limit = 1 if rule == "plain" else depth
        cases.append(replace(case, nodes=nodes, depth_limit=limit, threshold_single=single, threshold_acc=acc))
    return ProbeGroup(name, tuple(cases))


def _case(name: str, rule: str, tree: str, rows: Rows, params: SamplingParams = FILTERS[0]) -> Case:
    """Return the case of this name: laws, then children, the likeliest tokens in a random order."""
    rng, parents = stream("probe case", name), np.array(TREES[tree])
    laws = rows(rng, len(parents))
    vocab = laws.shape[1]
    tokens = np.zeros(len(parents), np.int64)
    for node in range(len(parents)):
        children = np.flatnonzero(parents == node)
        likely = np.argsort(-laws[node], kind="stable")[: len(children)]
        if rows is _with_zeros and len(children) > 1:  # the likeliest and one without mass
            likely[1] = int(np.flatnonzero(laws[node] == 0.0)[0])
        if rows is _with_tiny and len(children) > 1:
            likely[1] = int(np.where(laws[node] > 0.0, laws[node], 1.0).argmin())
        tokens[children] = rng.permutation(likely) if vocab > 1 else 0
    if tree == "padded" and rows is _dyadic:
        laws[0] = 0.0
        laws[0, tokens[[1, 2]]] = (1234 / PARTS, 1 - 1234 / PARTS)  # the root's children cover its support,
        laws[1] = 0.0
        laws[1, tokens[3]] = 1.0  # and one below has all the mass, its sibling none
    exact = laws.astype(np.float32)
    with np.errstate(divide="ignore"):
        logits = np.log(laws).astype(np.float32)
    given = exact if rows in (_dyadic, _with_zeros, _with_tiny, _only) else None
    return Case(name, rule, Tree(tokens, parents), logits, params, probs=given)


def _drafted(name: str, rule: str) -> Case:
    """Return a case whose draft law is near its target law, with some tokens that only one of them has."""
    rng = stream("probe case", name)
    shape, nodes = DRAFTED[rule]
    z = rng.normal(0.0, 1.5, (STATES, VOCAB))
    target = softmax(np.where(rng.random(z.shape) < 0.1, -np.inf, z))
    draft = softmax(np.where(rng.random(z.shape) < 0.1, -np.inf, z + rng.normal(0.0, 0.7, z.shape)))
    parents = np.array(TREES[shape][:nodes])
    with np.errstate(divide="ignore"):
        logits = np.log(target).astype(np.float32)
    return Case(
        name,
        rule,
        Tree(np.zeros(nodes, np.int64), parents),
        logits,
        draft=draft.astype(np.float32),
        replacement=rule != "rejection-no-replacement",
    )


def _dyadic(rng: np.random.Generator, size: int) -> Floats:
    """Draw laws of whole 4096ths, a quarter of the tokens without mass."""
    rows = np.zeros((size, VOCAB))
    for row in rows:
        support = rng.permutation(VOCAB)[: 3 * VOCAB // 4]
        row[support] = 1 + rng.multinomial(PARTS - len(support), rng.dirichlet(np.full(len(support), 0.6)))
    return rows / PARTS


def _with_zeros(rng: np.random.Generator, size: int) -> Floats:
    """Draw the same; drafts without mass are to come."""
    return _dyadic(rng, size)


def _rough(rng: np.random.Generator, size: int) -> Floats:
    """Draw laws of no particular numbers, two tokens in sixteen without mass."""
    z = rng.normal(0.0, 1.2, (size, VOCAB))
    for row in z:
        row[rng.permutation(VOCAB)[:2]] = -np.inf
    return softmax(z)


def _with_tiny(rng: np.random.Generator, size: int) -> Floats:
    """Draw such laws with a mass that is no normal float32 for the second likeliest token."""
    rows = _rough(rng, size)
    for row in rows:
        row[np.argsort(-row, kind="stable")[1]] = TINY
        row /= row.sum()
    return rows


def _wide(rng: np.random.Generator, size: int) -> Floats:
    return softmax(rng.normal(0.0, 2.0, (size, 4100)))


def _only(rng: np.random.Generator, size: int) -> Floats:
    return np.ones((size, 1))
