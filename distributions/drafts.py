"""Draft laws: what a draft model's next-token law can look like beside the target's.

A draft law maps target probabilities `p` (float64 ``[nodes, vocab]``, rows sum to 1) to draft probabilities `q`
(float32, same shape, rows sum to 1 up to float32 rounding). ``DRAFTS`` holds every one under its name.

All of them allow a lossless step, however bad the draft: rejection rules emit `p` for any `q`, given drafts drawn from
it [1]_ [2]_, and target-only and sampler-match for any drafts that do not depend on their coins, `argmax` included.
Only the acceptance rate suffers. One limit: without replacement, a node has at most as many different drafts as `q`
has possible tokens, so where `q` is `deterministic` only one.

References
----------
.. [1] Leviathan, Kalman, Matias, "Fast inference from transformers via speculative decoding", arXiv:2211.17192.
.. [2] Chen et al., "Accelerating large language model decoding with speculative sampling", arXiv:2302.01318.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["DRAFTS", "Draft"]

Probs: TypeAlias = npt.NDArray[np.float64]
Floats: TypeAlias = npt.NDArray[np.float32]
Make: TypeAlias = Callable[[np.random.Generator, Probs], Floats]


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft law.

    Attributes
    ----------
    name : str
        Key in ``DRAFTS``.
    make : callable
        ``make(rng, p)`` draws `q`, float32 ``[nodes, vocab]``, beside `p`, float64 of the same shape.
    doc : str
        One line that says how `q` relates to `p`.
    deterministic : bool
        Every row of `q` has one possible token.
    """

    name: str
    make: Make
    doc: str
    deterministic: bool = False


def equal(rng: np.random.Generator, p: Probs) -> Floats:
    """Draft is the target: every draft is accepted, and the residual is empty but for rounding."""
    return p.astype(np.float32)


def sharper(rng: np.random.Generator, p: Probs) -> Floats:
    """Draft at half the target's temperature: q as p**2."""
    return _law(p**2)


def flatter(rng: np.random.Generator, p: Probs) -> Floats:
    """Draft at twice the target's temperature: q as the square root of p."""
    return _law(np.sqrt(p))


def noisy(rng: np.random.Generator, p: Probs) -> Floats:
    """Target with every log-probability off by normal noise of standard deviation 1."""
    return _law(p * rng.lognormal(size=p.shape))


def shifted(rng: np.random.Generator, p: Probs) -> Floats:
    """Target with its token ids rolled, each row by a random amount; impossible tokens get drafted."""
    nodes, vocab = p.shape
    shift = rng.integers(1, max(vocab, 2), (nodes, 1))
    return np.take_along_axis(p, (np.arange(vocab) - shift) % vocab, axis=1).astype(np.float32)


def disjoint(rng: np.random.Generator, p: Probs) -> Floats:
    """Mass only where p has none, or, where p is positive throughout, on the less likely half of the tokens."""
    impossible = (p == 0).sum(axis=1, keepdims=True)
    size = np.where(impossible > 0, impossible, max(1, p.shape[1] // 2))
    ascending = np.lexsort((rng.random(p.shape), p), axis=-1)  # equal probabilities in random order
    q = np.zeros_like(p)
    np.put_along_axis(q, ascending, rng.standard_exponential(p.shape) * (np.arange(p.shape[1]) < size), axis=1)
    return _law(q)


def argmax(rng: np.random.Generator, p: Probs) -> Floats:
    """Most likely token for sure (the first of equals), as a greedy draft model does."""
    q = np.zeros(p.shape, dtype=np.float32)
    np.put_along_axis(q, p.argmax(axis=1, keepdims=True), 1, axis=1)
    return q


def _law(weights: Probs) -> Floats:
    q: Probs = weights / weights.sum(axis=1, keepdims=True)
    return q.astype(np.float32)


def _doc(make: Make) -> str:
    return (make.__doc__ or "").partition("\n")[0]


DRAFTS: dict[str, Draft] = {
    make.__name__: Draft(make.__name__, make, _doc(make), deterministic=make is argmax)
    for make in (equal, sharper, flatter, noisy, shifted, disjoint, argmax)
}
