"""A recipe says in words what a case looks like; making it draws tree, tokens and laws from the stream of its name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from distributions import SHAPES, TARGETS, TokenChoice, dyadic_covering, exact_probs, sibling_tokens
from harness.case import Case
from harness.filters import SamplingParams, target_probs
from harness.streams import stream
from harness.tree import Tree

__all__ = ["Recipe"]

Singles = NDArray[np.float32]


@dataclass(frozen=True)
class Recipe:
    """What a case looks like.

    Parameters
    ----------
    shape : key of SHAPES
    family : key of TARGETS
    vocab : V
    tree_nodes : nodes of the tree
    by : how children's tokens are chosen from their parent's law
    params : of the request
    likely_zero : token 0 gets the largest logit of every row
    covered : the laws of nodes with children have no mass but on these children, in multiples of 1/4096
    shuffled : siblings in random order, nodes in random numbering
    """

    shape: str
    family: str
    vocab: int
    tree_nodes: int
    by: TokenChoice = "sampled"
    params: SamplingParams = field(default_factory=SamplingParams)
    likely_zero: bool = False
    covered: bool = False
    shuffled: bool = True

    def make(
        self, name: str, rule: str, *, nodes: int, depth_limit: int, thresholds: tuple[float, float] = (1.0, 1.0)
    ) -> Case:
        """Return the case of this recipe; equal arguments give equal cases."""
        rng = stream("case", name)
        parents = SHAPES[self.shape](rng, self.tree_nodes)
        family = TARGETS[self.family]
        logits = family.make(rng, self.tree_nodes, self.vocab)
        if self.likely_zero:
            _make_zero_likely(logits)
        probs = exact_probs(logits) if family.exact else None
        law = target_probs(logits, self.params)
        tokens = sibling_tokens(rng, parents, law, by=self.by)
        if self.covered:
            logits, probs = _cover(rng, parents, tokens, exact_probs(logits))
        tree = Tree(tokens, parents)
        if self.shuffled:
            tree = tree.reordered([rng.permutation(children).tolist() for children in tree.children])
            new = np.concatenate([[0], 1 + rng.permutation(self.tree_nodes - 1)])
            tree = tree.renumbered(new)
            old = np.argsort(new)
            logits, probs = logits[old], probs if probs is None else probs[old]
        return Case(
            name=name,
            rule=rule,
            tree=tree,
            logits=logits,
            probs=probs,
            params=self.params,
            depth_limit=depth_limit,
            nodes=nodes,
            threshold_single=thresholds[0],
            threshold_acc=thresholds[1],
        )


def _make_zero_likely(logits: Singles) -> None:
    """Exchange the largest logit of each row with that of token 0, in place."""
    rows, best = np.arange(len(logits)), logits.argmax(axis=1)
    zero, largest = logits[:, 0].copy(), logits[rows, best].copy()
    logits[rows, best] = zero
    logits[:, 0] = largest


def _cover(
    rng: np.random.Generator, parents: NDArray[np.int64], tokens: NDArray[np.int64], probs: Singles
) -> tuple[Singles, Singles]:
    """Return logits and probabilities in which every inner node's law lies on the tokens of its children."""
    probs = probs.copy()
    for node in np.unique(parents[1:]):
        probs[node] = dyadic_covering(rng, probs.shape[1], tokens[parents == node])
    with np.errstate(divide="ignore"):
        return np.log(probs), probs
