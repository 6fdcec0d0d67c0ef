"""Cases whose trees come from drafters: DDTree, EAGLE and DFlash's chain, over targets that their drafts are near."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from distributions import DRAFTS, TARGETS
from harness.builders import WeightedTree, argmax_chain, ddtree, eagle, sampled_chain
from harness.case import Case
from harness.filters import softmax
from harness.streams import coins, stream

from .cuts import clear_cuts
from .recipe import MANY_UNDECIDED, Frame, Recipe

__all__ = ["DRAFTERS", "Drafter", "drafter_cases"]

Floats = NDArray[np.float64]

TOPK = 4
"""Children that EAGLE drafts after a node."""
SPREAD = 0.4
"""Standard deviation of the logits of one depth's nodes about those of the depth."""

Build = Callable[[np.random.Generator, Floats, int, int], WeightedTree]


def _ddtree(rng: np.random.Generator, laws: Floats, root: int, nodes: int) -> WeightedTree:
    return ddtree(laws, root, nodes)


def _eagle(rng: np.random.Generator, laws: Floats, root: int, nodes: int) -> WeightedTree:
    """Draft with a law of its own after each path: that of the depth, times noise."""
    seed = int(rng.integers(1 << 31))

    def law(path: tuple[int, ...]) -> Floats:
        q = laws[len(path)] * stream("draft", seed, str(path)).lognormal(0.0, SPREAD, laws.shape[1])
        drafted: Floats = q / q.sum()
        return drafted

    return eagle(law, min(TOPK, laws.shape[1]), len(laws), nodes).tree(root)


def _argmax_chain(rng: np.random.Generator, laws: Floats, root: int, nodes: int) -> WeightedTree:
    return argmax_chain(laws[: nodes - 1], root)


def _sampled_chain(rng: np.random.Generator, laws: Floats, root: int, nodes: int) -> WeightedTree:
    return sampled_chain(laws[: nodes - 1], root, coins(rng, len(laws[: nodes - 1])))


DRAFTERS: dict[str, Build] = {
    "ddtree": _ddtree,
    "eagle": _eagle,
    "argmax-chain": _argmax_chain,
    "sampled-chain": _sampled_chain,
}
"""Each takes a stream, draft laws [D, V], the root's token and N, and returns a tree of N nodes at most."""


@dataclass(frozen=True)
class Drafter(Recipe):
    """A recipe whose tree a drafter makes.

    Each depth has a target law of the family, which the draft law is near as :data:`distributions.DRAFTS` has it; the
    laws of a depth's nodes are spread about it. The draft is one deeper than may be accepted.

    Parameters
    ----------
    builder : key of DRAFTERS
    """

    builder: str = "ddtree"

    @property
    def words(self) -> list[str]:
        """What the case is called by."""
        return [self.builder, *super().words]

    def make(self, name: str, frame: Frame) -> Case:
        """Return the case of this recipe; equal arguments give equal cases."""
        rng = stream("case", name)
        depths = TARGETS[self.family].make(rng, frame.depth_limit + 1, frame.vocab)
        laws = DRAFTS[self.draft].make(rng, softmax(depths[:-1])).astype(np.float64)
        tree = DRAFTERS[self.builder](rng, laws, int(rng.integers(frame.vocab)), frame.nodes).by_weight().tree
        logits = depths[tree.depth]
        logits += rng.normal(0.0, SPREAD, logits.shape).astype(np.float32)
        params = self._params(rng, softmax(logits[0]))
        if frame.vocab < MANY_UNDECIDED:
            clear_cuts(logits, None, params)
        if self.shuffled:
            tree = tree.reordered([rng.permutation(children).tolist() for children in tree.children])
            new = np.concatenate([[0], 1 + rng.permutation(len(tree) - 1)])
            tree, logits = tree.renumbered(new), logits[np.argsort(new)]
        return Case(name, frame.rule, tree, logits, params, depth_limit=frame.depth_limit, nodes=frame.nodes)


def drafter_cases(rule: str) -> dict[str, list[Recipe]]:
    """Return the recipes of a rule for few nodes, under "few", and for many, under "many"."""
    if rule == "greedy":
        few: list[Recipe] = [
            Drafter(family, "argmax", draft=draft, shuffled=shuffled, idle=turn, builder=builder)
            for turn, (builder, family, draft, shuffled) in enumerate(
                (
                    ("ddtree", "bimodal", "equal", True),
                    ("eagle", "zipf", "noisy", False),
                    ("argmax-chain", "peaked", "equal", False),
                    ("ddtree", "holes", "disjoint", False),
                )
            )
        ]
        return {"few": few, "many": few}
    return {
        "few": [
            Drafter("bimodal", draft="noisy", builder="ddtree"),
            Drafter("zipf", "top-p", draft="equal", builder="eagle"),
            Drafter("bimodal", "temperature", draft="equal", builder="argmax-chain"),
            Drafter("holes", "top-k", draft="sharper", builder="sampled-chain"),
        ],
        "many": [
            Drafter("ties", "top-k", draft="sharper", builder="ddtree"),
            Drafter("bimodal", "all", draft="sharper", shuffled=True, builder="ddtree"),
            Drafter("zipf", "temperature", draft="equal", shuffled=True, builder="eagle"),
            Drafter("near-ties", "top-p", draft="noisy", builder="eagle"),
        ],
    }
