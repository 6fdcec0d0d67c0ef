"""Plain loops for the verification rules, written from the papers' words and never from the vectorised code.

Laws are found by brute force: every draft assignment with its probability, and for each of them the tree of accept and
reject decisions. Probabilities are Fractions there, so that a law is right or wrong and not nearly right. Walks take
the coins of one request and are in Python floats.
"""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from harness.case import Case

Path = tuple[int, ...]
Rows = Sequence[Sequence[Any]]
Outcomes = dict[Path, Fraction]


def generator(name: str) -> np.random.Generator:
    """Return the random stream of a test, from its name alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def norm(weights: Sequence[Any]) -> list[Any]:
    total = sum(weights)
    return [w / total for w in weights]


def surplus(p: Sequence[Any], q: Sequence[Any]) -> list[Any]:
    """relu(p - q)."""
    return [max(a - b, 0) for a, b in zip(p, q, strict=True)]


def fractions(rows: np.ndarray) -> list[list[Fraction]]:
    """Rows of float32 numbers as exact laws, each divided by its sum."""
    return [norm([Fraction(float(x)) for x in row]) for row in rows]


def state_after(path: Sequence[int], states: int) -> int:
    """State that a path of tokens leads to from state 0."""
    state = 0
    for token in path:
        state = (31 * state + 17 * token + 1) % states
    return state


# ---- drafts


def draws(row: Sequence[Any], count: int, replacement: bool) -> Iterator[tuple[Any, Path]]:
    """Yield (probability, tokens) of every way to draw ``count`` tokens one after the other."""
    if count == 0:
        yield 1, ()
        return
    for token, share in enumerate(row):
        if not share:
            continue
        left = row if replacement else [0 if other == token else p for other, p in enumerate(row)]
        if count > 1 and not replacement:
            left = norm(left)
        for probability, rest in draws(left, count - 1, replacement):
            yield share * probability, (token, *rest)


@dataclass(frozen=True)
class Drafts:
    """One assignment of tokens to the nodes of a tree: P(it is drawn), token and state of each node."""

    probability: Any
    token: dict[int, int]
    state: dict[int, int]


def assignments(case: Case) -> Iterator[Drafts]:
    """Yield every draft assignment of a case; probabilities sum to 1."""
    assert case.draft is not None
    draft, children = fractions(case.draft), case.tree.children

    def extend(done: Drafts, queue: list[int]) -> Iterator[Drafts]:
        if not queue:
            yield done
            return
        node, *later = queue
        mine = children[node]
        for probability, tokens in draws(draft[done.state[node]], len(mine), case.replacement):
            token, state = dict(done.token), dict(done.state)
            for child, drawn in zip(mine, tokens, strict=True):
                token[child] = drawn
                state[child] = (31 * state[node] + 17 * drawn + 1) % len(draft)
            yield from extend(Drafts(done.probability * probability, token, state), [*later, *mine])

    yield from extend(Drafts(Fraction(1), {}, {0: 0}), [0])


# ---- what one assignment emits, over all coins


def by_rejection(case: Case, drafts: Drafts, target: Rows, draft: Rows) -> Outcomes:
    """Siblings in order: accepted with min(1, p/q); else p <- norm(relu(p - q)), and q loses x without replacement."""
    law: Counter[Path] = Counter()

    def visit(node: int, emitted: Path, share: Any) -> None:
        p, q = list(target[drafts.state[node]]), list(draft[drafts.state[node]])
        for child in case.tree.children[node] if len(emitted) < case.depth_limit - 1 else ():
            x = drafts.token[child]
            accept = min(Fraction(1), p[x] / q[x])
            if accept:
                visit(child, (*emitted, x), share * accept)
            share *= 1 - accept
            if not share:
                return
            p = norm(surplus(p, q))
            if not case.replacement:
                q[x] = 0
                q = norm(q) if any(q) else q
        for x, weight in enumerate(p):
            law[(*emitted, x)] += share * weight

    visit(0, (), Fraction(1))
    return dict(law)


def by_block(case: Case, drafts: Drafts, target: Rows, draft: Rows) -> Outcomes:
    """Algorithm 2 of arXiv 2403.10444: the last i whose coin is below h_i."""
    law: Counter[Path] = Counter()
    nodes = [0]
    while case.tree.children[nodes[-1]] and len(nodes) < case.depth_limit:
        nodes.append(case.tree.children[nodes[-1]][0])
    path = tuple(drafts.token[node] for node in nodes[1:])
    last = len(path)
    r = [Fraction(1)]
    for i, x in enumerate(path):
        state = drafts.state[nodes[i]]
        r.append(min(Fraction(1), r[i] * target[state][x] / draft[state][x]))
    missed = Fraction(1)
    for i in range(last, -1, -1):
        p, q = target[drafts.state[nodes[i]]], draft[drafts.state[nodes[i]]]
        rest = p if i == last else surplus([r[i] * weight for weight in p], q)
        accept = hold(r[i], sum(rest), i == last) if i else Fraction(1)
        share, missed = missed * accept, missed * (1 - accept)
        if share:
            for x, weight in enumerate(norm(rest)):
                law[(*path[:i], x)] += share * weight
    return dict(law)


def hold(r: Any, left: Any, last: bool) -> Any:
    """h_i: r_i for the last draft, else W / (W + 1 - r); where that is 0/0, p equals q and no coin may reject."""
    if last:
        return r
    return left / (left + 1 - r) if left + 1 - r else 1


def emitted_law(case: Case, decide: Callable[[Case, Drafts, Rows, Rows], Outcomes]) -> Outcomes:
    """P(emitted sequence) over all drafts and coins."""
    assert case.draft is not None
    target, draft = fractions(case.target_probs), fractions(case.draft)
    law: Counter[Path] = Counter()
    total = Fraction(0)
    for drafts in assignments(case):
        total += drafts.probability
        for sequence, probability in decide(case, drafts, target, draft).items():
            law[sequence] += drafts.probability * probability
    assert total == 1
    return {sequence: probability for sequence, probability in law.items() if probability}


def by_match(case: Case) -> Outcomes:
    """Draw x from the node's law; go on to the child with token x, end where there is none."""
    rows, tree = fractions(case.target_probs), case.tree
    law: Counter[Path] = Counter()

    def visit(node: int, emitted: Path, share: Any) -> None:
        children = tree.children[node] if len(emitted) < case.depth_limit - 1 else ()
        for x, weight in enumerate(rows[node]):
            child = [c for c in children if tree.tokens[c] == x]
            if child and weight:
                visit(child[0], (*emitted, x), share * weight)
            elif weight:
                law[(*emitted, x)] += share * weight

    visit(0, (), Fraction(1))
    return dict(law)


