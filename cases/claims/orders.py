"""Claims about the order of siblings (2) and ties between them (6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.builders import ddtree
from harness.case import Case
from harness.filters import SamplingParams, softmax
from harness.law import Law
from harness.rules import RULES
from harness.streams import stream
from harness.tree import Tree

from .common import DEPTH, NODES, accepted, apart, chances, ddtrees, kernel_of, variation
from .grids import COMBINATIONS, grid_case, on_grid, sequence_chances

__all__ = ["Order", "Ties", "order_of_siblings", "ties"]

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Order:
    """Claim 2: what the order of siblings changes.

    ``kernel_differs`` counts, over ``orders`` orders of the grid case, sequences whose count under the kernel is not
    the law's exactly. ``law`` holds by rule the total variation between descending and ascending order, and
    ``accepted`` the mean accepted drafts in both; ``sorted_siblings`` by rule the total variation from the target's law
    where siblings that were drawn are put into descending order, and the acceptance rates as drawn and sorted.
    """

    orders: int
    kernel_differs: int
    law: dict[str, float]
    accepted: dict[str, tuple[float, float]]
    sorted_siblings: dict[str, tuple[float, float, float]]


def order_of_siblings(name: str) -> Order:
    """Claim 2: descending sibling order is needed."""
    case, cells = grid_case(), COMBINATIONS
    law = chances(RULES["target-only"].law(case))
    verifier, differs, orders = kernel_of(name), 0, 0
    for mine in itertools.product(*(itertools.permutations(children) for children in case.tree.children)):
        found = sequence_chances(on_grid(replace(case, tree=case.tree.reordered(mine)), verifier))
        differs += sum(found.get(key, 0) != round(law.get(key, 0.0) * cells) for key in found.keys() | law.keys())
        orders += 1
    laws: dict[str, float] = {}
    means: dict[str, tuple[float, float]] = {}
    for rule, thresholds in (
        ("target-only", (1.0, 1.0)),
        ("target-only, threshold_acc 0.5", (1.0, 0.5)),
        ("sampler-match", (1.0, 1.0)),
        ("greedy", (1.0, 1.0)),
    ):
        down, up = (RULES[rule.split(",")[0]].law(one) for one in _both_orders(rule, thresholds))
        laws[rule], means[rule] = variation(chances(down), chances(up)), (accepted(down), accepted(up))
    sorted_siblings = {rule: _sorted_siblings(rule) for rule in ("rejection-replacement", "rejection-no-replacement")}
    return Order(orders, differs, laws, means, sorted_siblings)


def _both_orders(rule: str, thresholds: tuple[float, float]) -> Iterator[Case]:
    """Yield DDTree's case with siblings by descending and by ascending target mass."""
    case = ddtrees()["none"]
    if rule == "greedy":
        case = replace(case, params=SamplingParams(0.0))
    case = replace(
        case, rule=rule.split(",")[0], threshold_single=thresholds[0], threshold_acc=thresholds[1], name=rule
    )
    rows = case.law_rows
    for sign in (-1.0, 1.0):
        order = [
            sorted(children, key=lambda child, node=node: sign * rows[node, case.tree.tokens[child]])  # type: ignore[misc]
            for node, children in enumerate(case.tree.children)
        ]
        yield replace(case, tree=case.tree.reordered(order))


TARGET, DRAFT = (0.4, 0.3, 0.2, 0.1), (0.2, 0.1, 0.3, 0.4)
SIBLINGS = 2


def _sorted_siblings(rule: str) -> tuple[float, float, float]:
    """Return the total variation from the target where drawn siblings are sorted, and both acceptance rates.

    One node with two siblings, over all draws of them, exactly.
    """
    drawn, by_draw = _emitted(rule, sort=False)
    placed, by_order = _emitted(rule, sort=True)
    target = np.array(TARGET)
    if not np.allclose(drawn, target, atol=1e-12):
        raise AssertionError(f"{rule} is not lossless as drawn: {drawn}")
    return float(0.5 * np.abs(placed - target).sum()), by_draw, by_order


