"""A recipe says in words what a case looks like; making it draws tree, tokens and laws from the stream of its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from distributions import (
    DRAFTS,
    SHAPES,
    TARGETS,
    TokenChoice,
    dyadic_covering,
    exact_probs,
    sibling_tokens,
)
from harness.case import Case
from harness.filters import SamplingParams, softmax, target_probs
from harness.streams import stream
from harness.tree import Tree

from .cuts import clear_cuts

__all__ = ["Frame", "Recipe"]

Singles = NDArray[np.float32]
Floats = NDArray[np.float64]

TEMPERATURES = (0.6, 1.7)
TOP_P = 0.8
MIN_P = 0.1
MOST_REDRAWN = 3
"""Siblings of a node where drafts are redrawn."""
FEW_TOKENS, MANY_TOKENS = 5, 50
"""top-k for a small and for a large vocabulary; 3 for one of up to 6."""
MANY_UNDECIDED = 4096
"""From this V on, a cut may have tokens within rounding of it."""
IDLE = (
    SamplingParams(0.0),
    SamplingParams(0.0, top_k=2),
    SamplingParams(0.0, top_p=0.3),
    SamplingParams(0.0, min_p=0.5),
)
"""Filters at temperature 0, where they change nothing."""


@dataclass(frozen=True)
class Frame:
    """What all cases of a group share: rule, V, N, S and thresholds.

    ``states`` is the number of law rows where drafts are redrawn, ``support`` how many tokens a draft law has there.
    """

    rule: str
    vocab: int
    nodes: int
    depth_limit: int
    thresholds: tuple[float, float] = (1.0, 1.0)
    states: int = 0
    support: int = 0


@dataclass(frozen=True)
class Recipe:
    """What a case looks like.

    Parameters
    ----------
    family : key of TARGETS
    filter : "none", "temperature", "top-k", "top-p", "min-p", "all", or "argmax", "cold", "top-1", "least-top-p"
    shape : key of SHAPES
    by : how children's tokens are chosen from their parent's law
    draft : key of DRAFTS, where drafts are redrawn
    padded : the tree leaves about half of the nodes, and token 0 is the likeliest of every law
    covered : the laws of inner nodes have no mass but on their children, in multiples of 1/4096
    shuffled : siblings in random order, nodes in random numbering
    idle : which filters stand beside a temperature of 0
    """

    family: str
    filter: str = "none"
    shape: str = "chain"
    by: str = "sampled"
    draft: str = "noisy"
    padded: bool = False
    covered: bool = False
    shuffled: bool = False
    idle: int = 0

    @property
    def words(self) -> list[str]:
        """What the case is called by."""
        return [self.family, self.filter]

    def make(self, name: str, frame: Frame) -> Case:
        """Return the case of this recipe; equal arguments give equal cases."""
        rng = stream("case", name)
        parents = self._parents(rng, frame)
        family, rows = TARGETS[self.family], frame.states or len(parents)
        logits = family.make(rng, rows, frame.vocab)
        if self.padded:
            _make_zero_likely(logits)
        probs = exact_probs(logits) if family.exact else None
        params = self._params(rng, softmax(logits[0]))
        if frame.vocab < MANY_UNDECIDED:
            clear_cuts(logits, probs, params)
        draft = None
        if frame.states:
            draft = self._draft_law(rng, softmax(logits), frame)
            tokens = rng.integers(frame.vocab, size=len(parents))
        else:
            by = next(choice for choice in get_args(TokenChoice) if choice == self.by)
            tokens = sibling_tokens(rng, parents, target_probs(logits, params), by=by)
            if self.covered:
                logits, probs = _cover(rng, parents, tokens, exact_probs(logits))
        tree = Tree(tokens, parents)
        if self.shuffled:
            tree = tree.reordered([rng.permutation(children).tolist() for children in tree.children])
            new = np.concatenate([[0], 1 + rng.permutation(len(parents) - 1)])
            tree = tree.renumbered(new)
            if not frame.states:
                old = np.argsort(new)
                logits, probs = logits[old], probs if probs is None else probs[old]
        return Case(
            name=name,
            rule=frame.rule,
            tree=tree,
            logits=logits,
            probs=probs,
            params=params,
            depth_limit=frame.depth_limit,
            nodes=frame.nodes,
            threshold_single=frame.thresholds[0],
            threshold_acc=frame.thresholds[1],
            draft=draft,
            replacement=frame.rule != "rejection-no-replacement",
        )

    def _parents(self, rng: np.random.Generator, frame: Frame) -> NDArray[np.int64]:
        """Draw the tree: of as many nodes as fit, of about half of that where padded, and no wider than can be.

        Siblings have different tokens, so there are at most V of them; of redrawn ones as many as a law enumerates.
        """
        nodes = (frame.nodes + 1) // 2 if self.padded else frame.nodes
        widest = MOST_REDRAWN if frame.states else frame.vocab
        if self.shape == "star":
            nodes = min(nodes, widest + 1)
        while True:
            parents = SHAPES[self.shape](rng, nodes)
            if nodes == 1 or np.bincount(parents[1:]).max() <= widest:
                return parents

    def _params(self, rng: np.random.Generator, root: Floats) -> SamplingParams:
        """Return the sampling parameters; the filters leave the root's law [V] more than one token where they can."""
        likeliest = np.sort(root)[::-1]
        temperature = float(rng.choice(TEMPERATURES))
        few = FEW_TOKENS if len(root) <= 64 else MANY_TOKENS
        top_k = few if len(root) > FEW_TOKENS + 1 else 3
        if self.family == "ties":
            top_k = _tied_at(likeliest, top_k)
        match self.filter:
            case "none":
                return SamplingParams()
            case "temperature":
                return SamplingParams(temperature)
            case "top-k":
                return SamplingParams(top_k=top_k)
            case "top-p":
                return SamplingParams(top_p=_top_p(likeliest))
            case "min-p":
                return SamplingParams(min_p=_min_p(likeliest))
            case "all":
                hot = target_probs(np.log(np.maximum(root, 1e-300)), SamplingParams(TEMPERATURES[1], top_k))
                left = np.sort(hot)[::-1]
                return SamplingParams(TEMPERATURES[1], top_k, _top_p(left), _min_p(left))
            case "argmax":
                return IDLE[self.idle % len(IDLE)]
            case "cold":
                return SamplingParams(1e-3)
            case "top-1":
                return SamplingParams(top_k=1)
            case "least-top-p":
                return SamplingParams(top_p=1e-6)
            case _:
                raise ValueError(f"no such filter: {self.filter!r}")

    def _draft_law(self, rng: np.random.Generator, target: Floats, frame: Frame) -> Singles:
        """Return the draft law of each state: of the family asked for, on at most ``frame.support`` tokens.

        Without replacement every law has a floor on its likeliest tokens, so that there is one for each sibling.
        """
        law = DRAFTS[self.draft].make(rng, target).astype(np.float64)
        kept = min(frame.support, frame.vocab)
        order = np.argsort(-law, axis=1, kind="stable")[:, :kept]
        drafts = np.zeros_like(law)
        np.put_along_axis(drafts, order, np.take_along_axis(law, order, axis=1), axis=1)
        drafts /= drafts.sum(axis=1, keepdims=True)
        if frame.rule == "rejection-no-replacement":
            floor = np.zeros_like(law)
            np.put_along_axis(floor, order, 1.0 / kept, axis=1)
            drafts = 0.9 * drafts + 0.1 * floor
        return drafts.astype(np.float32)


def _tied_at(likeliest: Floats, k: int) -> int:
    """Return the k nearest to ``k`` at which the k-th and the next token are equally likely, if there is one."""
    tied = 1 + np.flatnonzero((likeliest[:-1] == likeliest[1:]) & (likeliest[1:] > 0))
    return int(tied[np.abs(tied - k).argmin()]) if len(tied) else k


def _top_p(likeliest: Floats) -> float:
    share = 0.618  # of what the likeliest leaves: not where equal tokens would share it evenly
    return float(max(TOP_P, likeliest[0] + share * (1.0 - likeliest[0])))


def _min_p(likeliest: Floats) -> float:
    return float(min(MIN_P, 0.5 * likeliest[1] / likeliest[0]))


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
