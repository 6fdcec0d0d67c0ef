"""Samplers that take chains alone, of as many nodes as a request has columns: what the cases with trees are to them.

A chain begins with the path through first children. Where that ends, other nodes of the tree follow, and then the same
ones again; each keeps its law row and coin. A draft is the first child's token where its parent has children, else the
parent's likeliest token.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .groups import FixedCoins, Group, Plan
from .tree import Tree

__all__ = ["chained"]

Ints = NDArray[np.int64]


def chained(plan: Plan) -> Plan:
    """Return the same calls with chains in place of trees, of S nodes, or N where that is less."""
    cases = plan.group.cases
    size = min(plan.group.nodes, cases[0].depth_limit)
    rows = np.array([_rows(case.tree, size) for case in cases])
    group = Group(plan.group.name, tuple(_chain(case, mine) for case, mine in zip(cases, rows, strict=True)))
    fixed = plan.fixed
    if fixed is not None:
        fixed = FixedCoins(np.take_along_axis(fixed.nodes, rows, axis=1), fixed.final)
    return replace(plan, group=group, fixed=fixed)


def _rows(tree: Tree, size: int) -> Ints:
    """Return the node of the tree that each node of the chain has the law of, int64 [size]."""
    rows = [0]
    while len(rows) < size and tree.children[rows[-1]]:
        rows.append(tree.children[rows[-1]][0])
    rest = [node for node in tree.order if node not in rows]
    return np.resize([*rows, *rest], size).astype(np.int64)


def _chain(case: Case, rows: Ints) -> Case:
    tokens = case.tree.tokens[np.zeros(len(rows), np.int64)]
    for node, row in enumerate(rows[:-1]):
        children = case.tree.children[row]
        tokens[node + 1] = case.tree.tokens[children[0]] if children else case.target_probs[row].argmax()
    return replace(
        case,
        tree=Tree(tokens, np.arange(-1, len(rows) - 1)),
        logits=case.logits[rows],
        probs=None if case.probs is None else case.probs[rows],
        depth_limit=len(rows),
        nodes=len(rows),
    )
