"""A case: a draft tree, the laws at its nodes, and the parameters of one request."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .dtypes import DTYPES, Dtype, rounded
from .filters import SEMANTICS, SamplingParams, Semantics, target_probs
from .tree import Tree

__all__ = ["Case"]

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Case:
    """One request whose verification law is known exactly.

    Parameters
    ----------
    name : str
        Unique within a suite.
    rule : str
        The verification rule that the case is for (see :mod:`harness.rules`).
    tree : Tree
        n nodes.
    logits : float32 [n, V], or [R, V] with ``draft``
        Raw target logits; row i is the law of what follows node i. Finite or -inf, one finite a row at least.
    params : SamplingParams
        Applied to the logits by the sequential semantics.
    depth_limit : int
        S >= 1: at most S - 1 drafts are accepted.
    nodes : int
        N >= n; the columns beyond n are padding. Default: n.
    threshold_single, threshold_acc : float
        In [0, 1]; 1 is lossless.
    probs : float32 like logits, or None
        The same laws as probabilities, exact in float32, used as they are instead of the softmax of ``logits``.
    draft : float32 [R, V] or None
        Draft law in each of R states. Where it is given, the tokens of the tree but the root's are drawn afresh for
        each row, and the law rows, target and draft, are those of the state that a path leads to (:mod:`.redraw`).
    replacement : bool
        Siblings are drawn from the draft law independently; False: without replacement.
    dtype : "float32", "float16" or "bfloat16"
        Format to which the law rows that a sampler gets are rounded: its logits, probabilities and draft law.

    Raises
    ------
    ValueError
        Naming the field, what was expected and what came.
    """

    name: str
    rule: str
    tree: Tree
    logits: Singles
    params: SamplingParams = field(default_factory=SamplingParams)
    depth_limit: int = 0
    nodes: int = 0
    threshold_single: float = 1.0
    threshold_acc: float = 1.0
    probs: Singles | None = None
    draft: Singles | None = None
    replacement: bool = True
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        size = len(self.tree)
        object.__setattr__(self, "logits", np.ascontiguousarray(self.logits, np.float32))
        object.__setattr__(self, "depth_limit", self.depth_limit or int(self.tree.depth.max()) + 1)
        object.__setattr__(self, "nodes", self.nodes or size)
        if self.logits.ndim != 2 or (self.draft is None and len(self.logits) != size):
            raise ValueError(f"logits must have one row for each of the {size} nodes, got shape {self.logits.shape}")
        if np.isnan(self.logits).any() or np.isposinf(self.logits).any():
            raise ValueError("logits must be finite or -inf")
        if np.isneginf(self.logits).all(axis=1).any():
            raise ValueError(f"logits of node {np.isneginf(self.logits).all(axis=1).argmax()} are all -inf")
        if self.tree.tokens.min() < 0 or self.tree.tokens.max() >= self.vocab:
            raise ValueError(f"tokens must lie in [0, {self.vocab}), got {self.tree.tokens.tolist()}")
        if self.depth_limit < 1:
            raise ValueError(f"depth_limit must be at least 1, got {self.depth_limit}")
        if self.nodes < size:
            raise ValueError(f"nodes must be at least the tree's {size}, got {self.nodes}")
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {self.dtype!r}")
        for name in ("threshold_single", "threshold_acc"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)}")
        if self.probs is not None:
            probs = np.ascontiguousarray(self.probs, np.float32)
            object.__setattr__(self, "probs", probs)
            if probs.shape != self.logits.shape:
                raise ValueError(f"probs must have the shape of logits {self.logits.shape}, got {probs.shape}")
            _check_law("probs", probs)
        if self.draft is not None:
            object.__setattr__(self, "draft", np.ascontiguousarray(self.draft, np.float32))
            self._check_draft(self.draft)

    def _check_draft(self, draft: Singles) -> None:
        if draft.shape != self.logits.shape:
            raise ValueError(f"draft must have the shape of logits {self.logits.shape}, got {draft.shape}")
        _check_law("draft", draft)
        widest = max(map(len, self.tree.children))
        support = int((draft > 0).sum(axis=1).min())
        if not self.replacement and support < widest:
            raise ValueError(
                f"draft has {support} tokens in some row, too few for {widest} siblings without replacement"
            )

    @property
    def vocab(self) -> int:
        """Number of tokens V."""
        return int(self.logits.shape[1])

    @property
    def states(self) -> int:
        """Number of law rows R where drafts are redrawn, else 0."""
        return 0 if self.draft is None else len(self.logits)

    @property
    def target_logits(self) -> Singles:
        """What a sampler gets, float32 [n, V]: the raw logits."""
        return rounded(self.logits, self.dtype)

    @cached_property
    def target_probs(self) -> Singles:
        """What a sampler gets, float32 [n, V]: the laws after the filters, sequential semantics."""
        return rounded(self.filtered(SEMANTICS["sequential"]), self.dtype)

    @property
    def draft_probs(self) -> Singles | None:
        """What a sampler gets, float32 [R, V]: the draft laws, from which the drafts are drawn."""
        return None if self.draft is None else rounded(self.draft, self.dtype)

    def filtered(self, semantics: Semantics) -> Floats:
        """Return the laws after the filters as ``semantics`` reads them, float64 [n, V]."""
        if self.probs is not None:
            return target_probs(self.probs, self.params, semantics, probs=True)
        return target_probs(self.logits, self.params, semantics)

    @property
    def law_rows(self) -> Floats:
        """The laws of exactly the rows a sampler gets, float64 [n, V], normalised."""
        return _normalised(self.target_probs)

    @property
    def draft_rows(self) -> Floats:
        """The draft laws of exactly the rows a sampler gets, float64 [R, V], normalised."""
        rows = self.draft_probs
        if rows is None:
            raise ValueError(f"case {self.name} has no draft law")
        return _normalised(rows)


def _normalised(rows: Singles) -> Floats:
    law = rows.astype(np.float64)
    law /= law.sum(axis=1, keepdims=True)
    return law


def _check_law(name: str, rows: Singles) -> None:
    if not (rows >= 0).all() or not np.allclose(rows.sum(axis=1, dtype=np.float64), 1.0, atol=1e-5):
        raise ValueError(f"{name} must be >= 0 and sum to 1 in each row")
