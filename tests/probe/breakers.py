"""Verifiers that break while they are probed, and one that is none for a probe."""

from __future__ import annotations

import os
import signal

from harness import Request, Result


class Raises:
    """Raises in its second call."""

    rule = "target-only"
    coins = True
    calls = 0

    def verify(self, request: Request) -> Result:
        """Return one token a row, once."""
        self.calls += 1
        if self.calls > 1:
            raise ValueError("on purpose")
        return Result(request.candidates[:, :1].repeat(request.depth_limit, axis=1), request.node_count * 0 + 1)


class Dies(Raises):
    """Ends its process."""

    def verify(self, request: Request) -> Result:
        """Never return."""
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class NotByCoins(Raises):
    """Has noise of its own."""

    coins = False
