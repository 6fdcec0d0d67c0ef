"""Samplers that draw their own drafts on a chain, with noise of their own.

They draw all drafts of a call at once, position i from row i of the draft law, so that no row may depend on a token
drawn before it. Their cases have law rows by position instead of by token path: position i of a chain has the laws of
state i of the case, modulo its number of states. The chain rules' exact laws hold all the same, since a case of
:data:`.redraw.POSITIONAL` states walks through them in a fixed order, whatever the tokens.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .case import Case
from .groups import Group
from .redraw import POSITIONAL, next_state
from .request import Request
from .samplers.base import Verifier
from .validate import Expected, drafted

__all__ = ["by_position", "put_drafts"]


def by_position(group: Group) -> Group:
    """Return the same chains with law rows by position, node i at position i."""
    return Group(group.name, tuple(_by_position(case) for case in group.cases))


def _by_position(case: Case) -> Case:
    rows, state = np.zeros(POSITIONAL, np.int64), 0
    for position in range(POSITIONAL - 1):  # a cycle; the last state leads to itself
        rows[state] = position % case.states
        state = next_state(state, 0, POSITIONAL)
    assert case.draft is not None
    return replace(
        case,
        tree=case.tree.renumbered(np.argsort(case.tree.order)),
        logits=case.logits[rows],
        probs=None if case.probs is None else case.probs[rows],
        draft=case.draft[rows],
    )


def put_drafts(verifier: Verifier, request: Request) -> None:
    """Have the sampler draw the drafts of ``request`` and write them into its candidates.

    What it is given is a copy without drafts, token 0 in their place.

    Raises
    ------
    BrokenResult
        What it returned are no drafts.
    """
    given = request.take(np.arange(request.batch))
    given.candidates[:, 1:] = 0
    expected = Expected.of(given)
    drafts = drafted(verifier.draft(given), expected)  # type: ignore[attr-defined]
    real = np.arange(1, request.nodes) < expected.node_count[:, None]
    request.candidates[:, 1:][real] = drafts[real]