def _emitted(rule: str, *, sort: bool) -> tuple[Floats, float]:
    """Return the law of the emitted token and the acceptance rate, siblings as drawn or by descending draft mass."""
    replacement = rule == "rejection-replacement"
    law, rate = np.zeros(len(TARGET)), 0.0
    for siblings in itertools.product(range(len(TARGET)), repeat=SIBLINGS):
        weight, left = 1.0, np.array(DRAFT)
        for token in siblings:
            weight *= left[token]
            if not replacement:
                left[token] = 0.0
                left /= left.sum()
        p, q = np.array(TARGET), np.array(DRAFT)
        for token in sorted(siblings, key=lambda x: -DRAFT[x]) if sort else siblings:
            accept = min(1.0, p[token] / q[token]) if q[token] > 0.0 else 0.0
            law[token] += weight * accept
            rate += weight * accept
            weight *= 1.0 - accept
            p = np.maximum(p - q, 0.0)
            if weight <= 0.0:
                break
            p /= p.sum()
            if not replacement:
                q[token] = 0.0
                q /= q.sum()
        else:
            law += weight * p
    return law, rate


@dataclass(frozen=True)
class Ties:
    """Claim 6: over trees with tied log weights, what another way to break the ties changes.

    ``order_apart`` is the largest difference of any sequence's probability where tied siblings change places;
    ``other_tree`` says in how many of ``trees`` another tie-break drafts another node, at the budget's edge;
    ``next_token_apart`` how far the law of the first token then moves, and ``accepted_apart`` the mean acceptance.
    """

    trees: int
    order_apart: float
    other_tree: int
    next_token_apart: float
    accepted_apart: float


def ties(trees: int = 64) -> Ties:
    """Claim 6: ties in log weight change nothing but order."""
    rng, order_apart, other_tree, next_apart, mean_apart = stream("claims", "ties"), 0.0, 0, 0.0, 0.0
    for _ in range(trees):
        draft = rng.choice([0.05, 0.1, 0.2], (3, 8))  # few values: many ties
        draft /= draft.sum(axis=1, keepdims=True)
        root, vocab = int(rng.integers(8)), draft.shape[1]
        rows = softmax(rng.normal(0.0, 1.5, (vocab**3, vocab)))
        tree = ddtree(draft, root, NODES).by_weight().tree
        law = _law_by_path(tree, rows)
        turned = tree.reordered([children[::-1] for children in tree.children])
        order_apart = max(order_apart, apart(chances(law), chances(_law_by_path(turned, rows))))
        relabel = rng.permutation(vocab)  # equal tokens are taken in another order
        other = ddtree(draft[:, relabel], int(np.argsort(relabel)[root]), NODES)
        again = Tree(relabel[other.tree.tokens], other.tree.parents, other.tree.children)
        moved = _law_by_path(again, rows)
        other_tree += set(_paths(tree)) != set(_paths(again))
        next_apart = max(next_apart, float(np.abs(law.rows[0] - moved.rows[0]).max()))
        mean_apart = max(mean_apart, abs(accepted(law) - accepted(moved)))
    return Ties(trees, order_apart, other_tree, next_apart, mean_apart)


def _paths(tree: Tree) -> list[tuple[int, ...]]:
    return [tuple(tree.tokens[tree.path(node)[1:]].tolist()) for node in range(len(tree))]


def _law_by_path(tree: Tree, rows: Floats) -> Law:
    """Return the law of a tree whose target rows are functions of the path to a node."""
    vocab = rows.shape[1]
    at = [sum((token + 1) * vocab**place for place, token in enumerate(path)) % len(rows) for path in _paths(tree)]
    with np.errstate(divide="ignore"):
        logits = np.log(rows[at]).astype(np.float32)
    return RULES["target-only"].law(Case("ties", "target-only", tree, logits, depth_limit=DEPTH))
