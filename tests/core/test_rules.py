"""Laws of the rules against every coin there is, and their walks against a plain loop and against the laws."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from distributions import SHAPES, TARGETS, sibling_tokens, strategies
from harness.case import Case
from harness.errors import UsageError
from harness.filters import SamplingParams
from harness.groups import Group
from harness.law import Law
from harness.request import Request
from harness.rules import RULES, rule
from harness.rules.target_only import acceptance
from harness.tree import Tree

from .build import UNIT, Dyadic, dyadic_cases, groups, one_case, outcomes_of, params, plan, renumberings, splits, trees
from .oracles import Path, choose, invert, outcomes, prefixes, stream, verify

few = settings(max_examples=20, deadline=None)
quick = settings(max_examples=40, deadline=None)
many = settings(max_examples=100, deadline=None)

TARGET_ONLY, PLAIN = RULES["target-only"], RULES["plain"]


def as_mapping(law: Law) -> dict[Path, tuple[float, np.ndarray]]:
    """Reach and next-token row of each prefix."""
    return {tuple(law.prefix(m)): (float(law.reach[m]), law.rows[m]) for m in range(law.size)}


def assert_same_law(one: Law, other: Law, tolerance: float = 1e-12) -> None:
    left, right = as_mapping(one), as_mapping(other)
    assert set(left) == set(right)
    for prefix, (reach, row) in left.items():
        assert abs(reach - right[prefix][0]) <= tolerance
        np.testing.assert_allclose(row, right[prefix][1], rtol=0, atol=tolerance)


def every_coin(drawn: Dyadic) -> dict[Path, Fraction]:
    case = drawn.case
    tree = case.tree
    return outcomes(tree.tokens.tolist(), tree.children, drawn.parts, UNIT, case.depth_limit, drawn.single, drawn.acc)


def assert_law_is(law: Law, tree: Tree, expected: dict[Path, Fraction]) -> None:
    """Check every number of a law against P(emitted sequence)."""
    assert sum(expected.values()) == 1
    known = prefixes(expected)
    assert {tuple(law.prefix(m)) for m in range(law.size)} == set(known)
    for prefix, (emit, reach, row) in known.items():
        m = law.find(prefix)
        assert m >= 0
        assert law.prefix(m) == list(prefix)
        assert abs(law.emit[m] - emit) < 1e-12
        assert abs(law.reach[m] - reach) < 1e-12
        np.testing.assert_allclose(law.rows[m], [float(row.get(t, 0)) for t in range(law.vocab)], atol=1e-12)
        assert abs(law.rows[m].sum() - 1) < 1e-12
        assert [int(tree.tokens[node]) for node in tree.path(int(law.node[m]))[1:]] == list(prefix)
        for token in range(law.vocab):
            ends = law.outcome(np.array([m]), np.array([token]))[0]
            assert abs(ends - expected.get((*prefix, token), 0)) < 1e-12
            goes_on = (*prefix, token) in known
            assert (law.children(np.array([m]), np.array([token]))[0] >= 0) == goes_on
    lengths = [float(sum(p for s, p in expected.items() if len(s) == k)) for k in range(law.depth_limit + 1)]
    np.testing.assert_allclose(law.lengths, lengths, atol=1e-12)


# ---- exact laws


@many
@given(dyadic_cases())
def test_target_only_law_is_that_of_every_coin(drawn: Dyadic) -> None:
    assert_law_is(TARGET_ONLY.law(drawn.case), drawn.case.tree, every_coin(drawn))


@quick
@given(dyadic_cases(lossless=True, max_nodes=8, max_vocab=5))
def test_target_only_is_lossless_at_thresholds_of_one(drawn: Dyadic) -> None:
    law = TARGET_ONLY.law(drawn.case)
    assert_law_is(law, drawn.case.tree, every_coin(drawn))
    np.testing.assert_allclose(law.rows, drawn.case.law_rows[law.node], rtol=0, atol=1e-12)


@settings(max_examples=15, deadline=None)
@given(dyadic_cases(max_nodes=3, max_vocab=3))
def test_trying_every_coin_of_every_node_at_once(drawn: Dyadic) -> None:
    """The oracle of the tests above takes nodes one by one; this one takes the coins of all nodes together."""
    case, tree = drawn.case, drawn.case.tree
    assume(sum(map(bool, tree.children)) <= 2)
    rows = [[Fraction(part, UNIT) for part in row] for row in drawn.parts]
    grid = UNIT if drawn.acc == UNIT else max(drawn.acc, 1)
    final_grid = int(np.lcm.reduce(range(1, UNIT + 1)))
    found: Counter[Path] = Counter()
    inner = [node for node in range(len(tree)) if tree.children[node]]
    for picked in itertools.product(range(grid), repeat=len(inner)):
        coins = [Fraction(0)] * len(tree)
        for node, i in zip(inner, picked, strict=True):
            coins[node] = Fraction(i, grid)
        # the last token changes at multiples of 1/16 of the mass left: one coin for each interval, weighted by it
        step = (tree.tokens.tolist(), tree.children, rows, coins)
        limits = (case.depth_limit, Fraction(drawn.single, UNIT), Fraction(drawn.acc, UNIT))
        _, nodes = verify(*step, Fraction(0), *limits)
        rejected = [] if len(nodes) == case.depth_limit else tree.child_tokens(nodes[-1])
        left = sum(part for token, part in enumerate(drawn.parts[nodes[-1]]) if token not in rejected)
        for i in range(left):
            sequence, _ = verify(*step, Fraction(i, left), *limits)
            found[tuple(sequence)] += final_grid // left
    total = sum(found.values())
    expected = {sequence: Fraction(times, total) for sequence, times in found.items()}
    assert expected == every_coin(drawn)
    assert_law_is(TARGET_ONLY.law(case), tree, expected)


@quick
@given(st.data(), st.integers(1, 9), st.integers(1, 4))
def test_plain_law_is_that_of_every_coin(data: st.DataObject, vocab: int, limit: int) -> None:
    parts = data.draw(splits(UNIT, vocab))
    probs = np.array([parts], np.float32) / UNIT
    case = Case("x", "plain", Tree([0], [-1]), np.zeros((1, vocab)), probs=probs, depth_limit=limit)
    hits = Counter(invert(parts, Fraction(i, UNIT)) for i in range(UNIT))
    expected = {(token,): Fraction(times, UNIT) for token, times in hits.items()}
    law = PLAIN.law(case)
    assert_law_is(law, case.tree, expected)
    assert law.size == 1
    np.testing.assert_array_equal(law.rows[0], case.law_rows[0])


@few
@given(groups(lossless=True))
def test_at_thresholds_of_one_the_law_is_a_product(group: Group) -> None:
    """P(path, bonus) = prod p(child) * p(bonus | last), bonus no child of the last node unless the limit was hit."""
    for case in group.cases:
        tree, rows = case.tree, case.law_rows
        expected: dict[Path, float] = {}
        for node in range(len(tree)):
            path = tree.path(node)
            if len(path) > case.depth_limit:
                continue
            p = 1.0
            for parent, child in itertools.pairwise(path):
                p *= rows[parent][tree.tokens[child]]
            drafts = tree.child_tokens(node) if len(path) < case.depth_limit else []
            for token in range(case.vocab):
                if token not in drafts and p * rows[node][token] > 0:
                    expected[(*(int(tree.tokens[step]) for step in path[1:]), token)] = p * rows[node][token]
        law = TARGET_ONLY.law(case)
        found = outcomes_of(law)
        for sequence in expected.keys() | found.keys():
            assert abs(expected.get(sequence, 0) - found.get(sequence, 0)) < 1e-12
        np.testing.assert_allclose(law.rows, rows[law.node], rtol=0, atol=1e-12)
        assert abs(law.lengths.sum() - 1) < 1e-12


@few
@given(st.data(), groups(lossless=True))
def test_at_thresholds_of_one_sibling_order_changes_nothing(data: st.DataObject, group: Group) -> None:
    for case in group.cases:
        order = [data.draw(st.permutations(listed)) for listed in case.tree.children]
        assert_same_law(TARGET_ONLY.law(replace(case, tree=case.tree.reordered(order))), TARGET_ONLY.law(case))


def test_below_one_sibling_order_matters() -> None:
    probs = np.array([[0.5, 0.25, 0.25], [1, 0, 0], [1, 0, 0]], np.float32)
    tree = Tree([0, 0, 1], [-1, 0, 0])
    case = Case("x", "target-only", tree, np.zeros((3, 3)), probs=probs, threshold_acc=0.5)
    law = TARGET_ONLY.law(case)
    assert law.rows[0].tolist() == [1, 0, 0]
    other = TARGET_ONLY.law(replace(case, tree=tree.reordered([(2, 1), (), ()])))
    assert other.rows[0].tolist() == [0.5, 0.5, 0]


@few
@given(st.data(), groups())
def test_numbering_changes_nothing(data: st.DataObject, group: Group) -> None:
    for case in group.cases:
        new = np.array(data.draw(renumberings(len(case.tree))))
        other = replace(case, tree=case.tree.renumbered(new), logits=case.logits[np.argsort(new)])
        law, renumbered = TARGET_ONLY.law(case), TARGET_ONLY.law(other)
        assert_same_law(renumbered, law)
        for m in range(law.size):
            assert renumbered.node[renumbered.find(law.prefix(m))] == new[law.node[m]]


@few
@given(groups(), st.integers(1, 3))
def test_padding_changes_nothing(group: Group, padding: int) -> None:
    for case in group.cases:
        wider = replace(case, nodes=case.nodes + padding)
        assert_same_law(TARGET_ONLY.law(wider), TARGET_ONLY.law(case), 0)


@few
@given(groups())
def test_laws_of_any_case_are_laws(group: Group) -> None:
    for case in group.cases:
        law = TARGET_ONLY.law(case)
        np.testing.assert_allclose(law.rows.sum(axis=1), 1, atol=1e-12)
        assert (law.rows >= 0).all()
        assert (law.reach > 0).all()
        assert law.reach[0] == 1
        assert law.depth_limit == case.depth_limit
        assert law.depth.max() <= case.depth_limit - 1
        assert abs(law.lengths.sum() - 1) < 1e-12
        assert (law.lengths >= -1e-15).all()
        assert law.lengths[0] == 0


@many
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-6, 1)), min_size=0, max_size=5),
    st.floats(1e-6, 5),
    st.one_of(st.sampled_from([0.0, 0.25, 1.0]), st.floats(0, 1)),
    st.one_of(st.sampled_from([0.0, 1e-12, 0.25, 1.0]), st.floats(0, 1)),
)
@example([0.25, 0.25], 0.5, 0.25, 1.0)
@example([0.0, 0.0], 1.0, 0.0, 0.0)
def test_acceptance_is_constant_between_the_marks(mass: list[float], rest: float, single: float, acc: float) -> None:
    """Decisions change at S_i / acc only: one coin between each two marks tells how much each child gets."""
    total = sum(mass) + rest
    row = [Fraction(p / total) for p in mass]
    sums = itertools.accumulate(row)
    marks = sorted(
        {Fraction(0), Fraction(1), *(min(Fraction(1), s / max(Fraction(acc), Fraction(1e-9))) for s in sums)}
    )
    expected = [Fraction(0)] * len(mass)
    for low, high in itertools.pairwise(marks):
        place = choose(row, range(len(row)), (low + high) / 2, Fraction(single), Fraction(acc))
        if place is not None:
            expected[place] += high - low
    found = acceptance(np.array([float(p) for p in row]), np.array([p >= Fraction(single) for p in row], bool), acc)
    np.testing.assert_allclose(found, [float(p) for p in expected], rtol=0, atol=1e-12)


def test_threshold_single_compares_what_the_sampler_gets() -> None:
    """A float32 row need not sum to 1; a child at threshold_single exactly is accepted, by law and walk alike."""
    rng = stream("threshold single")
    for _ in range(100):
        probs = rng.dirichlet(np.ones(5), 3).astype(np.float32)
        tree = Tree([0, 3, 1], [-1, 0, 0])
        case = Case("x", "target-only", tree, np.zeros((3, 5)), probs=probs, threshold_single=float(probs[0, 3]))
        law = TARGET_ONLY.law(case)
        assert law.rows[0].tolist() == [0, 0, 0, 1, 0]
        assert (TARGET_ONLY.walk(one_case(case, 4)).tokens[:, 0] == 3).all()


# ---- walks


def plain_rows(request: Request, b: int) -> tuple[list[list[float]], list[list[int]]]:
    """Rows normalised by their sum, and children by following the links, of request b."""
    count = int(request.node_count[b])
    rows = []
    for node in range(count):
        row = request.target_probs[b, node].tolist()
        total = sum(row)
        rows.append([p / total for p in row])
    children = []
    for node in range(count):
        listed, child = [], int(request.retrieve_next_token[b, node])
        while child != -1:
            listed.append(child)
            child = int(request.retrieve_next_sibling[b, child])
        children.append(listed)
    return rows, children


def assert_walk_is_the_loop(group: Group, rows: int, seed: int) -> None:
    request, _ = plan(group, rows, seed=seed).call(0)
    result = TARGET_ONLY.walk(request)
    S = request.depth_limit
    assert result.nodes is not None
    assert result.tokens.dtype == result.lengths.dtype == result.nodes.dtype == np.int64
    assert result.tokens.shape == result.nodes.shape == (request.batch, S)
    assert result.lengths.shape == (request.batch,)
    for b in range(request.batch):
        law_rows, children = plain_rows(request, b)
        coins, final = request.coins[b].tolist(), float(request.final_coins[b])
        single, acc = float(np.float32(request.threshold_single)), float(request.threshold_acc)
        given = request.target_probs[b].tolist()
        tokens = request.candidates[b].tolist()
        sequence, nodes = verify(tokens, children, law_rows, coins, final, S, single, acc, given)
        padding = [-1] * (S - len(sequence))
        assert result.lengths[b] == len(sequence)
        assert result.tokens[b].tolist() == sequence + padding
        assert result.nodes[b].tolist() == nodes + padding


@quick
@given(dyadic_cases(max_nodes=8, max_vocab=5), st.integers(0, 2**31 - 1))
def test_walk_is_the_loop_on_exact_laws(drawn: Dyadic, seed: int) -> None:
    assert_walk_is_the_loop(Group("one", (drawn.case,)), 16, seed)


@few
@given(groups(), st.integers(0, 2**31 - 1))
def test_walk_is_the_loop_on_any_laws(group: Group, seed: int) -> None:
    assert_walk_is_the_loop(group, 16, seed)


@quick
@given(dyadic_cases(max_nodes=8, max_vocab=5), st.sampled_from([0.0, 1 - 2**-24, 0.5, 0.25, 0.9375]))
def test_walk_at_the_edges_of_the_coins(drawn: Dyadic, coin: float) -> None:
    """Coins of 0, of nearly 1, and equal to a running sum: it must be below, not at."""
    request = one_case(drawn.case, 1)
    request.coins[:] = coin
    request.final_coins[:] = coin
    result = TARGET_ONLY.walk(request)
    law_rows, children = plain_rows(request, 0)
    tokens = request.candidates[0].tolist()
    thresholds = drawn.single / UNIT, drawn.acc / UNIT
    sequence, nodes = verify(tokens, children, law_rows, [coin] * len(tokens), coin, request.depth_limit, *thresholds)
    assert result.tokens[0, : len(sequence)].tolist() == sequence
    assert result.nodes is not None
    assert result.nodes[0, : len(nodes)].tolist() == nodes


@pytest.mark.parametrize(("single", "acc"), [(16, 16), (0, 16), (5, 16), (6, 16), (16, 12), (16, 1), (16, 0), (4, 8)])
@pytest.mark.parametrize("parts", [[0, 5, 3, 8], [4, 0, 12, 0], [8, 8, 0, 0], [0, 0, 0, 16], [16, 0, 0, 0]])
def test_walk_at_every_sixteenth(parts: list[int], single: int, acc: int) -> None:
    """A coin at a running sum is not below it; a child without mass is never accepted, not at threshold_single 0."""
    tree = Tree([0, 0, 1, 2], [-1, 0, 0, 0])
    rows = [parts, *[[16, 0, 0, 0]] * 3]
    probs = np.array(rows, np.float32) / UNIT
    thresholds = {"threshold_single": single / UNIT, "threshold_acc": acc / UNIT}
    case = Case("x", "target-only", tree, np.zeros((4, 4)), probs=probs, **thresholds)
    request = one_case(case, 16)
    request.coins[:] = np.arange(16)[:, None] / UNIT
    request.final_coins[:] = 0
    result = TARGET_ONLY.walk(request)
    law_rows = [[Fraction(part, UNIT) for part in row] for row in rows]
    for i in range(16):
        coins = [Fraction(i, UNIT)] * 4
        limits = (2, Fraction(single, UNIT), Fraction(acc, UNIT))
        sequence, _ = verify([0, 0, 1, 2], tree.children, law_rows, coins, Fraction(0), *limits)
        assert result.tokens[i, : result.lengths[i]].tolist() == sequence


@quick
@given(st.data(), st.integers(1, 9), st.integers(1, 3), st.integers(0, 99))
def test_plain_walk_is_the_loop(data: st.DataObject, vocab: int, limit: int, seed: int) -> None:
    logits = data.draw(strategies.logits(1, vocab))
    case = Case("x", "plain", Tree([0], [-1]), logits, params=data.draw(params(vocab)), depth_limit=limit)
    request = one_case(case, 32, seed=seed)
    result = PLAIN.walk(request)
    assert result.nodes is not None
    assert result.lengths.tolist() == [1] * 32
    for b in range(32):
        expected = invert(request.target_probs[b, 0].tolist(), float(request.final_coins[b]))
        assert result.tokens[b].tolist() == [expected] + [-1] * (limit - 1)
        assert result.nodes[b].tolist() == [0] + [-1] * (limit - 1)


@quick
@given(trees(max_nodes=9, vocab=5), st.integers(0, 99))
def test_walk_never_emits_the_impossible(tree: Tree, seed: int) -> None:
    rng = np.random.default_rng(seed)
    logits = np.where(rng.random((len(tree), 5)) < 0.5, -np.inf, rng.normal(size=(len(tree), 5)))
    logits[np.isneginf(logits).all(axis=1), 4] = 0
    case = Case("x", "target-only", tree, logits, nodes=len(tree) + 1)
    request = one_case(case, 64, seed=seed)
    result = TARGET_ONLY.walk(request)
    law = TARGET_ONLY.law(case)
    for tokens, length in zip(result.tokens.tolist(), result.lengths.tolist(), strict=True):
        m = law.find(tokens[: length - 1])
        assert m >= 0
        assert law.rows[m, tokens[length - 1]] > 0


def sampled_case(name: str) -> Case:
    """Cases whose laws and walks are compared by sampling."""
    rng = stream(name)
    shape, family, vocab, nodes, settings_ = {
        "random": ("random-recursive", "zipf", 6, 8, {}),
        "binary limited": ("binary", "flat", 5, 9, {"depth_limit": 3}),
        "covered": ("star", "flat", 4, 5, {}),
        "thresholds": ("ternary", "bimodal", 6, 8, {"threshold_single": 0.5, "threshold_acc": 0.7}),
        "filtered": ("comb", "zipf", 9, 7, {"params": SamplingParams(0.8, top_k=5, top_p=0.9), "nodes": 9}),
        "chain": ("chain", "peaked", 6, 5, {"threshold_acc": 0.9}),
    }[name]
    parents = SHAPES[shape](rng, nodes)
    logits = TARGETS[family].make(rng, nodes, vocab)
    tokens = sibling_tokens(rng, parents, np.full((nodes, vocab), 1 / vocab), by="uniform")
    return Case(name, "target-only", Tree(tokens, parents), logits, **settings_)


@pytest.mark.parametrize("name", ["random", "binary limited", "covered", "thresholds", "filtered", "chain"])
def test_sampled_law_is_the_exact_law(name: str) -> None:
    case = sampled_case(name)
    seen: Counter[Path] = Counter()
    drawn = plan(Group("sampled", (case,)), 2048, seed=1)
    for number in range(16):
        result = TARGET_ONLY.walk(drawn.call(number)[0])
        pairs = zip(result.tokens.tolist(), result.lengths.tolist(), strict=True)
        seen.update(tuple(tokens[:length]) for tokens, length in pairs)
    law = {sequence: p for sequence, p in outcomes_of(TARGET_ONLY.law(case)).items() if p > 1e-14}
    assert set(seen) <= set(law)

    total = sum(seen.values())
    often = [sequence for sequence, p in law.items() if p * total >= 5]
    observed = [seen[sequence] for sequence in often]
    expected = [law[sequence] * total for sequence in often]
    rest = total - sum(expected)
    if rest > 1e-6 * total:
        observed.append(total - sum(observed))
        expected.append(rest)
    assert stats.chisquare(observed, np.array(expected) * (total / sum(expected))).pvalue > 1e-6


# ---- the register


def test_rules_are_found_by_name() -> None:
    assert {"plain", "target-only"} <= set(RULES)
    for name, known in RULES.items():
        assert rule(name) is known
        assert known.name == name


@pytest.mark.parametrize("name", ["chain", "", "Target-Only", "greedy "])
def test_no_such_rule(name: str) -> None:
    with pytest.raises(UsageError, match=f"no such rule: '{name}'.*plain.*target-only"):
        rule(name)
