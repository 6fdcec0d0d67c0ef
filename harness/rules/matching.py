"""Rules sampler-match and greedy: choose a token from the target's law, descend where a child has it.

sampler-match draws x from the law at each node and goes on to the child with token x, if there is one; x is the last
token otherwise (DDTree's reference, "sampled verify"). greedy is the same with the argmax, lossless at temperature 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..draw import draw
from ..law import Law, LawBuilder
from ..request import Request
from .base import Floats, Rule, Walked

__all__ = ["GREEDY", "SAMPLER_MATCH"]

Ints = NDArray[np.int64]
Choose = Callable[[NDArray[np.float32], NDArray[np.float32]], Ints]


def law(case: Case, rows: Floats | None = None) -> Law:
    """Return the exact law of ``case``: a child is reached with the target's probability of its token."""
    rows, tree = case.law_rows if rows is None else rows, case.tree
    builder = LawBuilder(case.depth_limit)
    queue = [(-1, 0, 1.0)]
    for parent, node, reach in queue:
        index = builder.add(parent, int(tree.tokens[node]) if node else -1, node, reach, rows[node])
        if tree.depth[node] < case.depth_limit - 1:
            for child in tree.children[node]:
                p = float(rows[node, tree.tokens[child]])
                if p > 0.0:
                    queue.append((index, child, reach * p))
    return builder.build()


def _walk(request: Request, choose: Choose) -> Walked:
    probs, candidates = request.target_probs, request.candidates
    tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
    nodes = np.full_like(tokens, -1)
    nodes[:, 0] = 0
    lengths = np.ones(request.batch, np.int64)
    at = np.zeros(request.batch, np.int64)
    live = np.arange(request.batch)
    for step in range(request.depth_limit):
        here = at[live]
        chosen = choose(probs[live, here], request.coins[live, here])
        tokens[live, step] = chosen
        lengths[live] = step + 1
        if step + 1 == request.depth_limit:
            break
        child = request.retrieve_next_token[live, here]
        other = (child >= 0) & (candidates[live, child] != chosen)
        while other.any():
            child[other] = request.retrieve_next_sibling[live[other], child[other]]
            other = (child >= 0) & (candidates[live, child] != chosen)
        live, child = live[child >= 0], child[child >= 0]
        if not len(live):
            break
        nodes[live, step + 1] = child
        at[live] = child
    return Walked(tokens, lengths, nodes)


def _match(request: Request) -> Walked:
    return _walk(request, lambda rows, coins: draw(rows.astype(np.float64), coins))


def _greedy(request: Request) -> Walked:
    return _walk(request, lambda rows, coins: rows.argmax(axis=1))


SAMPLER_MATCH = Rule("sampler-match", law, _match)
GREEDY = Rule("greedy", law, _greedy, greedy=True)
