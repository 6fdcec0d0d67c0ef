"""Laws A, B and C, their biases, random small laws, and draws from any law: the bench the statistics are tested on."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from harness.counts import SequenceCounts, count_sequences
from harness.law import Law, LawBuilder

SPECS = {"A": (32, 1, 2.5, 1), "B": (8, 3, 2.0, 2), "C": (16, 4, 2.5, 3)}
"""Vocabulary, depth, standard deviation of the logits and seed."""

Rows = list[np.ndarray]


def stream(name: str) -> np.random.Generator:
    """Return the random stream of a test, from its name alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


def tables(name: str, temperature: float = 1.0) -> Rows:
    """Next-token rows of a full V-ary tree, one array [V**d, V] for each depth d."""
    vocab, depth, sigma, seed = SPECS[name]
    rng = np.random.default_rng(seed)
    levels = []
    for d in range(depth):
        logits = rng.normal(0, sigma, (vocab**d, vocab)) / temperature
        weights = np.exp(logits - logits.max(axis=1, keepdims=True))
        levels.append(weights / weights.sum(axis=1, keepdims=True))
    return levels


def law_of(levels: Rows) -> Law:
    """Law of a sampler that always emits as many tokens as there are levels."""
    vocab = levels[0].shape[1]
    sizes = [len(level) for level in levels]
    start = np.cumsum([0, *sizes])
    parent, token, reach = [np.array([-1])], [np.array([-1])], [np.ones(1)]
    for d in range(1, len(levels)):
        index = np.arange(sizes[d])
        parent.append(start[d - 1] + index // vocab)
        token.append(index % vocab)
        reach.append((reach[-1][:, None] * levels[d - 1]).ravel())
    nodes = np.arange(start[-1])
    return Law(
        np.concatenate(parent), np.concatenate(token), nodes, np.concatenate(reach), np.concatenate(levels), len(levels)
    )


def null(name: str) -> Law:
    """Law A, B or C without bias."""
    return law_of(tables(name))


def biased(name: str, bias: str) -> Law:
    """Law A, B or C under one of the biases move, leak, temp, swap."""
    if bias == "temp":
        return law_of(tables(name, temperature=1.02))
    levels = tables(name)
    root = levels[0][0]
    first, second = np.argsort(-root)[:2]
    if bias == "move":
        root[first] -= 0.01
        root[second] += 0.01
    elif bias == "leak":
        rarest = np.argmin(root)
        root *= 1 - 1e-3
        root[rarest] += 1e-3
    elif len(levels) == 1:  # swap, one step: the tokens nearest to 1e-3 and 1e-4
        one = np.argsort(np.abs(np.log(root) - np.log(1e-3)))[0]
        other = np.argsort(np.abs(np.log(root) - np.log(1e-4)))[0]
        root[[one, other]] = root[[other, one]]
    else:  # swap, tree: the two likeliest children of the last-level node of reach nearest to 1e-3
        row = levels[-1][rare_node(levels)]
        one, other = np.argsort(-row)[:2]
        row[[one, other]] = row[[other, one]]
    return law_of(levels)


def rare_node(levels: Rows) -> int:
    """Index, within the last level, of the node of reach nearest to 1e-3."""
    reach = np.ones(1)
    for level in levels[:-1]:
        reach = (reach[:, None] * level).ravel()
    return int(np.argmin(np.abs(np.log(reach) - np.log(1e-3))))


def draw(law: Law, n: int, rng: np.random.Generator) -> SequenceCounts:
    """Draw n sequences of a law, prefix by prefix: multinomial next tokens, binomial stops."""
    reached = np.zeros(law.size, np.int64)
    reached[0] = n
    width = int(law.depth.max()) + 1
    children: dict[int, list[int]] = {}
    for m in range(1, law.size):
        children.setdefault(int(law.parent[m]), []).append(m)
    rows: list[np.ndarray] = []
    counts: list[np.ndarray] = []
    path: dict[int, list[int]] = {0: []}
    for m in range(law.size):
        prefix = path.pop(m, None)
        if prefix is None or not reached[m]:
            continue
        ends = rng.multinomial(reached[m], law.rows[m] / law.rows[m].sum())
        for child in children.get(m, []):
            token = law.token[child]
            if ends[token]:
                reached[child] = rng.binomial(ends[token], min(1.0, law.reach[child] / law.emit[child]))
                ends[token] -= reached[child]
                path[child] = [*prefix, int(token)]
        (tokens,) = np.nonzero(ends)
        block = np.full((len(tokens), width), -1, np.int64)
        block[:, : len(prefix)] = prefix
        block[:, len(prefix)] = tokens
        rows.append(block)
        counts.append(ends[tokens])
    return count_sequences(np.concatenate(rows), np.concatenate(counts))


def sampler(law: Law) -> Callable[[int, np.random.Generator], SequenceCounts]:
    """Return a quick drawer for laws of at most some ten thousand outcomes: one multinomial over all of them."""
    table = law.reach[:, None] * law.rows
    np.subtract.at(table, (law.parent[1:], law.token[1:]), law.reach[1:])
    prefix, last = np.nonzero(table > 1e-15)
    probability = table[prefix, last] / table[prefix, last].sum()
    tokens = np.full((len(prefix), int(law.depth.max()) + 1), -1, np.int64)
    for i, (m, token) in enumerate(zip(prefix, last, strict=True)):
        path = [*law.prefix(m), token]
        tokens[i, : len(path)] = path
    order = np.lexsort(tokens.T[::-1])
    tokens, probability = tokens[order], probability[order]

    def sample(n: int, rng: np.random.Generator) -> SequenceCounts:
        counts = rng.multinomial(n, probability)
        return SequenceCounts(tokens[counts > 0], counts[counts > 0])

    return sample


def random_law(rng: np.random.Generator, vocab: int = 5, depth: int = 3, zeros: float = 0.3) -> Law:
    """Return a small irregular law: some tokens impossible, some prefixes absent, some stops random."""
    builder = LawBuilder(depth)
    ready = [(-1, -1, 1.0, 0)]
    while ready:
        parent, token, reach, level = ready.pop(0)
        row = rng.dirichlet(np.full(vocab, 0.7))
        row[rng.random(vocab) < zeros] = 0.0
        if row.sum() <= 0:
            row[rng.integers(vocab)] = 1.0
        row /= row.sum()
        m = builder.add(parent, token, node=int(rng.integers(100)), reach=reach, row=row)
        for child in np.flatnonzero(row):
            if level + 1 < depth and rng.random() < 0.5:
                goes_on = 1.0 if rng.random() < 0.5 else rng.uniform(0.1, 1.0)
                ready.append((m, int(child), reach * row[child] * goes_on, level + 1))
    return builder.build()
