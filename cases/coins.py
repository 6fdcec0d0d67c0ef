"""The suites' coin cases: coins at the edges of the draft tests and of the last draw.

Coins in a gap
    The children of a node cover its support, and their float32 sum in link order is one step below 1; so is the coin,
    the largest there is. No child's running sum exceeds it, and nothing is left to draw the last token from.
Coins in a gap that a filter makes
    One token is left by top-p, and a sampler that divides its float32 probability by itself can get one step below 1.
    With the largest coin that token is refused as a draft, and nothing is left.
Drafts without mass
    A draft that the target finds impossible, and coin 0, which is not above its running sum of 0 either.
Last draws
    Tokens without mass at both ends of the vocabulary, and the least and the largest final coin.
Certain numbers of drafts
    Chains of drafts of mass 1 and then one without mass: so many are accepted, whatever the coins, and no more than the
    depth limit allows. The same where threshold_acc is 0, which accepts every draft with mass.
On the threshold
    Two drafts of a quarter each, and coins on their thresholds and one step to either side; a draft of a mass below
    the normal float32 numbers; and one token alone.
Repeated siblings
    Two siblings of one token, and a coin between its mass and twice its mass. No verifier need take them: these are put
    to samplers of which it is known what they do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from harness.case import Case
from harness.coincase import CoinCase, CoinGroup
from harness.filters import SamplingParams
from harness.tree import Tree

__all__ = ["coin_groups"]

TOP = 1.0 - 2.0**-24
"""The largest coin."""
FIFTEEN = (8, 6, 5, 3, 3, 1, 1, 1, 2, 8, 6, 9, 5, 6, 9)
THREE = (9, 7, 7)
"""Weights whose float32 probabilities, added up in order, sum to 1 - 2^-24."""


@cache
def coin_groups() -> tuple[CoinGroup, ...]:
    """Return the groups of coin cases, which are the same in every suite."""
    return (
        _gap("coins/gap", 16),
        _gap("coins/gap-odd", 17),
        _filtered("coins/gap-filtered"),
        _zero_mass("coins/zero-mass"),
        _zero_mass("coins/zero-mass-permissive", threshold_single=0.0),
        _last_draw("coins/last-draw"),
        _certain("coins/certain"),
        _certain("coins/certain-sure", threshold_acc=0.0),
        _thresholds("coins/threshold"),
        _one_token("coins/one-token"),
        _repeated("coins/repeated-siblings"),
    )


def _gap(name: str, vocab: int) -> CoinGroup:
    below = {0: [1] * vocab, 1: THREE}
    return CoinGroup(
        name,
        (
            _case(f"{name}/support-15", vocab, 16, [-1] + [0] * 15, [0, *range(15)], {0: FIFTEEN}, TOP),
            _case(f"{name}/support-3", vocab, 16, [-1, 0, 0, 0], [0, 0, 1, 2], {0: THREE}, TOP),
            _case(f"{name}/below-a-draft", vocab, 16, [-1, 0, 1, 1, 1], [0, 5, 0, 1, 2], below, 0.0, TOP),
        ),
    )


def _filtered(name: str) -> CoinGroup:
    """Return cases where top-p leaves one of two tokens.

    Its float32 probability p, .7186, gives p * (1 / p) = 1 - 2^-24 with 1 / p rounded; and so do its neighbours on both
    sides, so that the rounding of a softmax makes no difference.
    """
    likely, unlikely = np.float32(0.0), np.float32(-0.9375)

    def case(which: str, parents: Sequence[int], tokens: Sequence[int], peaked: int, *coins: float) -> CoinCase:
        logits = np.zeros((len(parents), 16), np.float32)
        logits[peaked] = -np.inf
        logits[peaked, [5, 9]] = likely, unlikely
        params = SamplingParams(top_p=0.5)
        made = Case(f"{name}/{which}", "target-only", Tree(np.array(tokens), np.array(parents)), logits, params, 3, 3)
        return CoinCase(made, coins)

    return CoinGroup(
        name,
        (
            case("one-token-left", [-1, 0], [0, 5], 0, TOP),
            case("below-a-draft", [-1, 0, 1], [0, 2, 5], 1, 0.0, TOP),
        ),
    )


def _zero_mass(name: str, threshold_single: float = 1.0) -> CoinGroup:
    half, other = (0, 1, 1, 0), (1, 0, 1, 0)
    permissive = threshold_single
    return CoinGroup(
        name,
        (
            _case(f"{name}/at-the-root", 4, 4, [-1, 0], [0, 3], {0: half}, threshold_single=permissive),
            _case(f"{name}/before-its-sibling", 4, 4, [-1, 0, 0], [0, 0, 1], {0: half}, threshold_single=permissive),
            _case(
                f"{name}/below-a-draft", 4, 4, [-1, 0, 1], [0, 1, 3], {0: half, 1: other}, threshold_single=permissive
            ),
        ),
    )


def _last_draw(name: str) -> CoinGroup:
    middle = {0: [0] * 5 + [3, 1, 2, 3] + [0] * 7}
    finals = {"least-coin": 0.0, "largest-coin": TOP}
    return CoinGroup(
        name,
        tuple(
            member
            for key, final in finals.items()
            for member in (
                _case(f"{name}/{key}", 16, 2, [-1], [0], middle, final=final),
                _case(f"{name}/{key}-after-a-rejection", 16, 2, [-1, 0], [0, 6], middle, TOP, final=final),
            )
        ),
    )


def _certain(name: str, threshold_acc: float = 1.0) -> CoinGroup:
    """Return chains of five drafts of which the first k are accepted, k from 0 to the 4 of the depth limit and beyond.

    Coins are the largest there is, and 0 at the draft that cannot be accepted. Where every draft with mass is accepted,
    those before have a quarter of the mass only.
    """
    mass = (1, 0, 0, 0) if threshold_acc else (1, 1, 1, 1)
    members = []
    for count in range(6):
        laws = {node: np.roll(mass, node + 1) for node in range(count)}
        laws |= {node: np.roll((1, 2, 1, 0), node + 2) for node in range(count, 6)}
        coins = [TOP] * count + [0.0] * (6 - count)
        tokens = [0] + [node % 4 for node in range(1, 6)]
        members.append(
            _case(
                f"{name}/{count}", 4, 8, range(-1, 5), tokens, laws, *coins, depth_limit=5, threshold_acc=threshold_acc
            )
        )
    return CoinGroup(name, tuple(members))


def _thresholds(name: str) -> CoinGroup:
    quarter, step = (1, 1, 0, 2), 2.0**-24
    members = [
        _case(f"{name}/{mark:g}{side:+g}", 4, 4, [-1, 0, 0], [0, 0, 1], {0: quarter}, mark + side * step)
        for mark in (0.25, 0.5)
        for side in (-1, 0, 1)
    ]
    tiny = (1e-40, 0, 0, 1)
    members += [
        _case(f"{name}/tiny-{place}", 4, 4, [-1, 0], [0, 0], {0: tiny}, coin, final=coin)
        for place, coin in (("least", 0.0), ("next", step), ("largest", TOP))
    ]
    return CoinGroup(name, tuple(members))


def _one_token(name: str) -> CoinGroup:
    coins = {"least": 0.0, "largest": TOP}
    return CoinGroup(
        name,
        tuple(
            _case(f"{name}/{key}", 1, 4, [-1, 0, 1], [0] * 3, {}, *[coin] * 3, final=coin)
            for key, coin in coins.items()
        ),
    )


def _repeated(name: str) -> CoinGroup:
    case = _case(f"{name}/between", 4, 3, [-1, 0, 0], [0, 0, 0], {0: (4, 3, 2, 1)}).case
    return CoinGroup(
        name, (CoinCase(case, (0.5,), right=(1, 2, 3), outside="siblings of one node have different tokens"),)
    )


def _case(
    name: str,
    vocab: int,
    nodes: int,
    parents: Sequence[int],
    tokens: Sequence[int],
    weights: Mapping[int, Sequence[float] | NDArray[np.integer]],
    *coins: float,
    final: float = 0.0,
    threshold_single: float = 1.0,
    threshold_acc: float = 1.0,
    depth_limit: int = 3,
) -> CoinCase:
    """Return a case whose nodes have the law of their ``weights``, those beyond being 0, or else a uniform law."""
    probs = np.full((len(parents), vocab), np.float32(1.0 / vocab))
    for node, given in weights.items():
        probs[node] = 0.0
        probs[node, : len(given)] = np.array(given) / sum(given)
    with np.errstate(divide="ignore"):
        logits = np.log(probs)
    case = Case(
        name=name,
        rule="target-only",
        tree=Tree(np.array(tokens), np.array(parents)),
        logits=logits,
        probs=probs,
        depth_limit=depth_limit,
        nodes=nodes,
        threshold_single=threshold_single,
        threshold_acc=threshold_acc,
    )
    return CoinCase(case, coins, final)
