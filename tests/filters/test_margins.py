"""Undecided tokens: whatever rounding does within its bounds, no other token comes or goes; and few are marked."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.boundaries import BOUNDARIES, GREEDY_TIES
from harness.filters import SEMANTICS, SamplingParams, Semantics, target_probs
from harness.margins import claimed_rows

from .plugins import filtered

quick = settings(max_examples=150, deadline=None)
P = SamplingParams
named = pytest.mark.parametrize("name", list(SEMANTICS))


@st.composite
def readings(draw: st.DrawFn) -> Semantics:
    return replace(
        SEMANTICS[draw(st.sampled_from(list(SEMANTICS)))],
        top_k_ties=draw(st.sampled_from(["all", "exact"])),
        top_p_boundary=draw(st.sampled_from(["stop", "one-more"])),
        min_p=draw(st.sampled_from(["applied", "applied", "ignored"])),
    )


@st.composite
def requests(draw: st.DrawFn, vocab: int) -> SamplingParams:
    return P(
        draw(st.sampled_from([1.0, 0.7, 1.6, 0.3])),
        draw(st.one_of(st.just(0), st.integers(1, vocab))),
        draw(st.one_of(st.just(1.0), st.sampled_from([0.25, 0.5, 0.75]), st.floats(0.01, 0.999))),
        draw(st.one_of(st.just(0.0), st.just(0.25), st.floats(0.001, 0.9))),
    )


def rows(rng: np.random.Generator, vocab: int, kind: str) -> np.ndarray:
    """Rows of logits on which decisions are close: steps of one grid, with dust of a few float32 ulps, or dyadic."""
    z = -np.log(2.0) * rng.integers(1, 6, vocab) if kind == "dyadic" else rng.integers(-8, 9, vocab) / 4.0
    z = z.astype(np.float32)
    if kind == "dust":
        z *= np.float32(1) + np.float32(2.0**-23) * rng.integers(-3, 4, vocab).astype(np.float32)
    z[rng.random(vocab) < 0.1] = -np.inf
    z[rng.integers(vocab)] = 0.5
    return z


def same_logits_stay_equal(z: np.ndarray, rng: np.random.Generator, error: float) -> np.ndarray:
    """Move logits by up to ``error`` each, equal ones alike."""
    values, where = np.unique(z, return_inverse=True)
    return (values + error * rng.choice([-1.0, 0.0, 1.0, 0.5], len(values)))[where]


@quick
@given(st.data())
def test_no_error_within_bounds_moves_a_decided_token(data: st.DataObject) -> None:
    """Logits / T off by 2^-22 of the largest, in float64: kept tokens lie between the masks, the rest is as stated."""
    vocab = data.draw(st.sampled_from([3, 6, 12, 40]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    params, semantics = data.draw(requests(vocab)), data.draw(readings())
    z = rows(rng, vocab, data.draw(st.sampled_from(["grid", "dust", "dyadic"])))
    law = claimed_rows(z[None], params, semantics)
    kept, open_ = law.rows[0] > 0, law.undecided[0]
    assert not (open_ & ~kept).any()
    assert law.rows[0].sum() == pytest.approx(1.0, abs=1e-12)
    error = 2.0**-22 * np.abs(z[np.isfinite(z)]).max()
    for _ in range(12):
        moved = target_probs(same_logits_stay_equal(z, rng, error)[None], params, semantics)[0]
        np.testing.assert_array_equal((moved > 0) & ~open_, kept & ~open_)
        both = kept & ~open_
        if both.any():
            ratio = moved[both] / law.rows[0][both]
            assert np.ptp(np.log(ratio)) <= 4.1 * error / params.temperature


@quick
@given(st.data())
def test_float32_filters_move_no_decided_token(data: st.DataObject) -> None:
    """Filters in NumPy float32, with sums in either direction, as plugins have them."""
    vocab = data.draw(st.sampled_from([3, 6, 12, 40, 300]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    params, semantics = data.draw(requests(vocab)), data.draw(readings())
    z = rows(rng, vocab, data.draw(st.sampled_from(["grid", "dust", "dyadic"])))
    law = claimed_rows(z[None], params, semantics)
    k = params.top_k if 0 < params.top_k < vocab else vocab
    own = filtered(z, np.float32(params.temperature), k, np.float32(params.top_p), np.float32(params.min_p), semantics)
    settled = ~law.undecided[0]
    np.testing.assert_array_equal((own > 0)[settled], (law.rows[0] > 0)[settled])


@named
@pytest.mark.parametrize("vocab", [50, 1000, 8192, 50_000])
def test_float32_sums_of_long_rows_in_torch(name: str, vocab: int) -> None:
    """The cumsum of torch in float32, from the top and from the bottom, as production samplers sum."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(vocab)
    for scale in (0.3, 1.0, 3.0):
        z = (scale * rng.normal(size=vocab)).astype(np.float32)
        for top_p in (0.1, 0.5, 0.9, 0.99, 0.9999):
            params = P(top_p=top_p)
            law = claimed_rows(z[None], params, SEMANTICS[name])
            kept, open_ = law.rows[0] > 0, law.undecided[0]
            p = torch.softmax(torch.from_numpy(z), 0)
            down, order = torch.sort(p, descending=True, stable=True)
            from_top = torch.cumsum(down, 0) - down < params.top_p
            up, back = torch.sort(p)
            from_bottom = torch.cumsum(up, 0) > 1 - params.top_p
            from_bottom[-1] = True
            for keep, ids in ((from_top, order), (from_bottom, back)):
                mask = np.zeros(vocab, bool)
                mask[ids[keep].numpy()] = True
                np.testing.assert_array_equal(mask[~open_], kept[~open_])
            assert law.rows[0, open_].sum() <= (2.5 * vocab * 2.0**-24 + 2 * p.max().item()) / top_p


