"""Temperature, top-k, top-p and min-p: exact target probabilities under a named semantics.

Production samplers disagree on the order of these filters and on ties and boundaries; a :class:`Semantics` names one
reading of them, and nothing here assumes any. The arithmetic is float64 from the logits as given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import UsageError

__all__ = ["GREEDY_BELOW", "SEMANTICS", "SamplingParams", "Semantics", "softmax", "target_probs"]

Floats = NDArray[np.float64]
Filter = Literal["temperature", "top-k", "top-p", "min-p"]

GREEDY_BELOW = 1e-6
"""A temperature below this means argmax."""


@dataclass(frozen=True)
class SamplingParams:
    """Sampling parameters of one request.

    ``temperature`` >= 0 (below 1e-6: argmax), ``top_k`` (<= 0 or >= V: off), ``top_p`` in (0, 1] (1: off), ``min_p``
    in [0, 1] (0: off). The numbers are rounded to float32, in which a sampler gets them.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= float(np.finfo(np.float32).max):
            raise ValueError(f"temperature must be a finite float32 >= 0, got {self.temperature}")
        if not (self.top_p <= 1.0 and np.float32(self.top_p) > 0.0):
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")
        if not 0.0 <= self.min_p <= 1.0:
            raise ValueError(f"min_p must lie in [0, 1], got {self.min_p}")
        for name in ("temperature", "top_p", "min_p"):
            object.__setattr__(self, name, float(np.float32(getattr(self, name))))

    @property
    def greedy(self) -> bool:
        """True where the temperature means argmax."""
        return self.temperature < float(np.float32(GREEDY_BELOW))


class UnknownSemantics(UsageError, ValueError):
    """No semantics has these fields."""


@dataclass(frozen=True)
class Semantics:
    """One reading of the filters.

    Parameters
    ----------
    order : tuple of filters
        Applied left to right, renormalising after each.
    joint : bool
        top-k and top-p both read the law before either of them, and both must keep a token.
    top_k_ties : "all", "exact" or "any"
        Tokens as likely as the k-th: kept all; exactly k kept, lower ids first; or exactly k kept, any of them.
    top_p_boundary : "stop" or "one-more"
        Where the mass reaches top_p exactly: stop there, or keep one token more.
    greedy_ties : "any" or "first"
        Argmax among equal maxima: any of them, or the lowest id.
    min_p : "applied" or "ignored"
        Whether min-p is applied at all.

    Raises
    ------
    UnknownSemantics
        A ValueError that names the field.
    """

    name: str = "sequential"
    order: tuple[Filter, ...] = ("temperature", "top-k", "top-p", "min-p")
    joint: bool = False
    top_k_ties: Literal["all", "exact", "any"] = "all"
    top_p_boundary: Literal["stop", "one-more"] = "stop"
    greedy_ties: Literal["any", "first"] = "any"
    min_p: Literal["applied", "ignored"] = "applied"

    def __post_init__(self) -> None:
        if sorted(self.order) != ["min-p", "temperature", "top-k", "top-p"]:
            raise UnknownSemantics(f"order must name temperature, top-k, top-p and min-p once each, got {self.order}")
        for name, known in (
            ("top_k_ties", ("all", "exact", "any")),
            ("top_p_boundary", ("stop", "one-more")),
            ("greedy_ties", ("any", "first")),
            ("min_p", ("applied", "ignored")),
        ):
            if getattr(self, name) not in known:
                names = f"{', '.join(map(repr, known[:-1]))} or {known[-1]!r}"
                raise UnknownSemantics(f"{name} must be {names}, got {getattr(self, name)!r}")
        if self.joint and abs(self.order.index("top-k") - self.order.index("top-p")) != 1:
            raise UnknownSemantics(f"joint top-k and top-p must be neighbours in the order, got {self.order}")


SEMANTICS: dict[str, Semantics] = {
    semantics.name: semantics
    for semantics in (
        Semantics("sequential"),
        Semantics("vllm", order=("temperature", "min-p", "top-k", "top-p")),
        Semantics("joint", joint=True),
        Semantics("temperature-last", order=("top-k", "top-p", "min-p", "temperature")),
    )
}
"""The named semantics of the contract."""


