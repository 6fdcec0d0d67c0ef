"""What FlashInfer's renorm kernels keep, against the named semantics, and which reading of ties and boundaries it is.

The kernels stand between SGLang's softmax and its tree kernel: top-k, then top-p. They run here with a fixed order of
additions, so that figures recur.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cases.boundaries import BOUNDARIES, VOCAB
from harness.errors import Unavailable
from harness.filters import SEMANTICS, SamplingParams, Semantics, target_probs
from harness.margins import claimed_rows
from harness.simt.renorm import TopKRenorm, TopPRenorm

f32 = np.float32
ROWS = 1000
OFF = 1 << 30
"""SGLang's top_k where it is off."""
FOLLOWED = replace(SEMANTICS["sequential"], name="renorm", top_k_ties="all", top_p_boundary="stop", min_p="ignored")
"""The reading that the kernels follow."""


@pytest.fixture(scope="module")
def top_k() -> TopKRenorm:
    try:
        kernel = TopKRenorm(256)
        kernel(np.ones((1, 4), f32), np.ones(1, np.int32))
    except Unavailable as error:
        pytest.skip(f"the vendor's kernels cannot be built here: {error}")
    return kernel


@pytest.fixture(scope="module")
def top_p(top_k: TopKRenorm) -> TopPRenorm:
    return TopPRenorm(32)


def softmax(logits: np.ndarray, temperature: np.ndarray) -> np.ndarray:
    """Return float32 laws of float32 ``logits`` [R, V] at temperatures [R]; rounded once, so the same everywhere."""
    z = logits.astype(np.float64) / temperature[:, None]
    weights = np.exp(z - z.max(axis=1, keepdims=True))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(f32)


def kept(row: np.ndarray) -> list[int]:
    return np.flatnonzero(row > 0).tolist()


def random_rows(vocab: int, rows: int = ROWS) -> tuple[np.random.Generator, np.ndarray]:
    """Return logits of spreads from 0.5 to 3, and what drew them."""
    rng = np.random.default_rng(vocab)
    return rng, (rng.uniform(0.5, 3, (rows, 1)) * rng.normal(size=(rows, vocab))).astype(f32)


@pytest.mark.parametrize(
    ("vocab", "which"),
    [
        (300, "both"),
        (4100, "both"),
        *(pytest.param(*other, marks=pytest.mark.slow) for other in ((12, "both"), (300, "top-k"), (300, "top-p"))),
    ],
)
def test_random_rows_are_read_as_sequential(top_k: TopKRenorm, top_p: TopPRenorm, vocab: int, which: str) -> None:
    """All of the 1,000, tokens within rounding of a cut apart; and with these too all but one or two."""
    rng, logits = random_rows(vocab)
    temperature = rng.uniform(0.3, 2, ROWS).astype(f32)
    ks, ps = rng.integers(1, vocab, ROWS).astype(np.int32), rng.uniform(0.05, 0.99, ROWS).astype(f32)
    probs = softmax(logits, temperature)
    if which != "top-p":
        probs = top_k(probs, ks)
    if which != "top-k":
        probs = top_p(probs, ps)
    agreeing = equal = 0
    for z, t, k, p, row in zip(logits, temperature.tolist(), ks.tolist(), ps.tolist(), probs, strict=True):
        params = SamplingParams(t, k if which != "top-p" else 0, p if which != "top-k" else 1.0)
        law = claimed_rows(z[None], params, FOLLOWED)
        settled = ~law.undecided[0]
        found, stated = np.where(settled, row, 0).astype(np.float64), np.where(settled, law.rows[0], 0)
        same_ratios = np.allclose(found / found.sum(), stated / stated.sum(), rtol=2e-5, atol=0)
        agreeing += kept(found) == kept(stated) and same_ratios
        equal += kept(row) == kept(target_probs(z, params, FOLLOWED))
    assert agreeing == ROWS
    assert equal >= ROWS - 2


def test_other_orders_do_not_fit(top_k: TopKRenorm, top_p: TopPRenorm) -> None:
    """Of the rows of V = 12 where two orders of the filters keep different tokens, how many follow the other one."""
    rng, logits = random_rows(12)
    temperature = rng.uniform(0.3, 2, ROWS).astype(f32)
    ks, ps = rng.integers(1, 12, ROWS).astype(np.int32), rng.uniform(0.05, 0.99, ROWS).astype(f32)
    rows = top_p(top_k(softmax(logits, temperature), ks), ps)
    apart = dict.fromkeys(("joint", "temperature-last"), 0)
    for z, t, k, p, row in zip(logits, temperature.tolist(), ks.tolist(), ps.tolist(), rows, strict=True):
        params = SamplingParams(t, k, p)
        own = kept(target_probs(z, params, FOLLOWED))
        assert kept(row) == own
        for name in apart:
            apart[name] += kept(target_probs(z, params, SEMANTICS[name])) != own
    assert min(apart.values()) > 100


def read(
    top_k: TopKRenorm, top_p: TopPRenorm, probs: tuple[float, ...], params: SamplingParams, vocab: int
) -> list[int]:
    """Return what is kept of a row of these probabilities and impossible tokens."""
    row = np.zeros((1, vocab), f32)
    row[0, : len(probs)] = probs
    with np.errstate(divide="ignore"):
        row = softmax(np.log(row), np.array([params.temperature])) if params.temperature != 1.0 else row
    return kept(top_p(top_k(row, np.array([params.top_k or OFF], np.int32)), np.array([params.top_p], f32))[0])


