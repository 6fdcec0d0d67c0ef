"""The claim about cost (9): what sampling verify takes over greedy verify of the same trees.

On this machine's CPU, simulated: ratios of a GPU are others, since its threads run side by side. What a verify needs
before the kernel is measured beside it: the argmax of every node's logits, or their softmax.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from distributions import DRAFTS
from harness.builders import ddtree
from harness.case import Case
from harness.filters import SamplingParams, softmax
from harness.request import Request
from harness.samplers.sglang_tree import fresh_outputs
from harness.simt.greedy import tree_greedy
from harness.simt.tree import tree_target_only
from harness.streams import stream
from harness.tree import Tree

from .common import random_request, request_of

__all__ = ["Cost", "verify_cost"]

NODES, DEPTH = 16, 6
GREEDY_BATCH = 4096
"""Requests of a launch of the greedy kernel, which reads no laws: so many that the launch itself does not count."""
SHORT_CALLS = 8
"""Launches of the greedy kernel a round: each is short, and easily disturbed."""


@dataclass(frozen=True)
class Cost:
    """Microseconds a request, the best of the rounds, in which all take turns.

    ``differ`` counts requests, of ``batch``, of which the two kernels accept other nodes where the law at every node
    has one outcome: the same trees must be accepted alike for the times to be of the same work.
    """

    vocab: int
    batch: int
    threads: int
    differ: int
    greedy: float
    sampling: float
    argmax: float
    softmax: float

    @property
    def kernels(self) -> float:
        """Sampling kernel over greedy kernel."""
        return self.sampling / self.greedy

    @property
    def whole(self) -> float:
        """Softmax and sampling kernel over argmax and greedy kernel."""
        return (self.sampling + self.softmax) / (self.greedy + self.argmax)


def verify_cost(vocab: int, batch: int, threads: int = 1024, rounds: int = 5) -> Cost:
    """Claim 9: time both on DDTree's trees of 16 nodes, laws of temperature 1."""
    case = _case(vocab)
    request, many = random_request(case, batch, "cost"), request_of(case, GREEDY_BATCH)
    logits, probs = request.target_logits, request.target_probs
    argmax, zeros = logits.argmax(axis=2), np.zeros_like(probs)
    every = np.repeat(argmax[:1], GREEDY_BATCH, axis=0)
    greedy, sampling = tree_greedy(), tree_target_only(threads=threads, vec=math.gcd(4, vocab))

    def sample(law: np.ndarray) -> np.ndarray:
        predicts, index, count = fresh_outputs(request)
        tree, coins = _tree(request), (request.coins, request.final_coins)
        sampling(predicts, index, count, *tree, *coins, law, zeros)
        return index

    def follow(of: Request, predicted: np.ndarray) -> np.ndarray:
        predicts, index, count = fresh_outputs(of)
        greedy(predicts, index, count, *_tree(of), predicted)
        return index

    one_hot = np.zeros_like(probs)
    np.put_along_axis(one_hot, argmax[:, :, None], 1.0, axis=2)
    differ = (sample(one_hot) != follow(request, argmax)).any(axis=1)
    timed: dict[str, tuple[int, Callable[[], object]]] = {
        "greedy": (GREEDY_BATCH, lambda: follow(many, every)),
        "sampling": (batch, lambda: sample(probs)),
        "argmax": (batch, lambda: logits.argmax(axis=2)),
        "softmax": (batch, lambda: _softmax(logits)),
    }
    best = dict.fromkeys(timed, math.inf)
    for _ in range(rounds):
        for name, (size, call) in timed.items():
            for _ in range(SHORT_CALLS if name == "greedy" else 1):
                zeros[:] = 0.0
                started = time.perf_counter()
                call()
                best[name] = min(best[name], 1e6 * (time.perf_counter() - started) / size)
    return Cost(vocab, batch, threads, int(differ.sum()), **best)


def _case(vocab: int) -> Case:
    rng = stream("claims", "cost", vocab)
    logits = rng.normal(0.0, 2.0, (NODES, vocab)).astype(np.float32)
    draft = DRAFTS["noisy"].make(rng, softmax(logits[: DEPTH - 1])).astype(np.float64)
    built = ddtree(draft / draft.sum(axis=1, keepdims=True), 0, NODES).by_weight().tree
    tokens, best = built.tokens.copy(), logits.argmax(axis=1)
    for node, children in enumerate(built.children):  # some first children are what the target likes best
        if children and node % 2 == 0 and best[node] not in tokens[list(children)]:
            tokens[children[0]] = best[node]
    tree = replace(built, tokens=tokens)
    return Case(f"cost-{vocab}", "target-only", _checked(tree), logits, SamplingParams(), depth_limit=DEPTH)


def _checked(tree: Tree) -> Tree:
    assert tree.has_distinct_siblings
    return tree


def _tree(request: Request) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    links = (request.retrieve_next_token, request.retrieve_next_sibling)
    return request.candidates, request.retrieve_index, *links


def _softmax(logits: np.ndarray) -> np.ndarray:
    weights: np.ndarray = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights /= weights.sum(axis=2, keepdims=True)
    return weights
