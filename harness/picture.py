"""What a drawing of a case shows: how often law and draws come to each node, and what they do there."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy import special

from .case import Case
from .counts import PrefixCounts, SequenceCounts, prefix_counts
from .law import Law
from .results import Cells, TreeNode, TreePicture
from .stats.cells import two_sided
from .stats.decided import decided
from .stats.localise import Deviation

__all__ = ["interval", "picture"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.99
"""Of the intervals, each by itself."""
MOST_NODES, FEW_NODES = 48, 8
"""Nodes drawn of a case that deviates, and of one that passes."""
MOST_CELLS = 8
WORST_CELLS = 4
"""Of the tokens drawn at a node, those that deviate most; the others are the likeliest."""
MOST_ROWS, UNLIKELY = 6, 0.01
"""Nodes of a case that deviates whose next tokens are drawn: the root, and the most deviating ones up to a p-value."""


def picture(
    case: Case,
    law: Law,
    sequences: SequenceCounts,
    ranking: list[Deviation],
    *,
    reach_known: bool = True,
    full: bool = True,
) -> TreePicture:
    """Return what a drawing of ``case`` needs.

    Parameters
    ----------
    law, sequences : Law, SequenceCounts
        What the draws are held against, and the draws.
    ranking : list of Deviation
        The most deviating cells, worst first: their nodes are shown before all others.
    reach_known : bool
        False where only the next-token rows are a law.
    full : bool
        Whether every node is tested and the deviating ones are spelt out; else only the likeliest nodes are given, with
        the next tokens of the root.
    """
    counts = prefix_counts(law, sequences)
    reach_known = reach_known and law.undecided is None
    stated, seen = decided(law, counts)
    chosen = _chosen(law, ranking, MOST_NODES if full else FEW_NODES)
    tests = {m: _tested(stated, seen, m) for m in (chosen if full else [0])}
    least = {m: _least(law, counts, m, p_values, reach_known) for m, (_, _, p_values) in tests.items()}
    unlikely = [m for m in least if full and least[m] <= UNLIKELY and counts.reached[m]]
    spelt = sorted(unlikely, key=lambda m: (least[m], -law.reach[m]))[: MOST_ROWS - 1]
    astray = np.zeros(law.size, np.int64)
    for stray in counts.strays:
        astray[stray.prefix] += stray.count
    nodes: list[TreeNode] = []
    at: dict[int, int] = {}
    lows, highs = interval(counts.reached, counts.n)
    for m in _downward(law, chosen):
        at[m] = len(nodes)
        nodes.append(
            TreeNode(
                node=int(law.node[m]),
                parent=at[int(law.parent[m])] if m else -1,
                token=int(law.token[m] if m else case.tree.tokens[0]),
                reached=int(counts.reached[m]),
                low=_short(lows[m]),
                high=_short(highs[m]),
                reach=_short(law.reach[m]) if reach_known else None,
                p_value=_short(least[m]) if full else None,
                impossible=int(astray[m]),
                cells=_cells(stated, seen, m, tests[m]) if m in (0, *spelt) else None,
            )
        )
    left_out = law.size - len(nodes)
    if case.draft is None:
        left_out += _never(case, law, nodes, at, MOST_NODES if full else FEW_NODES)
    return TreePicture(level=LEVEL, redrawn=case.draft is not None, left_out=left_out, nodes=nodes)


def interval(count: int | Ints, trials: int | Ints, level: float = LEVEL) -> tuple[Floats, Floats]:
    """Return the exact two-sided interval (Clopper-Pearson) of a rate, for counts of ``trials``; [0, 1] for none."""
    count, trials = np.broadcast_arrays(np.asarray(count, np.int64), np.asarray(trials, np.int64))
    tail = (1.0 - level) / 2.0
    low, high = np.zeros(count.shape), np.ones(count.shape)
    some, rest = count > 0, count < trials
    low[some] = special.betaincinv(count[some], trials[some] - count[some] + 1, tail)
    high[rest] = special.betaincinv(count[rest] + 1, trials[rest] - count[rest], 1.0 - tail)
    return low, high


def _chosen(law: Law, ranking: list[Deviation], most: int) -> list[int]:
    """Return the prefixes to draw: those of the ranking, then the likeliest, each with all that lead to it."""
    chosen = {0: None}
    wanted = [law.find(row.prefix) for row in ranking]
    for m in [*wanted, *np.argsort(-law.reach, kind="stable")[:most].tolist()]:
        path = []
        while m > 0 and m not in chosen:
            path.append(m)
            m = int(law.parent[m])
        if m == 0 or m in chosen:
            for above in path[::-1] if len(chosen) + len(path) <= most else ():
                chosen[above] = None
    return list(chosen)


def _downward(law: Law, chosen: list[int]) -> Iterator[int]:
    """Yield the prefixes from the root down, each before its own, the likeliest first."""
    below: dict[int, list[int]] = {}
    for m in sorted(chosen, key=lambda m: law.reach[m]):
        below.setdefault(int(law.parent[m]), []).append(m)
    stack = [0]
    while stack:
        m = stack.pop()
        yield m
        stack += below.get(m, [])


def _tested(law: Law, counts: PrefixCounts, m: int) -> tuple[Ints, Ints, Floats]:
    """Return token, count and exact p-value of what follows prefix ``m``: what came, and what should have come."""
    there = slice(*np.searchsorted(counts.prefix, [m, m + 1]))
    count = np.zeros(law.vocab, np.int64)
    count[counts.token[there]] = counts.count[there]
    token = np.flatnonzero((count > 0) | (counts.reached[m] * law.rows[m] >= 1.0))
    expected = np.minimum(1.0, law.rows[m, token])
    return token, count[token], two_sided(count[token], int(counts.reached[m]), expected)


def _least(law: Law, counts: PrefixCounts, m: int, p_values: Floats, reach_known: bool) -> float:
    """Return the least p-value at prefix ``m``: of its next tokens, and of going on after it; 0 for a stray."""
    if any(stray.prefix == m for stray in counts.strays):
        return 0.0
    least = float(p_values.min(initial=1.0))
    if m and reach_known and law.emit[m] > 0.0:
        at = (counts.prefix == law.parent[m]) & (counts.token == law.token[m])
        goes_on = np.array([min(1.0, law.reach[m] / law.emit[m])])
        least = min(least, float(two_sided(counts.reached[m : m + 1], int(counts.count[at].sum()), goes_on)[0]))
    return least


def _cells(law: Law, counts: PrefixCounts, m: int, tested: tuple[Ints, Ints, Floats]) -> Cells:
    """Return the next tokens to draw: those that deviate most and the likeliest, in falling order of the law."""
    token, count, p_values = tested
    trials, row = int(counts.reached[m]), law.rows[m]
    wanted = [*token[np.argsort(p_values, kind="stable")[:WORST_CELLS]], *np.argsort(-row, kind="stable")[:MOST_CELLS]]
    shown = np.array(list(dict.fromkeys(wanted))[:MOST_CELLS], np.int64)
    shown = shown[(row[shown] > 0.0) | np.isin(shown, token)]
    shown = shown[np.argsort(-row[shown], kind="stable")]
    came = dict(zip(token.tolist(), count.tolist(), strict=True))
    seen = np.array([came.get(int(entry), 0) for entry in shown], np.int64)
    low, high = interval(seen, trials)
    return Cells(
        trials=trials,
        possible=int(np.count_nonzero(row)),
        token=shown.tolist(),
        expected=[_short(p) for p in row[shown]],
        count=seen.tolist(),
        low=[_short(p) for p in low],
        high=[_short(p) for p in high],
    )


def _never(case: Case, law: Law, nodes: list[TreeNode], at: dict[int, int], most: int) -> int:
    """Append the drafts that the law never comes to (probability 0, depth limit); return how many did not fit."""
    index = {int(law.node[m]): i for m, i in at.items()}
    known, missed = set(law.node.tolist()), 0
    for node in case.tree.order[1:]:
        parent = int(case.tree.parents[node])
        if node in known:
            continue
        if parent not in index or len(nodes) >= most:
            missed += 1
            continue
        index[node] = len(nodes)
        token = int(case.tree.tokens[node])
        nodes.append(TreeNode(node=node, parent=index[parent], token=token, reached=0, low=0.0, high=0.0, reach=0.0))
    return missed


def _short(p: float | Floats) -> float:
    """Return a figure in the four digits that a drawing needs."""
    return float(f"{float(p):.4g}")
