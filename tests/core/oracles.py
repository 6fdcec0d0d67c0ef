"""Plain loops that the vectorised code is compared with, written from the rules' own words, and never from that code.

Probabilities are Fractions wherever a decision may hang on equality, Python floats elsewhere.
"""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

LEAST_ACC = Fraction(1, 10**9)

Path = tuple[int, ...]


def stream(name: str) -> np.random.Generator:
    """Return the random stream of a test, from its name alone."""
    return np.random.default_rng(zlib.crc32(name.encode()))


# ---- rule target-only, one request at a time


def choose(
    row: Sequence[Any], tokens: Sequence[int], coin: Any, single: Any, acc: Any, given: Sequence[Any] | None = None
) -> int | None:
    """Place of the child that is accepted: the first with mass whose coin is below (mass so far) / acc, or p >= single.

    ``given`` is the row as the sampler gets it, where that is not ``row`` exactly; threshold_single is compared to it.
    """
    so_far: Any = 0
    for place, token in enumerate(tokens):
        so_far += row[token]
        own = (given or row)[token]
        if own > 0 and (coin < so_far / max(acc, LEAST_ACC) or own >= single):
            return place
    return None


def invert(weights: Sequence[Any], coin: Any) -> int:
    """First token whose running sum exceeds coin * total."""
    mark, so_far = coin * sum(weights), 0
    for token, weight in enumerate(weights):
        so_far += weight
        if so_far > mark:
            return token
    raise AssertionError(f"no token: weights {weights}, coin {coin}")


def residual(row: Sequence[Any], rejected: Sequence[int]) -> list[Any]:
    """Weights of the last token: the row without the rejected tokens."""
    return [0 if token in rejected else p for token, p in enumerate(row)]


def verify(
    tokens: Sequence[int],
    children: Sequence[Sequence[int]],
    rows: Sequence[Sequence[Any]],
    coins: Sequence[Any],
    final_coin: Any,
    depth_limit: int,
    single: Any = 1,
    acc: Any = 1,
    given: Sequence[Sequence[Any]] | None = None,
) -> tuple[list[int], list[int]]:
    """Return the emitted tokens and the accepted nodes, the root first, of one step; every row sums to 1."""
    nodes = [0]
    while True:
        here = nodes[-1]
        at_limit = len(nodes) - 1 == depth_limit - 1
        drafts = [] if at_limit else [tokens[child] for child in children[here]]
        place = choose(rows[here], drafts, coins[here], single, acc, given and given[here])
        if place is None:
            last = invert(residual(rows[here], drafts), final_coin)
            return [*(tokens[node] for node in nodes[1:]), last], nodes
        nodes.append(children[here][place])


def outcomes(
    tokens: Sequence[int],
    children: Sequence[Sequence[int]],
    parts: Sequence[Sequence[int]],
    unit: int,
    depth_limit: int,
    single: int,
    acc: int,
) -> dict[Path, Fraction]:
    """Return P(emitted sequence), exactly, by trying every coin.

    Law rows and thresholds are whole numbers of 1/unit. What a coin decides changes at multiples of 1/acc only, and
    the last token at multiples of 1/(mass left), so that grids of these steps hold every coin in its right share.
    """
    rows = [[Fraction(part, unit) for part in row] for row in parts]
    thresholds = Fraction(single, unit), Fraction(acc, unit)
    grid = unit * max(acc, 1)
    law: Counter[Path] = Counter()

    def visit(here: int, emitted: Path, share: Fraction) -> None:
        drafts = [] if len(emitted) == depth_limit - 1 else [tokens[child] for child in children[here]]
        places = Counter(choose(rows[here], drafts, Fraction(i, grid), *thresholds) for i in range(grid))
        for place, times in places.items():
            part = share * Fraction(times, grid)
            if place is not None:
                visit(children[here][place], (*emitted, drafts[place]), part)
                continue
            rest = residual(rows[here], drafts)
            steps = int(sum(rest) * unit)
            for last, hits in Counter(invert(rest, Fraction(i, steps)) for i in range(steps)).items():
                law[(*emitted, last)] += part * Fraction(hits, steps)  # type: ignore[assignment]

    visit(0, (), Fraction(1))
    return dict(law)


