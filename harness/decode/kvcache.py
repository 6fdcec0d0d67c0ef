"""A paged KV cache that is really indexed: each slot remembers the token, the position and the sequence that wrote it.

A row of the batch has a table of pages; offset o of it lies in slot o % PAGE_SIZE of its page number o // PAGE_SIZE.
Freed pages go on top of a stack and are the first to be taken again, their contents as they were: who reads a slot that
is no longer his finds another's token.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["PagedCache"]

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

PAGE_SIZE = 4


class PagedCache:
    """Slots for ``rows`` rows of at most ``length`` offsets each.

    In what follows ``rows`` is int64 [B], different rows; offsets and what is stored at them int64 [B, K]. Where a row
    has no page nothing is stored, and everything reads -1.
    """

    def __init__(self, rows: int, length: int) -> None:
        pages = -(-length // PAGE_SIZE)
        self._free = np.arange(rows * pages)[::-1].copy()
        self._left = len(self._free)
        self._nowhere = len(self._free)  # a page more, for what has none
        self._tables = np.full((rows, pages), self._nowhere, np.int64)
        self._slots = np.full((3, (self._nowhere + 1) * PAGE_SIZE), -1, np.int64)

    @property
    def free_pages(self) -> int:
        """Number of pages that no row has."""
        return self._left

    @property
    def pages(self) -> int:
        """Number of pages."""
        return len(self._free)

    def reserve(self, rows: Ints, lengths: Ints) -> None:
        """Give each row the pages that it lacks for its first ``lengths`` [B] offsets."""
        tables = self._tables[rows]
        wanted = np.arange(tables.shape[1]) < -(-lengths // PAGE_SIZE)[:, None]
        at, page = np.nonzero(wanted & (tables == self._nowhere))
        if len(at) > self._left:
            raise RuntimeError(f"the KV cache has {self._left} pages left, {len(at)} are wanted: pages were lost")
        self._left -= len(at)
        self._tables[rows[at], page] = self._free[self._left : self._left + len(at)]

    def truncate(self, rows: Ints, lengths: Ints) -> None:
        """Free the pages of each row beyond its first ``lengths`` [B] offsets."""
        tables = self._tables[rows]
        beyond = np.arange(tables.shape[1]) >= -(-lengths // PAGE_SIZE)[:, None]
        at, page = np.nonzero(beyond & (tables != self._nowhere))
        freed = tables[at, page]
        if self._left + len(freed) > len(self._free):
            raise RuntimeError("pages of the KV cache are freed twice")
        self._free[self._left : self._left + len(freed)] = freed
        self._left += len(freed)
        self._tables[rows[at], page] = self._nowhere

    def write(self, rows: Ints, offsets: Ints, real: Bools, token: Ints, position: Ints, owner: Ints) -> None:
        """Store token, position [B, K] and owner [B] at the offsets that are ``real`` [B, K]."""
        slots = self._where(rows, offsets)[real]
        stored = (token, position, np.broadcast_to(owner[:, None], real.shape))
        for part, value in zip(self._slots, stored, strict=True):
            part[slots] = value[real]
        self._clear()

    def tokens(self, rows: Ints, offsets: Ints) -> Ints:
        """Return the tokens at offsets."""
        found: Ints = self._slots[0][self._where(rows, offsets)]
        return found

    def holds(self, rows: Ints, offsets: Ints, token: Ints, position: Ints, owner: Ints) -> Bools:
        """Return whether just these are stored at the offsets; ``owner`` is [B]."""
        slots = self._where(rows, offsets)
        tokens, positions, owners = self._slots
        same: Bools = (tokens[slots] == token) & (positions[slots] == position) & (owners[slots] == owner[:, None])
        return same

    def move(self, rows: Ints, source: Ints, target: Ints, real: Bools) -> None:
        """Copy what is stored at offsets ``source`` to offsets ``target``, all at once, where ``real``."""
        at = np.nonzero(real)
        from_slots, to_slots = (self._where(rows[at[0]], offsets[at][:, None]) for offsets in (source, target))
        self._slots[:, to_slots] = self._slots[:, from_slots]
        self._clear()

    def _where(self, rows: Ints, offsets: Ints) -> Ints:
        """Return the slots of offsets."""
        return self._tables[rows[:, None], offsets // PAGE_SIZE] * PAGE_SIZE + offsets % PAGE_SIZE

    def _clear(self) -> None:
        """Let nothing be stored where there is no page."""
        self._slots[:, -PAGE_SIZE:] = -1
