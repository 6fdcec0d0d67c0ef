"""Faults of decoding, each a small change of one part of a step, or of the buffers of the verifier in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.decode.commit import Cut, Verified, compact, cut, verified
from harness.decode.decoder import Noise, Parts, fresh
from harness.decode.drafting import Drafted
from harness.decode.kvcache import PagedCache
from harness.decode.sequences import Batch, SequenceGroup
from harness.request import Request, Result
from harness.samplers.base import Verifier
from harness.samplers.reference import Reference

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Mutant:
    """A fault: the part that has it, on which trees, and the checks that see it (others may, too)."""

    parts: Parts = field(default_factory=Parts)
    verifier: Callable[[SequenceGroup], Verifier] = lambda made: Reference(made.rule)
    drafts: str = "ddtree"
    shuffled: bool = False
    seen_by: frozenset[str] = frozenset()


def _one_too_few(drafted: Drafted, tokens: Ints) -> Verified:
    step = verified(drafted, tokens)
    return replace(step, commit_lens_cpu=np.maximum(1, step.commit_lens_cpu - 1))


def _one_too_many(drafted: Drafted, tokens: Ints) -> Verified:
    step = verified(drafted, tokens)
    return replace(step, commit_lens_cpu=step.commit_lens_cpu + 1)


def _bonus_of_another_row(drafted: Drafted, tokens: Ints) -> Verified:
    step = verified(drafted, tokens)
    return replace(step, new_verified_list=np.roll(step.new_verified_list, 1))


def _bonus_of_another_node(drafted: Drafted, tokens: Ints) -> Verified:
    """Return the step with what was emitted at the root in place of what was emitted at the last node."""
    return replace(verified(drafted, tokens), new_verified_list=tokens[:, 0])


def _root_accepted(drafted: Drafted, tokens: Ints) -> Verified:
    step = verified(drafted, tokens)
    return replace(
        step,
        accepted_per_req=step.kept_per_req,
        num_accepted_drafts_per_req_cpu=step.num_accepted_drafts_per_req_cpu + 1,
        commit_lens_cpu=step.commit_lens_cpu + 1,
    )


def _frees_what_is_kept(cache: PagedCache, rows: Ints, base: Ints, kept: Ints, counts: Ints) -> None:
    compact(cache, rows, base, kept, counts)
    cache.truncate(rows, base)


def _in_tree_order(cache: PagedCache, rows: Ints, base: Ints, kept: Ints, counts: Ints) -> None:
    real = (np.arange(kept.shape[1]) < counts[:, None]) & (kept >= 0)
    by_number = np.sort(np.where(real, kept, 1 << 20), axis=1)
    compact(cache, rows, base, np.where(by_number < 1 << 20, by_number, -1), counts)


def _first_slots(cache: PagedCache, rows: Ints, base: Ints, kept: Ints, counts: Ints) -> None:
    cache.truncate(rows, base + counts)


def _refused_coins(batch: Batch, sequences: Ints, steps: Ints, before: Noise, at: Ints) -> Noise:
    """Return coins of which the root's is the one that refused the drafts of the step before."""
    noise = fresh(batch, sequences, steps, before, at)
    noise.coins[:, 0] = np.where(steps > 0, before.coins[np.arange(len(at)), at], noise.coins[:, 0])
    return noise


def _same_coins(batch: Batch, sequences: Ints, steps: Ints, before: Noise, at: Ints) -> Noise:
    return fresh(batch, sequences, np.zeros_like(steps), before, at)


def _last_token_only(tokens: Ints, lengths: Ints, eos: Ints, room: Ints) -> Cut:
    """Look for the end at the last committed token alone."""
    last = tokens[np.arange(len(lengths)), lengths - 1]
    return Cut(lengths, (last == eos) | (lengths >= room))


def _too_long_only(tokens: Ints, lengths: Ints, eos: Ints, room: Ints) -> Cut:
    """Cut at the most tokens, and end at an ending token without cutting there."""
    whole = cut(tokens, lengths, np.full_like(eos, -1), room)
    return Cut(whole.lengths, cut(tokens, lengths, eos, room).ends)


def _nonzero_tokens(candidates: Ints, node_count: Ints) -> Ints:
    return np.maximum(1, np.count_nonzero(candidates, axis=1))


def _hidden_in_tree_order(states: Ints, kept: Ints) -> Ints:
    return states[:, : kept.shape[1]]


