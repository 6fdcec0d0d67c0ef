"""The case that an argument of a command names."""

from __future__ import annotations

from ..case import Case
from ..casefile import load
from ..selection import find, is_file

__all__ = ["named"]


def named(name: str, suite_name: str) -> Case:
    """Return the case of a file, or the one of a suite with this name; a UsageError where there is none."""
    if is_file(name):
        return load(name)
    from cases.catalogue import suite

    return find(suite(suite_name), name)
