"""The stored covering arrays: as the library finds them, with nothing missing and no constraint broken."""

from __future__ import annotations

from itertools import combinations

import pytest

from cases.arrays import LARGE, SMALL, Extent, constraints_of, covering_array, factors, find_array

from .measure import every_rule
from .test_catalogue import TRIPLE, allowed, combinations_of

extents = pytest.mark.parametrize("extent", [SMALL, LARGE], ids=lambda extent: extent.name)


@every_rule
@extents
def test_stored_is_what_the_library_finds(rule: str, extent: Extent) -> None:
    columns = factors(rule, extent)
    found = [
        {name: columns[name][int(digit)] for name, digit in zip(sorted(columns), digits, strict=True)}
        for digits in find_array(rule, extent)
    ]
    assert list(covering_array(rule, extent)) == found


@every_rule
@extents
def test_every_row_has_a_known_value_of_every_factor_and_keeps_the_constraints(rule: str, extent: Extent) -> None:
    columns = factors(rule, extent)
    for row in covering_array(rule, extent):
        assert set(row) == set(columns)
        assert all(row[name] in columns[name] for name in columns)
        assert allowed(rule, row)


@every_rule
@extents
def test_every_allowed_pair_and_triple_is_in_a_row(rule: str, extent: Extent) -> None:
    rows = covering_array(rule, extent)
    names = sorted(factors(rule, extent))
    sets = [*combinations(names, 2), TRIPLE] if set(TRIPLE) <= set(names) else [*combinations(names, 2)]
    held = {tuple((name, row[name]) for name in some) for row in rows for some in sets}
    assert set(combinations_of(rule, extent)) <= held


@every_rule
def test_constraints_forbid_something(rule: str) -> None:
    """Else they are none; and what they forbid is in no array."""
    columns = factors(rule, LARGE)
    for names, holds in constraints_of(rule):
        if not set(names) <= set(columns):
            continue
        (one, *other) = names
        pairs = [
            {one: value, **({other[0]: second} if other else {})}
            for value in columns[one]
            for second in (columns[other[0]] if other else [""])
        ]
        assert not all(holds(pair) for pair in pairs)
