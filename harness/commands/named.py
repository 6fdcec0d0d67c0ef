"""The case that an argument of a command names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from ..case import Case
from ..casefile import load
from ..decode.sequences import SequenceCase
from ..law import Law
from ..rules import exact_law
from ..selection import find, is_file
from ..suite import Suite
from ..tree import Tree

__all__ = ["coins_of", "named", "named_law", "origin"]

COINS = 1 << 24
MOST_STEPS = 99


def named(name: str, suite_name: str) -> Case:
    """Return the case of a file, or the one of a suite with this name; a UsageError where there is none."""
    if is_file(name):
        return load(name)
    from cases.catalogue import suite

    return find(suite(suite_name), name)


def origin(case: Case | SequenceCase, name: str, suite_name: str) -> str:
    """Say of which suite a case is that ``name`` named, and in which others one of its name differs; no word of files.

    Suites may have different cases of one name, and commands different suites where none is named.
    """
    if is_file(name):
        return ""
    from cases.catalogue import SUITES, suite

    differ = [
        other
        for other in SUITES
        if other != suite_name and case.name in suite(other).all_names and not _same(case, suite(other))
    ]
    notes = (f"a case of this name in suite {other} differs: --suite {other}" for other in differ)
    return "; ".join([f"of suite {suite_name}", *notes])


def coins_of(name: str, suite_name: str, case: Case) -> list[str]:
    """Say with which coins a case is run, and what is right there; nothing where coins are random."""
    from cases.catalogue import suite

    members = [] if is_file(name) else [one for entry in suite(suite_name).coins for one in entry.members]
    for member in members:
        if member.name == case.name:
            coins = ", ".join(f"{node}: {_coin(coin)}" for node, coin in enumerate(member.coins)) or "0: 0"
            right = "what the law allows, token by token"
            if member.right is not None:
                right = f"a step whose first token is {' or '.join(map(str, member.right))}"
            final = _coin(member.final_coin)
            lines = [f"one step with fixed coins: of node {coins}, of the others 0; the final one {final}"]
            lines.append(f"right is {right}")
            return lines + ([f"verifiers need not take it: {member.outside}"] if member.outside else [])
    return []


def _coin(coin: float) -> str:
    """Return a coin as a part of 1, or by how much it is below 1."""
    steps = round((1.0 - coin) * COINS)
    return f"1 - {steps} * 2^-24" if 0 < steps <= MOST_STEPS else f"{coin:.9g}"


def _same(case: Case | SequenceCase, suite: Suite) -> bool:
    """Whether the case of the same name in another suite has the same fields."""
    other: Case | SequenceCase = suite.sequence_case(case.name) or suite.case(case.name)
    return type(other) is type(case) and all(
        _equal(getattr(case, name.name), getattr(other, name.name)) for name in fields(case)
    )


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tree) and isinstance(other, Tree):
        return _equal(one.tokens, other.tokens) and _equal(one.parents, other.parents)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def named_law(name: str, suite_name: str) -> tuple[Case | SequenceCase, Law]:
    """Return the case that ``name`` names and its exact law; a case of many steps too."""
    if not is_file(name):
        from cases.catalogue import suite

        many = suite(suite_name).sequence_case(name)
        if many is not None:
            return many, many.law()
    case = named(name, suite_name)
    return case, exact_law(case, name)
