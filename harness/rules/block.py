"""Rule block: block verification of a chain (arXiv 2403.10444, algorithm 2).

With drafts x_1..x_g, r_0 = 1 and r_i = min(1, r_{i-1} p(x_i) / q(x_i)); h_i = W_i / (W_i + 1 - r_i), where W_i is the
sum over the next token of relu(r_i p - q), and h_g = r_g. The last i whose coin is below h_i is accepted, and the token
after it drawn from norm(relu(r_i p - q)), from p where all were accepted. Lossless, and accepts no less than token by
token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..draw import draw
from ..law import Law, LawBuilder
from ..redraw import next_state
from ..request import Request
from .base import Rule, Walked
from .rejection import check_prefixes, draft_rows

__all__ = ["BLOCK"]

Floats = NDArray[np.float64]


def _hold(r: Floats, surplus: Floats) -> Floats:
    """Return h = W / (W + 1 - r): where r = 1 and W = 0 nothing is left to give and the draft is held."""
    total = surplus + 1.0 - r
    return np.where(total > 0.0, surplus / np.where(total > 0.0, total, 1.0), 1.0)


def law(case: Case, rows: Floats | None = None) -> Law:
    """Return the exact law of ``case``, over draft draws as well as coins.

    Prefix s of i drafts is emitted and continued where at least i drafts are accepted, that is by the coin of i or of a
    later one: reach = Q(s) (h_i + (1 - h_i) L_i), L_i = E[h_j + (1 - h_j) L_j] over draft j = i + 1. A sum of what is
    held, not one minus what is lost, so that what cannot be accepted has a reach of 0 exactly.

    Raises
    ------
    ValueError
        Where the prefixes that the drafts can lead to are too many to enumerate.
    """
    target, draft = case.law_rows if rows is None else rows, case.draft_rows
    states = len(target)
    chain = case.tree.order
    last = min(len(chain), case.depth_limit) - 1
    parents, tokens, depths, state_of, drawn, ratio = [-1], [-1], [0], [0], [1.0], [1.0]
    start = 0
    for depth in range(1, last + 1):
        stop = len(parents)
        for index in range(start, stop):
            p, q = target[state_of[index]], draft[state_of[index]]
            for token in np.flatnonzero(np.minimum(p, q)):  # without target mass r = 0: no later coin accepts either
                parents.append(index)
                tokens.append(int(token))
                depths.append(depth)
                state_of.append(next_state(state_of[index], int(token), states))
                drawn.append(drawn[index] * float(q[token]))
                ratio.append(min(1.0, ratio[index] * float(p[token]) / float(q[token])))
            check_prefixes(case, len(parents))
        start = stop
    r = np.array(ratio)
    surplus = np.array([np.maximum(r[i] * target[s] - draft[s], 0.0).sum() for i, s in enumerate(state_of)])
    depth_of = np.array(depths)
    hold = np.where(depth_of == last, r, _hold(r, surplus))
    later = np.zeros(len(parents))  # L: P(the coin of a later draft accepts), given the drafts so far
    for index in range(len(parents) - 1, 0, -1):
        parent = parents[index]
        later[parent] += drawn[index] / drawn[parent] * (hold[index] + (1.0 - hold[index]) * later[index])
    builder = LawBuilder(case.depth_limit)
    index_of: dict[int, int] = {}
    for index, parent in enumerate(parents):
        reach = 1.0 if index == 0 else drawn[index] * (hold[index] + (1.0 - hold[index]) * later[index])
        if reach > 0.0 and (index == 0 or parent in index_of):
            index_of[index] = builder.add(
                index_of.get(parent, -1), tokens[index], chain[depths[index]], float(reach), target[state_of[index]]
            )
    return builder.build()


def walk(request: Request) -> Walked:
    """Walk every chain; the coin of draft i's node decides whether the block up to i is accepted."""
    batch = np.arange(request.batch)
    tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
    nodes = np.full_like(tokens, -1)
    nodes[:, 0] = 0
    path = np.full((request.batch, request.depth_limit), -1, np.int64)
    path[:, 0] = 0
    accepted = np.zeros(request.batch, np.int64)
    rest = np.empty((request.batch, request.vocab))
    live, r = batch, np.ones(request.batch)
    for step in range(1, request.depth_limit + 1):
        at = path[live, step - 1]
        p, q = draft_rows(request, live, at)
        surplus = r[:, None] * p
        surplus -= q
        np.maximum(surplus, 0.0, out=surplus)
        node = request.retrieve_next_token[live, at] if step < request.depth_limit else np.full(len(live), -1)
        ends = node < 0  # the draft before was the last one: its whole law may follow
        hold = np.where(ends, r, _hold(r, surplus.sum(axis=1)))
        held = (request.coins[live, at] < hold) | (step == 1)
        accepted[live[held]] = step - 1
        rest[live[held & ends]] = p[held & ends]
        rest[live[held & ~ends]] = surplus[held & ~ends]
        on = np.flatnonzero(~ends)
        if not len(on):
            break
        live, node = live[on], node[on]
        token = request.candidates[live, node]
        r = np.minimum(1.0, r[on] * p[on, token] / q[on, token])
        path[live, step] = node
    for step in range(1, request.depth_limit):
        rows = batch[accepted >= step]
        tokens[rows, step - 1] = request.candidates[rows, path[rows, step]]
        nodes[rows, step] = path[rows, step]
    tokens[batch, accepted] = draw(rest, request.final_coins)
    return Walked(tokens, accepted + 1, nodes)


BLOCK = Rule("block", law, walk, shape="chain", drafts="replacement")
