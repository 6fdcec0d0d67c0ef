"""What can be asked of a sampler that filters for itself, in float32: its law, and the tokens that rounding decides.

Such a sampler is judged by the law of the semantics it claims, computed in float64 from the logits it got. Its own
logits / T may err by 2^-22 * max|z| / T, and its running sums by V * 2^-24. A token that such errors can move across a
cut is *undecided*: it may come or not. So is a token whose fate hangs on one of these, the law being renormalised from
filter to filter; the masks below follow both the surely and the possibly kept through all of them.

Whatever becomes of the undecided tokens, the others keep their masses relative to each other: given that the next token
is a decided one, its law is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .filters import SamplingParams, Semantics

__all__ = ["ClaimedRows", "claimed_rows"]

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

LOGIT_ERROR = 2.0**-22
"""Of logits / T, relative to the largest."""
SUM_ERROR = 2.0**-24
"""Of a running sum of probabilities, a token."""
RATIO_ERROR = 2.0**-21
"""Of the logarithm of a ratio of two probabilities, beside that of the logits: exp, sum and division in float32."""
UNSTATED = 1e-4
"""Where the error of the logits can move a token's probability by more than this, no law of the row can be stated."""


@dataclass(frozen=True, eq=False)
class ClaimedRows:
    """Law rows of a sampler that filters for itself.

    Parameters
    ----------
    rows : float64 [n, V]
        Laws with every undecided token kept, rows summing to 1; given that a decided token comes, their ratios hold.
    undecided : bool [n, V]
        The tokens of positive mass that may be missing.
    """

    rows: Floats
    undecided: Bools


def claimed_rows(logits: ArrayLike, params: SamplingParams, semantics: Semantics) -> ClaimedRows:
    """Return the laws of rows of float32 ``logits`` [n, V] as ``semantics`` reads the parameters.

    Equal logits are equal to every sampler: at a top-k cut and at temperature 0 the semantics' tie rules decide among
    them (greedy ties "any": all undecided). Which of several equal tokens comes first in a running sum is nobody's
    rule, so at a top-p cut they are undecided; and so is what lies on the cut exactly.
    """
    given = np.asarray(logits, np.float32).astype(np.float64)
    rows, undecided = np.zeros(given.shape), np.zeros(given.shape, bool)
    for i, z in enumerate(given):
        rows[i], undecided[i] = _greedy(z, semantics) if params.greedy else _row(z, params, semantics)
    return ClaimedRows(rows, undecided)


def _greedy(z: Floats, semantics: Semantics) -> tuple[Floats, Bools]:
    best = z == z.max()
    if semantics.greedy_ties == "first":
        best = np.arange(len(z)) == z.argmax()
    several = np.count_nonzero(best) > 1
    return best / np.count_nonzero(best), best if several else np.zeros_like(best)


def _row(z: Floats, params: SamplingParams, semantics: Semantics) -> tuple[Floats, Bools]:
    possible = np.isfinite(z)
    largest = LOGIT_ERROR * float(np.abs(z[possible]).max())
    kept = _Kept(z, largest, len(z), possible.copy(), possible)
    pair: list[_Kept] = []
    for name in semantics.order:
        if name == "temperature":
            kept = _Kept(z / params.temperature, largest / params.temperature, len(z), kept.surely, kept.possibly)
        elif name == "min-p":
            kept = kept.min_p(params.min_p if semantics.min_p == "applied" else 0.0)
        else:
            cut = kept.top_k(params.top_k, semantics.top_k_ties) if name == "top-k" else kept.top_p(params.top_p)
            if not semantics.joint:
                kept = cut
                continue
            pair.append(cut)
            if len(pair) == 2:  # both read the law before either of them
                kept = pair[0].both(pair[1])
    p = kept.weights / kept.weights.sum()
    undecided = kept.possibly & ~kept.surely
    if 2.0 * kept.error * float((p * (1.0 - p)).max()) > UNSTATED:
        undecided = kept.possibly.copy()
    return p, undecided & (p > 0.0)