class StaleAcceptIndex:
    """Reads accepted nodes out of a buffer that is not reset: as many as there are in it."""

    def __init__(self, made: SequenceGroup) -> None:
        self._walk = Reference(made.rule)
        self._index: Ints | None = None

    def verify(self, request: Request) -> Any:
        result = self._walk.verify(request)
        rows = np.arange(request.batch)
        if self._index is None:
            self._index = np.full((1 << 14, request.depth_limit), -1, np.int64)
        index = self._index[: request.batch]
        index[result.nodes >= 0] = result.nodes[result.nodes >= 0]
        lengths = (index >= 0).sum(axis=1)
        tokens = np.full_like(result.tokens, -1)
        tokens[:, :-1] = np.where(index[:, 1:] >= 0, request.candidates[rows[:, None], index[:, 1:]], -1)
        tokens[rows, lengths - 1] = result.tokens[rows, result.lengths - 1]
        return Result(tokens, lengths)


class DirtyDraftProbs:
    """Keeps the mass of rejected siblings in a buffer that is zeroed once, and takes it from the last draw's law."""

    def __init__(self, made: SequenceGroup) -> None:
        self._walk = Reference(made.rule)
        self._rejected: NDArray[np.float32] | None = None

    def verify(self, request: Request) -> Any:
        probs = request.target_probs
        result = self._walk.verify(request)
        rows, lengths = np.arange(request.batch), result.lengths
        if self._rejected is None:
            self._rejected = np.zeros((1 << 14, *probs.shape[1:]), np.float32)
        last = result.nodes[rows, lengths - 1]
        stopped = np.flatnonzero(lengths < request.depth_limit)
        child = request.retrieve_next_token[stopped, last[stopped]]
        while (child >= 0).any():
            stopped, child = stopped[child >= 0], child[child >= 0]
            token = request.candidates[stopped, child]
            self._rejected[stopped, last[stopped], token] = probs[stopped, last[stopped], token]
            child = request.retrieve_next_sibling[stopped, child]
        rest = np.maximum(probs[rows, last] - self._rejected[: request.batch][rows, last], 0.0).astype(np.float64)
        running = np.cumsum(rest, axis=1)
        mark = request.final_coins.astype(np.float64) * running[:, -1]
        token = np.minimum((running <= mark[:, None]).sum(axis=1), request.vocab - 1)
        result.tokens[rows, lengths - 1] = token
        return result


KV, HIDDEN = "kv", "hidden"


def _seen_by(*checks: str) -> frozenset[str]:
    return frozenset(checks)


MUTANTS = {
    "commits one too few": Mutant(Parts(verified=_one_too_few), seen_by=_seen_by("cells")),
    "commits one too many": Mutant(Parts(verified=_one_too_many), seen_by=_seen_by("support", KV)),
    "bonus from another row": Mutant(Parts(verified=_bonus_of_another_row), seen_by=_seen_by("support")),
    "bonus from another node": Mutant(Parts(verified=_bonus_of_another_node), seen_by=_seen_by("support")),
    "root counted as an accepted draft": Mutant(Parts(verified=_root_accepted), seen_by=_seen_by("support", KV)),
    "kept slots freed": Mutant(Parts(compact=_frees_what_is_kept), seen_by=_seen_by(KV)),
    "stale accept_index": Mutant(verifier=StaleAcceptIndex, seen_by=_seen_by("acceptance")),
    "KV in tree order": Mutant(Parts(compact=_in_tree_order), shuffled=True, seen_by=_seen_by(KV, "cells")),
    "KV of the first slots": Mutant(Parts(compact=_first_slots), seen_by=_seen_by(KV, "cells")),
    "coins of refused positions again": Mutant(Parts(noise=_refused_coins), seen_by=_seen_by("cells")),
    "the same coins in each step": Mutant(Parts(noise=_same_coins), seen_by=_seen_by("cells")),
    "draft_probs not zeroed": Mutant(verifier=DirtyDraftProbs, seen_by=_seen_by("support")),
    "ends at the last token only": Mutant(Parts(cut=_last_token_only), seen_by=_seen_by("support")),
    "not cut at the ending token": Mutant(Parts(cut=_too_long_only), seen_by=_seen_by("support")),
    "nodes counted by non-zero tokens": Mutant(Parts(count=_nonzero_tokens), seen_by=_seen_by(KV, "chi-square")),
    "hidden states in tree order": Mutant(Parts(hidden=_hidden_in_tree_order), seen_by=_seen_by(HIDDEN)),
}