@named
def test_random_rows_of_small_vocabularies_have_none(name: str) -> None:
    rng = np.random.default_rng(3)
    marked = 0
    for _ in range(2000):
        z = rng.normal(size=(1, 64)).astype(np.float32) * 2
        law = claimed_rows(
            z, P(rng.uniform(0.5, 2), int(rng.integers(1, 64)), rng.uniform(0.05, 1), 0.02), SEMANTICS[name]
        )
        marked += bool(law.undecided.any())
    assert marked <= 4  # a cut within a few ulps by chance


@quick
@given(st.data())
def test_rows_without_undecided_tokens_are_the_plain_law(data: st.DataObject) -> None:
    vocab = data.draw(st.sampled_from([1, 2, 5, 16]))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    params, semantics = data.draw(requests(vocab)), data.draw(readings())
    z = rng.normal(size=(1, vocab)).astype(np.float32)
    law = claimed_rows(z, params, semantics)
    plain = target_probs(z, params, semantics)
    if law.undecided.any():
        assert set(np.flatnonzero(plain[0])) <= set(np.flatnonzero(law.rows[0]))
    else:
        np.testing.assert_allclose(law.rows, plain, rtol=1e-13, atol=0)


def test_equal_maxima_at_temperature_zero() -> None:
    z = np.array([[1, 3, 3, 2], [4, 3, 3, 2]], np.float32)
    law = claimed_rows(z, P(0.0), SEMANTICS["sequential"])
    assert law.rows.tolist() == [[0, 0.5, 0.5, 0], [1, 0, 0, 0]]
    assert law.undecided.tolist() == [[False, True, True, False], [False] * 4]
    law = claimed_rows(z, P(0.0), replace(SEMANTICS["sequential"], greedy_ties="first"))
    assert law.rows.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0]]
    assert not law.undecided.any()


def test_nearly_equal_maxima_at_temperature_zero_are_two_numbers() -> None:
    z = np.array([[1.0, np.nextafter(np.float32(1), np.float32(2)), 0.0]], np.float32)
    law = claimed_rows(z, P(0.0), SEMANTICS["sequential"])
    assert law.rows.tolist() == [[0, 1, 0]]


