"""What a verification rule is to the harness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..case import Case
from ..law import Law
from ..request import Request, Result

__all__ = ["Rule", "Walked"]

Ints = NDArray[np.int64]
Walked = Result[Ints]


@dataclass(frozen=True)
class Rule:
    """A verification rule: its exact law and a reference walk driven by the coins of a request.

    ``law`` takes a case and returns its :class:`Law`; ``walk`` takes a request and returns what a right verifier
    emits, tokens and nodes int64 [B, S], lengths int64 [B].
    """

    name: str
    law: Callable[[Case], Law]
    walk: Callable[[Request], Walked]
