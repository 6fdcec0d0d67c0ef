"""Verifiers of rule target-only for tests of the probe: right ones of several kinds, and wrong ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from harness import Request, Result, Semantics
from harness.filters import SEMANTICS, SamplingParams, target_probs


class Right:
    """Tries siblings in link order, in float64; what is changed in others is a method each."""

    rule = "target-only"
    coins = True
    dtype_of_sums: type = np.float64

    def verify(self, request: Request) -> Result:
        """Walk row by row."""
        tokens = np.full((request.batch, request.depth_limit + self.extra_depth), -1, np.int64)
        lengths = np.ones(request.batch, np.int64)
        for row in range(request.batch):
            emitted = self.walk(request, row)
            tokens[row, : len(emitted)] = emitted
            lengths[row] = len(emitted)
        return Result(tokens=tokens, lengths=lengths)

    extra_depth = 0

    def walk(self, request: Request, row: int) -> list[int]:
        """Return the emitted tokens of one row."""
        node, emitted = 0, []
        while True:
            law = request.target_probs[row, node].astype(self.dtype_of_sums)
            children = self.children(request, row, node) if len(emitted) < self.most(request) else []
            coin = self.dtype_of_sums(self.coin(request, row, node))
            chosen = self.choose(request, row, node, law, children, coin)
            if chosen is None:
                break
            emitted.append(int(request.candidates[row, chosen]))
            node = chosen
        for child in children:
            self.reject(law, int(request.candidates[row, child]))
        return [*emitted, self.last(request, row, node, law)]

    def most(self, request: Request) -> int:
        """Return how many drafts are accepted at most."""
        return request.depth_limit - 1

    def children(self, request: Request, row: int, node: int) -> list[int]:
        """Return the children in the order in which they are tried."""
        found, child = [], int(request.retrieve_next_token[row, node])
        while child >= 0:
            found.append(child)
            child = int(request.retrieve_next_sibling[row, child])
        return found

    def coin(self, request: Request, row: int, node: int) -> float:
        """Return the coin that decides among a node's children."""
        return request.coins[row, node]

    def mass(self, request: Request, row: int, node: int, law: np.ndarray, token: int) -> float:
        """Return a draft's mass."""
        return law[token]

    def choose(
        self, request: Request, row: int, node: int, law: np.ndarray, children: list[int], coin: float
    ) -> int | None:
        """Return the child that is accepted."""
        total = self.dtype_of_sums(0)
        for child in children:
            p = self.mass(request, row, node, law, int(request.candidates[row, child]))
            total += p
            sure = law[int(request.candidates[row, child])] >= np.float32(request.threshold_single)
            if p > 0 and (coin < total / max(request.threshold_acc, 1e-9) or sure):
                return child
        return self.left_over(request, row, law, children)

    def left_over(self, request: Request, row: int, law: np.ndarray, children: list[int]) -> int | None:
        """Return the last child with mass where no other token has any: rounding alone can have refused it."""
        possible = [child for child in children if law[request.candidates[row, child]] > 0]
        return possible[-1] if possible and len(possible) == int((law > 0).sum()) else None

    def reject(self, law: np.ndarray, token: int) -> None:
        """Take a rejected token out of the last draw."""
        law[token] = 0

    def final_coin(self, request: Request, row: int, node: int) -> float:
        """Return the coin of the last draw."""
        return request.final_coins[row]

    def last(self, request: Request, row: int, node: int, law: np.ndarray) -> int:
        """Draw the last token."""
        running = np.cumsum(law, dtype=self.dtype_of_sums)
        mark = self.dtype_of_sums(self.final_coin(request, row, node)) * running[-1]
        return min(int((running <= mark).sum()), int(np.flatnonzero(law)[-1]) if law.any() else len(law) - 1)


class Single(Right):
    """Right, in float32."""

    dtype_of_sums = np.float32


class Reversed(Right):
    """Right: siblings in reverse order, where all thresholds are 1."""

    def children(self, request: Request, row: int, node: int) -> list[int]:
        found = super().children(request, row, node)
        return found[::-1] if min(request.threshold_single, request.threshold_acc) >= 1 else found


class Descending(Single):
    """Right: siblings by descending mass, where all thresholds are 1, in float32."""

    def children(self, request: Request, row: int, node: int) -> list[int]:
        found = super().children(request, row, node)
        if min(request.threshold_single, request.threshold_acc) < 1:
            return found
        return sorted(found, key=lambda child: -request.target_probs[row, node, request.candidates[row, child]])


class Mirrored(Single):
    """Right: accepts on large coins instead of small ones."""

    def coin(self, request: Request, row: int, node: int) -> float:
        return np.float32(1.0 - 2.0**-24) - request.coins[row, node]


class Turned(Right):
    """Right: the last draw begins in the middle of the coins and of the tokens, and goes round."""

    def last(self, request: Request, row: int, node: int, law: np.ndarray) -> int:
        half = len(law) // 2
        turned = np.roll(law, half)
        running = np.cumsum(turned)
        mark = (float(request.final_coins[row]) + 0.5) % 1.0 * running[-1]
        return (int((running <= mark).sum()) - half) % len(law)


