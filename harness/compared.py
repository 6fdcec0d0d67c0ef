"""A measured law against the exact one, prefix by prefix, and what rounding in the sampler may explain.

At each emitted prefix the step goes on with an accepted token or ends with a last one. The probability of each, given
the prefix, is a sum of products of counted fractions. A boundary between two stretches that is off by b coins moves
b / 2^24 of what its two sides do differently, and no more: summed over the boundaries this bounds what rounding can do.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from .law import Law
from .measured import Decision, Measured
from .reads import COINS

__all__ = ["Difference", "compared"]

SLACK = 1e-13
"""Rounding of our own, in float64."""

Outcome = tuple[int, bool]
"""A token, and whether the step goes on after it."""
Prefix = tuple[int, ...]


@dataclass(frozen=True)
class Difference:
    """What follows a prefix by the law and as measured, given that something does.

    Parameters
    ----------
    prefix, node, token
        After which emitted tokens, where the walk then stands, and which token comes.
    kind : str
        "accepted-draft": the step goes on after the token; "last": it ends with it; "next": either. Or why the token
        cannot come at all, as of a :class:`harness.counts.Stray`.
    expected, observed, bound : float
        Probabilities; ``bound`` is how far rounding may part them.
    """

    prefix: Prefix
    node: int
    token: int
    kind: str
    expected: float
    observed: float
    bound: float

    @property
    def deviates(self) -> bool:
        """Whether they are further apart than rounding explains."""
        return abs(self.observed - self.expected) > self.bound + SLACK

    @property
    def coins(self) -> float:
        """The difference in coins, observed less expected."""
        return (self.observed - self.expected) * COINS


@dataclass
class _Value:
    """A probability and by how much rounding may have moved it."""

    value: float = 0.0
    error: float = 0.0

    def scaled(self, by: _Value) -> _Value:
        """Return the product."""
        return _Value(self.value * by.value, self.value * by.error + self.error * by.value)


@dataclass
class _Table:
    """What follows one prefix, relative to the state that all of it stems from.

    ``scale`` is how likely that state is, seen from the state where the table is looked at.
    """

    outcomes: dict[Outcome, _Value] = field(default_factory=dict)
    reached: _Value = field(default_factory=lambda: _Value(1.0))
    floor: float = 0.0
    """The error of what has no coins at all."""
    scale: _Value = field(default_factory=lambda: _Value(1.0))

    def seen_from_here(self) -> _Table:
        """Return the table relative to the state where it is looked at."""
        outcomes = {outcome: value.scaled(self.scale) for outcome, value in self.outcomes.items()}
        return _Table(outcomes, self.reached.scaled(self.scale), self.floor * self.scale.value)


def compared(
    law: Law,
    measured: Measured,
    *,
    accepted: bool = True,
    without: Mapping[Prefix, Sequence[int]] | None = None,
) -> list[Difference]:
    """Return what follows each measured prefix, against ``law``; prefixes in order, tokens in order.

    Parameters
    ----------
    law : Law
        Given the drafts; undecided tokens of it are left out.
    measured : Measured
    accepted : bool
        Whether it matters if the step goes on after a token.
    without : mapping of prefix to tokens
        More tokens to be left out: what comes is then looked at given that none of these does.
    """
    found: list[Difference] = []
    for prefix, table in sorted(_tables(measured).items()):
        m = law.find(prefix)
        if m >= 0:
            left_out = set((without or {}).get(prefix, ()))
            if law.undecided is not None:
                left_out |= set(law.undecided.tokens[m].nonzero()[0].tolist())
            found += _at(law, m, prefix, table if accepted else _merged(table), left_out, accepted)
    return found


def _at(law: Law, m: int, prefix: Prefix, table: _Table, left_out: set[int], accepted: bool) -> Iterator[Difference]:
    expected = _expected(law, m, accepted)
    kept = _Value(table.reached.value, table.reached.error)
    by_law = 1.0
    for outcome in {**expected, **table.outcomes}:
        if outcome[0] in left_out:
            value = table.outcomes.get(outcome, _Value())
            kept.value -= value.value
            kept.error += value.error
            by_law -= expected.get(outcome, 0.0)
    if kept.value <= SLACK or by_law <= SLACK:
        return
    for outcome in sorted({**expected, **table.outcomes}):
        token, goes_on = outcome
        if token in left_out:
            continue
        value = table.outcomes.get(outcome, _Value(0.0, table.floor))
        observed = value.value / kept.value
        bound = (value.error + observed * kept.error) / kept.value
        kind = ("accepted-draft" if goes_on else "last") if accepted else "next"
        probability = expected.get(outcome, 0.0) / by_law
        if value.value > 0.0:
            if law.rows[m, token] <= 0.0:
                kind, probability, bound = "token", 0.0, 0.0
            elif accepted and goes_on and outcome not in expected:
                kind = "length" if len(prefix) + 1 >= law.depth_limit else "accepted"
                probability, bound = 0.0, 0.0
        yield Difference(prefix, int(law.node[m]), token, kind, probability, observed, bound)


def _expected(law: Law, m: int, accepted: bool) -> dict[Outcome, float]:
    """Return the law's probabilities of what follows prefix m, without those of 0."""
    row = law.rows[m]
    if not accepted:
        return {(int(token), False): float(row[token]) for token in row.nonzero()[0]}
    found: dict[Outcome, float] = {}
    children = (law.parent == m).nonzero()[0].tolist()
    goes_on = {int(law.token[child]): float(law.reach[child] / law.reach[m]) for child in children}
    for token in row.nonzero()[0].tolist():
        stays = float(row[token]) - goes_on.get(token, 0.0)
        if token in goes_on:
            found[token, True] = goes_on[token]
        if stays > SLACK or token not in goes_on:
            found[token, False] = max(0.0, stays)
    return found


