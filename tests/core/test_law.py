"""What is derived from reach and rows, against plain loops over sequences."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.law import Law, LawBuilder

from .build import laws, outcomes_of
from .oracles import prefixes

quick = settings(max_examples=40, deadline=None)


def paths_of(law: Law) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for m in range(1, law.size):
        paths.append((*paths[law.parent[m]], int(law.token[m])))
    return paths


@quick
@given(laws())
def test_prefixes_are_found(law: Law) -> None:
    paths = paths_of(law)
    for m, path in enumerate(paths):
        assert law.prefix(m) == list(path)
        assert law.depth[m] == len(path)
        assert law.find(path) == m
    assert law.find([]) == 0


@quick
@given(laws())
def test_children(law: Law) -> None:
    index = {path: m for m, path in enumerate(paths_of(law))}
    grid = np.indices((law.size, law.vocab))
    found = law.children(*grid)
    assert found.shape == (law.size, law.vocab)
    for path, m in index.items():
        for token in range(law.vocab):
            assert found[m, token] == index.get((*path, token), -1)
            assert law.find([*path, token]) == index.get((*path, token), -1)
            if found[m, token] < 0:
                assert law.find([*path, token, 0]) == -1


@quick
@given(laws())
def test_emit_reach_rows_and_lengths_are_those_of_the_outcomes(law: Law) -> None:
    outcomes = {sequence: p for sequence, p in outcomes_of(law).items() if p > 1e-15}
    assert abs(sum(outcomes.values()) - 1) < 1e-12
    expected = prefixes(outcomes)

    paths = paths_of(law)
    assert set(expected) == set(paths)
    for m, path in enumerate(paths):
        emit, reach, row = expected[path]
        np.testing.assert_allclose(law.emit[m], emit, rtol=1e-10)
        np.testing.assert_allclose(law.reach[m], reach, rtol=1e-10)
        np.testing.assert_allclose(law.rows[m], [row.get(token, 0) for token in range(law.vocab)], atol=1e-10)

    lengths = [sum(p for s, p in outcomes.items() if len(s) == k) for k in range(law.depth_limit + 1)]
    assert law.lengths.shape == (law.depth_limit + 1,)
    np.testing.assert_allclose(law.lengths, lengths, atol=1e-12)


@quick
@given(laws())
def test_outcome(law: Law) -> None:
    outcomes = outcomes_of(law)
    grid = np.indices((law.size, law.vocab))
    found = law.outcome(*grid)
    assert found.shape == (law.size, law.vocab)
    assert (found >= 0).all()
    for m, path in enumerate(paths_of(law)):
        for token in range(law.vocab):
            assert abs(found[m, token] - outcomes.get((*path, token), 0)) < 1e-12
    assert abs(found.sum() - 1) < 1e-12


@quick
@given(st.data(), laws())
def test_with_rows_keeps_how_often_a_step_goes_on(data: st.DataObject, law: Law) -> None:
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    rows = rng.dirichlet(np.ones(law.vocab), law.size)
    other = law.with_rows(rows)

    np.testing.assert_array_equal(other.rows, rows)
    np.testing.assert_array_equal(other.parent, law.parent)
    np.testing.assert_array_equal(other.token, law.token)
    np.testing.assert_array_equal(other.node, law.node)
    assert other.depth_limit == law.depth_limit
    assert other.reach[0] == 1
    for m in range(1, law.size):
        parent, token = law.parent[m], law.token[m]
        goes_on = law.reach[m] / (law.reach[parent] * law.rows[parent, token])
        np.testing.assert_allclose(other.reach[m], other.reach[parent] * rows[parent, token] * goes_on, rtol=1e-12)
    assert abs(other.lengths.sum() - 1) < 1e-12


@quick
@given(laws())
def test_with_its_own_rows_nothing_changes(law: Law) -> None:
    np.testing.assert_allclose(law.with_rows(law.rows).reach, law.reach, rtol=1e-12)


def test_a_law_by_hand() -> None:
    builder = LawBuilder(3)
    root = builder.add(-1, -1, 0, 1.0, np.array([0.25, 0.75, 0.0]))
    one = builder.add(root, 1, 4, 0.5, np.array([0.5, 0.0, 0.5]))
    builder.add(one, 2, 7, 0.25, np.array([0.0, 0.0, 1.0]))
    law = builder.build()
    assert (law.size, law.vocab) == (3, 3)
    assert law.node.tolist() == [0, 4, 7]
    assert law.emit.tolist() == [1, 0.75, 0.25]
    assert law.lengths.tolist() == [0, 0.5, 0.25, 0.25]
    assert law.prefix(2) == [1, 2]
    assert law.find([1, 2]) == 2
    assert law.find([2]) == law.find([1, 2, 2]) == -1
    assert law.outcome(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 2, 2])).tolist() == [0.25, 0.25, 0.25, 0, 0.25]