# ---- laws as mappings from sequences to probabilities


def prefixes(law: dict[Path, Any]) -> dict[Path, tuple[Any, Any, dict[int, Any]]]:
    """Return, for every prefix that is continued: P(emitted), P(emitted and continued), law of the next token."""
    found = {}
    for prefix in {sequence[:k] for sequence in law for k in range(len(sequence))}:
        size = len(prefix)
        emit = sum(p for sequence, p in law.items() if sequence[:size] == prefix)
        longer = {s: p for s, p in law.items() if s[:size] == prefix and len(s) > size}
        reach = sum(longer.values())
        if not reach:
            continue
        row: Counter[int] = Counter()
        for sequence, p in longer.items():
            row[sequence[size]] += p / reach
        found[prefix] = (emit, reach, dict(row))
    return found


# ---- filters, one row at a time


def softmax(logits: Sequence[float]) -> list[float]:
    top = max(logits)
    weights = [math.exp(z - top) for z in logits]
    total = math.fsum(weights)
    return [w / total for w in weights]


def renormalised(p: Sequence[Any], kept: Iterable[int]) -> list[Any]:
    total = sum(p[i] for i in kept)
    return [p[i] / total if i in set(kept) else 0 * p[i] for i in range(len(p))]


def ranked(p: Sequence[Any]) -> list[int]:
    """Token ids by descending probability, lower id first among equals."""
    return sorted(range(len(p)), key=lambda i: (-p[i], i))


def top_k_set(p: Sequence[Any], k: int, ties: str) -> set[int]:
    if k <= 0 or k >= len(p):
        return set(range(len(p)))
    first = ranked(p)[:k]
    return set(first) if ties == "exact" else {i for i in range(len(p)) if p[i] >= p[first[-1]]}


def top_p_set(p: Sequence[Any], top_p: Any, boundary: str) -> tuple[set[int], Any]:
    """Return the set, and how near its mass comes to top_p on the way."""
    if top_p >= 1:
        return set(range(len(p))), 1
    kept: set[int] = set()
    mass: Any = 0
    margin: Any = 1
    for i in ranked(p):
        kept.add(i)
        mass += p[i]
        margin = min(margin, abs(mass - top_p))
        if mass > top_p or (mass == top_p and boundary == "stop"):
            break
    return kept, margin


def min_p_set(p: Sequence[Any], min_p: Any) -> tuple[set[int], Any]:
    cut = min_p * max(p)
    return {i for i in range(len(p)) if p[i] >= cut}, min(abs(x - cut) for x in p) if min_p > 0 else 1


def filtered(
    p: Sequence[Any],
    order: Sequence[str],
    *,
    logits: Sequence[float] | None = None,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: Any = 1,
    min_p: Any = 0,
    joint: bool = False,
    ties: str = "all",
    boundary: str = "stop",
) -> tuple[list[Any], Any]:
    """Return the law after the filters, and the least margin of any decision; ``p`` is the law at temperature 1."""
    law = list(p)
    alive = set(range(len(p)))
    margin: Any = 1
    before_either = None
    for name in order:
        if name == "temperature":
            if temperature != 1.0:
                assert logits is not None
                scaled = [logits[i] / temperature if i in alive else -math.inf for i in range(len(p))]
                law = softmax(scaled)
            continue
        source = law
        if joint and name in ("top-k", "top-p"):
            before_either = before_either or law
            source = before_either
        near: Any = 1
        if name == "top-k":
            kept = top_k_set(source, top_k, ties)
        elif name == "top-p":
            kept, near = top_p_set(source, top_p, boundary)
        else:
            kept, near = min_p_set(source, min_p)
        margin = min(margin, near)
        alive &= kept
        law = renormalised(law, alive)
    return law, margin
