"""Laws without noise: the law of a coin-driven sampler measured by bisection of what its coins decide.

A sampler all of whose randomness is its coins is a function of them. Which of the 2^24 values of one coin lead to which
emitted sequence, all other coins held, is found with some tens of calls of one row; the coins are then held where they
lead to one of the outcomes, and the next coin that matters is looked at, until none does. Rare branches take no longer
than likely ones. All decisions of all cases go forward together, a row of a call each.

Each decision is asked again with all coins changed that should not matter: a coin that does matter is looked at next,
wherever it belongs. What the walk of the rule reads (:mod:`.reads`) is the first guess, so that a right verifier is
measured quickly; no result depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .bisect import Stretches, bisect, first_points, grid
from .counts import distinct_rows
from .measured import Decision, Measured, Unresolved
from .reads import COINS, Read, Subject

__all__ = ["Ask", "probe", "swept"]

Ints = NDArray[np.int64]
Ask = Callable[[Ints, Ints], Ints]
"""Takes the subject of each row, int64 [K], and its coins, int64 [K, N + 1] in [0, 2^24), the final one last; returns
the emitted tokens, int64 [K, W], -1 beyond the end."""

MOST_DECISIONS = 2048
MOST_TURNS = 2
"""Decisions of one coin on the way to a sequence; more: coins decide together, in no order."""
GRIDS = (1 << 8, 1 << 10, 1 << 12)
MOST_GRID_ROWS = 1 << 16
"""Of a subject: a sampler that is far off need not be searched everywhere."""
ROWS_AT_LEAST, ROWS_A_TOKEN = 1 << 12, 64
"""Rows of a subject: so many, and so many more for each token at each node, are more than a sampler needs of which
one coin decides one thing."""
MORE_POINTS = 16
"""Random points on a coin of which nothing is expected."""
SWEPT = 1 << 16
"""Values of a sweep that are asked at once."""
REPEATED = 64
"""Rows of a subject that are asked again as they were."""

Asking = Generator[Ints, Ints, None]


def probe(subjects: Sequence[Subject], ask: Ask, rng: np.random.Generator) -> list[Measured]:
    """Measure the law of each subject; they share N. Equal ``rng`` and sampler give equal results."""
    explorers = [_Explorer(subject, rng) for subject in subjects]
    for explorer in explorers:
        explorer.begin()
    while True:
        wanted = [(i, task, query) for i, explorer in enumerate(explorers) for task, query in explorer.queries()]
        if not wanted:
            break
        which = np.repeat([i for i, _, _ in wanted], [len(query) for _, _, query in wanted])
        tokens = ask(which, np.concatenate([query for _, _, query in wanted]))
        start = 0
        for i, task, query in wanted:
            explorers[i].answer(task, query, tokens[start : start + len(query)])
            start += len(query)
    again = [explorer.repeats() for explorer in explorers]
    which = np.repeat(np.arange(len(again)), [len(rows) for rows, _ in again])
    if len(which):
        tokens = ask(which, np.concatenate([rows for rows, _ in again]))
        for i, (_, labels) in enumerate(again):
            explorers[i].compare(tokens[which == i], labels)
    return [explorer.measured() for explorer in explorers]


def swept(subject: Subject, measured: Measured, node: int, ask: Ask) -> Measured:
    """Ask every value of each coin that decides something at a node, and return the law with what was found.

    ``ask`` is asked about subject 0 alone.
    """
    found = replace(measured, decisions=list(measured.decisions), swept=list(measured.swept))
    for i, decision in enumerate(measured.decisions):
        m = subject.law.find(measured.place(i)[0])
        if m < 0 or subject.law.node[m] != node or len(decision.labels) < 2:
            continue
        old, label_of = decision.stretches, {tokens: label for label, tokens in enumerate(found.sequences)}
        coins = decision.held
        starts: list[int] = []
        labels: list[int] = []
        other = 0
        for low in range(old.low, old.high, SWEPT):
            values = np.arange(low, min(low + SWEPT, old.high))
            distinct, inverse = distinct_rows(ask(np.zeros(len(values), np.int64), _line(coins, decision.coin, values)))
            here = np.array([_label(label_of, found.sequences, row) for row in distinct.tolist()])[inverse]
            other += int((here != old.at(values)).sum())
            begins = np.flatnonzero(np.diff(here, prepend=labels[-1] if labels else -1))
            starts += values[begins].tolist()
            labels += here[begins].tolist()
        exact = Stretches(old.low, old.high, np.array(starts), np.array(labels), np.array(starts))
        found.decisions[i] = replace(decision, stretches=exact)
        found.swept.append((i, other))
    return found


def _label(label_of: dict[tuple[int, ...], int], sequences: list[tuple[int, ...]], row: Sequence[int]) -> int:
    """Return the label of an emitted row, a new one where it has not been seen before."""
    key = tuple(token for token in row if token >= 0)
    if key not in label_of:
        label_of[key] = len(sequences)
        sequences.append(key)
    return label_of[key]


@dataclass
class _State:
    """Coins held within ``low`` to ``high`` int64 [N + 1] after a decision with an outcome."""

    low: Ints
    high: Ints
    turns: tuple[int, ...] = ()
    """The coins that have decided, in order."""
    parent: int = -1
    branch: int = -1


@dataclass
class _Explorer:
    """One subject being measured."""

    subject: Subject
    rng: np.random.Generator
    decisions: list[Decision] = field(default_factory=list)
    sequences: list[tuple[int, ...]] = field(default_factory=list)
    unresolved: list[Unresolved] = field(default_factory=list)
    root: int = -1
    rows: int = 0
    changed: int = 0
    grid_rows: int = 0

    def __post_init__(self) -> None:
        self._stopped = False
        self._label_of: dict[tuple[int, ...], int] = {}
        self._tasks: list[tuple[Asking, Ints]] = []
        self._asked: list[tuple[Ints, Ints]] = []
        self._checks: list[tuple[int, int, int]] = []
        """Decision, outcome, and the label it had when other coins were changed."""

    @property
    def _most_rows(self) -> int:
        case = self.subject.case
        return ROWS_AT_LEAST + ROWS_A_TOKEN * case.vocab * len(case.tree)

    def _give_up(self) -> None:
        """Ask nothing any more."""
        self._stopped = True
        self._tasks.clear()
        self.unresolved.append(Unresolved(-1, -1, "too many"))

    @property
    def size(self) -> int:
        """Number of coins."""
        return self.subject.case.nodes + 1

    def begin(self) -> None:
        """Make the first queries."""
        state = _State(np.zeros(self.size, np.int64), np.full(self.size, COINS, np.int64))
        self._start(self._first(state))

    def queries(self) -> Iterator[tuple[Asking, Ints]]:
        """Yield the tasks that wait for an answer, with what they ask."""
        waiting, self._tasks = self._tasks, []
        yield from waiting

    def answer(self, task: Asking, query: Ints, tokens: Ints) -> None:
        """Let a task go on with what was emitted for its query."""
        if self._stopped:
            return
        labels = self._labels(tokens)
        self._asked.append((query, labels))
        self.rows += len(query)
        if self.rows - self.grid_rows > self._most_rows:
            self._give_up()
            return
        try:
            self._tasks.append((task, task.send(labels)))
        except StopIteration:
            return

    def repeats(self) -> tuple[Ints, Ints]:
        """Return coins that were asked before, and the labels they had."""
        coins = np.concatenate([query for query, _ in self._asked])
        labels = np.concatenate([found for _, found in self._asked])
        some = self.rng.permutation(len(labels))[:REPEATED]
        return coins[some], labels[some]

    def compare(self, tokens: Ints, labels: Ints) -> None:
        """Count what has changed of rows that were asked again."""
        self.rows += len(labels)
        self.changed += int((self._labels(tokens) != labels).sum())

    def measured(self) -> Measured:
        """Return what was found."""
        found = Measured(
            self.subject.case.nodes,
            self.sequences,
            self.decisions,
            self.root,
            self.rows,
            self.changed,
            unresolved=self.unresolved,
        )
        found.loose.extend(self._loose(found))
        return found

    def _loose(self, found: Measured) -> list[tuple[int, int]]:
        """Return decisions with outcomes whose label became that of another outcome when other coins were changed."""
        unresolved = {(entry.decision, entry.label) for entry in self.unresolved}
        if (-1, -1) in unresolved:
            return []
        below: dict[tuple[int, int], set[int]] = {}
        for i in range(len(self.decisions) - 1, -1, -1):
            for label in self.decisions[i].labels:
                following = found.after.get((i, label))
                after = [] if following is None else [(following, other) for other in self.decisions[following].labels]
                unresolved |= {(i, label)} if unresolved.intersection(after) else set()
                below[i, label] = set().union(*(below[place] for place in after)) if after else {label}
        loose = {(i, label) for i, label, seen in self._checks if seen not in below[i, label]}
        return sorted(loose - unresolved)

    def _start(self, task: Asking) -> None:
        try:
            self._tasks.append((task, next(task)))
        except StopIteration:
            return

    def _labels(self, tokens: Ints) -> Ints:
        """Return the label of each emitted sequence, int64 [K]."""
        distinct, inverse = distinct_rows(tokens)
        labels = [_label(self._label_of, self.sequences, row) for row in distinct.tolist()]
        return np.array(labels, np.int64)[inverse]

    def _pending(self, state: _State, label: int) -> list[Read]:
        """Return what the walk would still read on its way to a sequence that decides anything, in order."""
        return [
            read for read in self.subject.reads(self.sequences[label]) if read.coin not in state.turns and read.open
        ]

    def _first(self, state: _State) -> Asking:
        """See what comes first of all, and go on from there."""
        coins = self.rng.integers(state.low, state.high)
        labels = yield np.stack([coins, coins])
        self.changed += int(labels[0] != labels[1])
        self.root = int(labels[0])
        self._start(self._decide(state, self.root))

    def _decide(self, state: _State, label: int) -> Asking:
        """Find the coin that decides next in a state in which ``label`` was seen, and its stretches."""
        coins = self.rng.integers(state.low, state.high)
        pending = self._pending(state, label)
        read = pending[0] if pending else Read(-1, np.ones(1), self.subject.bound)
        coin = read.coin
        if pending:
            points = first_points(int(state.low[coin]), int(state.high[coin]), read.masses, self.rng)
            labels = yield _line(coins, coin, points)
        if not pending or (labels == labels[0]).all():  # not what the walk would read: any coin may matter
            coin = self._effective(*(yield from self._around(state, coins)))
            if coin < 0 or coin in (later.coin for later in pending[1:]):
                if pending:
                    low, high = int(state.low[read.coin]), int(state.high[read.coin])
                    whole = Stretches(low, high, np.array([low]), labels[:1], points)
                    yield from self._decided(state, read, read.coin, whole, coins)
                return
            points = first_points(int(state.low[coin]), int(state.high[coin]), read.masses, self.rng, MORE_POINTS)
            labels = yield _line(coins, coin, points)
        low, high = int(state.low[coin]), int(state.high[coin])
        found = yield from self._stretches(coins, coin, low, high, points, labels, read)
        if found is None:
            self.unresolved.append(Unresolved(state.parent, state.branch, "scattered"))
        else:
            yield from self._decided(state, read, coin, found, coins)

    def _decided(self, state: _State, read: Read, coin: int, found: Stretches, coins: Ints) -> Asking:
        """Write a decision down, and go on from there."""
        if state.turns.count(coin) >= MOST_TURNS or len(self.decisions) >= MOST_DECISIONS:
            self.unresolved.append(Unresolved(state.parent, state.branch, "entangled"))
            return
        hidden = len(set(found.labels.tolist())) < int((read.masses > 0.0).sum())
        number = len(self.decisions)
        link = state.parent, state.branch
        self.decisions.append(Decision(*link, coin, found, read.bound, read.place, hidden, coins))
        yield from self._again(state, number)

    def _around(self, state: _State, coins: Ints) -> Generator[Ints, Ints, tuple[Ints, Ints]]:
        """Change each coin on its own, to both ends and in between; return which was changed, and the labels.

        The first row has none changed (-1).
        """
        rows, which = [coins], [-1]
        for coin in range(self.size):
            low, high = int(state.low[coin]), int(state.high[coin])
            for value in (low, high - 1, int(self.rng.integers(low, high))):
                rows.append(coins.copy())
                rows[-1][coin] = value
                which.append(coin)
        labels = yield np.stack(rows)
        return np.array(which), labels

    def _effective(self, which: Ints, labels: Ints) -> int:
        """Return the coin that changes the emitted sequence earliest, -1 where none changes it."""
        base = self.sequences[int(labels[0])]
        best, least = -1, (len(base) + 1, 0)
        for coin, label in zip(which.tolist(), labels.tolist(), strict=True):
            if label != labels[0]:
                other = self.sequences[label]
                place = next((i for i, (a, b) in enumerate(zip(base, other, strict=False)) if a != b), len(base))
                ends = int(len(base) == len(other) == place + 1)
                if best < 0 or (place, ends) < least:
                    best, least = coin, (place, ends)
        return best

    def _stretches(
        self, coins: Ints, coin: int, low: int, high: int, points: Ints, labels: Ints, read: Read
    ) -> Generator[Ints, Ints, Stretches | None]:
        """Bisect; where the counts are not those expected, look everywhere before that is believed.

        The more thoroughly where outcomes have several stretches each, since there may be more of them.
        """
        most = 64 + 4 * len(read.masses)
        found = yield from self._bisected(coins, coin, low, high, points, labels, most)
        for size in GRIDS if coin == read.coin else ():
            if found is None or _agree(found, read) or self.grid_rows + size > MOST_GRID_ROWS:
                return found
            self.grid_rows += size
            more = np.setdiff1d(grid(low, high, size, self.rng), found.points)
            seen = yield _line(coins, coin, more)
            points, labels = np.concatenate([found.points, more]), np.concatenate([found.at(found.points), seen])
            order = np.argsort(points)
            found = yield from self._bisected(coins, coin, low, high, points[order], labels[order], most)
            if found is not None and len(found.labels) == len(set(found.labels.tolist())):
                return found
        return found

    def _bisected(
        self, coins: Ints, coin: int, low: int, high: int, points: Ints, labels: Ints, most: int
    ) -> Generator[Ints, Ints, Stretches | None]:
        search = bisect(low, high, points, labels, most)
        try:
            values = next(search)
            while True:
                values = search.send((yield _line(coins, coin, values)))
        except StopIteration as end:
            stretches: Stretches | None = end.value
            return stretches

    def _again(self, state: _State, number: int) -> Asking:
        """Ask all stretches again with every other coin changed, and follow the outcomes that are open.

        Their starts with the least values of the others, their ends with the largest, and a point within with any: a
        draw by another coin begins with one token and ends with another, however unlikely either is.
        """
        decision = self.decisions[number]
        found, coin = decision.stretches, decision.coin
        within = self.rng.integers(found.starts, found.stops)
        points = np.concatenate([found.starts, found.stops - 1, within])
        rows = self.rng.integers(state.low, state.high, (len(points), self.size))
        rows[: len(found.starts)] = state.low
        rows[len(found.starts) : 2 * len(found.starts)] = state.high - 1
        rows[:, coin] = points
        seen = yield rows
        labels = found.at(points)
        self._checks += [(number, int(a), int(b)) for a, b in zip(labels, seen, strict=True)]
        for label in decision.labels:
            low, high = state.low.copy(), state.high.copy()
            low[coin], high[coin] = found.widest(label)
            after = _State(low, high, (*state.turns, coin), number, label)
            if self._pending(after, label) or (seen[labels == label] != label).any():
                self._start(self._decide(after, label))


def _line(coins: Ints, coin: int, values: Ints) -> Ints:
    """Return rows of ``coins`` with one of them changed to each of ``values``."""
    rows = np.tile(coins, (len(values), 1))
    rows[:, coin] = values
    return rows


def _agree(found: Stretches, read: Read) -> bool:
    """Whether as many coins lead to the outcomes as their masses say, whichever is which."""
    if len(read.masses) < 2:  # nothing was expected
        return True
    counts = sorted((found.count(label) for label in np.unique(found.labels).tolist()), reverse=True)
    masses = np.sort(read.masses[read.masses > 0.0])[::-1] * ((found.high - found.low) / read.masses.sum())
    size = max(len(counts), len(masses))
    apart = np.pad(np.array(counts, float), (0, size - len(counts))) - np.pad(masses, (0, size - len(masses)))
    return bool((np.abs(apart) <= 1.0 + 2.0 * read.bound).all())
