"""Draft laws are laws, and relate to the target's as they say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributions import DRAFTS, Draft
from distributions.strategies import generators, probabilities

quick = settings(max_examples=50, deadline=None)
laws = pytest.mark.parametrize("draft", DRAFTS.values(), ids=list(DRAFTS))
tables = st.tuples(st.integers(1, 4), st.integers(1, 9)).flatmap(
    lambda shape: st.lists(probabilities(shape[1]), min_size=shape[0], max_size=shape[0]).map(np.array)
)


@laws
@quick
@given(seed=st.integers(0, 2**32 - 1), p=tables)
def test_every_draft_is_a_law_and_repeatable(draft: Draft, seed: int, p: np.ndarray) -> None:
    before = p.copy()
    q = draft.make(np.random.default_rng(seed), p)

    assert q.dtype == np.float32
    assert q.shape == p.shape
    assert (q >= 0).all()
    for row in q:
        assert abs(sum(map(float, row)) - 1) <= len(row) * 2**-24
        assert (sum(x > 0 for x in row) == 1) or not draft.deterministic
    np.testing.assert_array_equal(q, draft.make(np.random.default_rng(seed), p))
    np.testing.assert_array_equal(p, before)
    assert not np.shares_memory(p, q)


@quick
@given(rng=generators(), p=tables)
def test_equal_is_the_target_in_float32(rng: np.random.Generator, p: np.ndarray) -> None:
    for row, expected in zip(DRAFTS["equal"].make(rng, p), p, strict=True):
        assert [float(x) for x in row] == [float(np.float32(x)) for x in expected]


@pytest.mark.parametrize(("name", "power"), [("sharper", 2.0), ("flatter", 0.5)])
@quick
@given(rng=generators(), p=tables)
def test_temperatures(name: str, power: float, rng: np.random.Generator, p: np.ndarray) -> None:
    for row, target in zip(DRAFTS[name].make(rng, p), p, strict=True):
        weights = [float(x) ** power for x in target]
        np.testing.assert_allclose(row, [w / sum(weights) for w in weights], rtol=1e-6, atol=1e-37)


@quick
@given(rng=generators(), p=tables)
def test_noisy_keeps_the_support(rng: np.random.Generator, p: np.ndarray) -> None:
    q = DRAFTS["noisy"].make(rng, p)
    assert (q[p == 0] == 0).all()
    assert (q[p > 1e-30] > 0).all()


@quick
@given(rng=generators(), p=tables)
def test_shifted_is_a_proper_rotation(rng: np.random.Generator, p: np.ndarray) -> None:
    vocab = p.shape[1]
    for row, target in zip(DRAFTS["shifted"].make(rng, p), p.astype(np.float32), strict=True):
        shifts = range(1, vocab) if vocab > 1 else [0]
        assert any(all(row[(x + s) % vocab] == target[x] for x in range(vocab)) for s in shifts)


@quick
@given(rng=generators(), p=tables)
def test_disjoint_avoids_the_target(rng: np.random.Generator, p: np.ndarray) -> None:
    for row, target in zip(DRAFTS["disjoint"].make(rng, p), p, strict=True):
        drafted = [x for x in range(len(row)) if row[x] > 0]
        if any(target == 0):
            assert all(target[x] == 0 for x in drafted)
        else:
            spared = [x for x in range(len(row)) if row[x] == 0]
            assert len(drafted) <= max(1, len(row) // 2)
            assert all(target[x] <= target[y] for x in drafted for y in spared)


@quick
@given(rng=generators(), p=tables)
def test_argmax_is_certain_of_a_most_likely_token(rng: np.random.Generator, p: np.ndarray) -> None:
    for row, target in zip(DRAFTS["argmax"].make(rng, p), p, strict=True):
        (token,) = (x for x in range(len(row)) if row[x] > 0)
        assert row[token] == 1
        assert target[token] == max(target)
