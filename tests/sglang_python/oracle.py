"""What SGLang's verification should emit, in plain loops over the tokens of one request.

Everything is float64 from float32 inputs. How near the coins come to a boundary, where float32 may decide otherwise, is
returned beside what is emitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.request import Request


@dataclass
class Emitted:
    tokens: list[int]
    nearest: float
    """Least distance of a coin to a boundary, or of a filter's cut to a probability, relative to the mass."""


def filtered(logits: list[float], temperature: float, top_k: int, top_p: float, ties: str) -> tuple[list[float], float]:
    """Return the law of a row after temperature, top-k and top-p, and how near top-p came to another cut."""
    if temperature < 1e-6:
        temperature, top_k = 1.0, 1
    largest = max(logits)
    weights = [math.exp((z - largest) / temperature) for z in logits]
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if top_k < len(logits):
        kept = set(order[:top_k])
        if ties == "all":
            kept |= {token for token in order if logits[token] == logits[order[top_k - 1]]}
        weights = [w if token in kept else 0.0 for token, w in enumerate(weights)]
    total = sum(weights)
    law = [w / total for w in weights]
    near = 1.0
    if top_p < 1.0:
        mass, kept, last = 0.0, set(), 1.0
        for token in order:
            if mass >= top_p and law[token] < last:  # equal tokens stay together
                break
            mass, last = mass + law[token], law[token]
            near = min(near, abs(mass - top_p))
            kept.add(token)
        law = [p if token in kept else 0.0 for token, p in enumerate(law)]
        total = sum(law)
        law = [p / total for p in law]
    return law, near


def verified(request: Request, b: int, ties: str = "all") -> Emitted:
    """Return what request ``b`` should emit at its coins, siblings tried in link order, thresholds 1."""
    near = 1.0

    def law_at(node: int) -> list[float]:
        nonlocal near
        row = [float(z) for z in request.target_logits[b, node]]
        law, distance = filtered(
            row, float(request.temperature[b]), int(request.top_k[b]), float(request.top_p[b]), ties
        )
        near = min(near, distance)
        return law

    node, tokens, law = 0, [], law_at(0)
    while len(tokens) < request.depth_limit - 1:
        coin, mass, rejected = float(request.coins[b, node]), 0.0, []
        child = int(request.retrieve_next_token[b, node])
        while child >= 0:
            token = int(request.candidates[b, child])
            mass += law[token]
            if law[token] > 0.0:
                near = min(near, abs(coin - mass))
            if coin < mass and law[token] > 0.0:
                break
            rejected.append(token)
            child = int(request.retrieve_next_sibling[b, child])
        if child < 0:
            law = [0.0 if token in rejected else p for token, p in enumerate(law)]
            break
        tokens.append(token)
        node, law = child, law_at(child)
    aim, mass = float(request.final_coins[b]) * sum(law), 0.0
    for token, p in enumerate(law):
        mass += p
        if p > 0.0:
            near = min(near, abs(mass - aim))
        if mass > aim:
            return Emitted([*tokens, token], near)
    return Emitted([*tokens, max(token for token, p in enumerate(law) if p > 0.0)], 0.0)
