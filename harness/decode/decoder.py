"""Decoding a batch of sequences to their ends, step by step.

One step: draft trees, a forward pass of the target over their nodes, verify, and the commit. Rows of the batch are
slots, as in a server: a sequence that ends leaves its row, its KV pages and its place in all buffers to the next one
that waits. Every part of the step can be exchanged (:class:`Parts`), which is how faults are put in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..request import Gather, Request
from ..samplers.base import Verifier
from ..validate import Expected, emitted
from .commit import Cut, Verified, committed, compact, cut, verified
from .drafting import Drafted, draw_drafts, law_index
from .kvcache import PagedCache
from .markov import state
from .sequences import SEEDS, Batch, SequenceGroup

__all__ = ["Decoded", "Decoder", "Noise", "Parts", "verifying"]

Ints = NDArray[np.int64]
Singles = NDArray[np.float32]
Verify = Callable[[Request], Ints]

POSITIONS = 1 << 20
"""A hidden state is its state of the chain times this, plus its position."""


@dataclass(frozen=True, eq=False)
class Noise:
    """The coins of one step: float32 [B, N] and [B]."""

    coins: Singles
    final_coins: Singles


def fresh(batch: Batch, sequences: Ints, steps: Ints, before: Noise, at: Ints) -> Noise:
    """Return the coins of each sequence's next step, which no step had before.

    Parameters
    ----------
    batch : Batch
    sequences, steps : int64 [B]
        Which sequences, and how many steps each has had.
    before : Noise
        What the rows of the batch had in the step before, whosesoever it was.
    at : int64 [B]
        The node at which that step of the row ended.
    """
    return Noise(batch.coins[sequences, steps], batch.final_coins[sequences, steps])


def real_nodes(candidates: Ints, node_count: Ints) -> Ints:
    """Return how many of the nodes of each tree are no padding, int64 [B]."""
    return node_count


def path_states(states: Ints, kept: Ints) -> Ints:
    """Return the hidden states of kept nodes [B, W] out of those of all nodes [B, N]; -1 where there is no node."""
    return np.where(kept >= 0, np.take_along_axis(states, np.maximum(kept, 0), axis=1), -1)


@dataclass(frozen=True)
class Parts:
    """What a step consists of; each part by default the right one, of the signature that the default has."""

    noise: Callable[[Batch, Ints, Ints, Noise, Ints], Noise] = fresh
    count: Callable[[Ints, Ints], Ints] = real_nodes
    verified: Callable[[Drafted, Ints], Verified] = verified
    committed: Callable[[Drafted, Verified], Ints] = committed
    cut: Callable[[Ints, Ints, Ints, Ints], Cut] = cut
    compact: Callable[[PagedCache, Ints, Ints, Ints, Ints], None] = compact
    hidden: Callable[[Ints, Ints], Ints] = path_states


@dataclass(eq=False)
class Decoded:
    """Decoded sequences.

    ``tokens`` int64 [Q, W] are those after the prompt, -1 beyond the end. ``steps`` int64 [Q] is how many verify steps
    each took, ``accepted`` how many drafts were accepted in all. ``faults`` counts what the checks of KV, hidden states
    and pages found, and ``first`` says where each was found first; both are empty where decoding is right.
    """

    tokens: Ints
    steps: Ints
    accepted: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    first: dict[str, str] = field(default_factory=dict)


def verifying(verifier: Verifier) -> Verify:
    """Return a function that has ``verifier`` verify a request and returns the emitted tokens of a checked result."""

    def verify(request: Request) -> Ints:
        expected = Expected.of(request)
        return emitted(verifier.verify(request), expected)

    return verify


class Decoder:
    """Decodes batches of one group.

    Parameters
    ----------
    group : SequenceGroup
    verify : callable
        Takes a request and returns the emitted tokens, int64 [B, W], -1 beyond the end of each row.
    parts : Parts or None
        Of a step; None: the right ones.
    draft : callable or None
        Writes the drafts into a request's candidates, for samplers that draw their own; chains by position only.
    check : bool
        Whether KV cache and hidden states are read back after every step.
    """

    def __init__(
        self,
        group: SequenceGroup,
        verify: Verify,
        parts: Parts | None = None,
        *,
        draft: Callable[[Request], None] | None = None,
        check: bool = True,
    ) -> None:
        self.group = group
        self.verify = verify
        self.parts = parts or Parts()
        self.draft = draft
        self.check = check
        cases, vocab = group.cases, group.vocab
        self.prompt = np.array([len(case.prompt) for case in cases])
        self.most = np.array([case.new_tokens for case in cases])
        self.eos = np.array([-1 if case.eos is None else case.eos for case in cases])
        self.width = int((self.prompt + self.most).max()) + group.nodes + 2
        self.prompts = np.zeros((len(cases), self.width), np.int64)
        for g, case in enumerate(cases):
            self.prompts[g, : len(case.prompt)] = case.prompt
        params = [case.params for case in cases]
        self.temperature = np.array([p.temperature for p in params], np.float32)
        self.top_k = np.array([p.top_k if 0 < p.top_k < vocab else vocab for p in params], np.int64)
        self.top_p = np.array([p.top_p for p in params], np.float32)
        self.min_p = np.array([p.min_p for p in params], np.float32)
        self.drawn_from = group.draft_laws.astype(np.float64)

    def decode(self, batch: Batch, rows: int | None = None) -> Decoded:
        """Decode ``batch`` with at most ``rows`` sequences under way at a time; default: half of them."""
        run = _Run(self, batch, rows or max(1, len(batch) // 2))
        while len(run.live):
            run.step()
        return run.decoded()

    def request(self, g: Ints, drafted: Drafted, root: Ints, states: Ints, noise: Noise, **rest: Any) -> Request:
        """Return the request of a step: fresh arrays, law rows gathered when they are asked for.

        ``g`` int64 [B] is the case of each row, ``root`` and ``states`` the states at the roots and at all nodes.
        """
        group = self.group
        size, nodes = states.shape
        rows = g[:, None] * group.vocab**2 + states
        drawn = g[:, None] * len(group.cases[0].draft_laws) + law_index(group.how, root, states)
        return Request(
            candidates=drafted.candidates.copy(),
            parents=drafted.parents.copy(),
            node_count=drafted.node_count.copy(),
            retrieve_index=np.arange(size * nodes, dtype=np.int64).reshape(size, nodes),
            retrieve_next_token=drafted.next_token.copy(),
            retrieve_next_sibling=drafted.next_sibling.copy(),
            depth_limit=group.depth_limit,
            target_logits=Gather(group.target_logits, rows),
            target_probs=Gather(group.target_probs, rows),
            draft_probs=None if group.how == "given" else Gather(group.draft_laws, drawn),
            temperature=self.temperature[g],
            top_k=self.top_k[g],
            top_p=self.top_p[g],
            min_p=self.min_p[g],
            threshold_single=1.0,
            threshold_acc=1.0,
            coins=noise.coins.copy(),
            final_coins=noise.final_coins.copy(),
            dtype=group.cases[0].dtype,
            **rest,
        )


class _Run:
    """One batch under way: ``live`` are the rows in use, int64 [B], and ``sequence`` whose each row is."""

    def __init__(self, decoder: Decoder, batch: Batch, rows: int) -> None:
        group = decoder.group
        self.decoder = decoder
        self.batch = batch
        self.tokens = decoder.prompts[batch.which]
        self.length = decoder.prompt[batch.which]
        self.hidden = np.full_like(self.tokens, -1)
        self.cache = PagedCache(rows, decoder.width)
        self.sequence = np.full(rows, -1, np.int64)
        self.live = np.zeros(0, np.int64)
        self.waiting = 0
        self.before = Noise(np.zeros((rows, group.nodes), np.float32), np.zeros(rows, np.float32))
        self.ended_at = np.zeros(rows, np.int64)
        self.found = Decoded(np.zeros((0, 0), np.int64), np.zeros(len(batch), np.int64))
        self.admit(np.arange(rows))

    def admit(self, rows: Ints) -> None:
        """Give free rows to the sequences that wait, and fill in the KV and hidden states of their prompts."""
        rows = rows[: len(self.batch) - self.waiting]
        self.sequence[rows] = q = self.waiting + np.arange(len(rows))
        self.waiting += len(rows)
        self.live = np.flatnonzero(self.sequence >= 0)
        if not len(rows):
            return
        known = self.length[q] - 1  # the last token of the prompt is the root of the first tree
        offsets = np.tile(np.arange(known.max()), (len(rows), 1))
        real = offsets < known[:, None]
        tokens = self.tokens[q, : offsets.shape[1]]
        self.cache.reserve(rows, known)
        self.cache.write(rows, offsets, real, tokens, offsets, q)
        before = np.pad(tokens, ((0, 0), (1, 0)))[:, :-1]
        self.hidden[q, : offsets.shape[1]] = np.where(real, self.code(before, tokens, offsets), -1)

    def code(self, before: Ints, token: Ints, position: Ints) -> Ints:
        """Return the hidden states of tokens at positions, each after another token."""
        return state(before, token, self.decoder.group.vocab) * POSITIONS + position

    def step(self) -> None:
        """Take every sequence under way one step further."""
        decoder, group, parts, live = self.decoder, self.decoder.group, self.decoder.parts, self.live
        q = self.sequence[live]
        g, length, steps = self.batch.which[q], self.length[q], self.found.steps[q]
        base = length - 1  # offset and position of the root
        noise = parts.noise(self.batch, q, steps, self.last(live), self.ended_at[live])
        seed = int(self.batch.rng.integers(SEEDS))
        rest = {"seed": seed, "seeds": self.batch.seeds[q], "positions": length.copy()}

        # Draft: the draft model knows the hidden state of the last token with KV, and the token after it.
        root = state(self.hidden[q, base - 1] // POSITIONS % group.vocab, self.tokens[q, base], group.vocab)
        drafted = self.draft(q, g, root, steps, noise, rest)

        # Forward: the KV of every node is written, and what a node stands on is read.
        nodes = np.tile(np.arange(group.nodes), (len(live), 1))
        offsets, positions = base[:, None] + nodes, base[:, None] + drafted.depth
        self.cache.reserve(live, base + drafted.node_count)
        real = nodes < drafted.node_count[:, None]
        self.cache.write(live, offsets, real, drafted.candidates, positions, q)
        above = np.where(drafted.parents < 0, base[:, None] - 1, base[:, None] + drafted.parents)
        states = self.states(self.cache.tokens(live, above), drafted.candidates)

        # Verify, and derive from the tokens what follows.
        request = decoder.request(g, drafted, root, states, noise, **rest)
        step = parts.verified(drafted, decoder.verify(request))
        tokens = parts.committed(drafted, step)
        room = decoder.most[g] - (length - decoder.prompt[g])
        taken = parts.cut(tokens, step.commit_lens_cpu, decoder.eos[g], room)

        # Commit tokens, KV and hidden states.
        at, column = np.nonzero(np.arange(tokens.shape[1]) < taken.lengths[:, None])
        self.tokens[q[at], length[at] + column] = tokens[at, column]
        self.length[q] = length + taken.lengths
        counts = np.minimum(step.num_accepted_drafts_per_req_cpu + 1, taken.lengths)
        parts.compact(self.cache, live, base, step.kept_per_req, counts)
        hidden = parts.hidden(states * POSITIONS + positions, step.kept_per_req)
        at, column = np.nonzero(np.arange(hidden.shape[1]) < counts[:, None])
        self.hidden[q[at], base[at] + column] = hidden[at, column]
        if decoder.check:
            self.read_back(live, q, np.where(taken.ends, 0, base))

        # Sequences that end make room.
        self.found.steps[q] += 1
        self.found.accepted += int(step.num_accepted_drafts_per_req_cpu.sum())
        self.before.coins[live], self.before.final_coins[live] = noise.coins, noise.final_coins
        last = np.minimum(step.num_accepted_drafts_per_req_cpu, step.kept_per_req.shape[1] - 1)
        self.ended_at[live] = np.maximum(step.kept_per_req[np.arange(len(live)), last], 0)
        ended = live[taken.ends | step.astray]
        self.cache.truncate(ended, np.zeros(len(ended), np.int64))
        self.sequence[ended] = -1
        self.admit(ended)

    def last(self, rows: Ints) -> Noise:
        """Return the coins that these rows had in the step before."""
        return Noise(self.before.coins[rows], self.before.final_coins[rows])

    def states(self, before: Ints, tokens: Ints) -> Ints:
        """Return the state at nodes of these tokens after what KV says; token 0 for what is not there."""
        return state(np.maximum(before, 0), tokens, self.decoder.group.vocab)

    def draft(self, q: Ints, g: Ints, root: Ints, steps: Ints, noise: Noise, rest: dict[str, Any]) -> Drafted:
        """Return the draft trees of sequences ``q`` of cases ``g`` with these states at their roots."""
        decoder, group, trees = self.decoder, self.decoder.group, self.decoder.group.trees
        given = group.how == "given"
        rows = g * group.vocab**2 + root if given else g
        candidates = trees.tokens[rows]
        if not given:
            tree, size = group.cases[0].trees[0], len(group.cases[0].trees[0])
            offset = g * len(group.cases[0].draft_laws)
            drawn_from = decoder.drawn_from
            candidates[:, :size] = draw_drafts(group.how, tree, drawn_from, root, offset, self.batch.noise[q, steps])
        drafted = Drafted(
            candidates,
            trees.parents[rows],
            trees.next_token[rows],
            trees.next_sibling[rows],
            trees.depth[rows],
            decoder.parts.count(candidates, trees.node_count[rows]),
        )
        if decoder.draft is not None:
            states = self.states(np.zeros_like(candidates), candidates)
            request = decoder.request(g, drafted, root, states, noise, **rest)
            decoder.draft(request)
            candidates[:] = request.candidates
        return drafted

    def read_back(self, rows: Ints, q: Ints, start: Ints) -> None:
        """Check that KV and hidden states are those of the committed sequence, from ``start`` on.

        The last token has none yet.
        """
        known = self.length[q] - 1
        offsets = start[:, None] + np.arange((known - start).max())
        real = offsets < known[:, None]
        offsets = np.where(real, offsets, 0)
        tokens = self.tokens[q[:, None], offsets]
        before = np.where(offsets > 0, self.tokens[q[:, None], np.maximum(offsets - 1, 0)], 0)
        wrong = {
            "kv": real & ~self.cache.holds(rows, offsets, tokens, offsets, q),
            "hidden": real & (self.hidden[q[:, None], offsets] != self.code(before, tokens, offsets)),
        }
        for kind, places in wrong.items():
            if places.any():
                row, column = np.argwhere(places)[0]
                where = f"sequence {q[row]}, position {offsets[row, column]} of {known[row]}"
                self.fault(kind, int(places.sum()), where)

    def fault(self, kind: str, count: int, where: str) -> None:
        """Take note of a fault."""
        self.found.faults[kind] = self.found.faults.get(kind, 0) + count
        self.found.first.setdefault(kind, where)

    def decoded(self) -> Decoded:
        """Return what was decoded, once no sequence is under way."""
        lost = self.cache.pages - self.cache.free_pages
        if lost:
            self.fault("pages", lost, f"{lost} pages of {self.cache.pages} were not given back")
        start = self.decoder.prompt[self.batch.which]
        place = np.arange(int(self.decoder.most.max()) + 1)
        tokens = self.tokens[np.arange(len(start))[:, None], start[:, None] + place]
        self.found.tokens = np.where(place < (self.length - start)[:, None], tokens, -1)
        return self.found
