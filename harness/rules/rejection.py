"""Rules rejection, rejection-replacement and rejection-no-replacement.

A draft x drawn from q is accepted with probability min(1, p(x) / q(x)); after a rejection p becomes
norm(relu(p - q)) and the next sibling is tried; where none is left the last token is drawn from what p has become.
``rejection`` is the chain (arXiv 2211.17192, 2302.01318). With several siblings, ``rejection-replacement`` draws them
independently (SpecInfer, 2305.09781) and ``rejection-no-replacement`` one after the other without replacement, so that
q loses each rejected token and is renormalised (Sequoia, 2402.12374; RSD, 2402.14160). All three are lossless.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..draw import draw
from ..law import Law
from ..redraw import next_state
from ..request import Request
from .base import Rule, Walked

__all__ = [
    "REJECTION",
    "REJECTION_NO_REPLACEMENT",
    "REJECTION_REPLACEMENT",
    "accept_chances",
    "check_prefixes",
    "draft_rows",
]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_ENTRIES = 1 << 24
"""Prefixes times V of the largest law that is enumerated, 128 MiB in float64."""

LEAST_VOCAB = 128
"""A prefix of fewer tokens counts as one of so many: what it costs to enumerate is then its own, not its row's."""

MOST_WORK = 1 << 32
"""Prefixes times nodes times V: seconds of additions."""

MOST_SIBLINGS = 256
MOST_ORDERS = 1 << 18
"""Orders of rejected siblings that are enumerated, in all states of a case together."""