def _merged(table: _Table) -> _Table:
    """Return the table of next tokens, whether or not the step goes on after them."""
    outcomes: dict[Outcome, _Value] = {}
    for (token, _), value in table.outcomes.items():
        sum_ = outcomes.setdefault((token, False), _Value())
        sum_.value += value.value
        sum_.error += value.error
    return _Table(outcomes, table.reached, table.floor, table.scale)


def _tables(measured: Measured) -> dict[Prefix, _Table]:
    """Return what follows each prefix, relative to the state that all of it stems from."""

    def of(decision: int, label: int) -> dict[Prefix, _Table]:
        following = measured.after.get((decision, label))
        if following is None:
            return _of_sequence(measured.sequences[measured.root if label < 0 else label])
        return below[following]

    below: dict[int, dict[Prefix, _Table]] = {}
    for i in range(len(measured.decisions) - 1, -1, -1):
        decision = measured.decisions[i]
        below[i] = _split(decision, {label: of(i, label) for label in decision.labels})
    return of(-1, -1)


def _of_sequence(tokens: Prefix) -> dict[Prefix, _Table]:
    last = len(tokens) - 1
    return {tokens[:i]: _Table({(token, i < last): _Value(1.0)}) for i, token in enumerate(tokens)}


def _split(decision: Decision, parts: dict[int, dict[Prefix, _Table]]) -> dict[Prefix, _Table]:
    """Return the tables of a state from those of the outcomes of the decision that is taken in it."""
    size = decision.stretches.high - decision.stretches.low
    share = {label: decision.share(label) for label in parts}
    order = decision.stretches.labels.tolist()
    pairs = list(pairwise(order))
    unit = decision.bound / size
    found: dict[Prefix, _Table] = {}
    for prefix in dict.fromkeys(prefix for part in parts.values() for prefix in part):
        having = [label for label in parts if prefix in parts[label]]
        if len(having) == 1 and len(parts) > 1:
            (label,) = having
            table = parts[label][prefix]
            own = _Value(share[label], unit * sum((a == label) != (b == label) for a, b in pairs))
            found[prefix] = _Table(table.outcomes, table.reached, table.floor, table.scale.scaled(own))
            continue
        here = {label: parts[label][prefix].seen_from_here() for label in having}
        total = _Table(reached=_Value(0.0), floor=2.0 * unit)
        for label, table in here.items():
            _add(total.reached, table.reached, share[label])
            total.floor += share[label] * table.floor
            for outcome, value in table.outcomes.items():
                _add(total.outcomes.setdefault(outcome, _Value()), value, share[label])
        for a, b in pairs:
            one, other = here.get(a), here.get(b)
            reached = [table.reached.value if table else 0.0 for table in (one, other)]
            total.reached.error += unit * abs(reached[0] - reached[1])
            for outcome in {**(one.outcomes if one else {}), **(other.outcomes if other else {})}:
                sides = [
                    table.outcomes[outcome].value if table and outcome in table.outcomes else 0.0
                    for table in (one, other)
                ]
                total.outcomes[outcome].error += unit * abs(sides[0] - sides[1])
        if decision.hidden and len(prefix) >= decision.place:
            for value in total.outcomes.values():
                value.error += 2.0 * unit
        found[prefix] = total
    return found


def _add(total: _Value, value: _Value, share: float) -> None:
    total.value += share * value.value
    total.error += share * value.error