def softmax(logits: ArrayLike) -> Floats:
    """Return the probabilities of ``logits`` [..., V] in float64; -inf has probability 0."""
    z = np.asarray(logits, np.float64)
    weights: Floats = np.exp(z - z.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights


def target_probs(
    logits: ArrayLike, params: SamplingParams, semantics: Semantics = SEMANTICS["sequential"], *, probs: bool = False
) -> Floats:
    """Return the target law of each row, float64 [..., V], rows summing to 1.

    Parameters
    ----------
    logits : array [..., V]
        Finite or -inf, at least one finite a row.
    params : SamplingParams
        Of the request that the rows belong to.
    semantics : Semantics
        How to read them. Where any of equal tokens would be right, the lowest ids are taken.
    probs : bool
        ``logits`` holds probabilities instead, which are used as they are; law rows that are exact in float32 stay so.
    """
    rows = np.asarray(logits)
    flat = rows.reshape(-1, rows.shape[-1])
    out = np.empty(flat.shape, np.float64)
    for i, row in enumerate(flat):
        out[i] = _target_row(row.astype(np.float64), params, semantics, probs)
    return out.reshape(rows.shape)


def _target_row(row: Floats, params: SamplingParams, semantics: Semantics, probs: bool) -> Floats:
    if params.greedy:
        one_hot = np.zeros_like(row)
        one_hot[np.argmax(row)] = 1.0
        return one_hot
    p = row if probs else softmax(row)
    alive = np.ones(len(row), bool)
    pending: NDArray[np.bool_] | None = None
    for i, name in enumerate(semantics.order):
        if name == "temperature":
            if params.temperature != 1.0:
                p = _tempered(row, alive, params.temperature, probs)
            continue
        if name == "min-p":
            keep = _keep_min_p(p, params.min_p) if semantics.min_p == "applied" else None
        elif name == "top-k":
            keep = _keep_top_k(p, params.top_k, semantics.top_k_ties)
        else:
            keep = _keep_top_p(p, params.top_p, semantics.top_p_boundary)
        if semantics.joint and name in ("top-k", "top-p"):
            if not {"top-k", "top-p"} <= set(semantics.order[: i + 1]):
                pending = keep
                continue
            keep = pending if keep is None else keep if pending is None else keep & pending
        if keep is not None:
            alive &= keep
            p = np.where(keep, p, 0.0)
            p /= p.sum()
    return p


def _tempered(row: Floats, alive: NDArray[np.bool_], temperature: float, probs: bool) -> Floats:
    """Apply the temperature to what no filter took away, also where exp of it underflows at temperature 1."""
    with np.errstate(divide="ignore"):
        z = np.log(row) if probs else row
    return softmax(np.where(alive, z, -np.inf) / temperature)


def _keep_top_k(p: Floats, k: int, ties: str) -> NDArray[np.bool_] | None:
    if k <= 0 or k >= len(p):
        return None
    kth = np.partition(p, len(p) - k)[len(p) - k]
    keep: NDArray[np.bool_] = p >= kth
    if ties != "all":
        spare = int(keep.sum()) - k
        if spare > 0:
            keep[np.flatnonzero(p == kth)[-spare:]] = False
    return keep


def _keep_top_p(p: Floats, top_p: float, boundary: str) -> NDArray[np.bool_] | None:
    if top_p >= 1.0:
        return None
    ids = _descending(p, top_p)
    mass = np.cumsum(p[ids])
    last = int(np.searchsorted(mass, top_p, side="left" if boundary == "stop" else "right"))
    keep = np.zeros(len(p), bool)
    keep[ids[: last + 1]] = True
    return keep


def _descending(p: Floats, mass: float) -> NDArray[np.intp]:
    """Return enough of the token ids by descending probability, lower ids first among equals, to hold ``mass``."""
    ids = np.flatnonzero(p)
    some = 1024
    while some < len(ids):
        cut = np.partition(p[ids], len(ids) - some)[len(ids) - some]
        head = ids[p[ids] >= cut]
        if p[head].sum() > mass + 1e-9:
            ids = head
            break
        some *= 8
    order: NDArray[np.intp] = ids[np.argsort(-p[ids], kind="stable")]
    return order


def _keep_min_p(p: Floats, min_p: float) -> NDArray[np.bool_] | None:
    if min_p <= 0.0:
        return None
    keep: NDArray[np.bool_] = p >= min_p * p.max()
    return keep
