"""Every combination of coins on a grid: the law of a coin-driven verifier as a count, without noise.

At coins in the middle of the cells of a grid that holds all thresholds of a case, the share of the combinations that
lead to a sequence is its probability exactly. Laws in sixteenths have the thresholds of acceptance on a grid of 16, and
where six of these are left after rejections, all thresholds of the last draw on one of 48.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.counts import SequenceCounts, count_sequences
from harness.samplers.base import Verifier
from harness.tree import Tree

from .common import request_of

__all__ = ["COMBINATIONS", "grid_case", "on_grid", "sequence_chances"]

CELLS, LAST_CELLS = 16, 48
"""Cells of the grid of a node's coin, and of the last coin."""
INNER = 2
"""Nodes with children, whose coins decide something."""
COMBINATIONS = CELLS**INNER * LAST_CELLS
ROOT = (5, 3, 2, 3, 1, 2, 0, 0)
BELOW = (0, 4, 2, 6, 3, 1, 0, 0)
"""Sixteenths at the root, whose children are 0, 1 and 2, and after token 0, whose children are 1 and 3."""
LEAVES = ((4, 0, 4, 2, 2, 2, 2, 0), (1, 1, 2, 4, 8, 0, 0, 0), (0, 8, 0, 0, 4, 0, 2, 2), (2, 2, 2, 2, 2, 2, 2, 2))


def grid_case(rule: str = "target-only") -> Case:
    """Return the case: six nodes, the root with three children, the first of which has two."""
    weights = np.array([ROOT, BELOW, *LEAVES], np.float32) / np.float32(16.0)
    with np.errstate(divide="ignore"):
        logits = np.log(weights)
    tree = Tree(np.array([0, 0, 1, 2, 1, 3]), np.array([-1, 0, 0, 0, 1, 1]))
    return Case("grid", rule, tree, logits, probs=weights, depth_limit=4)


def on_grid(case: Case, verifier: Verifier) -> SequenceCounts:
    """Return how many combinations of the coins of the inner nodes and the last coin lead to each sequence."""
    inner = [node for node in range(len(case.tree)) if case.tree.children[node]]
    if len(inner) != INNER:
        raise ValueError(f"the tree must have {INNER} nodes with children, got {len(inner)}")
    axes = [((np.arange(cells) + 0.5) / cells).astype(np.float32) for cells in (*[CELLS] * INNER, LAST_CELLS)]
    coins = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, INNER + 1)
    request = request_of(case, len(coins))
    request.coins[:, inner] = coins[:, :INNER]
    request.final_coins[:] = coins[:, INNER]
    return count_sequences(np.asarray(verifier.verify(request).tokens))


def sequence_chances(counts: SequenceCounts) -> dict[tuple[int, ...], int]:
    """Return the counts by sequence."""
    rows: Sequence[NDArray[np.int64]] = list(counts.tokens)
    return {
        tuple(token for token in row.tolist() if token >= 0): int(count)
        for row, count in zip(rows, counts.counts, strict=True)
    }