def test_ties_at_a_top_k_cut_are_for_the_semantics() -> None:
    z = np.log(np.array([[0.4, 0.2, 0.2, 0.2]])).astype(np.float32)
    law = claimed_rows(z, P(top_k=2), SEMANTICS["sequential"])
    assert (law.rows[0] > 0).all()
    assert not law.undecided.any()
    law = claimed_rows(z, P(top_k=2), replace(SEMANTICS["sequential"], top_k_ties="exact"))
    assert np.flatnonzero(law.rows[0]).tolist() == [0, 1]
    assert not law.undecided.any()


def test_neighbours_at_a_top_k_cut_are_undecided() -> None:
    near = np.nextafter(np.float32(1), np.float32(2))
    z = np.array([[2.0, near, 1.0, 0.0]], np.float32)
    law = claimed_rows(z, P(0.7, top_k=2), SEMANTICS["sequential"])
    assert law.undecided[0].tolist() == [False, True, True, False]
    assert law.rows[0, 3] == 0


def test_a_doubt_at_one_filter_is_carried_to_the_next() -> None:
    """Whether three tokens or two pass top-k moves the mass that top-p sees."""
    near = np.nextafter(np.float32(1), np.float32(2))
    z = np.array([[1.5, near, 1.0, 0.0]], np.float32)
    two = np.exp([1.5, 1.0]) / np.exp([1.5, 1.0]).sum()
    three = np.exp([1.5, 1.0, 1.0]) / np.exp([1.5, 1.0, 1.0]).sum()
    assert three[0] < 0.55 < two[0]
    law = claimed_rows(z, P(top_k=2, top_p=0.55), SEMANTICS["sequential"])
    assert law.rows[0, 0] > 0
    assert not law.undecided[0, 0]
    assert law.undecided[0, 1]


def test_the_likeliest_token_is_never_lost_to_a_tiny_top_p() -> None:
    z = np.array([[2.0, 1.0, 0.0]], np.float32)
    law = claimed_rows(z, P(top_p=1e-9), SEMANTICS["sequential"])
    assert law.rows.tolist() == [[1, 0, 0]]
    assert not law.undecided.any()


def test_all_kept_by_min_p_of_one_are_the_maxima() -> None:
    z = np.array([[2.0, 2.0, 0.0]], np.float32)
    law = claimed_rows(z, P(min_p=1.0), SEMANTICS["sequential"])
    assert law.rows.tolist() == [[0.5, 0.5, 0]]
    assert not law.undecided.any()


def test_a_law_that_rounding_moves_as_a_whole_is_undecided() -> None:
    z = np.array([[30.0, 30.0 - 2e-5, 0.0]], np.float32)
    law = claimed_rows(z, P(1e-5), SEMANTICS["sequential"])
    assert law.undecided[0].tolist() == [True, True, False]
    cold = claimed_rows(np.array([[3.0, 2.0, 0.0]], np.float32), P(1e-3), SEMANTICS["sequential"])
    assert not cold.undecided.any()


@pytest.mark.parametrize("key", list(BOUNDARIES))
def test_boundary_cases_are_several_laws(key: str) -> None:
    boundary = BOUNDARIES[key]
    readings = [
        *SEMANTICS.values(),
        replace(SEMANTICS["sequential"], top_k_ties="exact"),
        replace(SEMANTICS["sequential"], min_p="ignored"),
    ]
    laws = [claimed_rows(boundary.logits[None], boundary.params, semantics) for semantics in readings]
    if key.startswith("top-p"):
        assert all(law.undecided.any() for law in laws)
        return
    assert not any(law.undecided.any() for law in laws)
    assert len({tuple(np.round(law.rows[0], 6)) for law in laws}) > 1


def test_ties_at_zero_are_ties() -> None:
    maxima = {key: int((boundary.logits == boundary.logits.max()).sum()) for key, boundary in GREEDY_TIES.items()}
    assert maxima == {"two-maxima": 2, "three-maxima": 3, "all-equal": 8, "one-maximum": 1}
