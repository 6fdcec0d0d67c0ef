"""Filters against a plain loop, by named examples, and where ties and boundaries decide."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distributions import TARGETS
from harness.filters import SEMANTICS, SamplingParams, Semantics, softmax, target_probs

from .build import splits
from .oracles import filtered, stream
from .oracles import softmax as softmax_by_loop

quick = settings(max_examples=80, deadline=None)
P = SamplingParams
named = pytest.mark.parametrize("name", list(SEMANTICS))


def law(p: list[float], params: SamplingParams, semantics: Semantics | str = "sequential") -> list[float]:
    """Law after the filters of probabilities used as they are."""
    if isinstance(semantics, str):
        semantics = SEMANTICS[semantics]
    return target_probs([p], params, semantics, probs=True)[0].tolist()


def kept(p: list[float], params: SamplingParams, semantics: Semantics | str = "sequential") -> list[int]:
    return np.flatnonzero(law(p, params, semantics)).tolist()


# ---- the named examples of the rules


def test_vllm_and_sequential_differ_on_min_p() -> None:
    p, params = [0.5, 0.3, 0.1, 0.1], P(min_p=0.5, top_p=0.6)
    assert kept(p, params, "vllm") == [0]
    assert kept(p, params, "sequential") == [0, 1]


def test_joint_and_sequential_differ_on_top_k_and_top_p() -> None:
    p, params = [0.4, 0.3, 0.2, 0.1], P(top_k=2, top_p=0.5)
    assert law(p, params, "sequential") == [1, 0, 0, 0]
    np.testing.assert_allclose(law(p, params, "joint"), [4 / 7, 3 / 7, 0, 0], rtol=1e-12)


def test_temperature_last_cuts_before_it_flattens() -> None:
    logits, params = np.log([[0.5, 0.3, 0.15, 0.05]]), P(2.0, top_p=0.6)
    flat = np.sqrt([0.5, 0.3])
    np.testing.assert_allclose(
        target_probs(logits, params, SEMANTICS["temperature-last"])[0], [*flat / flat.sum(), 0, 0], rtol=1e-12
    )
    assert np.flatnonzero(target_probs(logits, params)[0]).tolist() == [0, 1]
    assert np.flatnonzero(target_probs(logits, P(2.0, top_p=0.7))[0]).tolist() == [0, 1, 2]


def test_semantics_that_agree_on_what_each_filter_does_alone() -> None:
    rows = TARGETS["zipf"].make(stream("alone"), 6, 16)
    for params in (P(0.7), P(top_k=5), P(top_p=0.8), P(min_p=0.1)):
        laws = [target_probs(rows, params, semantics) for semantics in SEMANTICS.values()]
        for other in laws[1:]:
            np.testing.assert_allclose(other, laws[0], rtol=1e-12)


# ---- against a plain loop


@quick
@named
@given(
    logits=st.lists(st.one_of(st.integers(-16, 16), st.just(-math.inf)), min_size=1, max_size=9),
    temperature=st.one_of(st.just(1.0), st.floats(0.2, 5)),
    top_k=st.integers(-1, 10),
    top_p=st.one_of(st.just(1.0), st.floats(0.01, 0.999)),
    min_p=st.one_of(st.just(0.0), st.floats(0.001, 0.9)),
    ties=st.sampled_from(["all", "exact"]),
    boundary=st.sampled_from(["stop", "one-more"]),
    applied=st.booleans(),
)
def test_any_row(
    name: str,
    logits: list[float],
    temperature: float,
    top_k: int,
    top_p: float,
    min_p: float,
    ties: str,
    boundary: str,
    applied: bool,
) -> None:
    assume(any(map(math.isfinite, logits)))
    logits = [z / 4 for z in logits]
    params = P(temperature, top_k, top_p, min_p)
    semantics = replace(
        SEMANTICS[name],
        top_k_ties=ties,
        top_p_boundary=boundary,
        min_p="applied" if applied else "ignored",
    )
    expected, margin = filtered(
        softmax_by_loop(logits),
        semantics.order,
        logits=logits,
        temperature=params.temperature,
        top_k=top_k,
        top_p=params.top_p,
        min_p=params.min_p if applied else 0,
        joint=semantics.joint,
        ties=ties,
        boundary=boundary,
    )
    assume(margin > 1e-9)

    found = target_probs(np.array([logits], np.float32), params, semantics)

    assert found.dtype == np.float64
    assert abs(found.sum() - 1) < 1e-12
    np.testing.assert_allclose(found[0], expected, rtol=1e-11, atol=0)


@quick
@given(
    parts=st.integers(1, 8).flatmap(lambda vocab: splits(64, vocab)),
    top_k=st.integers(0, 8),
    top_p=st.integers(1, 64),
    min_p=st.integers(0, 64),
    ties=st.sampled_from(["all", "exact"]),
    boundary=st.sampled_from(["stop", "one-more"]),
    alone=st.sampled_from(["top-k", "top-p", "min-p", "joint"]),
)
def test_ties_and_boundaries(
    parts: list[int], top_k: int, top_p: int, min_p: int, ties: str, boundary: str, alone: str
) -> None:
    """Decisions on equality, in fractions: each filter alone, and top-k with top-p where both read the same law."""
    which = {"top-k", "top-p"} if alone == "joint" else {alone}
    used = {
        "top_k": top_k if "top-k" in which else 0,
        "top_p": Fraction(top_p if "top-p" in which else 64, 64),
        "min_p": Fraction(min_p if "min-p" in which else 0, 64),
    }
    base = SEMANTICS["joint" if alone == "joint" else "sequential"]
    semantics = replace(base, top_k_ties=ties, top_p_boundary=boundary)
    p = [Fraction(part, 64) for part in parts]
    expected, _ = filtered(p, semantics.order, joint=semantics.joint, ties=ties, boundary=boundary, **used)

    params = P(top_k=used["top_k"], top_p=float(used["top_p"]), min_p=float(used["min_p"]))
    found = law([float(x) for x in p], params, semantics)

    assert [x > 0 for x in found] == [x > 0 for x in expected]
    np.testing.assert_allclose(found, [float(x) for x in expected], rtol=1e-14)


def test_top_k_ties() -> None:
    p = [0.125, 0.25, 0.25, 0.25, 0.125]
    exact = replace(SEMANTICS["sequential"], top_k_ties="exact")
    assert kept(p, P(top_k=2)) == [1, 2, 3]
    assert kept(p, P(top_k=2), exact) == [1, 2]
    assert kept(p, P(top_k=4)) == [0, 1, 2, 3, 4]
    assert kept(p, P(top_k=4), exact) == [0, 1, 2, 3]


def test_top_p_boundary() -> None:
    p = [0.25, 0.5, 0.25]
    one_more = replace(SEMANTICS["sequential"], top_p_boundary="one-more")
    assert kept(p, P(top_p=0.5)) == [1]
    assert kept(p, P(top_p=0.5), one_more) == [0, 1]
    assert kept(p, P(top_p=0.75)) == [0, 1]
    assert kept(p, P(top_p=0.75), one_more) == [0, 1, 2]
    assert kept([0.5, 0.5, 0.0], P(top_p=0.5), one_more) == [0, 1]


def test_top_p_keeps_at_least_one_token() -> None:
    assert kept([0.2, 0.3, 0.5], P(top_p=1e-6)) == [2]
    assert kept([0.2, 0.3, 0.5], P(top_p=1e-45)) == [2]  # the least float32


@pytest.mark.parametrize("k", [0, -1, 4, 5, 1000])
def test_top_k_off(k: int) -> None:
    p = [0.5, 0.25, 0.125, 0.125]
    assert law(p, P(top_k=k)) == p
    assert law(p, P(top_k=k), "joint") == p


def test_min_p() -> None:
    p = [0.5, 0.25, 0.125, 0.125]
    assert kept(p, P(min_p=0.5)) == [0, 1]
    assert kept(p, P(min_p=0.51)) == [0]
    assert kept(p, P(min_p=1.0)) == [0]
    assert kept(p, P(min_p=0.25)) == [0, 1, 2, 3]
    assert kept(p, P(min_p=0.5), replace(SEMANTICS["sequential"], min_p="ignored")) == [0, 1, 2, 3]


def test_min_p_reads_the_law_left_by_the_others() -> None:
    p = [0.4, 0.3, 0.2, 0.1]
    assert kept(p, P(top_k=3, min_p=0.5)) == [0, 1, 2]
    assert kept(p, P(top_p=0.7, min_p=0.7)) == [0, 1]


def test_impossible_tokens_stay_impossible() -> None:
    row = [0.0, -np.inf, 1.0, -np.inf]
    for params in (P(), P(3.0), P(top_k=3), P(top_p=0.9999), P(0.5, 3, 0.99, 0.01)):
        for semantics in SEMANTICS.values():
            found = target_probs([row], params, semantics)[0]
            assert found[1] == found[3] == 0
            assert found[0] > 0


# ---- temperature


@named
@pytest.mark.parametrize("temperature", [0.0, 1e-9, 0.99e-6])
def test_cold_means_argmax(name: str, temperature: float) -> None:
    rows = np.array([[0.0, 2.0, 1.0, 2.0], [-np.inf, -3.0, -np.inf, -4.0]])
    params = P(temperature, top_k=2, top_p=0.3, min_p=0.5)
    assert params.greedy
    assert target_probs(rows, params, SEMANTICS[name]).tolist() == [[0, 1, 0, 0], [0, 1, 0, 0]]
    assert target_probs([[0.25, 0.5, 0.25]], params, probs=True).tolist() == [[0, 1, 0]]


def test_a_temperature_of_one_millionth_is_not_below_it() -> None:
    params = P(1e-6)
    assert not params.greedy
    assert target_probs([[2.0, 1.0, 2.0]], params).tolist() == [[0.5, 0, 0.5]]


@named
def test_a_high_temperature_brings_back_what_underflows_at_one(name: str) -> None:
    """exp(-800) is 0 in float64, exp(-8) is not: only a filter may take a token away."""
    found = target_probs([[0.0, -800.0, -np.inf]], P(100.0), SEMANTICS[name])[0]
    np.testing.assert_allclose(found, [1 / (1 + math.exp(-8)), 1 / (1 + math.exp(8)), 0], rtol=1e-12)


def test_temperature_of_exact_laws() -> None:
    found = law([0.5, 0.25, 0.25, 0.0], P(0.5))
    np.testing.assert_allclose(found, [2 / 3, 1 / 6, 1 / 6, 0], rtol=1e-12)


def test_exact_laws_stay_exact() -> None:
    p = [3 / 4096, 4000 / 4096, 0.0, 93 / 4096]
    assert law(p, P()) == p


# ---- long rows


@pytest.mark.parametrize("boundary", ["stop", "one-more"])
@pytest.mark.parametrize("family", ["flat", "zipf", "ties", "holes", "near-ties", "equal", "two steps"])
def test_top_p_of_a_long_row_is_that_of_a_full_sort(family: str, boundary: str) -> None:
    vocab = 20_000
    rng = stream(f"long row {family}")
    if family == "equal":
        p = np.full(vocab, 1 / vocab)
    elif family == "two steps":
        p = rng.permutation(np.repeat([3.0, 1.0], vocab // 2))
        p /= p.sum()
    else:
        p = softmax(TARGETS[family].make(rng, 1, vocab))[0]
    semantics = replace(SEMANTICS["sequential"], top_p_boundary=boundary)
    order = np.argsort(-p, kind="stable")
    mass = np.cumsum(p[order])
    for top_p in (0.001, 0.1, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999, 0.9999999):
        params = P(top_p=top_p)
        reached = mass >= params.top_p if boundary == "stop" else mass > params.top_p
        count = int(reached.argmax()) + 1 if reached.any() else vocab
        expected = np.zeros(vocab, bool)
        expected[order[:count]] = True
        found = target_probs(p[None], params, semantics, probs=True)[0]
        np.testing.assert_array_equal(found > 0, expected & (p > 0))
        np.testing.assert_allclose(found[expected], p[expected] / p[expected].sum(), rtol=1e-12)


# ---- shapes, rounding, refusals


def test_rows_of_any_shape() -> None:
    rows = TARGETS["zipf"].make(stream("shape"), 6, 5).reshape(2, 3, 5)
    params = P(0.8, top_k=3)
    found = target_probs(rows, params)
    assert found.shape == (2, 3, 5)
    for i in range(2):
        for j in range(3):
            np.testing.assert_array_equal(found[i, j], target_probs(rows[i, j], params))


def test_rows_are_left_as_they_were() -> None:
    rows = np.array([[0.5, 0.25, 0.25]])
    for params in (P(), P(0.5, 2, 0.7, 0.1), P(0.0)):
        target_probs(rows, params, probs=True)[:] = 7
        target_probs(rows, params)[:] = 7
    assert rows.tolist() == [[0.5, 0.25, 0.25]]


def test_parameters_are_rounded_to_float32() -> None:
    params = P(temperature=0.7, top_p=0.9, min_p=0.1)
    assert params.temperature == float(np.float32(0.7)) != 0.7
    assert params.top_p == float(np.float32(0.9)) != 0.9
    assert params.min_p == float(np.float32(0.1)) != 0.1
    assert P(0.7) == P(float(np.float32(0.7)))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.inf),
        ("temperature", math.nan),
        ("temperature", 1e39),  # infinite in float32
        ("top_p", 0.0),
        ("top_p", -0.5),
        ("top_p", 1e-60),  # 0 in float32
        ("top_p", 1.5),
        ("top_p", math.nan),
        ("min_p", -0.1),
        ("min_p", 1.1),
        ("min_p", math.nan),
    ],
)
def test_parameters_out_of_range(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        P(**{field: value})


def test_no_order() -> None:
    with pytest.raises(ValueError, match="once each"):
        Semantics("x", order=("temperature", "top-k", "top-p"))
    with pytest.raises(ValueError, match="once each"):
        Semantics("x", order=("temperature", "top-k", "top-p", "top-p"))
    with pytest.raises(ValueError, match="neighbours"):
        Semantics("x", order=("top-k", "temperature", "top-p", "min-p"), joint=True)


@quick
@given(st.lists(st.floats(-700, 700, width=32), min_size=1, max_size=6))
def test_softmax(row: list[float]) -> None:
    found = softmax([row, [*row[:-1], row[-1]]])
    np.testing.assert_allclose(found[0], softmax_by_loop(row), rtol=1e-12, atol=1e-300)
    np.testing.assert_array_equal(found[0], found[1])
