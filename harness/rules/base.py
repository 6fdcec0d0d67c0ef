"""What a verification rule is to the harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..law import Law
from ..request import Request, Result
from ..tree import Tree

__all__ = ["Rule", "Walked"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Walked = Result[Ints]


class LawOf(Protocol):
    """The exact law of a step under a rule."""

    def __call__(self, case: Case, rows: Floats | None = None) -> Law:
        """Return the law of ``case``; ``rows``, float64 like ``case.law_rows``, are the target's laws instead of it."""


@dataclass(frozen=True)
class Rule:
    """A verification rule: its exact law, a reference walk driven by the coins of a request, and the cases it is for.

    Parameters
    ----------
    name : str
    law : callable
        Takes a case and returns its :class:`Law`; with ``rows``, as if the target's laws were these.
    walk : callable
        Takes a request and returns what a right verifier emits, tokens and nodes int64 [B, S], lengths int64 [B].
    shape : "tree", "chain" or "root"
        The trees it verifies; "root" is a single node.
    drafts : "given", "replacement" or "no-replacement"
        Drafts are the tree's tokens, distinct among siblings; or drawn for every row from the case's draft law,
        siblings independently or without replacement.
    lossy : bool
        Thresholds below 1 mean something to it.
    greedy : bool
        It is for temperature 0 only.
    lossless_only : bool
        No rule is claimed: next tokens are tested given their prefix, and acceptance is not looked at.
    """

    name: str
    law: LawOf
    walk: Callable[[Request], Walked]
    shape: Literal["tree", "chain", "root"] = "tree"
    drafts: Literal["given", "replacement", "no-replacement"] = "given"
    lossy: bool = False
    greedy: bool = False
    lossless_only: bool = False

    @property
    def redraws(self) -> bool:
        """Whether drafts are drawn afresh for every row."""
        return self.drafts != "given"

    def check(self, case: Case) -> None:
        """Check that ``case`` is one that verifiers of this rule are handed.

        Raises
        ------
        ValueError
            Naming the field of the case, what was expected and what came.
        """
        tree = case.tree
        if self.shape == "root" and len(tree) > 1:
            raise ValueError(f"tree must be a single node under rule {self.name}, got {len(tree)} nodes")
        widest = max(range(len(tree)), key=lambda node: len(tree.children[node]))
        if self.shape == "chain" and len(tree.children[widest]) > 1:
            count = len(tree.children[widest])
            raise ValueError(f"tree must be a chain under rule {self.name}, but node {widest} has {count} children")
        if not self.redraws and not tree.has_distinct_siblings:
            raise ValueError(f"tree must have different tokens at siblings under rule {self.name}: {_twins(tree)}")
        if self.redraws and case.draft is None:
            raise ValueError(f"draft must be given under rule {self.name}, which draws its drafts from it")
        if not self.redraws and case.draft is not None:
            raise ValueError(f"draft must be left out under rule {self.name}, whose drafts are the tokens of the tree")
        if self.redraws and case.replacement != (self.drafts == "replacement"):
            raise ValueError(f"replacement must be {not case.replacement} under rule {self.name}")
        if self.greedy and not case.params.greedy:
            raise ValueError(f"params.temperature must be 0 under rule {self.name}, got {case.params.temperature:g}")
        for name in ("threshold_single", "threshold_acc"):
            if not self.lossy and getattr(case, name) < 1.0:
                raise ValueError(f"{name} must be 1 under rule {self.name}, got {getattr(case, name):g}")


def _twins(tree: Tree) -> str:
    """Name two siblings of one token."""
    for node, children in enumerate(tree.children):
        tokens = tree.child_tokens(node)
        for place, token in enumerate(tokens):
            if token in tokens[:place]:
                first, second = children[tokens.index(token)], children[place]
                return f"nodes {first} and {second} below node {node} both have token {token}"
    return "none do"