def by_argmax(case: Case) -> Path:
    """Tokens that greedy verification emits, from the raw logits: there is no chance in it."""
    node, emitted = 0, []
    while True:
        row = case.logits[node].tolist()
        emitted.append(row.index(max(row)))
        after = [c for c in case.tree.children[node] if case.tree.tokens[c] == emitted[-1]]
        if not after or len(emitted) == case.depth_limit:
            return tuple(emitted)
        node = after[0]


# ---- laws as mappings from sequences to probabilities


def prefixes(law: Outcomes) -> dict[Path, tuple[Any, Any, dict[int, Any]]]:
    """Return, for every prefix that is continued: P(emitted), P(emitted and continued), law of the next token."""
    emit: Counter[Path] = Counter()
    following: dict[Path, Counter[int]] = {}
    for sequence, probability in law.items():
        for k in range(len(sequence) + 1):
            emit[sequence[:k]] += probability
            if k < len(sequence):
                following.setdefault(sequence[:k], Counter())[sequence[k]] += probability
    found = {}
    for prefix, row in following.items():
        reach = sum(row.values())
        found[prefix] = emit[prefix], reach, {token: share / reach for token, share in row.items()}
    return found


def lengths(law: Outcomes, limit: int) -> list[float]:
    """P(k tokens are emitted), k = 0..limit."""
    return [float(sum(p for sequence, p in law.items() if len(sequence) == k)) for k in range(limit + 1)]