@dataclass(frozen=True, eq=False)
class _Kept:
    """A row on its way through the filters: ``log`` weights [V], each off by at most ``error``, and who is left.

    ``surely`` and ``possibly`` are bool [V]; the first lies in the second, and that is never empty.
    """

    log: Floats
    error: float
    vocab: int
    surely: Bools
    possibly: Bools

    @property
    def blur(self) -> float:
        """Largest difference of two log weights that rounding can turn round."""
        return 2.0 * self.error + RATIO_ERROR

    @property
    def weights(self) -> Floats:
        """Weights of who is possibly left, the largest 1, float64 [V]."""
        w: Floats = np.exp(np.where(self.possibly, self.log - self.log[self.possibly].max(), -np.inf))
        return w

    def only(self, surely: Bools, possibly: Bools) -> _Kept:
        """Return what is left after a filter keeps these."""
        return _Kept(self.log, self.error, self.vocab, self.surely & surely, self.possibly & possibly)

    def both(self, other: _Kept) -> _Kept:
        """Return what two filters keep together."""
        return self.only(other.surely, other.possibly)

    def top_k(self, k: int, ties: str) -> _Kept:
        """Keep who has fewer than k tokens ahead; among equals the lower ids are ("exact"), or may be any ("any")."""
        if k <= 0 or k >= self.vocab:
            return self
        surely, possibly = np.zeros(self.vocab, bool), np.zeros(self.vocab, bool)
        ids = np.flatnonzero(self.possibly)
        ids = ids[np.argsort(-self.log[ids], kind="stable")]  # lower ids first among equals
        x, alive = -self.log[ids], self.surely[ids]
        before = np.concatenate([[0], np.cumsum(alive)])  # of the surely left
        place = np.arange(len(ids))
        first, last = np.searchsorted(x, x, "left"), np.searchsorted(x, x, "right")
        nobody = np.zeros(len(ids), np.int64)
        equal_ahead = {"all": nobody, "exact": place - first, "any": last - first - 1}[ties]
        equal_ahead_surely = before[place] - before[first] if ties == "exact" else nobody
        near = np.searchsorted(x, x + self.blur, "right")
        may_be_ahead = first + equal_ahead + (near - last)
        far = np.searchsorted(x, x - self.blur, "left")
        surely_ahead = before[far] + equal_ahead_surely
        surely[ids], possibly[ids] = may_be_ahead < k, surely_ahead < k
        return self.only(surely, possibly)

    def top_p(self, top_p: float) -> _Kept:
        """Keep who has less than ``top_p`` of the mass ahead."""
        if top_p >= 1.0:
            return self
        surely, possibly = np.zeros(self.vocab, bool), np.zeros(self.vocab, bool)
        weights = self.weights
        ids = np.flatnonzero(self.possibly)
        ids = ids[np.argsort(-self.log[ids], kind="stable")]
        x, own, alive = -self.log[ids], weights[ids], self.surely[ids]
        all_of = np.concatenate([[0.0], np.cumsum(own)])
        sure_of = np.concatenate([[0.0], np.cumsum(own * alive)])
        near, far = np.searchsorted(x, x + self.blur, "right"), np.searchsorted(x, x - self.blur, "left")
        least = _share(sure_of[far], all_of[-1] - all_of[far], -2.0 * self.error)
        ahead = np.where(near > 1, all_of[near] - own, 0.0)
        most = _share(ahead, sure_of[-1] - sure_of[near] + own, 2.0 * self.error)
        margin = self.vocab * SUM_ERROR
        surely[ids] = (near <= 1) | (most + margin < top_p)
        possibly[ids] = least - margin <= top_p
        return self.only(surely, possibly)

    def min_p(self, min_p: float) -> _Kept:
        """Keep who has at least ``min_p`` of the likeliest's probability."""
        if min_p <= 0.0:
            return self
        sure, left = self.log[self.surely], self.log[self.possibly]
        top = float(left.max())
        least_top = float(sure.max()) if len(sure) else float(left.min())
        cut = float(np.log(min_p))
        surely = (self.log - top > cut + self.blur) | (self.log == top)
        return self.only(surely, self.log - least_top >= cut - self.blur)


def _share(ahead: Floats, rest: Floats, error: float) -> Floats:
    """Return ahead / (ahead + rest) where the odds are off by a factor of exp(error)."""
    weight = ahead * np.exp(error)
    share: Floats = weight / np.maximum(weight + rest, np.finfo(np.float64).tiny)
    return share
