"""Exact laws of rules that are carried out wrongly, by plain enumeration of draft draws and of what coins decide.

Written without the laws of the harness, so that they can say how far a mix-up is from what is claimed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.redraw import next_state

Floats = NDArray[np.float64]
Law = dict[tuple[int, ...], float]
"""Probability of each emitted sequence."""


def retempered(rows: Floats, temperature: float) -> Floats:
    """Laws at another temperature, float64 [R, V]."""
    rows = rows ** (1.0 / temperature)
    return rows / rows.sum(axis=1, keepdims=True)


def sibling_draws(q: Floats, count: int, replacement: bool) -> Iterator[tuple[tuple[int, ...], float]]:
    """Every assignment of tokens to ``count`` siblings, and its probability."""
    if count == 0:
        yield (), 1.0
        return
    for token in np.flatnonzero(q):
        left = q.copy()
        if not replacement and count > 1:
            left[token] = 0.0
            left /= left.sum()
        for rest, weight in sibling_draws(left, count - 1, replacement):
            yield (int(token), *rest), float(q[token]) * weight


def rejection(case: Case, q: Floats, replacement: bool) -> Law:
    """Law of a rejection rule that verifies with the draft law ``q`` [R, V], as if drawn with ``replacement`` or not.

    Drafts are drawn as the case says.
    """
    found: Law = {}
    target, drawn = case.law_rows, case.draft_rows

    def at(node: int, state: int, emitted: tuple[int, ...], weight: float) -> None:
        children = case.tree.children[node] if len(emitted) < case.depth_limit - 1 else ()
        goes_on: dict[tuple[int, int], float] = {}
        for tokens, chance in sibling_draws(drawn[state], len(children), case.replacement):
            p, left, here = target[state], q[state].copy(), weight * chance
            for child, token in zip(children, tokens, strict=True):
                taken = min(1.0, p[token] / left[token]) if left[token] > 0 else float(p[token] > 0)
                goes_on[child, token] = goes_on.get((child, token), 0.0) + here * taken
                here *= 1.0 - taken
                rest = np.maximum(p - left, 0.0)
                if here <= 0.0 or rest.sum() <= 0.0:
                    break
                p = rest / rest.sum()
                if not replacement:
                    left[token] = 0.0
                    left /= left.sum() or 1.0
            for token in np.flatnonzero(p) if here > 0.0 else ():
                found[*emitted, int(token)] = found.get((*emitted, int(token)), 0.0) + here * float(p[token])
        for (child, token), more in goes_on.items():
            if more > 0.0:
                at(child, next_state(state, token, case.states), (*emitted, token), more)

    at(0, 0, (), 1.0)
    return found


def block(case: Case, q: Floats) -> Law:
    """Law of block verification of a chain with the draft law ``q`` [R, V]."""
    found: Law = {}
    target, drawn = case.law_rows, case.draft_rows
    last = min(len(case.tree), case.depth_limit) - 1

    def walk(tokens: Sequence[int], states: Sequence[int], chance: float) -> None:
        if len(tokens) < last:
            for token in np.flatnonzero(drawn[states[-1]]):
                state = next_state(states[-1], int(token), case.states)
                walk([*tokens, int(token)], [*states, state], chance * float(drawn[states[-1]][token]))
            return
        r, hold, rest = 1.0, [1.0], []
        for i, state in enumerate(states):
            if i:
                before = states[i - 1]
                r = min(1.0, r * float(target[before][tokens[i - 1]]) / float(q[before][tokens[i - 1]]))
            left = target[state] if i == last else np.maximum(r * target[state] - q[state], 0.0)
            w = left.sum()
            rest.append(left)
            if i:
                hold.append(r if i == last else w / (w + 1.0 - r) if w + 1.0 - r > 0.0 else 1.0)
        later = 1.0
        for i in range(last, -1, -1):
            here, later = chance * later * hold[i], later * (1.0 - hold[i])
            if here > 0.0:
                for token in np.flatnonzero(rest[i]):
                    sequence = (*tokens[:i], int(token))
                    found[sequence] = found.get(sequence, 0.0) + here * float(rest[i][token] / rest[i].sum())

    walk([], [0], 1.0)
    return found


def distance(one: Law, other: Law) -> float:
    """Total variation."""
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in {*one, *other})


def largest_move(one: Law, other: Law) -> float:
    """Largest difference of the probabilities of a prefix cell: a token at its place after an emitted prefix."""
    cells: dict[tuple[int, ...], float] = {}
    for law, sign in ((one, 1.0), (other, -1.0)):
        for sequence, probability in law.items():
            for size in range(1, len(sequence) + 1):
                cells[sequence[:size]] = cells.get(sequence[:size], 0.0) + sign * probability
    return max(map(abs, cells.values()))
