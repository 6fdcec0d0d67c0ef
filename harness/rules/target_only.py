"""Rule target-only: SGLang's tree_speculative_sampling_target_only.

At each node one coin decides among the children, tried in sibling order: the first whose running sum of target mass,
over threshold_acc, exceeds the coin, or whose own mass reaches threshold_single, is accepted; a child without mass
never is. Where none is accepted the last token comes from the node's law without its children, renormalised, and from
the whole law where the depth limit was reached. At thresholds of 1 and distinct siblings this is lossless, whatever the
sibling order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..draw import draw
from ..law import Law, LawBuilder
from ..request import Request
from .base import Floats, Rule, Walked

__all__ = ["TARGET_ONLY", "acceptance"]

LEAST_ACC = 1e-9
"""The vendor's launcher raises threshold_acc to at least this."""


def acceptance(mass: NDArray[np.float64], sure: NDArray[np.bool_], threshold_acc: float) -> NDArray[np.float64]:
    """P(child i is accepted) for children of target mass ``mass`` [c] in sibling order, float64 [c].

    With F_i = min(1, S_i / threshold_acc), S_i the running sum and F_0 = 0: F_i - F_{i-1}; all that is left where the
    child is ``sure`` [c], its own mass having reached threshold_single; 0 for a child without mass.
    """
    taken = np.zeros(len(mass))
    reached = running = 0.0
    for i, p in enumerate(mass):
        running += p
        if p <= 0.0:
            continue
        level = 1.0 if sure[i] else min(1.0, running / max(threshold_acc, LEAST_ACC))
        taken[i] = max(0.0, level - reached)
        reached = max(reached, level)
    return taken


def law(case: Case, rows: Floats | None = None) -> Law:
    """Return the exact law of ``case``."""
    given, rows = (case.target_probs, case.law_rows) if rows is None else (rows.astype(np.float32), rows)
    tree = case.tree
    lossless = case.threshold_single >= 1.0 and case.threshold_acc >= 1.0
    builder = LawBuilder(case.depth_limit)
    queue = [(-1, 0, 1.0)]
    for parent, node, reach in queue:
        tokens = np.array(tree.child_tokens(node), np.int64)
        if tree.depth[node] >= case.depth_limit - 1:
            tokens = tokens[:0]
        row = rows[node]
        sure = given[node, tokens] >= np.float32(case.threshold_single)  # as given: rounded, not normalised
        accepted = row[tokens] if lossless else acceptance(row[tokens], sure, case.threshold_acc)
        if not lossless and len(tokens):
            rest = row.copy()
            rest[tokens] = 0.0
            left = 1.0 - accepted.sum()
            row = rest * (left / rest.sum()) if left > 1e-12 and rest.sum() > 0 else np.zeros_like(rest)
            row[tokens] += accepted
            row /= row.sum()
        token = int(tree.tokens[node]) if node else -1
        index = builder.add(parent, token, node, reach, row)
        for child, p in zip(tree.children[node], accepted, strict=False):
            if p > 0.0:
                queue.append((index, child, reach * float(p)))
    return builder.build()


def walk(request: Request) -> Walked:
    """Walk every request of the batch at once, in float64; sums of a row stand for 1, so that no coin is left over."""
    probs = request.target_probs
    batch = np.arange(request.batch)
    tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
    nodes = np.full_like(tokens, -1)
    nodes[:, 0] = 0
    at = np.zeros(request.batch, np.int64)
    depth = np.zeros(request.batch, np.int64)
    live = batch
    acc = max(request.threshold_acc, LEAST_ACC)
    single = np.float32(request.threshold_single)
    for step in range(1, request.depth_limit):
        live = live[request.retrieve_next_token[live, at[live]] >= 0]
        if not len(live):
            break
        here = at[live]
        total = probs[live, here].sum(axis=1, dtype=np.float64)
        mark = request.coins[live, here].astype(np.float64) * total * acc
        running = np.zeros(len(live))
        chosen = np.full(len(live), -1, np.int64)
        child = request.retrieve_next_token[live, here]
        trying = np.flatnonzero(child >= 0)
        while len(trying):
            rows, c = live[trying], child[trying]
            p = probs[rows, here[trying], request.candidates[rows, c]]
            running[trying] += p
            accept = (p > 0) & ((mark[trying] < running[trying]) | (p >= single))
            chosen[trying[accept]] = c[accept]
            child[trying] = np.where(accept, -1, request.retrieve_next_sibling[rows, c])
            trying = trying[child[trying] >= 0]
        moved = chosen >= 0
        live, chosen = live[moved], chosen[moved]
        tokens[live, step - 1] = request.candidates[live, chosen]
        nodes[live, step] = chosen
        at[live] = chosen
        depth[live] = step
    rest = probs[batch, at].astype(np.float64)
    open_rows = np.flatnonzero(depth < request.depth_limit - 1)
    child = request.retrieve_next_token[open_rows, at[open_rows]]
    while (child >= 0).any():
        open_rows, child = open_rows[child >= 0], child[child >= 0]
        rest[open_rows, request.candidates[open_rows, child]] = 0.0
        child = request.retrieve_next_sibling[open_rows, child]
    tokens[batch, depth] = draw(rest, request.final_coins)
    return Walked(tokens, depth + 1, nodes)


TARGET_ONLY = Rule("target-only", law, walk, lossy=True)
