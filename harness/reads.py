"""Which coins a rule's reference walk reads on its way to an emitted sequence, and what each decides with what mass.

A probe takes these for a first guess only: where a sampler reads other coins, they are found by experiment. The bounds
say how far rounding in float32 may move a boundary between two outcomes, in coins (multiples of u = 2^-24, which is
float32's rounding unit too). With m terms above 0, a sum in whatever order is off by at most m - 1 roundings of what it
has reached, m u relative to 1; a division or product adds one more:

- A draw compares coin * total with running sums: each off by m u, the product by u. Bound: 1 + 2 m.
- A last draw may take its total as 1 minus what c children have, c u off before it is divided by the mass R that is
  left: c / R more.
- Acceptance by running sums over c children, divided by threshold_acc: 2 + c.
- Law rows sum to 1 up to rounding; a verifier may divide by that sum or not: |1 - sum| / u more.
- p / q with laws normalised in float32: both off by 2 u, and where a mass R has been divided by, by up to 20 / R + m.
- A sampler that filters for itself may err by 2^-22 max|z| / T in each logit: p by twice that, 8 max|z| / T coins.

On laws of whole 4096ths at thresholds of 1 all sums are exact: acceptance has bound 0 and a draw 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .case import Case
from .claimed import claimed_law
from .conditional import Drafted, chain_steps, conditional_law, step_at
from .law import Law
from .margins import claimed_rows
from .rules import rule
from .rules.target_only import acceptance
from .samplers.base import Claims
from .streams import COIN_STEP

__all__ = ["COINS", "Read", "Subject", "is_dyadic"]

Floats = NDArray[np.float64]

COINS = round(1.0 / COIN_STEP)
"""Values of a coin, 2^24."""
DYADIC = 4096


@dataclass(frozen=True, eq=False)
class Read:
    """A coin (a node's, or N for the final one) and what it decides.

    ``masses`` float64 [K] are those of its outcomes in the order in which the walk meets them; a boundary between two
    may be ``bound`` coins off. What it decides is what follows ``place`` accepted tokens, or more.
    """

    coin: int
    masses: Floats
    bound: float
    place: int = 0

    @property
    def open(self) -> bool:
        """Whether more than one outcome is possible."""
        return int((self.masses > 0.0).sum()) > 1


@dataclass(frozen=True, eq=False)
class Subject:
    """A case with the drafts of one row, as a sampler of some claims is probed on it."""

    drafted: Drafted
    claims: Claims

    @property
    def case(self) -> Case:
        """The case."""
        return self.drafted.case

    @cached_property
    def law(self) -> Law:
        """The exact law of a step given the drafts; raises Unstated where there is none for these claims."""
        if rule(self.case.rule).redraws:
            return conditional_law(self.drafted)
        return claimed_law(self.case, self.claims)

    @cached_property
    def rows(self) -> Floats:
        """Law rows as the sampler should have them, float64 [R, V]."""
        if self.claims.semantics is None:
            return self.case.law_rows
        return claimed_rows(self.case.target_logits, self.case.params, self.claims.semantics).rows

    @cached_property
    def exact(self) -> bool:
        """Whether float32 arithmetic on the laws of the case is exact."""
        return self.claims.takes == "probs" and is_dyadic(self.case)

    @cached_property
    def slack(self) -> float:
        """Coins by which a boundary may be off before any sum: laws that do not quite sum to 1, logits that err."""
        if self.exact:
            return 0.0
        given = self.case.target_probs.astype(np.float64).sum(axis=1)
        slack = float(np.abs(1.0 - given).max()) * COINS
        if self.case.draft_probs is not None:
            slack += float(np.abs(1.0 - self.case.draft_probs.astype(np.float64).sum(axis=1)).max()) * COINS
        if self.claims.semantics is not None and not self.case.params.greedy:
            z = self.case.target_logits
            slack += 8.0 * float(np.abs(z[np.isfinite(z)]).max(initial=0.0)) / self.case.params.temperature
        return slack

    @property
    def bound(self) -> float:
        """The largest of the bounds, for a boundary that no read of the walk is responsible for."""
        return max((read.bound for read in self.reads(())), default=1.0 + 2 * self.case.vocab + self.slack)

    def reads(self, tokens: Sequence[int]) -> list[Read]:
        """Return what the reference walk reads on its way to the emitted ``tokens``, in order.

        Where the sequence leaves the tree, what it reads until then.
        """
        name = self.case.rule
        if name == "greedy":
            return []
        if name == "plain":
            return [self._draw(self.case.nodes, self.rows[0])]
        if name == "block":
            return list(self._block(len(tokens) - 1))
        path = self._path(tokens)
        if name == "target-only":
            return list(self._target_only(path))
        if rule(name).redraws:
            return list(self._rejection(path))
        return [self._draw(node, self.rows[node], place) for place, node in enumerate(path)]

    def _path(self, tokens: Sequence[int]) -> list[int]:
        """Return the nodes from the root along the accepted tokens, all but the last."""
        path = [0]
        for token in tokens[:-1]:
            children = self.drafted.children(path[-1], len(path) - 1)
            found = [child for child in children if self.drafted.tokens[child] == token]
            if not found:
                break
            path.append(found[0])
        return path

    def _draw(self, coin: int, row: Floats, place: int = 0, lost: float = 0.0) -> Read:
        """Return the read of a draw from ``row``; ``lost`` is what a total by subtraction may be off by."""
        if self.exact:
            return Read(coin, row, 1.0, place)
        return Read(coin, row, 1.0 + 2 * _terms(row) + self.slack + lost, place)

    def _target_only(self, path: Sequence[int]) -> Iterator[Read]:
        case = self.case
        lossless = min(case.threshold_single, case.threshold_acc) >= 1.0
        rest, lost = self.rows[0], 0.0
        for depth, node in enumerate(path):
            rest, lost, children = self.rows[node], 0.0, self.drafted.children(node, depth)
            if not children:
                continue
            tokens = self.drafted.tokens[list(children)]
            taken = rest[tokens]
            if not lossless:
                sure = case.target_probs[node, tokens] >= np.float32(case.threshold_single)
                taken = acceptance(taken, sure, case.threshold_acc)
            bound = 0.0 if self.exact else 2.0 + len(children) + self.slack
            yield Read(node, np.append(taken, max(0.0, 1.0 - float(taken.sum()))), bound, depth)
            rest = rest.copy()
            rest[tokens] = 0.0
            mass = float(rest.sum())
            lost = len(children) / mass if mass > 0.0 else 0.0
            rest = rest / mass if mass > 0.0 else rest
        yield self._draw(case.nodes, rest, len(path) - 1, lost)

    def _rejection(self, path: Sequence[int]) -> Iterator[Read]:
        for depth, node in enumerate(path):
            step, children = step_at(self.drafted, node, depth), self.drafted.children(node, depth)
            terms = _terms(self.drafted.target[self.drafted.states[node]])
            for child, chance in zip(children, step.chances, strict=True):
                yield self._acceptance(child, float(chance), step.spread, terms, depth)
                if depth + 1 < len(path) and path[depth + 1] == child:
                    break
            else:
                yield self._draw(self.case.nodes, step.rest, depth, step.spread * (20.0 + terms))

    def _block(self, accepted: int) -> Iterator[Read]:
        nodes, steps = chain_steps(self.drafted)
        terms = max(map(_terms, self.drafted.target))
        last = min(max(accepted, 0), len(nodes) - 1)
        for i in range(len(nodes) - 1, max(last, 1) - 1, -1):
            yield self._acceptance(nodes[i], float(steps[i].chances[0]), steps[i].spread, terms + i)
        yield self._draw(self.case.nodes, steps[last].rest, last, steps[last].spread * (20.0 * (1 + last) + terms))

    def _acceptance(self, coin: int, chance: float, spread: float, terms: int, place: int = 0) -> Read:
        bound = 2.0 + spread * (20.0 + terms + self.slack)
        return Read(coin, np.array([chance, 1.0 - chance]), bound, place)


def _terms(row: Floats) -> int:
    """Return the number of terms that a sum over a law has: adding 0 rounds nothing."""
    return int((row > 0.0).sum())


def is_dyadic(case: Case) -> bool:
    """Whether the laws are whole 4096ths and thresholds 1, so that float32 sums of any order are exact."""
    if case.draft is not None or min(case.threshold_single, case.threshold_acc) < 1.0:
        return False
    parts = case.target_probs.astype(np.float64) * DYADIC
    return bool((parts == np.round(parts)).all() and (parts.sum(axis=1) == DYADIC).all())