@pytest.mark.parametrize("vocab", [VOCAB, 2048])
@pytest.mark.parametrize("name", BOUNDARIES)
def test_boundary_rows(top_k: TopKRenorm, top_p: TopPRenorm, name: str, vocab: int) -> None:
    """Read as FOLLOWED, but that of equal tokens at the top-p cut none is left out."""
    boundary = BOUNDARIES[name]
    expected = kept(target_probs(boundary.logits, boundary.params, FOLLOWED))
    if name == "top-p-reached-exactly":
        assert expected == [0, 1]
        expected = [0, 1, 2, 3]
    assert read(top_k, top_p, boundary.probs, boundary.params, vocab) == expected


OTHERWISE = {
    "top_k_ties": ("top-k-ties", Semantics(top_k_ties="exact")),
    "top_p_boundary": ("top-p-reached-within-rounding", Semantics(top_p_boundary="one-more")),
    "min_p": ("min-p-applied-or-ignored", Semantics(min_p="applied")),
    "order": ("min-p-first-or-last", SEMANTICS["vllm"]),
    "joint": ("top-k-then-top-p-or-joint", SEMANTICS["joint"]),
    "temperature": ("temperature-first-or-last", SEMANTICS["temperature-last"]),
}


@pytest.mark.parametrize("field", OTHERWISE)
def test_each_field_of_the_reading_is_told_from_the_others(top_k: TopKRenorm, top_p: TopPRenorm, field: str) -> None:
    name, other = OTHERWISE[field]
    boundary = BOUNDARIES[name]
    exact = np.zeros(VOCAB)
    exact[: len(boundary.probs)] = boundary.probs  # these logits' softmax is not, and a boundary is
    theirs = kept(target_probs(exact, boundary.params, other, probs=True))
    assert read(top_k, top_p, boundary.probs, boundary.params, VOCAB) != theirs


@pytest.mark.parametrize(("vocab", "together"), [(8, [0, 1, 2]), (2048, [0, 1])])
def test_tokens_one_float_apart(top_k: TopKRenorm, top_p: TopPRenorm, vocab: int, together: list[int]) -> None:
    """At a top-p cut the ternary search does not tell them apart; the radix search does, and so does top-k."""
    row = np.zeros((1, vocab), f32)
    row[0, :3] = 0.5, 0.25, np.nextafter(f32(0.25), f32(0))
    assert kept(top_p(row, np.array([0.5], f32))[0]) == [0]
    assert kept(top_p(row, np.array([0.75], f32))[0]) == together
    assert kept(top_k(row, np.array([2], np.int32))[0]) == [0, 1]


RADIX_TAIL = 1024


def lost_tail() -> np.ndarray:
    """Return a row of 2048 that sums to 1 - 2^-25; each float32 sum over it is exact but that of its three octaves."""
    unit = 2.0**-24
    tail, single = np.full(RADIX_TAIL, 2.0**-17), 2.0**-16 + unit
    rest = tail.sum() + single
    row = np.zeros(2048, f32)
    row[:3] = 1 - 2.0**-8 - rest - unit, 2.0**-8 + unit / 2, single
    row[3 : 3 + RADIX_TAIL] = tail
    assert row.sum(dtype=np.float64) == 1 - unit / 2
    return row


def test_the_radix_search_can_lose_the_tail_at_top_p_1(top_p: TopPRenorm) -> None:
    """FlashInfer 0.7.2, V >= 2048, for requests without top-p in a batch with it.

    The search takes the first of 64 parts of the histogram at which the running sum reaches the total, and then that
    part's first bucket at which it does. Where rounding keeps the sum over the parts just below the total, it stops
    behind the last part, and its buckets are added once more: the first of them suffices, and the rest is dropped.
    """
    row = lost_tail()
    one = top_p(row[None], np.ones(1, f32))[0]
    assert kept(row) == list(range(3 + RADIX_TAIL))
    assert kept(one) == [0, 1, 2]
    assert row[3 : 3 + RADIX_TAIL].sum(dtype=np.float64) == 2.0**-7  # a 128th of the mass
    assert kept(top_p(row[None], np.array([0.9999], f32))[0]) == list(range(3 + RADIX_TAIL))


@pytest.mark.parametrize(
    ("vocab", "rows", "most"),
    [(2048, 316, 0.00846), (4100, 311, 0.01979), pytest.param(2046, 0, 0.0, marks=pytest.mark.slow)],
)
def test_how_often_it_does_on_random_rows(top_p: TopPRenorm, vocab: int, rows: int, most: float) -> None:
    """Of 1,000: rows that lose tokens, and the most mass that one loses."""
    _, logits = random_rows(vocab)
    probs = np.concatenate([softmax(part, np.ones(100)) for part in np.split(logits, 10)])
    gone = (probs > 0) & (top_p(probs, np.ones(ROWS, f32)) == 0)
    lost = np.where(gone, probs, 0).sum(axis=1, dtype=np.float64)
    assert abs(int(gone.any(axis=1).sum()) - rows) <= (5 if rows else 0)  # a last place of exp may differ elsewhere
    assert lost.max() == pytest.approx(most, abs=2e-5)
