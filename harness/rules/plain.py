"""Rule plain: no drafts; the step emits one token from the root's law."""

from __future__ import annotations

import numpy as np

from ..case import Case
from ..draw import draw
from ..law import Law, LawBuilder
from ..request import Request
from .base import Floats, Rule, Walked

__all__ = ["PLAIN"]


def law(case: Case, rows: Floats | None = None) -> Law:
    """Return the law of ``case``: the root's row."""
    builder = LawBuilder(case.depth_limit)
    builder.add(-1, -1, 0, 1.0, (case.law_rows if rows is None else rows)[0])
    return builder.build()


def walk(request: Request) -> Walked:
    """Draw the token of each request with its final coin."""
    tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
    tokens[:, 0] = draw(request.target_probs[:, 0].astype(np.float64), request.final_coins)
    nodes = np.full_like(tokens, -1)
    nodes[:, 0] = 0
    return Walked(tokens, np.ones(request.batch, np.int64), nodes)


PLAIN = Rule("plain", law, walk, shape="root")
