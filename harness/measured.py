"""What a probe measured: decisions, each by one coin, from the first that matters to the emitted sequence.

A decision splits the values of one coin into stretches, the coins that decided before being held where they led here.
Each stretch leads to another decision or to one emitted sequence, so that the law of the sampler is a sum of products
of counted fractions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .bisect import Stretches
from .law import Law, LawBuilder

__all__ = ["Decision", "Leaf", "Measured", "Unresolved", "packed", "unpacked"]

Ints = NDArray[np.int64]

Tokens = tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Decision:
    """What one coin decides.

    Parameters
    ----------
    parent, branch : int
        The decision before it and the label of its outcome that leads here; -1 for the first.
    coin : int
        The node whose coin it is; N for the final coin.
    stretches : Stretches
        Of its values, by the label of the sequence that is emitted while all coins that come after are held.
    bound : float
        Coins by which rounding may move a boundary.
    place : int
        It decides on what follows so many accepted tokens, or more.
    hidden : bool
        An outcome that the law allows has no coins: so unlikely that rounding may have taken its last.
    held : int64 [N + 1]
        The other coins while this one was looked at; not sent between processes.
    """

    parent: int
    branch: int
    coin: int
    stretches: Stretches
    bound: float
    place: int = 0
    hidden: bool = False
    held: Ints = field(default_factory=lambda: np.zeros(0, np.int64))

    @property
    def labels(self) -> list[int]:
        """The outcomes, by their first stretch."""
        return list(dict.fromkeys(self.stretches.labels.tolist()))

    def share(self, label: int) -> float:
        """Return the fraction of the coin's values that leads to an outcome."""
        return self.stretches.count(label) / (self.stretches.high - self.stretches.low)


@dataclass(frozen=True)
class Leaf:
    """An emitted sequence with its probability, and the decisions that lead to it with their labels."""

    tokens: Tokens
    probability: float
    path: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Unresolved:
    """What could not be measured: after ``decision`` with outcome ``label`` (-1: at the start), for a ``reason``.

    "scattered": the outcomes of a coin are strewn over its values; "entangled": coins decide together, in no order;
    "too many": more rows would have been asked than one coin for one thing takes.
    """

    decision: int
    label: int
    reason: str


@dataclass(frozen=True, eq=False)
class Measured:
    """The measured law of a step.

    Parameters
    ----------
    nodes : int
        N: the final coin is number N.
    sequences : list of tuple of int
        Emitted tokens of each label.
    decisions : list of Decision
        Parents first.
    root : int
        Label of the only sequence where nothing is decided.
    rows : int
        Rows asked.
    changed : int
        Rows that emitted something else when they were asked again with equal coins.
    loose : list of (int, int)
        Decisions and labels whose outcome changed to that of another stretch when other coins did.
    unresolved : list of Unresolved
    swept : list of (int, int)
        Decisions of which every value of the coin was asked, and how many of the values had another outcome than their
        stretch; the stretches are those of the sweep.
    """

    nodes: int
    sequences: list[Tokens]
    decisions: list[Decision]
    root: int
    rows: int = 0
    changed: int = 0
    loose: list[tuple[int, int]] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    swept: list[tuple[int, int]] = field(default_factory=list)

    @cached_property
    def after(self) -> dict[tuple[int, int], int]:
        """The decision that follows a decision with an outcome; the first follows (-1, -1)."""
        return {(decision.parent, decision.branch): i for i, decision in enumerate(self.decisions)}

    def leaves(self) -> Iterator[Leaf]:
        """Yield the emitted sequences; one may come several times, by different coins."""
        stack: list[tuple[int, int, float, tuple[tuple[int, int], ...]]] = [(-1, -1, 1.0, ())]
        while stack:
            decision, label, probability, path = stack.pop()
            following = self.after.get((decision, label))
            if following is None:
                yield Leaf(self.sequences[self.root if label < 0 else label], probability, path)
                continue
            for outcome in self.decisions[following].labels[::-1]:
                share = self.decisions[following].share(outcome)
                stack.append((following, outcome, probability * share, (*path, (following, outcome))))

    def law(self, vocab: int, depth_limit: int) -> Law:
        """Return the measured law prefix by prefix; prefixes have no nodes, -1 but for the first."""
        emitted: dict[Tokens, float] = {}
        for leaf in self.leaves():
            emitted[leaf.tokens] = emitted.get(leaf.tokens, 0.0) + leaf.probability
        longest = max(map(len, emitted))
        builder = LawBuilder(max(depth_limit, longest))
        queue: list[tuple[int, Tokens]] = [(-1, ())]
        for parent, prefix in queue:
            depth = len(prefix)
            some = {tokens: p for tokens, p in emitted.items() if tokens[:depth] == prefix and len(tokens) > depth}
            row = np.zeros(vocab)
            for tokens, probability in some.items():
                row[tokens[depth]] += probability
            reach = float(row.sum())
            token = prefix[-1] if prefix else -1
            index = builder.add(parent, token, 0 if not prefix else -1, reach, row / reach)
            longer = dict.fromkeys(tokens[: depth + 1] for tokens in some if len(tokens) > depth + 1)
            queue += [(index, further) for further in longer]
        return builder.build()

    def place(self, decision: int) -> tuple[Tokens, bool]:
        """Return the tokens that are emitted before what a decision decides, and whether that is the last token only.

        That is whether the sequence ends there whatever it decides.
        """
        some = [self.sequences[label] for label in self.decisions[decision].labels]
        shortest = min(some, key=len)
        length = next((i for i, token in enumerate(shortest) if any(s[i] != token for s in some)), len(shortest) - 1)
        return shortest[:length], all(len(tokens) == length + 1 for tokens in some)

    @property
    def used(self) -> set[int]:
        """The coins that decide anything."""
        return {decision.coin for decision in self.decisions if len(decision.stretches.starts) > 1}


