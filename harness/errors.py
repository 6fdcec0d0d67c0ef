"""Errors that end a command with one clear line, and the exit code of each."""

from __future__ import annotations

__all__ = ["ChitreeError", "Unavailable", "UsageError"]


class ChitreeError(Exception):
    """Base of all errors that chitree raises on purpose; its text is shown to the user as it is."""

    exit_code = 2


class UsageError(ChitreeError):
    """Bad input: no such thing, out of range, malformed, or not there yet. Exit code 2."""

    exit_code = 2


class Unavailable(ChitreeError):
    """Something asked for cannot run on this machine: no compiler, no network, no package. Exit code 3."""

    exit_code = 3