class Alias(Right):
    """Right: the last token by the alias method, which gives a token several stretches of coins."""

    def last(self, request: Request, row: int, node: int, law: np.ndarray) -> int:
        size = len(law)
        scaled = law / law.sum() * size
        own, other = np.ones(size), np.arange(size)
        small, large = [i for i in range(size) if scaled[i] < 1], [i for i in range(size) if scaled[i] >= 1]
        while small and large:
            low, high = small.pop(), large.pop()
            own[low], other[low] = scaled[low], high
            scaled[high] -= 1 - scaled[low]
            (small if scaled[high] < 1 else large).append(high)
        column, within = divmod(float(request.final_coins[row]) * size, 1.0)
        return int(column) if within < own[int(column)] else int(other[int(column)])


class OffByMillionth(Right):
    """Accepts the first child of the root's first child with 1e-6 more than its mass."""

    node = 1

    def mass(self, request: Request, row: int, node: int, law: np.ndarray, token: int) -> float:
        first = self.children(request, row, node)[0]
        more = 1e-6 if node == self.node and token == request.candidates[row, first] else 0.0
        return law[token] + more


class LastOffByMillionth(Right):
    """Moves 1e-6 of the last draw below the root from one token to the next."""

    def last(self, request: Request, row: int, node: int, law: np.ndarray) -> int:
        if node == 0 and (law > 0).sum() > 1:
            first, second = np.flatnonzero(law)[:2]
            law = law / law.sum()
            law[first] += 1e-6
            law[second] -= 1e-6
        return super().last(request, row, node, law)


class OneCoin(Right):
    """Uses one coin too many for the first child: coin <= mass."""

    def choose(
        self, request: Request, row: int, node: int, law: np.ndarray, children: list[int], coin: float
    ) -> int | None:
        total = 0.0
        for child in children:
            p = law[int(request.candidates[row, child])]
            total += p
            if p > 0 and (coin <= total / max(request.threshold_acc, 1e-9) or p >= request.threshold_single):
                return child
        return None


class RootsCoinAtTheEnd(Right):
    """Draws the last token with the root's coin."""

    def final_coin(self, request: Request, row: int, node: int) -> float:
        return request.coins[row, 0]


class ParentsCoin(Right):
    """Decides among a node's children with the coin of its parent."""

    def coin(self, request: Request, row: int, node: int) -> float:
        return request.coins[row, max(0, int(request.parents[row, node]))]


class TwoCoins(Right):
    """Decides with the sum of two coins, whose law is right."""

    def coin(self, request: Request, row: int, node: int) -> float:
        return (float(request.coins[row, node]) + float(request.coins[row, -1])) % 1.0


class KeepsRejected(Right):
    """Leaves rejected tokens in the last draw."""

    def reject(self, law: np.ndarray, token: int) -> None:
        return


class Deeper(Right):
    """Accepts one draft more than the depth limit allows."""

    extra_depth = 1

    def most(self, request: Request) -> int:
        return request.depth_limit


class ZeroMass(Right):
    """Accepts drafts without mass where the threshold for one draft is 0."""

    def choose(
        self, request: Request, row: int, node: int, law: np.ndarray, children: list[int], coin: float
    ) -> int | None:
        total = 0.0
        for child in children:
            p = law[int(request.candidates[row, child])]
            total += p
            if coin < total / max(request.threshold_acc, 1e-9) or p >= request.threshold_single:
                return child
        return None


class Island(Right):
    """Emits the least likely token for a few coins in the middle of another token's."""

    def last(self, request: Request, row: int, node: int, law: np.ndarray) -> int:
        coin = round(float(self.final_coin(request, row, node)) * 2**24)
        if node == 0 and 5_000_000 <= coin < 5_400_000 and law.any():
            return int(np.where(law > 0, law, 2.0).argmin())
        return super().last(request, row, node, law)


class OwnNoise(Right):
    """Says that its randomness is the coins, and shakes them."""

    def __init__(self) -> None:
        self._calls = 0

    def verify(self, request: Request) -> Result:
        self._calls += 1
        request.final_coins += np.float32(0.01) * (self._calls % 7)
        request.final_coins %= np.float32(1.0)
        return super().verify(request)


class Scattered(Right):
    """Strews the final coin over its values first: a right law that bisection cannot find."""

    def final_coin(self, request: Request, row: int, node: int) -> float:
        return (round(float(request.final_coins[row]) * 2**24) * 11_400_714_819 % 2**24) / 2**24


class Filters(Right):
    """Right: filters for itself, by the reading that it claims, and draws with its coins."""

    thresholds = False
    takes = "logits"
    semantics: Any = "sequential"
    follows: Semantics = SEMANTICS["sequential"]

    def verify(self, request: Request) -> Result:
        laws: dict[bytes, np.ndarray] = {}
        for row in range(request.batch):
            given = request.temperature[row], request.top_k[row], request.top_p[row], request.min_p[row]
            params = SamplingParams(float(given[0]), int(given[1]), float(given[2]), float(given[3]))
            for node in range(request.nodes):
                z = request.target_logits[row, node]
                key = z.tobytes() + repr(params).encode()
                if key not in laws:
                    laws[key] = target_probs(z, params, self.follows)
                request.target_probs[row, node] = laws[key]
        return super().verify(request)


class Joint(Filters):
    """Right: top-k and top-p both read the whole law, and it says so."""

    semantics = "joint"
    follows = SEMANTICS["joint"]


class JointSaysSequential(Joint):
    """Follows another reading of the filters than it claims."""

    semantics = "sequential"


class VllmSaysSequential(Filters):
    """The same, with min-p first."""

    follows = SEMANTICS["vllm"]
