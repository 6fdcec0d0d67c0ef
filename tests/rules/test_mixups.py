"""Rules that are mixed up, and rules with one thing wrong: the judge says so, in draws that a smoke run affords."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from harness.case import Case
from harness.counts import prefix_counts
from harness.draw import draw
from harness.groups import Group, Plan
from harness.request import Request, Result
from harness.rules import RULES
from harness.stats import judge
from harness.stats.cells import cells

from .build import redrawn, sample
from .oracles import generator

Floats = NDArray[np.float64]
Verify = Callable[[Request], Any]

ALPHA = 1e-9
MODEST = 1 << 16

P = [[6, 3, 2, 1], [1, 5, 2, 2], [4, 1, 1, 4]]
Q = [[2, 3, 4, 1], [3, 2, 4, 1], [1, 1, 4, 3]]


def verdicts(case: Case, verify: Verify, *, conditional: bool = False, n: int = MODEST) -> tuple[bool, float, float]:
    """Whether the judge calls it biased; p-values of the cells, unconditional and given the prefix."""
    (sequences,) = sample(Plan(Group(case.name, (case,)), "rules", 0, n), verify)
    law = RULES[case.rule].law(case)
    verdict = judge(law, sequences, ALPHA, generator(f"judge {case.name}"), conditional=conditional)
    counts = prefix_counts(law, sequences)
    free, given = (cells(law, counts, conditional=flag).p_value for flag in (False, True))
    assert free is not None
    assert given is not None
    return verdict.biased, free, given


def chain_walk(accept: Callable[..., Any], residual: Callable[[Floats, Floats], Floats]) -> Verify:
    """Chain verification with its two decisions left open, vectorised."""

    def verify(request: Request) -> Result[Any]:
        batch = np.arange(request.batch)
        p, q = request.target_probs.astype(float), request.draft_probs.astype(float)
        tokens = np.full((request.batch, request.depth_limit), -1, np.int64)
        depth, going = np.zeros(request.batch, np.int64), np.ones(request.batch, bool)
        rest = p[:, 0]
        for i in range(min(int(request.node_count[0]), request.depth_limit) - 1):
            x = request.candidates[:, i + 1]
            taken = going & accept(request.coins[:, i + 1], p[batch, i, x], q[batch, i, x])
            lost = going & ~taken
            rest[lost] = residual(p[lost, i], q[lost, i])
            tokens[taken, i] = x[taken]
            depth[taken] += 1
            rest[taken] = p[taken, i + 1]
            going = taken
        tokens[batch, depth] = draw(rest, request.final_coins)
        return Result(tokens, depth + 1)

    return verify


def by_coin(coin: Floats, p: Floats, q: Floats) -> Any:
    return coin * q < p


def positive_part(p: Floats, q: Floats) -> Floats:
    return np.maximum(p - q, 0)


def chain_case() -> Case:
    return redrawn("rejection", [-1, 0, 1, 2], P, Q)


def test_the_mutable_walk_is_right_when_nothing_is_changed() -> None:
    biased, free, given = verdicts(chain_case(), chain_walk(by_coin, positive_part))
    assert not biased
    assert min(free, given) > 1e-6


WRONG: dict[str, Verify] = {
    "residual is p": chain_walk(by_coin, lambda p, q: p),
    "residual is relu(q - p)": chain_walk(by_coin, lambda p, q: np.maximum(q - p, 0)),
    "residual of the other sign": chain_walk(by_coin, lambda p, q: np.abs(p - q)),
    "accepts where p >= q, no coin": chain_walk(lambda coin, p, q: p >= q, positive_part),
    "accepts with p": chain_walk(lambda coin, p, q: coin < p, positive_part),
    "accepts everything": chain_walk(lambda coin, p, q: p > -1, positive_part),
    "accepts nothing": chain_walk(lambda coin, p, q: p < -1, lambda p, q: p),
    "q for p at the last token": chain_walk(by_coin, lambda p, q: q),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_thing_wrong_is_seen(name: str) -> None:
    assert verdicts(chain_case(), WRONG[name])[0]


def retempered(temperature: float, rule: str) -> Verify:
    """Verify with the draft law at another temperature than the drafts were drawn at."""

    def verify(request: Request) -> Any:
        q = request.draft_probs.astype(float) ** (1 / temperature)
        request.draft_probs = (q / q.sum(axis=-1, keepdims=True)).astype(np.float32)
        return RULES[rule].walk(request)

    return verify


NEAR_P = [[80, 15, 5], [5, 80, 15], [15, 5, 80]]
NEAR_Q = [[100, 10, 1], [1, 100, 10], [10, 1, 100]]
"""A good draft, sharper than its target. Most other pairs of laws hide 5% of temperature better: it moves 0.3% to 1% of
the mass there, 2% here."""


@pytest.mark.parametrize("rule", ["rejection", "rejection-replacement", "rejection-no-replacement", "block"])
def test_a_draft_law_at_another_temperature_is_seen(rule: str) -> None:
    case = redrawn(rule, [-1, 0, 1, 2] if rule in ("rejection", "block") else [-1, 0, 0, 1], NEAR_P, NEAR_Q)
    assert not verdicts(case, retempered(1.0, rule), n=1 << 17)[0]
    assert verdicts(case, retempered(1.05, rule), n=1 << 17)[0]


TREE = [-1, 0, 0, 1, 1]
TREE_P = [[2, 10, 8], [10, 8, 2], [8, 2, 10]]
TREE_Q = [[10, 3, 7], [3, 7, 10], [7, 10, 3]]
"""After token 0 is rejected in state 0, p is (0, 7, 1)/8, and token 2 is accepted with 1/8 over 7/20 or over 7/10."""


@pytest.mark.parametrize(
    ("drawn", "verified"),
    [
        ("rejection-no-replacement", "rejection-replacement"),
        ("rejection-replacement", "rejection-no-replacement"),
        ("rejection-replacement", "target-only"),
        ("rejection-replacement", "sampler-match"),
        ("rejection-no-replacement", "target-only"),
        ("rejection-no-replacement", "sampler-match"),
    ],
)
def test_the_wrong_tree_rule_is_seen(drawn: str, verified: str) -> None:
    case = redrawn(drawn, TREE, TREE_P, TREE_Q)
    assert not verdicts(case, RULES[drawn].walk)[0]
    assert verdicts(case, RULES[verified].walk)[0]


def test_without_replacement_verified_as_with_it_is_no_longer_lossless() -> None:
    """Not only the acceptance is off: given the prefix, the next token is too."""
    case = redrawn("rejection-no-replacement", TREE, TREE_P, TREE_Q)
    assert verdicts(case, RULES["rejection-replacement"].walk, conditional=True)[0]


@pytest.mark.parametrize(("claimed", "done"), [("block", "rejection"), ("rejection", "block")])
def test_token_by_token_for_block_is_lossless_and_seen(claimed: str, done: str) -> None:
    """Every next-token law is right; only how often a prefix is reached is not, which unconditional cells see."""
    case = redrawn(claimed, [-1, 0, 1, 2], P, Q)
    biased, free, given = verdicts(case, RULES[done].walk)
    assert biased
    assert free < ALPHA
    assert given > 1e-6
    assert not verdicts(case, RULES[done].walk, conditional=True)[0]


@pytest.mark.parametrize("rule", ["target-only", "sampler-match"])
def test_sampling_rules_on_a_chain_are_lossless_but_not_rejection(rule: str) -> None:
    """Drafts of a chain are independent of their coins: right tokens, another acceptance."""
    case = chain_case()
    biased, free, given = verdicts(case, RULES[rule].walk)
    assert biased
    assert free < ALPHA
    assert given > 1e-6


@pytest.mark.parametrize("rule", ["rejection", "block", "target-only", "sampler-match"])
def test_without_a_claim_any_lossless_walk_of_a_chain_passes(rule: str) -> None:
    """Rule None with drafts: its law plans as if for rejection, and the test given the prefix takes any acceptance."""
    case = redrawn("none-chain", [-1, 0, 1, 2], P, Q)
    law, rejection = RULES["none-chain"].law(case), RULES["rejection"].law(chain_case())
    np.testing.assert_array_equal(law.rows, rejection.rows)
    np.testing.assert_array_equal(law.reach, rejection.reach)
    assert not verdicts(case, RULES[rule].walk, conditional=True)[0]


@pytest.mark.parametrize("name", ["residual is p", "accepts where p >= q, no coin", "accepts everything"])
def test_without_a_claim_bias_is_seen(name: str) -> None:
    assert verdicts(redrawn("none-chain", [-1, 0, 1, 2], P, Q), WRONG[name], conditional=True)[0]
