"""Errors that end a command with one clear line, and the exit code of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["ChitreeError", "Unavailable", "Unwritten", "UsageError", "told"]


class ChitreeError(Exception):
    """Base of all errors that chitree raises on purpose; its text is shown to the user as it is."""

    exit_code = 2


class UsageError(ChitreeError):
    """Bad input: no such thing, out of range, malformed, or not there yet. Exit code 2."""

    exit_code = 2


class Unwritten(ChitreeError):
    """What a run found cannot be kept: no room, no folder, no rights. Exit code 3 unless a bias was found.

    ``results`` is what was found until then, where anything was.
    """

    exit_code = 3

    def __init__(self, path: object, error: OSError) -> None:
        super().__init__(f"{path}: cannot be written: {error.strerror or type(error).__name__}")
        self.results: Any = None


class Unavailable(ChitreeError):
    """Something asked for cannot run on this machine: no compiler, no network, no package. Exit code 3."""

    exit_code = 3


def told(part: Callable[[], str], otherwise: str, most: int = 500) -> str:
    """Return a part of what somebody else's error says: a line of at most so many letters, all of them printable.

    Such an error may raise again when it is looked at; then it is ``otherwise``.
    """
    try:
        words = " ".join(str.split(part()))[:most]
    except BaseException:
        return otherwise
    return "".join(c if c.isprintable() else "?" for c in words)
