"""Claims about single steps of the kernel: its buffers (1, 4), filters before it (5), numbering of nodes (7)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from distributions import DRAFTS, SHAPES
from harness.request import Request
from harness.rules import RULES
from harness.stats.verdict import Judgement
from harness.streams import stream
from harness.tree import Tree

from .common import (
    NODES,
    Buffers,
    GreedyBuffers,
    chances,
    ddtrees,
    kernel_of,
    random_request,
    request_of,
    single_steps,
    tree_case,
    variation,
)
from .grids import COMBINATIONS, grid_case, on_grid, sequence_chances

__all__ = [
    "Numbering",
    "Rooted",
    "Zeros",
    "accept_index_includes_the_root",
    "filters_before_the_kernel",
    "numbering_of_nodes",
    "zeros_for_draft_probs",
]

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Zeros:
    """Claim 1: judgements by shape of the tree, and the law that comes of a draft law in the buffer."""

    shapes: dict[str, Judgement]
    grid_differs: int
    """Sequences of the grid case of which the count is not the law's, exactly."""
    draft_law_instead: float
    """Total variation from the law where the buffer holds the drafter's law on entry."""


def zeros_for_draft_probs(threads: int, n: int = 1 << 14) -> Zeros:
    """Claim 1: zeros for draft_probs are right for any tree."""
    shapes = {name: tree_case(name, shape(stream("claims", name), NODES)) for name, shape in SHAPES.items()}
    for name, case in ddtrees().items():
        shapes[f"ddtree, {name}"] = case
    zeros = Buffers(threads)
    judged = single_steps(list(shapes.values()), zeros, n)
    case = grid_case()
    law = chances(RULES["target-only"].law(case))
    found = sequence_chances(on_grid(case, zeros))
    cells = COMBINATIONS
    wrong = sum(found.get(key, 0) != round(p * cells) for key, p in law.items()) + len(found.keys() - law.keys())

    def drafters(request: Request) -> NDArray[np.float32]:
        return np.repeat(DRAFTS["noisy"].make(stream("claims", "q"), case.law_rows)[None], request.batch, axis=0)

    other = sequence_chances(on_grid(case, Buffers(threads, drafters)))
    return Zeros(
        dict(zip(shapes, judged, strict=True)), wrong, variation(law, {key: n / cells for key, n in other.items()})
    )


@dataclass(frozen=True)
class Rooted:
    """Claim 4: steps looked at, and of these how many have another first entry than the root, or another count."""

    steps: int
    without_root: int
    counted_otherwise: int


def accept_index_includes_the_root(threads: int, n: int = 1 << 10) -> Rooted:
    """Claim 4: accept_index includes the root; accept_token_num counts neither it nor the last token."""
    steps = without = otherwise = 0
    for case in ddtrees().values():
        for kernel in (Buffers(threads), GreedyBuffers()):
            kernel.verify(random_request(case, n))
            index = kernel.accept_index
            steps += len(index)
            without += int((index[:, 0] != np.arange(len(index)) * case.nodes).sum())
            otherwise += int(((index >= 0).sum(axis=1) - 1 != kernel.accept_token_num).sum())
    return Rooted(steps, without, otherwise)


def filters_before_the_kernel(name: str, n: int = 1 << 15) -> dict[str, Judgement]:
    """Claim 5: temperature, top-k and top-p can be applied to the target's laws before the kernel."""
    cases = ddtrees()
    return dict(zip(cases, single_steps(list(cases.values()), kernel_of(name), n), strict=True))


@dataclass(frozen=True)
class Numbering:
    """Claim 7: rows of which the tokens were compared between numberings, and how many differ, by numbering."""

    rows: int
    differ: dict[str, int]


def numbering_of_nodes(name: str, n: int = 1 << 11) -> Numbering:
    """Claim 7: how nodes are numbered, depth-first as EAGLE's or as the heap gave them, is nothing to the kernel."""
    verifier, rows = kernel_of(name), 0
    differ = {"depth-first": 0, "breadth-first": 0, "random": 0, "reversed": 0}
    for case in ddtrees().values():
        request, rng = random_request(case, n, "numbering"), stream("claims", "numberings", case.name)
        coins, final = request.coins.copy(), request.final_coins.copy()
        tokens = np.asarray(verifier.verify(request).tokens)
        rows += n
        for kind, new in _numberings(case.tree, rng).items():
            old = np.argsort(new)
            again = request_of(replace(case, tree=case.tree.renumbered(new), logits=case.logits[old]), n)
            again.coins[:], again.final_coins[:] = coins[:, old], final
            differ[kind] += int((np.asarray(verifier.verify(again).tokens) != tokens).any(axis=1).sum())
    return Numbering(rows, differ)


def _numberings(tree: Tree, rng: np.random.Generator) -> dict[str, Ints]:
    """Return new numbers of the nodes, the root's 0."""
    deep, stack = [], [0]
    while stack:
        deep.append(stack.pop())
        stack += tree.children[deep[-1]][::-1]
    size = len(tree)
    return {
        "depth-first": np.argsort(deep),
        "breadth-first": np.argsort(tree.order),
        "random": np.concatenate([[0], 1 + rng.permutation(size - 1)]),
        "reversed": np.concatenate([[0], np.arange(size - 1, 0, -1)]),
    }
