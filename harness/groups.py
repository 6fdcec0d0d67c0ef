"""Cases of equal shape in groups; a group's calls, each a batch that mixes its cases, and their random streams.

Each row of a call is one of the group's cases, in a shuffled order, every case equally often: neighbours differ and
never in a periodic pattern, while one case recurs in many rows. The streams derive from the run's seed, the suite, the
group and the number of the call, so that a call is the same whoever runs it, and in whatever order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from .alike import Alike
from .case import Case
from .dtypes import Dtype, rounded
from .filters import softmax
from .redraw import redraw
from .request import Gather, Request
from .streams import coins, stream

__all__ = ["FixedCoins", "Group", "Plan", "Shard", "rows_that_divide", "shards_of", "twice"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Rng = np.random.Generator

CALLS_PER_SHARD = 64
LARGEST_BATCH = 4096
LARGEST_TABLE = 1 << 25
"""Bytes of one [B, N, V] field of a request: enough to amortise a call, small enough to allocate afresh each time."""


@dataclass(frozen=True, eq=False)
class Group(Alike):
    """Cases of equal rule, V, N, S and thresholds, run together.

    Raises
    ------
    ValueError
        Where two cases differ in one of these, or share a name.
    """

    name: str
    cases: tuple[Case, ...]

    def __post_init__(self) -> None:
        self.require("rule", "vocab", "nodes", "depth_limit", "threshold_single", "threshold_acc", "states", "dtype")

    @property
    def redrawn(self) -> bool:
        """Whether drafts are drawn afresh for every row."""
        return self.cases[0].draft is not None

    @property
    def rows(self) -> int:
        """Law rows of each case, R."""
        return self.cases[0].states or self.nodes

    def __len__(self) -> int:
        return len(self.cases)

    def rounded(self, dtype: Dtype) -> Group:
        """Return the group for a sampler that gets its law rows in ``dtype``."""
        if dtype == self.cases[0].dtype:
            return self
        return Group(self.name, tuple(replace(case, dtype=dtype) for case in self.cases))

    @cached_property
    def tables(self) -> Tables:
        """The cases as arrays from which requests are gathered."""
        return Tables.of(self)


@dataclass(frozen=True, eq=False)
class Tables:
    """Cases of a group as arrays: [G, N] for what a node has, [G * R, V] for law rows, [G] for what a case has.

    R is N, with a row of its own for each node, padding too; or the number of states where drafts are redrawn.
    """

    candidates: Ints
    parents: Ints
    next_token: Ints
    next_sibling: Ints
    node_count: Ints
    target_logits: Singles
    target_probs: Singles
    draft_probs: Singles | None
    temperature: Singles
    top_k: Ints
    top_p: Singles
    min_p: Singles

    @classmethod
    def of(cls, group: Group) -> Tables:
        """Return the tables of ``group``; padding has token 0 and arbitrary finite law rows."""
        size, nodes, vocab, rows = len(group), group.nodes, group.vocab, group.rows
        candidates, parents = np.zeros((size, nodes), np.int64), np.full((size, nodes), -1, np.int64)
        first, sibling = np.full_like(parents, -1), np.full_like(parents, -1)
        logits = np.empty((size, rows, vocab), np.float32)
        probs = np.empty_like(logits)
        for g, case in enumerate(group.cases):
            real = len(case.tree)
            candidates[g, :real] = case.tree.tokens
            parents[g, :real] = case.tree.parents
            first[g], sibling[g] = case.tree.links(nodes)
            given = len(case.logits)
            logits[g, :given], probs[g, :given] = case.target_logits, case.target_probs
            if given < rows:
                z = stream("padding", group.name, case.name).normal(0.0, 2.0, (rows - given, vocab))
                logits[g, given:], probs[g, given:] = rounded(z, case.dtype), rounded(softmax(z), case.dtype)
        params = [case.params for case in group.cases]
        drafts = [draft for case in group.cases if (draft := case.draft_probs) is not None]
        return cls(
            candidates=candidates,
            parents=parents,
            next_token=first,
            next_sibling=sibling,
            node_count=np.array([len(case.tree) for case in group.cases], np.int64),
            target_logits=logits.reshape(-1, vocab),
            target_probs=probs.reshape(-1, vocab),
            draft_probs=np.concatenate(drafts) if drafts else None,
            temperature=np.array([p.temperature for p in params], np.float32),
            top_k=np.array([p.top_k if 0 < p.top_k < vocab else vocab for p in params], np.int64),
            top_p=np.array([p.top_p for p in params], np.float32),
            min_p=np.array([p.min_p for p in params], np.float32),
        )


@dataclass(frozen=True)
class Shard:
    """Calls ``start`` to ``stop`` (not included) of a group, served one after the other by one fresh sampler."""

    start: int
    stop: int


def rows_that_divide(n: int, most: int, calls: int) -> int:
    """Return the largest power of two up to ``most`` that divides n draws into ``calls`` calls or more; 1 at least."""
    rows = 1
    while 2 * rows <= most and n % (2 * rows) == 0 and n >= 2 * rows * calls:
        rows *= 2
    return rows


def shards_of(calls: int, shrink: int, size: int) -> list[Shard]:
    """Return the shards of ``size`` calls of the first ``calls`` / 2^shrink ones, at least one."""
    calls = max(1, calls >> shrink)
    return [Shard(start, min(start + size, calls)) for start in range(0, calls, size)]


def twice(rng: Rng, size: int) -> tuple[Ints, Ints]:
    """Return numbers of rows, int64 [size], half of them coming twice, and where these stand, int64 [size // 2, 2]."""
    half = size // 2
    source = rng.permutation(np.concatenate([np.arange(size - half), np.arange(half)]))
    order = np.argsort(source, kind="stable")
    second = np.flatnonzero(source[order][1:] == source[order][:-1])
    return source, np.stack([order[second], order[second + 1]], axis=1)


@dataclass(frozen=True, eq=False)
class FixedCoins:
    """Coins that every row of a case gets instead of random ones: ``nodes`` float32 [G, N], ``final`` float32 [G]."""

    nodes: Singles
    final: Singles


@dataclass(frozen=True, eq=False)
class Plan:
    """The calls of one group in one run.

    Parameters
    ----------
    group : Group
    suite : str
        Name of the suite; part of the streams' names.
    seed : int
        Of the run.
    n : int
        Draws a case: a power of two, or a small multiple of one.
    fixed : FixedCoins or None
        Coins of each case, the same in every row of it.
    """

    group: Group
    suite: str
    seed: int
    n: int
    fixed: FixedCoins | None = None

    @cached_property
    def rows_per_case(self) -> int:
        """Rows of each case in a call: a power of two that divides n, bounded by the size of a batch and its tables."""
        group = self.group
        row_bytes = 4 * group.nodes * group.vocab
        most = min(LARGEST_BATCH, LARGEST_TABLE // row_bytes) // len(group)
        return rows_that_divide(self.n, most, CALLS_PER_SHARD)

    @property
    def rows_per_call(self) -> int:
        """Rows of a call of verify."""
        return self.rows_per_case * len(self.group)

    @property
    def rows(self) -> int:
        """Rows of verify in all, before shrinking."""
        return self.n * len(self.group)

    @property
    def calls(self) -> int:
        """Calls in all, before shrinking."""
        return self.n // self.rows_per_case

    def shards(self, shrink: int = 0) -> list[Shard]:
        """Return the shards of the first n / 2^shrink draws, at least one call."""
        return shards_of(self.calls, shrink, CALLS_PER_SHARD)

    def call(self, number: int) -> tuple[Request, Ints]:
        """Return call ``number``: the request of B rows and the case of each row, int64 [B]."""
        group, tables = self.group, self.group.tables
        rng = stream("call", self.seed, self.suite, group.name, number)
        which = rng.permutation(np.repeat(np.arange(len(group)), self.rows_per_case))
        batch, nodes = len(which), group.nodes
        candidates = tables.candidates[which]
        rows = which[:, None] * group.rows + np.arange(nodes) % group.rows
        if group.redrawn:
            self._redraw(number, which, candidates, rows)
        uniforms = (self.fixed.nodes[which], self.fixed.final[which]) if self.fixed else None
        uniforms = uniforms or (coins(rng, batch, nodes), coins(rng, batch))
        return self.request(which, candidates, rows, uniforms, rng, number), which

    def request(
        self, which: Ints, candidates: Ints, rows: Ints, uniforms: tuple[Singles, Singles], rng: Rng, number: int
    ) -> Request:
        """Return call ``number`` for rows of cases ``which`` int64 [B].

        Parameters
        ----------
        candidates, rows : int64 [B, N]
            Token and law row of each node.
        uniforms : float32 [B, N] and [B]
            The coins of the nodes, and the final ones.
        rng : numpy.random.Generator
            For the seed of the call.
        """
        tables, batch, nodes = self.group.tables, len(which), self.group.nodes
        first = self.group.cases[0]
        return Request(
            candidates=candidates,
            parents=tables.parents[which],
            node_count=tables.node_count[which],
            retrieve_index=np.arange(batch * nodes, dtype=np.int64).reshape(batch, nodes),
            retrieve_next_token=tables.next_token[which],
            retrieve_next_sibling=tables.next_sibling[which],
            depth_limit=first.depth_limit,
            target_logits=Gather(tables.target_logits, rows),
            target_probs=Gather(tables.target_probs, rows),
            draft_probs=None if tables.draft_probs is None else Gather(tables.draft_probs, rows),
            temperature=tables.temperature[which],
            top_k=tables.top_k[which],
            top_p=tables.top_p[which],
            min_p=tables.min_p[which],
            threshold_single=first.threshold_single,
            threshold_acc=first.threshold_acc,
            coins=uniforms[0],
            final_coins=uniforms[1],
            seed=int(rng.integers(2**31)),
            seeds=np.resize(np.repeat(self._seeds, 2), batch),
            positions=1 + number * batch + np.arange(batch, dtype=np.int64),
            dtype=first.dtype,
        )

    @cached_property
    def _seeds(self) -> Ints:
        """Seeds of requests, int64 [B / 2]: two neighbouring rows have one, and keep it from call to call.

        So a sampler that goes by the seed and forgets the position gives itself away.
        """
        batch = self.rows_per_case * len(self.group)
        return stream("seeds", self.seed, self.suite, self.group.name).integers(2**31, size=(batch + 1) // 2)

    def repeats(self) -> tuple[Request, Ints, Ints]:
        """Return the reproducibility call, in which rows come twice, equal in all that a request has of a row.

        Returns
        -------
        request : Request
            Of B rows, of which no draws are counted.
        which : int64 [B]
            The case of each row.
        twins : int64 [B // 2, 2]
            Pairs of equal rows.
        """
        request, which = self.call(self.calls)
        source, twins = twice(stream("repeats", self.seed, self.suite, self.group.name), len(which))
        return request.take(source), which[source], twins

    def _redraw(self, number: int, which: Ints, candidates: Ints, rows: Ints) -> None:
        """Draw the drafts of a call, case by case; writes tokens and law rows of the real nodes in place."""
        group = self.group
        rng = stream("drafts", self.seed, self.suite, group.name, number)
        for g, case in enumerate(group.cases):
            draft = case.draft_probs
            assert draft is not None
            mine, real = np.flatnonzero(which == g), len(case.tree)
            tokens, states = redraw(rng, case.tree, draft, len(mine), case.replacement)
            candidates[mine, :real] = tokens
            rows[mine, :real] = g * group.rows + states

    def requests(self, shard: Shard) -> Iterator[tuple[Request, Ints]]:
        """Yield the calls of a shard in order."""
        for number in range(shard.start, shard.stop):
            yield self.call(number)
