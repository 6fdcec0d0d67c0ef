"""What the papers say of the rules, on random laws."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import Case
from harness.law import Law
from harness.rules import RULES
from harness.rules.rejection import accept_chances
from harness.tree import Tree

from .build import DRAFTED, drafted_cases, fixed_cases, redrawn, sequences_of, weights
from .oracles import generator

quick = settings(max_examples=30, deadline=None)

Pair = tuple[list[int], list[int]]
Weights = list[list[float]]

TOKENWISE = ("rejection", "rejection-replacement", "rejection-no-replacement")


def pairs(vocab: int = 5, least: int = 1) -> st.SearchStrategy[Pair]:
    return st.tuples(weights(vocab), weights(vocab, least))


def star(count: int) -> list[int]:
    return [-1] + [0] * count


def chain(count: int) -> list[int]:
    return list(range(-1, count))


def law_of(rule: str, parents: list[int], p: Weights, q: Weights) -> Law:
    return RULES[rule].law(redrawn(rule, parents, p, q))


def accepted(law: Law) -> float:
    """Return the expected number of accepted drafts."""
    return float(np.arange(len(law.lengths)) @ law.lengths) - 1


def normalised(row: list[int]) -> np.ndarray:
    law = (np.array(row, float) / sum(row)).astype(np.float32).astype(float)
    return law / law.sum()


# ---- one draft


@quick
@given(pairs())
def test_one_draft_is_accepted_as_often_as_the_laws_overlap(pair: Pair) -> None:
    """2211.17192, section 3: sum of min(p, q); all rules agree on one draft."""
    p, q = map(normalised, pair)
    for rule in DRAFTED:
        law = law_of(rule, chain(1), [pair[0]], [pair[1]])
        assert abs(law.lengths[2] - np.minimum(p, q).sum()) < 1e-12
        np.testing.assert_allclose(law.rows[0], p, rtol=0, atol=1e-12)


@quick
@given(pairs(4), st.integers(1, 4))
def test_a_chain_of_one_law_is_a_capped_geometric(pair: Pair, drafts: int) -> None:
    """2211.17192, equation 1: E[tokens] = (1 - a^(g + 1)) / (1 - a), a = sum of min(p, q), where laws do not change."""
    a = float(np.minimum(*map(normalised, pair)).sum())
    law = law_of("rejection", chain(drafts), [pair[0]], [pair[1]])
    assert abs(accepted(law) + 1 - sum(a**i for i in range(drafts + 1))) < 1e-12
    np.testing.assert_allclose(law.lengths[1:], [a**i * (1 - a) for i in range(drafts)] + [a**drafts], atol=1e-12)


# ---- siblings


@quick
@given(pairs(), st.integers(1, 6))
def test_independent_siblings_in_closed_form(pair: Pair, count: int) -> None:
    """Unnormalised residuals telescope: u_k = relu(p - (m_0 + .. + m_{k-1}) q), and all k fail with m_k = sum u_k."""
    p, q = map(normalised, pair)
    law = law_of("rejection-replacement", star(count), [pair[0]], [pair[1]])
    taken, left = 0.0, [1.0]
    for _ in range(count):
        taken += left[-1]
        left.append(float(np.maximum(p - taken * q, 0).sum()))
    assert abs(law.lengths[1] - left[-1]) < 1e-12
    chances = accept_chances(p, q, count, True)
    np.testing.assert_allclose(chances.sum(axis=1), -np.diff(left), rtol=0, atol=1e-12)


@quick
@given(pairs(), st.integers(2, 4))
def test_more_siblings_never_hurt(pair: Pair, count: int) -> None:
    for rule, (p, q) in itertools.product(TOKENWISE[1:], [pair]):
        if rule == "rejection-no-replacement" and sum(map(bool, q)) < count:
            continue
        fewer, more = (law_of(rule, star(k), [p], [q]).lengths[1] for k in (count - 1, count))
        assert more <= fewer + 1e-12


@quick
@given(pairs(4, least=4))
def test_all_tokens_without_replacement_cover_the_target(pair: Pair) -> None:
    """2402.12374: once every token is drafted, one of them is accepted; independent siblings do not give that."""
    law = law_of("rejection-no-replacement", star(4), [pair[0]], [pair[1]])
    assert law.lengths[1] < 1e-12


def test_with_and_without_replacement_differ() -> None:
    p, q = [[1, 2, 5]], [[5, 2, 1]]
    independent = law_of("rejection-replacement", star(2), p, q)
    distinct = law_of("rejection-no-replacement", star(2), p, q)
    # by hand: (1, 2, 5)/8 against (5, 2, 1)/8 accepts 1/2 and leaves token 2; drawn again it comes with 1/8
    assert abs(independent.lengths[1] - 0.5 * 7 / 8) < 1e-7
    # only token 0 is ever rejected, which leaves (0, 2, 1)/3: token 2 comes with 1/3
    assert abs(distinct.lengths[1] - 0.5 * 2 / 3) < 1e-7
    np.testing.assert_allclose(independent.rows[0], distinct.rows[0], rtol=0, atol=1e-12)


@quick
@given(pairs(3, least=2))
def test_one_sibling_is_the_same_with_and_without_replacement(pair: Pair) -> None:
    laws = [sequences_of(law_of(rule, chain(3), [pair[0]], [pair[1]])) for rule in TOKENWISE]
    assert laws[0] == laws[1]
    assert laws[0].keys() == laws[2].keys()
    assert all(abs(laws[0][key] - laws[2][key]) < 1e-12 for key in laws[0])


@quick
@given(pairs())
def test_drafting_with_the_target_accepts_everything(pair: Pair) -> None:
    p = pair[0]
    for rule, drafts in itertools.product(DRAFTED, (1, 3)):
        assert abs(law_of(rule, chain(drafts), [p], [p]).lengths[drafts + 1] - 1) < 1e-12


@pytest.mark.parametrize("rule", DRAFTED)
def test_drafting_what_is_impossible_accepts_nothing(rule: str) -> None:
    law = law_of(rule, chain(2), [[0, 0, 1, 3]], [[1, 2, 0, 0]])
    assert law.size == 1
    assert law.lengths.tolist() == [0, 1, 0, 0]


# ---- block verification


@quick
@given(st.lists(pairs(3), min_size=1, max_size=4), st.integers(0, 4))
def test_block_accepts_no_less_than_token_by_token(rows: list[Pair], drafts: int) -> None:
    """2403.10444: no valid verification of a chain accepts more."""
    p, q = [row[0] for row in rows], [row[1] for row in rows]
    block, tokenwise = (accepted(law_of(rule, chain(drafts), p, q)) for rule in ("block", "rejection"))
    assert block >= tokenwise - 1e-12
    if drafts <= 1:
        assert abs(block - tokenwise) < 1e-12


def test_block_example_of_the_paper() -> None:
    """2403.10444: p = (1/3, 2/3), q = (2/3, 1/3), two drafts: 10/9 token by token, 11/9 by block."""
    p, q = [[1, 2]], [[2, 1]]
    assert abs(accepted(law_of("rejection", chain(2), p, q)) - 10 / 9) < 1e-7
    assert abs(accepted(law_of("block", chain(2), p, q)) - 11 / 9) < 1e-7


@quick
@given(st.lists(pairs(3), min_size=1, max_size=3), st.integers(1, 3))
def test_block_and_token_by_token_emit_the_same_law(rows: list[Pair], drafts: int) -> None:
    """Same next-token law after any prefix that both can emit; only how far they get differs."""
    p, q = [row[0] for row in rows], [row[1] for row in rows]
    block, tokenwise = (law_of(rule, chain(drafts), p, q) for rule in ("block", "rejection"))
    for m in range(tokenwise.size):
        other = block.find(tokenwise.prefix(m))
        if other >= 0:
            np.testing.assert_allclose(block.rows[other], tokenwise.rows[m], rtol=0, atol=1e-12)


# ---- all rules


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(DRAFTED).flatmap(drafted_cases))
def test_laws_are_laws(case: Case) -> None:
    law = RULES[case.rule].law(case)
    assert abs(law.lengths.sum() - 1) < 1e-12
    assert (law.lengths >= 0).all()
    assert law.lengths[0] == 0
    assert law.reach[0] == 1
    assert (law.reach > 0).all()
    assert (law.reach <= law.emit + 1e-12).all()
    np.testing.assert_allclose(law.rows.sum(axis=1), 1, rtol=0, atol=1e-12)
    assert law.depth.max() <= min(case.depth_limit - 1, case.tree.depth.max())
    assert abs(sum(sequences_of(law).values()) - 1) < 1e-12


@quick
@given(st.data(), fixed_cases("sampler-match"))
def test_sampler_match_and_target_only_are_one_law_and_no_order_matters(data: st.DataObject, case: Case) -> None:
    """P(path, bonus) = prod p(child) * p(bonus | last), bonus no child of the last node unless the limit was hit."""
    tree, p = case.tree, case.law_rows
    expected = {}
    for node in range(len(tree)):
        path = tree.path(node)
        if len(path) > case.depth_limit:
            continue
        share = float(np.prod([p[a, tree.tokens[b]] for a, b in itertools.pairwise(path)]))
        open_ = len(path) < case.depth_limit
        for bonus in range(case.vocab):
            if not (open_ and bonus in tree.child_tokens(node)) and share * p[node, bonus] > 0:
                expected[(*tree.tokens[path[1:]].tolist(), bonus)] = share * float(p[node, bonus])
    order = [data.draw(st.permutations(listed)) for listed in tree.children]
    shuffled = replace(case, tree=tree.reordered(order))
    for rule, subject in itertools.product(("sampler-match", "target-only"), (case, shuffled)):
        found = sequences_of(RULES[rule].law(subject))
        assert {key for key, share in expected.items() if share > 1e-12} <= found.keys()
        assert all(abs(share - expected.get(key, 0)) < 1e-12 for key, share in found.items())


def test_a_mass_that_float32_rounds_to_one_counts_as_itself() -> None:
    """At thresholds of 1 the other tokens keep what they have, and no prefix goes on more often than it is emitted."""
    case = Case("x", "target-only", Tree([0, 0], [-1, 0]), np.array([[19, 0, 0, 0], [0, 0, 0, 0]], np.float32))
    assert case.target_probs[0, 0] == 1
    law = RULES["target-only"].law(case)
    assert law.emit[1] == law.reach[1] == case.law_rows[0, 0] < 1
    assert abs(sum(sequences_of(law).values()) - 1) < 1e-12


@quick
@given(st.data(), st.sampled_from(TOKENWISE).flatmap(drafted_cases))
def test_order_of_siblings_never_touches_the_next_token(data: st.DataObject, case: Case) -> None:
    """Which of the siblings comes first decides on lengths where what is below them differs, on nothing else."""
    order = [data.draw(st.permutations(listed)) for listed in case.tree.children]
    law = RULES[case.rule].law(case)
    other = RULES[case.rule].law(replace(case, tree=case.tree.reordered(order)))
    for m in range(law.size):
        twin = other.find(law.prefix(m))
        if twin >= 0:
            np.testing.assert_allclose(other.rows[twin], law.rows[m], rtol=0, atol=1e-12)
    if case.tree.depth.max() <= 1 or case.depth_limit <= 2:  # nothing below: exchangeable
        np.testing.assert_allclose(other.lengths, law.lengths, rtol=0, atol=1e-12)


@pytest.mark.parametrize("rule", TOKENWISE[1:])
def test_order_matters_where_what_is_below_differs(rule: str) -> None:
    case = redrawn(rule, [-1, 0, 0, 1], [[1, 2, 5]], [[5, 2, 1]])
    late = replace(case, tree=Tree(case.tree.tokens, case.tree.parents, ((2, 1), (3,), (), ())))
    first, second = RULES[rule].law(case), RULES[rule].law(late)
    assert first.lengths[3] > second.lengths[3] + 0.05
    assert abs(first.lengths[1] - second.lengths[1]) < 1e-12


@quick
@given(st.integers(0, 999))
def test_no_token_is_accepted_more_often_than_it_may_be_emitted(seed: int) -> None:
    """With laws that are no small fractions, V = 8 and up to four siblings."""
    rng = generator(f"accepted {seed}")
    p, q = (rng.dirichlet(np.full(8, rng.choice([0.1, 1.0, 10.0])), 3) + 1e-9 for _ in range(2))
    for rule in TOKENWISE:
        case = redrawn(rule, [-1, 0, 1] if rule == "rejection" else [-1, 0, 0, 0, 2], p.tolist(), q.tolist())
        for row, draft in zip(case.law_rows, case.draft_rows, strict=True):
            chances = accept_chances(row, draft, 4, case.replacement)
            assert (chances.sum(axis=0) <= row + 1e-12).all()
            assert (np.diff(np.cumsum(chances.sum(axis=1))) >= 0).all()
        law = RULES[rule].law(case)
        assert abs(law.lengths.sum() - 1) < 1e-12
        assert (law.emit >= law.reach - 1e-12).all()