# ---- walks: one request, its coins


@dataclass(frozen=True)
class Step:
    """One row of a request in plain lists: children by the links, laws normalised by their sums."""

    token: list[int]
    children: list[list[int]]
    target: list[list[float]]
    draft: list[list[float]]
    coin: list[float]
    final: float
    limit: int

    @classmethod
    def of(cls, request: Any, b: int) -> Step:
        count = int(request.node_count[b])
        children = []
        for node in range(count):
            listed, child = [], int(request.retrieve_next_token[b, node])
            while child != -1:
                listed.append(child)
                child = int(request.retrieve_next_sibling[b, child])
            children.append(listed)
        rows = [norm(row) for row in request.target_probs[b, :count].astype(float).tolist()]
        drafted = request.draft_probs
        return cls(
            request.candidates[b].tolist(),
            children,
            rows,
            [] if drafted is None else [norm(row) for row in drafted[b, :count].astype(float).tolist()],
            request.coins[b].tolist(),
            float(request.final_coins[b]),
            int(request.depth_limit),
        )


def invert(weights: Sequence[float], coin: float) -> int:
    """First token whose running sum exceeds coin * total."""
    sums = list(itertools.accumulate(weights))
    return next(token for token, so_far in enumerate(sums) if so_far > coin * sums[-1])


Walk = tuple[list[int], list[int]]


def walk_rejection(step: Step, replacement: bool) -> Walk:
    """Tokens and accepted nodes; the coin of a draft's node decides on it."""
    nodes, emitted = [0], []
    while True:
        p, q = list(step.target[nodes[-1]]), list(step.draft[nodes[-1]])
        taken = None
        for child in step.children[nodes[-1]] if len(nodes) < step.limit else ():
            x = step.token[child]
            if step.coin[child] * q[x] < p[x]:
                taken = child
                break
            p = norm(surplus(p, q))
            if not replacement:
                q[x] = 0.0
                q = norm(q) if sum(q) > 0 else q
        if taken is None:
            return [*emitted, invert(p, step.final)], nodes
        nodes.append(taken)
        emitted.append(step.token[taken])


def walk_block(step: Step) -> Walk:
    nodes, r = [0], [1.0]
    while step.children[nodes[-1]] and len(nodes) < step.limit:
        child = step.children[nodes[-1]][0]
        x = step.token[child]
        r.append(min(1.0, r[-1] * step.target[nodes[-1]][x] / step.draft[nodes[-1]][x]))
        nodes.append(child)
    last = len(nodes) - 1
    for i in range(last, -1, -1):
        p, q = step.target[nodes[i]], step.draft[nodes[i]]
        rest = p if i == last else surplus([r[i] * weight for weight in p], q)
        if i == 0 or step.coin[nodes[i]] < hold(r[i], sum(rest), i == last):
            return [*(step.token[node] for node in nodes[1 : i + 1]), invert(rest, step.final)], nodes[: i + 1]
    raise AssertionError("nothing is always accepted")


def walk_match(step: Step, choose: Callable[[list[float], float], int]) -> Walk:
    nodes, emitted = [0], []
    while True:
        emitted.append(choose(step.target[nodes[-1]], step.coin[nodes[-1]]))
        after = [c for c in step.children[nodes[-1]] if step.token[c] == emitted[-1]]
        if not after or len(emitted) == step.limit:
            return emitted, nodes
        nodes.append(after[0])


WALKS: dict[str, Callable[[Step], Walk]] = {
    "rejection": lambda step: walk_rejection(step, True),
    "rejection-replacement": lambda step: walk_rejection(step, True),
    "rejection-no-replacement": lambda step: walk_rejection(step, False),
    "block": walk_block,
    "sampler-match": lambda step: walk_match(step, invert),
    "greedy": lambda step: walk_match(step, lambda row, _: row.index(max(row))),
}
