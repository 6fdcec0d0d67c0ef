"""What the measurements of claims share: SGLang's kernel with its buffers in sight, cases, laws of sequences."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from distributions import DRAFTS, sibling_tokens
from harness.builders import ddtree
from harness.case import Case
from harness.counts import SequenceCounts, count_sequences
from harness.decode.decoder import verifying
from harness.filters import SamplingParams, softmax
from harness.groups import Group, Plan
from harness.law import Law
from harness.request import Request
from harness.rules import RULES
from harness.samplers.base import Verifier
from harness.samplers.registry import sampler
from harness.samplers.sglang_tree import fresh_outputs, read_outputs
from harness.simt.greedy import tree_greedy
from harness.simt.tree import tree_target_only
from harness.stats.outcomes import outcome_law
from harness.stats.verdict import Judgement, judge
from harness.streams import coins, stream
from harness.tree import Tree

__all__ = [
    "ALPHA",
    "DEPTH",
    "NODES",
    "Buffers",
    "Chances",
    "GreedyBuffers",
    "accepted",
    "apart",
    "chances",
    "ddtrees",
    "kernel_of",
    "random_request",
    "request_of",
    "single_steps",
    "tree_case",
    "variation",
]

Ints = NDArray[np.int64]
Chances = dict[tuple[int, ...], float]

ALPHA = 1e-9
"""Of each judgement of claims."""
VOCAB, NODES, DEPTH = 16, 10, 5


class Buffers:
    """SGLang's tree kernel with its buffers in sight: ``draft_probs`` is what it is given on entry, by default zeros.

    ``accept_index`` and ``accept_token_num`` are what the last call wrote, the former into a buffer of -1.
    """

    rule = "target-only"

    def __init__(self, threads: int, draft_probs: Callable[[Request], NDArray[np.float32]] | None = None) -> None:
        self._threads = threads
        self._draft_probs = draft_probs
        self.accept_index = np.zeros((0, 0), np.int32)
        self.accept_token_num = np.zeros(0, np.int32)

    def verify(self, request: Request) -> object:
        """Launch the kernel, and read what it emitted."""
        probs = request.target_probs
        predicts, self.accept_index, self.accept_token_num = fresh_outputs(request)
        kernel = tree_target_only(threads=self._threads, vec=math.gcd(4, request.vocab))
        kernel(
            predicts,
            self.accept_index,
            self.accept_token_num,
            request.candidates,
            request.retrieve_index,
            request.retrieve_next_token,
            request.retrieve_next_sibling,
            request.coins,
            request.final_coins,
            probs,
            np.zeros_like(probs) if self._draft_probs is None else self._draft_probs(request),
        )
        return read_outputs(predicts, self.accept_index, self.accept_token_num, request.nodes)


class GreedyBuffers:
    """SGLang's greedy tree kernel likewise."""

    rule = "greedy"

    def __init__(self) -> None:
        self.accept_index = np.zeros((0, 0), np.int32)
        self.accept_token_num = np.zeros(0, np.int32)

    def verify(self, request: Request) -> object:
        """Launch the kernel, and read what it emitted."""
        predicts, self.accept_index, self.accept_token_num = fresh_outputs(request)
        tree = (request.candidates, request.retrieve_index, request.retrieve_next_token, request.retrieve_next_sibling)
        written = (predicts, self.accept_index, self.accept_token_num)
        tree_greedy()(*written, *tree, request.target_logits.argmax(axis=2))
        return read_outputs(predicts, self.accept_index, self.accept_token_num, request.nodes)


def kernel_of(name: str, rule: str = "target-only") -> Verifier:
    """Return a fresh verifier of a built-in sampler."""
    return sampler(name).make(rule)


def chances(law: Law) -> Chances:
    """Return the probability of each emitted sequence."""
    table = outcome_law(law)
    return {(*law.prefix(int(m)), int(x)): float(table[m, x]) for m, x in np.argwhere(table > 1e-15)}


def apart(one: Chances, other: Chances) -> float:
    """Return the largest difference of two laws in the probability of a sequence."""
    return max(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


def variation(one: Chances, other: Chances) -> float:
    """Return the total variation between two laws."""
    return 0.5 * sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in one.keys() | other.keys())


def accepted(law: Law) -> float:
    """Return the mean number of accepted drafts."""
    return float(np.arange(len(law.lengths)) @ law.lengths) - 1.0


def request_of(case: Case, rows: int) -> Request:
    """Return a request of the case, so many times."""
    request, _ = Plan(Group(case.name, (case,)), "grid", 0, 1).call(0)
    return request.take(np.zeros(rows, np.int64))


def random_request(case: Case, rows: int, *names: str) -> Request:
    """Return a request of the case with random coins, from the stream of these names."""
    request, rng = request_of(case, rows), stream("claims", "coins", case.name, *names)
    request.coins[:], request.final_coins[:] = coins(rng, *request.coins.shape), coins(rng, rows)
    return request


def single_steps(cases: Sequence[Case], verifier: Verifier, n: int) -> list[Judgement]:
    """Verify ``n`` rows of each of some cases of equal shape, mixed in batches, and judge them by their laws."""
    plan = Plan(Group("claims", tuple(cases)), "claims", 0, n)
    parts: list[list[SequenceCounts]] = [[] for _ in cases]
    for number in range(plan.calls):
        request, which = plan.call(number)
        tokens = verifying(verifier)(request)
        for g, part in enumerate(parts):
            part.append(count_sequences(tokens[which == g]))
    laws = [RULES[case.rule].law(case) for case in cases]
    return [
        judge(law, SequenceCounts.merge(part), ALPHA, stream("claims", case.name), nodes=case.nodes)
        for case, law, part in zip(cases, laws, parts, strict=True)
    ]


def tree_case(name: str, parents: Ints, params: SamplingParams | None = None) -> Case:
    """Return a case with a tree of this shape over laws of its own."""
    rng = stream("claims", "laws", name)
    logits = rng.normal(0.0, 1.7, (len(parents), VOCAB)).astype(np.float32)
    tree = Tree(sibling_tokens(rng, parents, softmax(logits), by="sampled"), parents)
    return Case(name, "target-only", tree, logits, params or SamplingParams(), depth_limit=DEPTH, nodes=NODES)


def ddtrees() -> dict[str, Case]:
    """Return cases with DDTree's trees, by the filters of their requests."""
    filters = {
        "none": SamplingParams(),
        "temperature": SamplingParams(0.6),
        "top-k": SamplingParams(top_k=5),
        "top-p": SamplingParams(top_p=0.8),
        "all": SamplingParams(1.3, top_k=6, top_p=0.9, min_p=0.02),
    }
    made = {}
    for name, params in filters.items():
        rng = stream("claims", "ddtree", name)
        logits = rng.normal(0.0, 1.7, (NODES, VOCAB)).astype(np.float32)
        draft = DRAFTS["noisy"].make(rng, softmax(logits[:DEPTH])).astype(np.float64)
        tree = ddtree(draft / draft.sum(axis=1, keepdims=True), int(rng.integers(VOCAB)), NODES).by_weight().tree
        made[name] = Case(f"ddtree/{name}", "target-only", tree, logits, params, depth_limit=DEPTH)
    return made
