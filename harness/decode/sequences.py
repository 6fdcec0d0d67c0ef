"""Cases of many steps: requests of a group are decoded together, and the sequences held against their exact law.

A group is what it is for single steps: cases of equal shape, each row of a batch one of them. What counts is a whole
decoded sequence; a call decodes as many of them as a call of single steps has rows, with the calls of verify that this
takes. Streams, shards and counts are those of single steps in all else.
"""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..alike import Alike
from ..case import Case
from ..claimed import Unstated
from ..dtypes import Dtype
from ..filters import SamplingParams
from ..groups import Plan, Shard, rows_that_divide, shards_of, twice
from ..law import Law
from ..margins import claimed_rows
from ..samplers.base import Claims
from ..streams import coins, stream
from ..tree import Tree
from .drafting import Drawn, TreeTable, draft_laws
from .markov import sequence_law, state

__all__ = ["AnyPlan", "Batch", "SequenceCase", "SequenceGroup", "SequencePlan"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

CALLS_PER_SHARD = 8
LARGEST_BATCH = 8192
"""Sequences of a call; so many are decoded that half of them are under way at a time."""
STEPS = 4
"""Of a sequence, about."""
SEEDS = 2**31
SPREAD = 0x2545F491
"""Odd, so that multiples of it are different seeds."""


@dataclass(frozen=True, eq=False)
class SequenceCase:
    """One request that is decoded to its end, many times.

    Parameters
    ----------
    name, rule : str
    logits : float32 [V^2, V]
        Raw target logits in each state, that is after each pair of tokens (:func:`.markov.state`).
    draft : float32 [V^2, V]
        The draft model's law in each state.
    trees : tuple of Tree
        The draft tree in each state; or the one shape of all, where drafts are drawn.
    how : Drawn
    prompt : tuple of int
        Two tokens at least.
    new_tokens : int
        The most that are decoded.
    eos : int or None
        A token that ends the sequence.
    params : SamplingParams
    nodes : int
        N: nodes of a tree, padding included. Default: those of the largest.
    depth_limit : int
        S of a step: at most S - 1 drafts are accepted. Default: as deep as the trees are.
    dtype : "float32", "float16" or "bfloat16"
        Format of the law rows that a sampler gets.

    Raises
    ------
    ValueError
        Naming the field, what was expected and what came.
    """

    name: str
    rule: str
    logits: Singles
    draft: Singles
    trees: tuple[Tree, ...]
    prompt: tuple[int, ...]
    new_tokens: int
    how: Drawn = "given"
    eos: int | None = None
    params: SamplingParams = field(default_factory=SamplingParams)
    nodes: int = 0
    depth_limit: int = 0
    dtype: Dtype = "float32"

    def __post_init__(self) -> None:
        vocab, largest = self.vocab, max(map(len, self.trees))
        deepest = max(int(tree.depth.max()) for tree in self.trees)
        object.__setattr__(self, "nodes", self.nodes or largest)
        object.__setattr__(self, "depth_limit", self.depth_limit or deepest + 1)
        if self.logits.shape != (vocab**2, vocab):
            raise ValueError(f"logits must have a row for each pair of tokens, got shape {self.logits.shape}")
        if len(self.trees) != (vocab**2 if self.how == "given" else 1):
            raise ValueError(f"trees must be one a state, or one where drafts are drawn, got {len(self.trees)}")
        if self.nodes < largest:
            raise ValueError(f"nodes must be at least the largest tree's {largest}, got {self.nodes}")
        if len(self.prompt) < 2 or min(self.prompt) < 0 or max(self.prompt) >= vocab:
            raise ValueError(f"prompt must be two tokens or more within [0, {vocab}), got {self.prompt}")
        if self.new_tokens < 1:
            raise ValueError(f"new_tokens must be at least 1, got {self.new_tokens}")
        if self.eos is not None and not 0 <= self.eos < vocab:
            raise ValueError(f"eos must be a token within [0, {vocab}) or None, got {self.eos}")

    @property
    def vocab(self) -> int:
        """Number of tokens V."""
        return int(self.logits.shape[-1])

    @cached_property
    def laws(self) -> Case:
        """The law rows of all states, as a sampler gets them."""
        return Case(
            self.name,
            self.rule,
            self.trees[0],
            self.logits,
            self.params,
            draft=self.draft,
            replacement=self.how != "no-replacement",
            dtype=self.dtype,
        )

    @cached_property
    def draft_laws(self) -> Singles:
        """What drafts are drawn from, float32 [R, V], in the sampler's format (:func:`.drafting.draft_laws`)."""
        return draft_laws(self.laws.draft_rows, self.how, self.trees[0])

    def law_rows(self, claims: Claims | None = None) -> Floats:
        """Return the target's laws, float64 [V^2, V], for a sampler of these claims; by default one that takes them.

        Raises
        ------
        Unstated
            Rounding decides on a token.
        """
        if claims is None or claims.semantics is None:
            return self.laws.law_rows
        given = claimed_rows(self.laws.target_logits, self.params, claims.semantics)
        if given.undecided.any():
            raise Unstated("tokens that rounding decides: no law of sequences can be stated")
        return given.rows

    def law(self, claims: Claims | None = None) -> Law:
        """Return the exact law of the sequences, for a sampler of these claims; raises Unstated."""
        return sequence_law(self.law_rows(claims), self.prompt, self.new_tokens, self.eos)

    threshold_single = threshold_acc = 1.0
    """No step has thresholds."""


@dataclass(frozen=True, eq=False)
class SequenceGroup(Alike):
    """Cases of equal rule, V, N, S and kind of drafts, decoded together.

    Raises
    ------
    ValueError
        Where two cases differ in one of these, or share a name.
    """

    name: str
    cases: tuple[SequenceCase, ...]

    def __post_init__(self) -> None:
        self.require("rule", "vocab", "nodes", "depth_limit", "how", "dtype")

    def __len__(self) -> int:
        return len(self.cases)

    @property
    def how(self) -> Drawn:
        """How the drafts of every case come about."""
        return self.cases[0].how

    @property
    def chains(self) -> bool:
        """Whether every tree is a chain of N nodes, of which no draft is beyond the depth limit."""
        trees = self.trees
        whole = self.nodes == self.depth_limit and bool((trees.node_count == self.nodes).all())
        return whole and bool((trees.depth.max(axis=1) == self.nodes - 1).all())

    @property
    def steps(self) -> int:
        """The most steps that a sequence can take."""
        return max(case.new_tokens for case in self.cases)

    def rounded(self, dtype: Dtype) -> SequenceGroup:
        """Return the group for a sampler that gets its law rows in ``dtype``."""
        if dtype == self.cases[0].dtype:
            return self
        return SequenceGroup(self.name, tuple(replace(case, dtype=dtype) for case in self.cases))

    def first_tokens(self, claims: Claims) -> Floats:
        """Return the laws of the first token of all cases, float64 [G, V]; uniform where one cannot be stated."""
        rows = np.full((len(self), self.vocab), 1.0 / self.vocab)
        for row, case in zip(rows, self.cases, strict=True):
            with contextlib.suppress(Unstated):
                row[:] = case.law_rows(claims)[state(case.prompt[-2], case.prompt[-1], case.vocab)]
        return rows

    @cached_property
    def trees(self) -> TreeTable:
        """The trees of all cases, those of one case together."""
        return TreeTable.stack([TreeTable.of(case.trees, self.nodes) for case in self.cases])

    @cached_property
    def target_logits(self) -> Singles:
        """Raw target logits of all cases, float32 [G V^2, V]."""
        return np.concatenate([case.laws.target_logits for case in self.cases])

    @cached_property
    def target_probs(self) -> Singles:
        """Target laws of all cases after the filters, float32 [G V^2, V]."""
        return np.concatenate([case.laws.target_probs for case in self.cases])

    @cached_property
    def draft_laws(self) -> Singles:
        """What drafts are drawn from, of all cases, float32 [G R, V]."""
        return np.concatenate([case.draft_laws for case in self.cases])


@dataclass(frozen=True, eq=False)
class Batch:
    """Sequences to decode, Q of them, with all the noise that is theirs: D steps at most, N nodes.

    Parameters
    ----------
    which : int64 [Q]
        The case of each.
    coins, final_coins : float32 [Q, D, N], [Q, D]
        Of the sequence's steps, one by one.
    noise : float64 [Q, D, N]
        Uniforms that drafts are drawn with.
    seeds : int64 [Q]
    rng : numpy.random.Generator
        For what belongs to a call of verify as a whole.
    """

    which: Ints
    coins: Singles
    final_coins: Singles
    noise: Floats
    seeds: Ints
    rng: np.random.Generator

    def __len__(self) -> int:
        return len(self.which)

    def take(self, source: Ints, rng: np.random.Generator) -> Batch:
        """Return the sequences of these numbers, int64 [K], which may come several times."""
        coins, noise = (self.coins[source], self.final_coins[source]), self.noise[source]
        return Batch(self.which[source], *coins, noise, self.seeds[source], rng)


@dataclass(frozen=True, eq=False)
class SequencePlan:
    """The calls of one group in one run; ``n`` sequences a case, the other parameters as of :class:`.groups.Plan`."""

    group: SequenceGroup
    suite: str
    seed: int
    n: int
    fixed: None = None

    @cached_property
    def rows_per_case(self) -> int:
        """Sequences of each case in a call: a power of two that divides n."""
        return rows_that_divide(self.n, LARGEST_BATCH // len(self.group), CALLS_PER_SHARD)

    @property
    def rows_per_call(self) -> int:
        """Rows of a call of verify."""
        return max(1, self.rows_per_case * len(self.group) // 2)

    @property
    def rows(self) -> int:
        """Rows of verify in all, before shrinking, about."""
        return self.n * len(self.group) * STEPS

    @property
    def calls(self) -> int:
        """Calls in all, before shrinking."""
        return self.n // self.rows_per_case

    def shards(self, shrink: int = 0) -> list[Shard]:
        """Return the shards of the first n / 2^shrink sequences, at least one call."""
        return shards_of(self.calls, shrink, CALLS_PER_SHARD)

    def batch(self, number: int) -> Batch:
        """Return the sequences of call ``number``; no two of a run have one seed."""
        group = self.group
        rng = stream("sequences", self.seed, self.suite, group.name, number)
        which = rng.permutation(np.repeat(np.arange(len(group)), self.rows_per_case))
        size, steps, nodes = len(which), group.steps, group.nodes
        first = int(stream("seeds", self.seed, self.suite, group.name).integers(SEEDS))
        drawn = group.how != "given"
        return Batch(
            which=which,
            coins=coins(rng, size, steps, nodes),
            final_coins=coins(rng, size, steps),
            noise=rng.random((size, steps, nodes) if drawn else (size, steps, 0)),
            seeds=(first + (number * size + np.arange(size)) * SPREAD) % SEEDS,
            rng=stream("sequence calls", self.seed, self.suite, group.name, number),
        )

    def repeats(self) -> tuple[Batch, Ints]:
        """Return the reproducibility call, whose sequences come twice, and the pairs of equal ones, int64 [Q // 2, 2].

        Equal in all that a request has of a row; the two are under way at different times, in other company.
        """
        batch = self.batch(self.calls)
        source, twins = twice(stream("repeats", self.seed, self.suite, self.group.name), len(batch))
        return batch.take(source, batch.rng), twins

    @property
    def digest(self) -> str:
        """A hash of all that the sequences follow from."""
        group = self.group
        sha = hashlib.sha256(repr((group.name, self.suite, self.seed, self.n)).encode(errors="surrogateescape"))
        for case in group.cases:
            shape = (case.name, case.rule, case.params, case.prompt, case.new_tokens, case.eos, case.how, case.dtype)
            sha.update(repr(shape).encode(errors="surrogateescape"))
        tables = (group.target_logits, group.target_probs, group.draft_laws)
        for array in (*tables, group.trees.tokens, group.trees.next_token, group.trees.next_sibling):
            sha.update(array.tobytes())
        return sha.hexdigest()


AnyPlan = Plan | SequencePlan
"""The calls of a group of single steps, or of many."""
