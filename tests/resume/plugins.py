"""Verifiers for these tests; they note in $CHITREE_TEST_FOLDER/calls which V each call has."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

from harness import Request
from harness.rules import RULES

__all__ = ["Biased", "DiesAtFive", "Notes", "Slow"]


class Notes:
    """The reference walk: right."""

    rule = "target-only"
    coins = True

    def verify(self, request: Request) -> Any:
        with open(Path(os.environ["CHITREE_TEST_FOLDER"], "calls"), "a") as file:
            file.write(f"{request.vocab}\n")
        return RULES["target-only"].walk(request)


class DiesAtFive(Notes):
    """Is killed at V = 5, as long as there is a file of this name."""

    def verify(self, request: Request) -> Any:
        if request.vocab == 5 and Path(os.environ["CHITREE_TEST_FOLDER"], "die").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return super().verify(request)


class Biased(Notes):
    """Emits a token at V = 5 that is impossible."""

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        if request.vocab == 5:
            result.tokens[:, 0] = 4
            result.lengths[:] = 1
            result.tokens[:, 1:] = -1
            result.nodes = None
        return result


class Slow(Notes):
    """Takes a twentieth of a second a call."""

    def verify(self, request: Request) -> Any:
        time.sleep(0.05)
        return super().verify(request)
