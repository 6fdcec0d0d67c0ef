"""Groups, calls and shards: what a verifier may rely on, and that no call depends on another."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributions import SHAPES, TARGETS, sibling_tokens
from harness.case import Case
from harness.filters import SamplingParams
from harness.groups import LARGEST_BATCH, LARGEST_TABLE, Group, Plan
from harness.request import Request
from harness.rules import RULES
from harness.tree import Tree

from .build import groups, plan
from .oracles import stream

few = settings(max_examples=12, deadline=None)

V, N, S = 7, 6, 4


def make_group(name: str = "made") -> Group:
    """Five cases of different trees, laws and parameters, all but one padded."""
    cases = []
    for shape, size, params in (
        ("chain", 4, SamplingParams(0.7)),
        ("star", 5, SamplingParams(top_k=3)),
        ("binary", 6, SamplingParams(top_p=0.8)),
        ("random-recursive", 5, SamplingParams(1.5, 5, 0.9, 0.05)),
        ("chain", 1, SamplingParams(0.0, top_k=100)),
    ):
        rng = stream(f"group {shape} {size}")
        parents = SHAPES[shape](rng, size)
        logits = TARGETS["zipf"].make(rng, size, V)
        tokens = sibling_tokens(rng, parents, np.full((size, V), 1 / V), by="uniform")
        tree = Tree(tokens, parents)
        cases.append(Case(f"{shape} {size}", "target-only", tree, logits, params=params, depth_limit=S, nodes=N))
    return Group(name, tuple(cases))


GROUP = make_group()


def arrays(request: Request) -> dict[str, np.ndarray]:
    values = {entry.name: getattr(request, entry.name) for entry in fields(request)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def snapshot(request: Request) -> dict[str, object]:
    return {entry.name: np.copy(getattr(request, entry.name)) for entry in fields(request)}


def assert_equal(one: dict[str, object], other: dict[str, object]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


# ---- fields


def test_fields_have_the_dtypes_and_shapes_of_the_contract() -> None:
    request, which = plan(GROUP, 8).call(3)
    B = 40
    assert (request.batch, request.nodes, request.vocab) == (B, N, V)
    assert which.shape == (B,)
    i64, f32 = np.int64, np.float32
    expected = {
        "candidates": (i64, (B, N)),
        "parents": (i64, (B, N)),
        "node_count": (i64, (B,)),
        "retrieve_index": (i64, (B, N)),
        "retrieve_next_token": (i64, (B, N)),
        "retrieve_next_sibling": (i64, (B, N)),
        "target_logits": (f32, (B, N, V)),
        "target_probs": (f32, (B, N, V)),
        "temperature": (f32, (B,)),
        "top_k": (i64, (B,)),
        "top_p": (f32, (B,)),
        "min_p": (f32, (B,)),
        "coins": (f32, (B, N)),
        "final_coins": (f32, (B,)),
        "seeds": (i64, (B,)),
        "positions": (i64, (B,)),
    }
    found = arrays(request)
    assert set(found) == set(expected)
    for name, value in found.items():
        assert (value.dtype, value.shape) == expected[name], name
        assert value.flags.c_contiguous
        assert value.flags.writeable
    assert request.draft_probs is None
    assert request.depth_limit == S
    assert type(request.depth_limit) is int
    assert request.threshold_single == request.threshold_acc == 1.0
    assert type(request.seed) is int
    assert 0 <= request.seed < 2**31


@few
@given(groups(), st.integers(0, 63))
def test_every_row_is_its_case(group: Group, number: int) -> None:
    request, which = plan(group, 2).call(number)
    columns = request.nodes
    assert request.threshold_single == group.cases[0].threshold_single
    assert request.threshold_acc == group.cases[0].threshold_acc
    for b, g in enumerate(which):
        case = group.cases[g]
        tree, params, real = case.tree, case.params, len(case.tree)
        assert request.node_count[b] == real
        assert request.candidates[b].tolist() == tree.tokens.tolist() + [0] * (columns - real)
        assert request.parents[b].tolist() == tree.parents.tolist() + [-1] * (columns - real)
        assert request.retrieve_index[b].tolist() == [b * columns + i for i in range(columns)]
        first, sibling = [-1] * columns, [-1] * columns
        for node, children in enumerate(tree.children):
            for before, child in zip([None, *children], children, strict=False):
                if before is None:
                    first[node] = child
                else:
                    sibling[before] = child
        assert request.retrieve_next_token[b].tolist() == first
        assert request.retrieve_next_sibling[b].tolist() == sibling
        np.testing.assert_array_equal(request.target_logits[b, :real], case.logits)
        np.testing.assert_array_equal(request.target_probs[b, :real], case.target_probs)
        assert request.temperature[b] == np.float32(params.temperature)
        assert request.top_k[b] == (params.top_k if 0 < params.top_k < case.vocab else case.vocab)
        assert request.top_p[b] == np.float32(params.top_p)
        assert request.min_p[b] == np.float32(params.min_p)


def test_padding_rows_are_finite_laws_of_their_own() -> None:
    request, which = plan(GROUP, 1).call(0)
    rows = []
    for b in range(request.batch):
        real = int(request.node_count[b])
        assert np.isfinite(request.target_logits[b, real:]).all()
        assert (request.target_probs[b, real:] >= 0).all()
        np.testing.assert_allclose(request.target_probs[b, real:].sum(axis=-1), 1, atol=1e-6)
        rows += [tuple(row) for row in request.target_probs[b, real:].tolist()]
    assert len(rows) == sum(N - len(GROUP.cases[g].tree) for g in which) > 0
    assert len(set(rows)) == len(rows)


def test_logits_have_a_finite_entry_in_every_row() -> None:
    request, _ = plan(GROUP, 1).call(0)
    logits = request.target_logits
    assert not np.isnan(logits).any()
    assert not np.isposinf(logits).any()
    assert np.isfinite(logits).any(axis=-1).all()


# ---- calls


def test_every_case_is_in_every_call_equally_often() -> None:
    made = plan(GROUP, 16)
    for number in range(5):
        request, which = made.call(number)
        assert Counter(which.tolist()) == dict.fromkeys(range(len(GROUP)), 16)
        assert request.batch == 16 * len(GROUP)


def test_cases_are_never_in_a_periodic_pattern() -> None:
    made = plan(GROUP, 4)
    orders = [made.call(number)[1] for number in range(20)]
    for which in [*orders, np.concatenate(orders)]:
        for period in range(1, len(which) // 2 + 1):
            assert (which[period:] != which[:-period]).any(), period
    assert len({tuple(which) for which in orders}) == 20


def test_every_case_comes_at_every_place() -> None:
    made = plan(GROUP, 1)
    firsts = Counter(int(made.call(number)[1][0]) for number in range(300))
    assert all(20 <= firsts[g] <= 110 for g in range(5))  # Bin(300, 1/5): over 5 standard deviations


def test_a_call_is_the_same_whoever_makes_it_and_when() -> None:
    made = plan(GROUP, 4)
    one, which = made.call(5)
    expected = snapshot(one)
    for other in (plan(GROUP, 4), plan(make_group(), 4)):
        other.call(2)
        again, rows = other.call(5)
        assert_equal(snapshot(again), expected)
        np.testing.assert_array_equal(rows, which)
    made.call(5)
    assert_equal(snapshot(made.call(5)[0]), expected)


def test_calls_differ_by_number_seed_suite_and_group() -> None:
    requests = [
        made.call(number)[0]
        for made, number in (
            (plan(GROUP, 4), 0),
            (plan(GROUP, 4), 1),
            (plan(GROUP, 4, seed=1), 0),
            (plan(GROUP, 4, suite="other"), 0),
            (plan(make_group("other"), 4), 0),
        )
    ]
    for field in ("coins", "final_coins"):
        assert len({getattr(request, field).tobytes() for request in requests}) == 5
    assert len({request.seeds.tobytes() for request in requests}) == 4  # requests keep theirs from call to call
    assert len({request.seed for request in requests}) == 5


def test_a_shard_gives_its_calls_in_order() -> None:
    made = plan(GROUP, 2)
    shard = made.shards()[0]
    given = [snapshot(request) for request, _ in made.requests(replace(shard, start=3, stop=6))]
    assert len(given) == 3
    for number, found in enumerate(given, 3):
        assert_equal(found, snapshot(made.call(number)[0]))


def redrawn_group() -> Group:
    """Two chains whose drafts are drawn for every row."""
    rng = stream("redrawn")
    tree = Tree([1, 0, 0], [-1, 0, 1])
    cases = []
    for name in ("a", "b"):
        logits = rng.normal(size=(5, V)).astype(np.float32)
        draft = rng.dirichlet(np.ones(V), 5).astype(np.float32)
        cases.append(Case(name, "rejection", tree, logits, draft=draft))
    return Group("redrawn", tuple(cases))


@pytest.mark.parametrize("make", [make_group, redrawn_group])
def test_arrays_are_fresh(make: type[Group]) -> None:
    """A verifier may overwrite what it got: neither another call nor the same call made again sees it."""
    made = plan(make(), 4)
    expected = [snapshot(made.call(number)[0]) for number in range(3)]
    cases = [(case.logits.copy(), case.target_probs.copy(), case.tree.tokens.copy()) for case in made.group.cases]

    first, which = made.call(0)
    second, _ = made.call(1)
    values = arrays(first)
    for name, value in values.items():
        for other_name, other in arrays(second).items():
            assert not np.shares_memory(value, other), (name, other_name)
        for other_name, other in values.items():
            assert name == other_name or not np.shares_memory(value, other), (name, other_name)
    for value in values.values():
        value.view(np.uint8)[:] = 0xFF
    which[:] = -1

    assert_equal(snapshot(second), expected[1])
    for number in range(3):
        assert_equal(snapshot(made.call(number)[0]), expected[number])
    for case, (logits, probs, tokens) in zip(made.group.cases, cases, strict=True):
        np.testing.assert_array_equal(case.logits, logits)
        np.testing.assert_array_equal(case.target_probs, probs)
        np.testing.assert_array_equal(case.tree.tokens, tokens)


@pytest.mark.parametrize("rule", ["target-only", "plain"])
def test_the_reference_walk_leaves_the_request_as_it_was(rule: str) -> None:
    request, _ = plan(GROUP, 4).call(0)
    before = snapshot(request)
    RULES[rule].walk(request)
    assert_equal(snapshot(request), before)


def test_rows_with_drafts_of_their_own() -> None:
    made = plan(redrawn_group(), 64)
    request, which = made.call(0)
    assert request.draft_probs.shape == request.target_probs.shape == (128, 3, V)
    assert request.draft_probs.dtype == np.float32
    law_of_path: dict[tuple[int, ...], bytes] = {}
    for b, g in enumerate(which):
        for node in range(3):
            path = (int(g), *request.candidates[b, 1 : node + 1].tolist())
            row = request.draft_probs[b, node].tobytes() + request.target_probs[b, node].tobytes()
            assert law_of_path.setdefault(path, row) == row
        for node in (1, 2):
            assert request.draft_probs[b, node - 1, request.candidates[b, node]] > 0
    assert (request.candidates[:, 0] == 1).all()
    assert len(set(map(tuple, request.candidates.tolist()))) > 10


# ---- randomness


def test_coins_and_seeds() -> None:
    made = plan(GROUP, 16)
    for number in range(4):
        request, _ = made.call(number)
        for drawn in (request.coins, request.final_coins):
            steps = drawn.astype(np.float64) * 2**24
            np.testing.assert_array_equal(steps, np.floor(steps))
            assert (drawn >= 0).all()
            assert (drawn < 1).all()
        assert (request.seeds >= 0).all()
        assert (request.seeds < 2**31).all()
        assert (request.positions >= 1).all()
        assert (request.positions < 2**31).all()
        assert len(np.unique(request.coins)) > 0.99 * request.coins.size


def test_seeds_with_positions_are_distinct_over_rows_and_calls() -> None:
    made = plan(GROUP, 4)
    pairs = [
        pair
        for number in range(made.calls)
        for request in [made.call(number)[0]]
        for pair in zip(request.seeds.tolist(), request.positions.tolist(), strict=True)
    ]
    assert len(pairs) == made.n * len(GROUP)
    assert len(set(pairs)) == len(pairs)
    assert len({position for _, position in pairs}) == len(pairs)  # random seeds alone meet sooner or later
    assert len({made.call(number)[0].seed for number in range(made.calls)}) == made.calls


# ---- shards


def sized(cases: int, vocab: int, nodes: int = 1) -> Group:
    tree = Tree(np.zeros(nodes, np.int64), np.arange(-1, nodes - 1))
    logits = np.zeros((nodes, vocab), np.float32)
    return Group("sized", tuple(Case(str(i), "plain", tree, logits) for i in range(cases)))


SIZES = {(cases, vocab): sized(cases, vocab) for cases in (1, 4, 5, 16) for vocab in (4, 16, 4100)}


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(sorted(SIZES)),
    st.builds(lambda odd, power: odd << power, st.sampled_from([1, 3, 5]), st.integers(0, 19)),
    st.integers(0, 12),
)
def test_shards_partition_the_calls(size: tuple[int, int], n: int, shrink: int) -> None:
    made = Plan(SIZES[size], "s", 0, n)
    rows = made.rows_per_case
    assert rows & (rows - 1) == 0
    assert n % rows == 0
    assert made.calls * rows == n
    assert rows == 1 or rows * size[0] <= LARGEST_BATCH
    assert rows == 1 or rows * size[0] * size[1] * 4 <= LARGEST_TABLE

    def numbers(k: int) -> list[int]:
        shards = made.shards(k)
        assert all(shard.start < shard.stop for shard in shards)
        return [number for shard in shards for number in range(shard.start, shard.stop)]

    assert numbers(0) == list(range(made.calls))
    assert numbers(shrink) == list(range(max(1, made.calls >> shrink)))
    if made.calls % 2**shrink == 0:
        assert len(numbers(shrink)) * rows * 2**shrink == n
    full = {shard.start: shard.stop for shard in made.shards()}
    assert all(shard.stop <= full[shard.start] for shard in made.shards(shrink))


def test_a_few_large_calls_or_many() -> None:
    assert Plan(sized(4, 16), "s", 0, 1 << 18).rows_per_case * 4 <= LARGEST_BATCH
    assert Plan(sized(4, 16), "s", 0, 1 << 13).calls == 64
    assert Plan(sized(4, 16), "s", 0, 1).rows_per_case == 1
    assert Plan(sized(4, 16), "s", 0, 1).calls == 1


# ---- refusals


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"rule": "plain"}, "rule"),
        ({"nodes": N + 1}, "nodes"),
        ({"depth_limit": S + 1}, "depth_limit"),
        ({"threshold_single": 0.5}, "threshold_single"),
        ({"threshold_acc": 0.5}, "threshold_acc"),
        ({"logits": np.zeros((4, V + 1))}, "vocab"),
    ],
)
def test_cases_of_a_group_agree(changes: dict[str, object], says: str) -> None:
    first, second = GROUP.cases[1], GROUP.cases[0]
    with pytest.raises(ValueError, match=f"must agree in {says}: {first.name} has .*{second.name} has"):
        Group("g", (first, replace(second, **changes)))


def test_cases_of_a_group_have_names_of_their_own() -> None:
    with pytest.raises(ValueError, match="different names"):
        Group("g", (GROUP.cases[0], GROUP.cases[0]))
