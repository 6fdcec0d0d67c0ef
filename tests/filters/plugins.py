"""Verifiers that take logits, or law rows in 16 bits, each with a reading of the filters of its own, in float32."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from harness import Request, Result, Semantics
from harness.filters import SEMANTICS


def filtered(
    z: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float, semantics: Semantics
) -> np.ndarray:
    """One row of float32 logits through the filters in float32: sorted, cut, renormalised, one filter at a time."""
    z = z.astype(np.float32)
    if temperature < 1e-6:
        return (np.arange(len(z)) == z.argmax()).astype(np.float32)
    mask = np.ones(len(z), bool)
    scale = np.float32(1)
    before = None
    for name in semantics.order:
        p = np.where(mask, z / scale, -np.inf)
        p = np.exp(p - p.max())
        p /= p.sum(dtype=np.float32)
        if semantics.joint and name in ("top-k", "top-p"):
            before = p if before is None else before
            p = before
        order = np.argsort(-p, kind="stable")
        if name == "temperature":
            scale = np.float32(temperature)
        elif name == "top-k" and top_k < len(z):
            keep = np.zeros(len(z), bool)
            keep[order[:top_k]] = True
            if semantics.top_k_ties == "all":
                keep = p >= p[order[top_k - 1]]
            mask = mask & keep
        elif name == "top-p" and top_p < 1:
            ahead = np.cumsum(p[order], dtype=np.float32) - p[order]
            out = ahead >= top_p if semantics.top_p_boundary == "stop" else ahead > top_p
            out[0] = False
            keep = np.zeros(len(z), bool)
            keep[order[~out]] = True
            mask = mask & keep
        elif name == "min-p" and min_p > 0 and semantics.min_p == "applied":
            mask = mask & (p >= np.float32(min_p) * p.max())
    p = np.where(mask, z / scale, -np.inf)
    p = np.exp(p - p.max())
    return p / p.sum(dtype=np.float32)


class Filtering:
    """Rule plain or target-only by sampling from the row and descending where a child has the token; filters itself."""

    rule: str | None = "plain"
    thresholds = False
    takes = "logits"
    semantics: Any = "sequential"
    follows: Semantics = SEMANTICS["sequential"]

    def verify(self, request: Request) -> Any:
        rng = np.random.default_rng(request.seed)
        laws: dict[bytes, np.ndarray] = {}
        tokens = np.full((request.batch, request.depth_limit), -1)
        lengths = np.zeros(request.batch, np.int64)
        for b in range(request.batch):
            node = 0
            while node >= 0:
                row = self.law(laws, request, b, node)
                token = int(np.searchsorted(row, rng.random() * row[-1], side="right"))
                tokens[b, lengths[b]] = token
                lengths[b] += 1
                child = request.retrieve_next_token[b, node] if lengths[b] < request.depth_limit else -1
                while child >= 0 and request.candidates[b, child] != token:
                    child = request.retrieve_next_sibling[b, child]
                node = int(child)
        return Result(tokens=tokens, lengths=lengths)

    def law(self, laws: dict[bytes, np.ndarray], request: Request, b: int, node: int) -> np.ndarray:
        z = request.target_logits[b, node]
        params = (request.temperature[b], int(request.top_k[b]), request.top_p[b], request.min_p[b])
        key = z.tobytes() + repr(params).encode()
        if key not in laws:
            laws[key] = np.cumsum(filtered(z, *params, self.follows), dtype=np.float64)
        return laws[key]


def _made(claims: Any, follows: Semantics, rule: str | None = "plain") -> type[Filtering]:
    return type("Made", (Filtering,), {"semantics": claims, "follows": follows, "rule": rule})


SEQUENTIAL, JOINT, VLLM, LAST = (SEMANTICS[name] for name in ("sequential", "joint", "vllm", "temperature-last"))
EXACT = replace(SEQUENTIAL, name="exact", top_k_ties="exact")
ONE_MORE = replace(SEQUENTIAL, name="one-more", top_p_boundary="one-more")
IGNORES = replace(SEQUENTIAL, name="ignores min-p", min_p="ignored")
FIRST = replace(SEQUENTIAL, name="first", greedy_ties="first")

Sequential, Joint, Vllm, Last = (_made(own.name, own) for own in (SEQUENTIAL, JOINT, VLLM, LAST))
Exact, OneMore, Ignores, First = (_made(own, own) for own in (EXACT, ONE_MORE, IGNORES, FIRST))
TreeSequential, TreeJoint, TreeVllm, TreeLast = (
    _made(own.name, own, "target-only") for own in (SEQUENTIAL, JOINT, VLLM, LAST)
)
NoneJoint = _made("joint", JOINT, None)
JointSaysSequential, SequentialSaysJoint = _made("sequential", JOINT), _made("joint", SEQUENTIAL)
VllmSaysSequential, LastSaysSequential = _made("sequential", VLLM), _made("sequential", LAST)
ExactSaysAll, AllSaysExact = _made("sequential", EXACT), _made(EXACT, SEQUENTIAL)
IgnoresSaysApplied, OneMoreSaysStop = _made("sequential", IGNORES), _made("sequential", ONE_MORE)
TreeJointSaysSequential = _made("sequential", JOINT, "target-only")


class LastOfMaxima(Filtering):
    """At temperature 0 the last of equal maxima."""

    def law(self, laws: dict[bytes, np.ndarray], request: Request, b: int, node: int) -> np.ndarray:
        z = request.target_logits[b, node]
        return np.cumsum(np.arange(len(z)) == len(z) - 1 - z[::-1].argmax()).astype(float)


class LastSaysFirst(LastOfMaxima):
    semantics = FIRST


class Stops(Filtering):
    """Emits a child and stops there one time in ten."""

    rule = "target-only"

    def verify(self, request: Request) -> Any:
        result = super().verify(request)
        cut = np.random.default_rng(request.seed + 1).random(request.batch) < 0.1
        return Result(result.tokens, np.where(cut, 1, result.lengths))


class Bfloat16(Filtering):
    """Gets its rows in 16 bits, through torch."""

    dtype = "bfloat16"
    checked = "target_logits"

    def verify(self, request: Request) -> Any:
        import torch

        rows = getattr(request.torch(), self.checked)
        assert rows.dtype == getattr(torch, self.dtype)
        assert torch.equal(rows.float(), torch.from_numpy(getattr(request, self.checked)))
        return super().verify(request)


class Float16(Bfloat16):
    dtype = "float16"


class Bfloat16Probs(Bfloat16):
    takes = "probs"
    checked = "target_probs"
    rule = "target-only"

    def law(self, laws: dict[bytes, np.ndarray], request: Request, b: int, node: int) -> np.ndarray:
        return np.cumsum(request.target_probs[b, node], dtype=np.float64)


def odd(**attributes: Any) -> Any:
    return type("Odd", (Filtering,), attributes)


UnknownTakes, UnknownSemantics, UnknownDtype = odd(takes="tokens"), odd(semantics="alphabetical"), odd(dtype="int8")
SemanticsOfNoKind = odd(semantics=3)


def unknown_field() -> Any:
    return odd(semantics=Semantics(top_k_ties="some"))  # type: ignore[arg-type]
