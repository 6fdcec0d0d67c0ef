"""Exact laws of the faulty verifiers of plugins.py, by the measure of the coins that lead to each outcome.

Written from what the verifiers do, without the harness's own laws, so that it can judge what the gate says of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.groups import Group

Floats = NDArray[np.float64]
Cells = dict[tuple[int, ...], Floats]
"""For each prefix that can be emitted and continued: P(prefix is emitted, then token x), float64 [V]."""


def cells(group: Group, number: int, rows_per_case: int, fault: str = "") -> Cells:
    """Return the law of case ``number`` of ``group`` under a verifier of plugins.py; "" is the right one."""
    case = group.cases[number]
    size = len(group)
    tables = group.tables.target_probs.astype(np.float64).reshape(size, group.nodes, group.vocab)
    if fault != "NeighbourRows":
        return _walk(case, tables[number], fault)
    total: Cells = {}
    for other in range(
        size
    ):  # the row before it is any of the other rows of the call, which has all cases equally often
        weight = (rows_per_case - (other == number)) / (rows_per_case * size - 1)
        for prefix, mass in _walk(case, tables[other], "").items():
            total[prefix] = total.get(prefix, 0.0) + weight * mass
    return total


def _walk(case: Case, rows: Floats, fault: str) -> Cells:
    found: Cells = {}

    def visit(node: int, prefix: tuple[int, ...], reach: float) -> None:
        row = rows[node] / rows[node].sum()
        children = case.tree.children[node] if len(prefix) < case.depth_limit - 1 else ()
        mass, rest = np.zeros(len(row)), row.copy()
        running = below = 0.0  # coins under ``below`` are accepted by a child tried so far
        for i, child in enumerate(children):
            token = int(case.tree.tokens[child])
            running += row[token] * (2 if fault == "SiblingTwice" and i == 1 else 1)
            if row[token] > 0:
                surely = np.float32(rows[node][token]) >= np.float32(case.threshold_single)
                level = 1.0 if surely else min(1.0, running / max(case.threshold_acc, 1e-9))
                if level > below:
                    mass[token] += reach * (level - below)
                    visit(int(child), (*prefix, token), reach * (level - below))
                    below = level
            if fault != "LastFromWhole":
                rest[token] = 0.0
        if below < 1.0 and rest.sum() > 0:
            edges = np.concatenate([[0.0], np.cumsum(rest) / rest.sum()])
            # One coin: given that it lies in [below, 1), it falls between two edges only there.
            last = np.diff(np.clip(edges, below, 1.0)) if fault == "OneCoin" else np.diff(edges) * (1.0 - below)
            mass += reach * last
        found[prefix] = mass

    visit(0, (), 1.0)
    return found
