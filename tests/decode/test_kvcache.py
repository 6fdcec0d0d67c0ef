"""The paged KV cache against a plain one that has a dictionary a row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.decode.kvcache import PAGE_SIZE, PagedCache

ROWS, LENGTH = 4, 3 * PAGE_SIZE
ALL = np.arange(ROWS)
Steps = list[tuple[str, list[int]]]

lengths = st.lists(st.integers(0, LENGTH), min_size=ROWS, max_size=ROWS)
steps: st.SearchStrategy[Steps] = st.lists(st.tuples(st.sampled_from(["grow", "shrink"]), lengths), max_size=12)


@given(steps)
def test_what_was_written_is_read_back(taken: Steps) -> None:
    cache = PagedCache(ROWS, LENGTH)
    plain: list[dict[int, tuple[int, int]]] = [{} for _ in ALL]
    held = np.zeros(ROWS, np.int64)
    for number, (what, wanted) in enumerate(taken):
        limit = np.array(wanted)
        if what == "shrink":
            cache.truncate(ALL, limit)
            plain = [{o: v for o, v in row.items() if o < n} for row, n in zip(plain, wanted, strict=True)]
            held = np.minimum(held, limit)
            continue
        cache.reserve(ALL, limit)
        offsets = np.tile(np.arange(LENGTH), (ROWS, 1))
        real = (offsets >= held[:, None]) & (offsets < limit[:, None])
        tokens = 1000 * number + offsets
        cache.write(ALL, offsets, real, tokens, offsets + 7, ALL)
        for row, offset in np.argwhere(real).tolist():
            plain[row][offset] = (1000 * number + offset, offset + 7)
        held = np.maximum(held, limit)
    offsets = np.tile(np.arange(LENGTH), (ROWS, 1))
    tokens = cache.tokens(ALL, offsets)
    for row, known in enumerate(plain):
        for offset, (token, position) in known.items():
            assert tokens[row, offset] == token
            place = np.array([[offset]])
            at = np.array([row])
            assert cache.holds(at, place, np.array([[token]]), np.array([[position]]), at).all()
            assert not cache.holds(at, place, np.array([[token]]), np.array([[position]]), at + 1).any()
    pages = sum(-(-int(n) // PAGE_SIZE) for n in held)
    assert cache.free_pages == cache.pages - pages


@given(st.permutations(range(LENGTH)), st.integers(1, LENGTH))
def test_moves_are_made_all_at_once(source: list[int], count: int) -> None:
    cache = PagedCache(1, LENGTH)
    row, offsets = np.array([0]), np.arange(LENGTH)[None]
    cache.reserve(row, np.array([LENGTH]))
    cache.write(row, offsets, np.ones_like(offsets, bool), 100 + offsets, offsets, row)
    cache.move(row, np.array([source]), offsets, offsets < count)
    expected = [100 + s for s in source[:count]] + [100 + o for o in range(count, LENGTH)]
    assert cache.tokens(row, offsets)[0].tolist() == expected


def test_where_there_is_no_page_nothing_is_stored() -> None:
    cache = PagedCache(2, LENGTH)
    row, offsets = np.array([1]), np.arange(3)[None]
    cache.write(row, offsets, np.ones_like(offsets, bool), offsets, offsets, row)
    assert (cache.tokens(np.array([0, 1]), np.tile(offsets, (2, 1))) == -1).all()


def test_freed_pages_keep_their_contents_for_the_next_row() -> None:
    """So that reading a slot that was freed shows: production does not wipe it either."""
    cache = PagedCache(2, PAGE_SIZE)
    first, second, offsets = np.array([0]), np.array([1]), np.arange(PAGE_SIZE)[None]
    cache.reserve(first, np.array([PAGE_SIZE]))
    cache.write(first, offsets, np.ones_like(offsets, bool), 50 + offsets, offsets, first)
    cache.truncate(first, np.array([0]))
    cache.reserve(second, np.array([PAGE_SIZE]))
    assert cache.tokens(second, offsets)[0].tolist() == [50 + o for o in range(PAGE_SIZE)]
    assert not cache.holds(second, offsets, 50 + offsets, offsets, second).any()


def test_pages_that_were_lost_are_missed() -> None:
    cache = PagedCache(2, PAGE_SIZE)
    cache.reserve(np.array([0, 1]), np.full(2, PAGE_SIZE))
    cache._tables[0] = cache._nowhere  # the row forgets its page
    with pytest.raises(RuntimeError, match="pages were lost"):
        cache.reserve(np.array([0]), np.array([PAGE_SIZE]))
