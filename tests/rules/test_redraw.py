"""Drafts drawn afresh: their law, their states, and the rows of a request that follow from them."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from distributions import strategies
from harness.draw import draw, without_replacement
from harness.groups import Group
from harness.redraw import next_state, redraw
from harness.tree import Tree

from .build import drafted_cases, law_rows, named_group, one_call
from .oracles import draws, fractions, generator, invert, state_after

quick = settings(max_examples=50, deadline=None)

LEAST_P = 1e-6
DRAFT = law_rows([[1, 2, 3, 0, 4], [5, 1, 1, 1, 0], [1, 1, 6, 2, 2]])
TREE = Tree(np.array([4, 0, 0, 0, 0, 0]), np.array([-1, 0, 0, 0, 1, 1]), ((2, 1, 3), (5, 4), (), (), (), ()))


def chi_square(seen: Counter[tuple[int, ...]], law: dict[tuple[int, ...], float]) -> float:
    """P-value of counts against a law; an outcome without probability is a p-value of 0."""
    if not seen.keys() <= {key for key, share in law.items() if share}:
        return 0.0
    keys = [key for key, share in law.items() if share]
    n = sum(seen.values())
    expected = np.array([law[key] for key in keys]) * n
    assert expected.min() > 5
    return float(stats.chisquare([seen[key] for key in keys], expected * (n / expected.sum())).pvalue)


# ---- the whole tree


@pytest.mark.parametrize("replacement", [True, False])
def test_siblings_follow_the_draft_law_of_their_parents_state(replacement: bool) -> None:
    rows = 1 << 15
    tokens, states = redraw(generator(f"redraw {replacement}"), TREE, DRAFT, rows, replacement)
    law = fractions(DRAFT)
    for node, children in enumerate(TREE.children):
        for state in range(len(DRAFT)) if children else ():
            mine = states[:, node] == state
            if not mine.any():
                continue
            expected: Counter[tuple[int, ...]] = Counter()
            for probability, drawn in draws(law[state], len(children), replacement):
                expected[drawn] += float(probability)  # type: ignore[assignment]
            seen = Counter(map(tuple, tokens[np.ix_(mine, children)].tolist()))
            assert chi_square(seen, dict(expected)) > LEAST_P


@pytest.mark.parametrize("replacement", [True, False])
def test_different_parents_draw_independently(replacement: bool) -> None:
    """Children of two nodes in one state: no dependence given the tokens above them."""
    tree = Tree(np.zeros(5), np.array([-1, 0, 0, 1, 2]))
    draft = law_rows([[1, 2, 3, 2]])
    tokens, _ = redraw(generator(f"independent {replacement}"), tree, draft, 1 << 15, replacement)
    seen = Counter(map(tuple, tokens[:, [3, 4]].tolist()))
    law = {pair: float(draft[0, pair[0]] * draft[0, pair[1]]) for pair in itertools.product(range(4), repeat=2)}
    assert chi_square(seen, law) > LEAST_P


@quick
@given(strategies.parents(8), st.integers(1, 5), st.integers(1, 6), strategies.generators(), st.booleans())
def test_states_are_those_of_the_paths(
    parents: np.ndarray, states: int, vocab: int, rng: np.random.Generator, replacement: bool
) -> None:
    if not replacement:
        vocab = max(vocab, *np.bincount(parents[1:], minlength=1).tolist())
    tree = Tree(np.full(len(parents), vocab - 1), parents)
    draft = law_rows(rng.integers(1, 5, (states, vocab)).tolist())
    tokens, reached = redraw(rng, tree, draft, 9, replacement)
    assert tokens.dtype == reached.dtype == np.int64
    assert tokens.shape == reached.shape == (9, len(tree))
    assert (tokens[:, 0] == vocab - 1).all()
    for row, state in zip(tokens.tolist(), reached.tolist(), strict=True):
        for node in range(len(tree)):
            assert state[node] == state_after([row[step] for step in tree.path(node)[1:]], states)
        for children in tree.children if not replacement else ():
            assert len({row[child] for child in children}) == len(children)


def test_next_state_of_numbers_and_arrays() -> None:
    grid = np.indices((7, 50))
    found = next_state(*grid, 7)
    for state, token in itertools.product(range(7), range(50)):
        assert found[state, token] == next_state(state, token, 7) == (31 * state + 17 * token + 1) % 7
    assert set(found.ravel().tolist()) == set(range(7))


def test_one_stream_gives_one_draw() -> None:
    one, other, later = (redraw(generator(name), TREE, DRAFT, 50, True)[0] for name in ("a", "a", "b"))
    np.testing.assert_array_equal(one, other)
    assert (one != later).any()


def test_the_tree_itself_is_left_alone() -> None:
    redraw(generator("alone"), TREE, DRAFT, 5, False)
    assert TREE.tokens.tolist() == [4, 0, 0, 0, 0, 0]


# ---- requests


@pytest.mark.parametrize("rule", ["rejection", "block", "rejection-replacement", "rejection-no-replacement"])
def test_rows_of_a_request_are_those_of_the_paths(rule: str) -> None:
    group = named_group(rule)
    request, which = one_call(group, 64)
    assert sorted(which.tolist()) == sorted(list(range(len(group))) * 64)
    for b, g in enumerate(which.tolist()):
        case = group.cases[g]
        assert case.draft is not None
        for node in range(len(case.tree)):
            path = [int(request.candidates[b, step]) for step in case.tree.path(node)[1:]]
            state = state_after(path, case.states)
            np.testing.assert_array_equal(request.target_probs[b, node], case.target_probs[state])
            np.testing.assert_array_equal(request.target_logits[b, node], case.logits[state])
            np.testing.assert_array_equal(request.draft_probs[b, node], case.draft[state])
        assert request.candidates[b, 0] == case.tree.tokens[0]
        beyond = slice(len(case.tree), None)
        assert (request.candidates[b, beyond] == 0).all()
        assert np.isfinite(request.target_probs[b, beyond]).all()
        assert np.isfinite(request.draft_probs[b, beyond]).all()


def test_every_row_and_call_draws_its_own() -> None:
    group = named_group("rejection")
    first, again, other = (one_call(group, 64, seed=seed)[0].candidates for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    assert len(np.unique(first[:, 1:4], axis=0)) > 20


@quick
@given(st.sampled_from(["rejection-replacement", "rejection-no-replacement"]).flatmap(drafted_cases))
def test_only_what_has_draft_mass_is_drafted(case: object) -> None:
    request, _ = one_call(Group("one", (case,)), 16)  # type: ignore[arg-type]
    for b in range(request.batch):
        for node in range(1, int(request.node_count[b])):
            assert request.draft_probs[b, request.parents[b, node], request.candidates[b, node]] > 0


# ---- draw and without_replacement


@quick
@given(st.integers(1, 9), st.integers(1, 30), strategies.generators())
def test_draw_is_inversion(vocab: int, rows: int, rng: np.random.Generator) -> None:
    weights = rng.integers(0, 3, (rows, vocab)) * rng.choice([1.0, 0.25, 2.0**-30], (rows, 1))
    weights[:, rng.integers(vocab)] += 1
    coins = rng.choice([0.0, 1 - 2.0**-24, 0.5, 0.25, 0.123], rows).astype(np.float32)
    found = draw(weights, coins)
    assert found.dtype == np.int64
    assert found.tolist() == [invert(row, float(coin)) for row, coin in zip(weights.tolist(), coins, strict=True)]
    assert (weights[np.arange(rows), found] > 0).all()


@pytest.mark.parametrize("coin", [0.0, 1 - 2.0**-24, np.nextafter(1.0, 0.0)])
def test_draw_at_the_ends_never_takes_a_token_without_weight(coin: float) -> None:
    rng = generator("ends")
    for vocab in (1, 2, 7, 4096, 100_003):
        weights = rng.random((20, vocab)) * (rng.random((20, vocab)) < 0.5)
        weights[:, 0] = weights[:, -1] = 0.0
        weights[np.arange(20), rng.integers(vocab, size=20)] = rng.random(20) + 1e-3
        found = draw(weights, np.full(20, coin))
        assert (weights[np.arange(20), found] > 0).all()
        some = [np.flatnonzero(row) for row in weights]
        if coin == 0.0:
            assert found.tolist() == [ids[0] for ids in some]
    for scale in (1.0, 1e-30, 1e30):
        assert draw(np.array([[0.0, 0, 1, 2, 0]]) * scale, np.array([coin])).tolist() == [2 if coin == 0.0 else 3]


def test_draw_in_parts_is_draw_at_once() -> None:
    """More entries than are worked on at once: rows keep their own coins."""
    rng = generator("parts")
    weights, coins = rng.random((70, 1 << 16)), rng.random(70)
    found = draw(weights, coins)
    assert found.tolist() == [draw(weights[[b]], coins[[b]])[0] for b in range(70)]


def test_draw_gives_each_token_its_share_of_the_coins() -> None:
    weights = np.array([[3.0, 0, 1, 4, 8]])
    found = draw(np.repeat(weights, 1 << 12, axis=0), np.arange(1 << 12) / (1 << 12))
    assert np.bincount(found, minlength=5).tolist() == [768, 0, 256, 1024, 2048]


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_without_replacement_is_successive_draws(count: int) -> None:
    """P(x_1 .. x_k) = prod q(x_i) / (1 - q(x_1) - .. - q(x_{i-1})): Plackett and Luce."""
    weights = [4.0, 0.0, 1.0, 2.0, 3.0]
    rows = 1 << 15
    found = without_replacement(np.tile(weights, (rows, 1)), count, generator(f"plackett {count}"))
    assert found.dtype == np.int64
    law = {}
    for order in itertools.permutations((0, 2, 3, 4), count):
        share, left = 1.0, 10.0
        for token in order:
            share *= weights[token] / left
            left -= weights[token]
        law[order] = share
    assert abs(sum(law.values()) - 1) < 1e-12
    assert chi_square(Counter(map(tuple, found.tolist())), law) > LEAST_P


def test_without_replacement_takes_no_token_without_weight() -> None:
    weights = np.tile([0.0, 1e-300, 1.0, 0.0, 1e-12], (500, 1))
    assert {tuple(sorted(row)) for row in without_replacement(weights, 3, generator("tiny")).tolist()} == {(1, 2, 4)}