def check_prefixes(case: Case, count: int) -> None:
    """Raise ValueError where ``count`` prefixes of ``case`` are more than can be enumerated."""
    vocab = max(case.vocab, LEAST_VOCAB)
    most = min(MOST_ENTRIES // vocab, MOST_WORK // (len(case.tree) * vocab))
    if count > most:
        raise ValueError(
            f"draft: the drafts of case {case.name} lead to more than {most} prefixes of V = {case.vocab}; "
            "give the draft law fewer tokens, or the tree less depth"
        )


def _check_siblings(case: Case) -> None:
    """Raise ValueError where the fates of siblings are more than can be enumerated."""
    assert case.draft is not None
    widths = {len(children) for children in case.tree.children}
    most = max(widths)
    entries = sum(widths) * case.draft.size
    if most > MOST_SIBLINGS or entries > MOST_ENTRIES:
        fits = min(MOST_SIBLINGS, MOST_ENTRIES // case.draft.size)
        raise ValueError(f"tree: {most} siblings in case {case.name} are more than the {fits} that can be enumerated")
    support = int((case.draft > 0).sum(axis=1).max())
    if not case.replacement and most and case.states * math.perm(support, most - 1) > MOST_ORDERS:
        raise ValueError(
            f"draft: {most} siblings of case {case.name}, drawn without replacement from up to {support} tokens, can "
            f"be rejected in more than {MOST_ORDERS} orders; give the draft law fewer tokens or the tree fewer siblings"
        )


def accept_chances(p: Floats, q: Floats, siblings: int, replacement: bool) -> Floats:
    """P(sibling i is accepted and its token is x), float64 [siblings, V], over the draws of all siblings and coins.

    Parameters
    ----------
    p, q : float64 [V]
        Target and draft law; each sums to 1.
    siblings : int
        Drawn from q, independently (``replacement``) or without replacement; the latter enumerates the tokens that
        were drawn and rejected, (support of q)^(siblings - 1) of them.
    """
    chances = np.zeros((siblings, len(p)))
    for weight, target, draft, depth in _rejections(p, q, siblings, replacement):
        chances[depth] += weight * np.minimum(target, draft)
    return chances


def _rejections(
    p: Floats, q: Floats, siblings: int, replacement: bool, weight: float = 1.0, depth: int = 0
) -> Iterator[tuple[float, Floats, Floats, int]]:
    """Yield (probability, p, q, siblings rejected) of every state in which another sibling is tried."""
    if depth == siblings:
        return
    yield weight, p, q, depth
    surplus = np.maximum(q - p, 0.0)
    rejected = float(surplus.sum())
    rest = np.maximum(p - q, 0.0)
    if rejected <= 0.0 or rest.sum() <= 0.0:
        return
    rest /= rest.sum()
    if replacement:
        yield from _rejections(rest, q, siblings, True, weight * rejected, depth + 1)
        return
    for token in np.flatnonzero(surplus):
        left = q.copy()
        left[token] = 0.0
        if left.sum() > 0.0:
            yield from _rejections(rest, left / left.sum(), siblings, False, weight * float(surplus[token]), depth + 1)


def law(case: Case, rows: Floats | None = None) -> Law:
    """Return the exact law of ``case``, over draft draws as well as coins.

    The walk's position is a node of the tree; several nodes can stand after the same prefix, each with its own
    probability, while the law of the next token is the prefix's own.

    Raises
    ------
    ValueError
        Where the prefixes that the drafts can lead to, or the orders in which siblings drawn without replacement can
        be rejected, are too many to enumerate.
    """
    target, draft, tree = case.law_rows if rows is None else rows, case.draft_rows, case.tree
    states, vocab = target.shape
    _check_siblings(case)
    known: dict[tuple[int, int], Floats] = {}

    def chances(state: int, siblings: int) -> Floats:
        if (state, siblings) not in known:
            known[state, siblings] = accept_chances(target[state], draft[state], siblings, case.replacement)
        return known[state, siblings]

    parents, tokens, nodes, reaches, state_of = [-1], [-1], [0], [1.0], [0]
    level: list[tuple[int, dict[int, float]]] = [(0, {0: 1.0})]
    for _ in range(case.depth_limit - 1):
        following: list[tuple[int, dict[int, float]]] = []
        for index, at in level:
            arrived = np.zeros((len(tree), vocab))
            for node, weight in at.items():
                if tree.children[node]:
                    arrived[list(tree.children[node])] += weight * chances(state_of[index], len(tree.children[node]))
            for token in np.flatnonzero(arrived.any(axis=0)):
                column = arrived[:, token]
                parents.append(index)
                tokens.append(int(token))
                nodes.append(int(column.argmax()))
                reaches.append(float(column.sum()))
                state_of.append(next_state(state_of[index], int(token), states))
                following.append((len(parents) - 1, {int(n): float(column[n]) for n in np.flatnonzero(column)}))
            check_prefixes(case, len(parents))
        level = following
    return Law(
        np.array(parents, np.int64),
        np.array(tokens, np.int64),
        np.array(nodes, np.int64),
        np.array(reaches),
        target[state_of],
        case.depth_limit,
    )


def draft_rows(request: Request, rows: Ints, nodes: Ints) -> tuple[Floats, Floats]:
    """Return target and draft law at ``nodes`` of ``rows``, float64 [K, V] each, normalised."""
    laws = [table[rows, nodes].astype(np.float64) for table in (request.target_probs, request.draft_probs)]
    for law_rows in laws:
        law_rows /= law_rows.sum(axis=1, keepdims=True)
    return laws[0], laws[1]


def _walk(request: Request, replacement: bool) -> Walked:
    """Walk every request; the coin of a draft's node decides on that draft, the final coin draws the last token."""
    tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
    nodes = np.full_like(tokens, -1)
    nodes[:, 0] = 0
    depth = np.zeros(request.batch, np.int64)
    rest = np.empty((request.batch, request.vocab))
    live, at = np.arange(request.batch), np.zeros(request.batch, np.int64)
    while len(live):
        p, q = draft_rows(request, live, at)
        child = np.where(depth[live] < request.depth_limit - 1, request.retrieve_next_token[live, at], -1)
        accepted = np.full(len(live), -1, np.int64)
        trying = np.flatnonzero(child >= 0)
        while len(trying):
            rows, draft = live[trying], child[trying]
            token = request.candidates[rows, draft]
            accept = request.coins[rows, draft] * q[trying, token] < p[trying, token]
            accepted[trying[accept]] = draft[accept]
            trying, token, draft = trying[~accept], token[~accept], draft[~accept]
            residual = p[trying]
            residual -= q[trying]
            np.maximum(residual, 0.0, out=residual)
            residual /= residual.sum(axis=1, keepdims=True)
            p[trying] = residual
            if not replacement:
                q[trying, token] = 0.0
                left = q[trying].sum(axis=1, keepdims=True)
                q[trying] /= np.where(left > 0.0, left, 1.0)
            child[trying] = request.retrieve_next_sibling[live[trying], draft]
            trying = trying[child[trying] >= 0]
        stays = accepted < 0
        rest[live[stays]] = p[stays]
        live, at = live[~stays], accepted[~stays]
        tokens[live, depth[live]] = request.candidates[live, at]
        depth[live] += 1
        nodes[live, depth[live]] = at
    tokens[np.arange(request.batch), depth] = draw(rest, request.final_coins)
    return Walked(tokens, depth + 1, nodes)


def _rule(name: str, drafts: Literal["replacement", "no-replacement"], shape: Literal["tree", "chain"]) -> Rule:
    walk: Callable[[Request], Walked] = lambda request: _walk(request, drafts == "replacement")  # noqa: E731
    return Rule(name, law, walk, shape=shape, drafts=drafts)


REJECTION = _rule("rejection", "replacement", "chain")
REJECTION_REPLACEMENT = _rule("rejection-replacement", "replacement", "tree")
REJECTION_NO_REPLACEMENT = _rule("rejection-no-replacement", "no-replacement", "tree")