def packed(measured: Measured) -> tuple[list[int], list[float], list[Ints], list[str]]:
    """Return a measured law as numbers, tables int64 and words, from which :func:`unpacked` makes it again.

    The tables: sequences with -1 beyond their ends; decisions; their stretches, by decision; the loose; the unresolved;
    those swept.
    """
    longest = max(map(len, measured.sequences), default=1)
    rows = [[*tokens, *[-1] * (longest - len(tokens))] for tokens in measured.sequences]
    decisions = [
        [d.parent, d.branch, d.coin, d.stretches.low, d.stretches.high, d.place, d.hidden] for d in measured.decisions
    ]
    stretches = [
        [i, start, label]
        for i, d in enumerate(measured.decisions)
        for start, label in zip(d.stretches.starts.tolist(), d.stretches.labels.tolist(), strict=True)
    ]
    unresolved = [[entry.decision, entry.label] for entry in measured.unresolved]
    pairs = (measured.loose, unresolved, measured.swept)
    columns = ((rows, longest), (decisions, 7), (stretches, 3), *((table, 2) for table in pairs))
    return (
        [measured.root, measured.rows, measured.changed],
        [decision.bound for decision in measured.decisions],
        [np.array(table, np.int64).reshape(len(table), width) for table, width in columns],
        [entry.reason for entry in measured.unresolved],
    )


def unpacked(
    counts: Sequence[int],
    bounds: Sequence[float],
    tables: Sequence[Ints],
    reasons: Sequence[str],
    nodes: int,
    vocab: int,
) -> Measured:
    """Return the measured law of what :func:`packed` made; a ValueError where it cannot be one of N and V."""
    if len(counts) != 3 or [table.shape[1] for table in tables[1:]] != [7, 3, 2, 2, 2]:
        raise ValueError("no measured law")
    rows, heads, stretches, loose, unresolved, swept = tables
    sequences = [tuple(token for token in row if token >= 0) for row in rows.tolist()]
    labels = [*stretches[:, 2].tolist(), *loose[:, 1].tolist(), counts[0]]
    links = [*heads[:, 1].tolist(), *unresolved[:, 1].tolist()]
    parents = [-1 <= parent < i for i, parent in enumerate(heads[:, 0].tolist())]
    ends = unresolved[:, 0].tolist()
    places = [*loose[:, 0].tolist(), *swept[:, 0].tolist(), *(place for place in ends if place != -1)]
    of = [np.flatnonzero(stretches[:, 0] == i) for i in range(len(heads))]
    if (
        rows.max(initial=0) >= vocab
        or not all(sequences)
        or not all(0 <= label < len(sequences) for label in labels)
        or not all(-1 <= label < len(sequences) for label in links)
        or not all(parents)
        or not all(0 <= place < len(heads) for place in places)
        or not all(len(own) for own in of)
        or len(bounds) != len(heads)
        or len(reasons) != len(unresolved)
        or heads[:, 2].min(initial=0) < 0
        or heads[:, 2].max(initial=0) > nodes
        or any(stretches[own[0], 1] != head[3] for own, head in zip(of, heads, strict=True))
        or any((np.diff([*stretches[own, 1], head[4]]) <= 0).any() for own, head in zip(of, heads, strict=True))
    ):
        raise ValueError("the tables of a measured law do not fit together")
    decisions = [
        Decision(
            int(parent),
            int(branch),
            int(coin),
            Stretches(int(low), int(high), stretches[own, 1], stretches[own, 2], stretches[own, 1]),
            bound,
            int(place),
            bool(hidden),
        )
        for (parent, branch, coin, low, high, place, hidden), own, bound in zip(heads, of, bounds, strict=True)
    ]
    open_ends = [Unresolved(int(i), int(label), reason) for (i, label), reason in zip(unresolved, reasons, strict=True)]
    root, asked, changed = counts
    pairs = [[(int(i), int(j)) for i, j in table] for table in (loose, swept)]
    return Measured(nodes, sequences, decisions, root, asked, changed, pairs[0], open_ends, pairs[1])
