"""Calls of a plan as a worker serves them: what each emits as rows, the case of each row first."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .decode.decoder import Decoder
from .decode.sequences import Batch, SequencePlan
from .groups import Plan
from .pairs import FirstTokens
from .request import Request
from .samplers.base import Claims

__all__ = ["ManySteps", "SingleSteps"]

Ints = NDArray[np.int64]
Verify = Callable[[str, Request], Ints]
"""Takes the name of a call and its request; returns the emitted tokens, int64 [B, W], -1 beyond the end of each row."""
Draft = Callable[[str, Request], None]
"""Writes the drafts of a sampler that draws its own into the request."""

REPEATS = "the reproducibility call"


class SingleSteps:
    """The calls of a plan of single steps, a row a step."""

    def __init__(self, plan: Plan, claims: Claims, verify: Verify, draft: Draft | None) -> None:
        self.places = FirstTokens.of(plan.group, claims)
        self._plan = plan
        self._verify = verify
        self._draft = draft

    def rows(self, number: int) -> Ints:
        """Return what call ``number`` emits, int64 [B, 1 + W]."""
        return self._emitted(f"call {number}", *self._plan.call(number))

    def repeats(self) -> tuple[Ints, Ints]:
        """Return what the reproducibility call emits, and which rows of it are equal, int64 [P, 2]."""
        request, which, twins = self._plan.repeats()
        return self._emitted(REPEATS, request, which), twins

    def _emitted(self, call: str, request: Request, which: Ints) -> Ints:
        if self._draft is not None:
            self._draft(call, request)
        return np.column_stack([which, self._verify(call, request)])


class ManySteps:
    """The calls of a plan of many steps, a row a sequence; each takes several calls of verify."""

    def __init__(self, plan: SequencePlan, claims: Claims, verify: Verify, draft: Draft | None) -> None:
        self.places = FirstTokens.from_rows(plan.group.first_tokens(claims))
        self._plan = plan
        self._call = ""
        self._decoder = Decoder(
            plan.group,
            lambda request: verify(self._call, request),
            draft=None if draft is None else lambda request: draft(self._call, request),
        )

    def rows(self, number: int) -> Ints:
        """Return the sequences of call ``number``, int64 [Q, 1 + W]."""
        return self._decoded(f"call {number}", self._plan.batch(number))

    def repeats(self) -> tuple[Ints, Ints]:
        """Return the sequences of the reproducibility call, and which of them are equal, int64 [P, 2]."""
        batch, twins = self._plan.repeats()
        return self._decoded(REPEATS, batch), twins

    def _decoded(self, call: str, batch: Batch) -> Ints:
        self._call = call
        found = self._decoder.decode(batch)
        if found.faults:
            raise RuntimeError(f"decoding went wrong, which is no fault of the sampler: {found.first}")
        width = max(1, int((found.tokens >= 0).sum(axis=1).max()))
        return np.column_stack([batch.which, found.tokens[:, :width]])
