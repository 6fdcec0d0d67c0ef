"""Verifiers that break, or are not run on some cases; each stands alone, as a user's would."""

from __future__ import annotations

from pathlib import Path

from mine import Right


class Lossless(Right):
    """Right, and not run with thresholds below 1."""

    thresholds = False


class Raises(Right):
    """Raises an error."""

    def verify(self, request):  # type: ignore[no-untyped-def]
        raise ValueError("no such kernel")


class Unmakeable(Right):
    """Cannot be made."""

    def __init__(self) -> None:
        raise RuntimeError("no device")


class MadeOnce(Right):
    """Can be made in one process alone."""

    def __init__(self) -> None:
        if not Path("made").exists():
            Path("made").touch()
            return
        raise RuntimeError("the device is gone")


class Unclear(Right):
    """Claims a rule that is none."""

    rule = "best-effort"
