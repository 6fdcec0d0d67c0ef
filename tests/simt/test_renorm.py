"""FlashInfer's renorm kernels as their wheel ships them, against plain loops.

With probabilities that are multiples of 1/4096 every sum is exact, whatever its order, and so the result must be equal
in every bit; with others the tokens kept may differ where a sum comes within rounding of top_p.
"""

from __future__ import annotations

import numpy as np
import pytest

from harness.simt import Sources
from harness.simt.renorm import RADIX_FROM, TopKRenorm, TopPRenorm

f32 = np.float32


def divided(row: np.ndarray, keep: np.ndarray) -> np.ndarray:
    """Divide as the kernels do: by a product with the rounded reciprocal of the kept mass."""
    return np.where(keep, row * (f32(1) / f32(row[keep].sum(dtype=np.float64))), f32(0))


def top_k_loops(row: np.ndarray, k: int) -> np.ndarray:
    """Keep who is as likely as the k-th of the tokens in descending order."""
    kth = sorted(row.tolist(), reverse=True)[min(k, len(row)) - 1]
    return divided(row, np.array([p >= kth for p in row.tolist()]))


def top_p_loops(row: np.ndarray, top_p: float) -> np.ndarray:
    """Take the tokens in descending order, equal ones together, until their mass reaches ``top_p``."""
    keep, mass = np.zeros(len(row), bool), 0.0
    for value in sorted(set(row.tolist()), reverse=True):
        keep |= row == f32(value)
        mass += value * int((row == f32(value)).sum())
        if mass >= top_p:
            break
    return divided(row, keep)


def dyadic(rng: np.random.Generator, rows: int, vocab: int) -> np.ndarray:
    """Draw rows of multiples of 1/4096, many of them equal."""
    return (rng.multinomial(4096, rng.dirichlet(np.full(vocab, 0.5), rows)) / 4096).astype(f32)


@pytest.mark.parametrize(
    ("vocab", "threads"),
    [
        *((vocab, 1024) for vocab in (1, 4, 5, 6, 100, 4100)),
        *(pytest.param(vocab, 256, marks=pytest.mark.slow) for vocab in (1, 4, 5, 6, 100, 2050)),  # they are compiled
    ],
)
def test_top_k_equals_plain_loops(sources: Sources, rng: np.random.Generator, vocab: int, threads: int) -> None:
    probs = dyadic(rng, 12, vocab)
    top_k = np.concatenate([[1, vocab, vocab + 7, 1 << 30, -1], rng.integers(1, vocab + 1, 7)]).astype(np.int32)
    got = TopKRenorm(threads, sources)(probs, top_k)
    for row, k, out in zip(probs, top_k.tolist(), got, strict=True):
        np.testing.assert_array_equal(out, top_k_loops(row, k if k > 0 else vocab), err_msg=str(k))


@pytest.mark.parametrize("vocab", [1, 4, 5, 6, 100, 2046, RADIX_FROM, 4100, 5001])
def test_top_p_equals_plain_loops(sources: Sources, rng: np.random.Generator, vocab: int) -> None:
    """The ternary search below V = 2048, the radix search from there on; cuts on a token's edge too."""
    probs = dyadic(rng, 40, vocab)
    at_an_edge = np.sort(probs[:16], axis=1)[:, ::-1].cumsum(axis=1)[np.arange(16), rng.integers(0, vocab, 16)]
    top_p = np.concatenate([at_an_edge, [1.0, 1e-6], rng.uniform(0.01, 0.999, 22)]).astype(f32)
    got = TopPRenorm(32, sources)(probs, top_p)
    for row, p, out in zip(probs, top_p.tolist(), got, strict=True):
        np.testing.assert_array_equal(out, top_p_loops(row, p), err_msg=str(p))


def test_top_p_of_a_production_block(sources: Sources, rng: np.random.Generator) -> None:
    probs, top_p = dyadic(rng, 24, 64), rng.uniform(0.01, 1.0, 24).astype(f32)
    got = TopPRenorm(sources=sources)(probs, top_p)
    np.testing.assert_array_equal(got, TopPRenorm(32, sources)(probs, top_p))
    np.testing.assert_array_equal(got, np.stack([top_p_loops(*pair) for pair in zip(probs, top_p, strict=True)]))


@pytest.mark.parametrize("vocab", [300, 4100])
def test_rounded_rows_are_cut_within_rounding(sources: Sources, rng: np.random.Generator, vocab: int) -> None:
    probs = rng.dirichlet(np.full(vocab, 0.2), 200).astype(f32)
    top_p = rng.uniform(0.05, 0.99, 200).astype(f32)
    got = TopPRenorm(32, sources)(probs, top_p)
    np.testing.assert_allclose(got.sum(axis=1, dtype=np.float64), 1, atol=1e-5)
    for row, p, out in zip(probs.astype(np.float64), top_p.tolist(), got, strict=True):
        least = row[out > 0].min()
        assert not (row[out == 0] > least).any()
        assert row[row >= least].sum() > p - vocab * 2.0**-24  # it reaches top_p,
        assert row[row > least].sum() < p + vocab * 2.0**-24  # and not without the last


@pytest.mark.parametrize("vocab", [64, 4100])
def test_cpu_threads_change_nothing(sources: Sources, rng: np.random.Generator, vocab: int) -> None:
    probs = rng.dirichlet(np.full(vocab, 0.3), 41).astype(f32)
    top_k, top_p = rng.integers(1, vocab, 41).astype(np.int32), rng.uniform(0.1, 0.9, 41).astype(f32)
    for kernel, values in ((TopKRenorm(256, sources), top_k), (TopPRenorm(32, sources), top_p)):
        one = kernel(probs, values, threads=1)  # type: ignore[operator]
        np.testing.assert_array_equal(kernel(probs, values, threads=5), one)  # type: ignore[operator]


def test_no_rows(sources: Sources) -> None:
    for vocab in (8, 4100):
        none = np.zeros((0, vocab), f32)
        assert TopKRenorm(256, sources)(none, np.zeros(0, np.int32)).shape == (0, vocab)
        assert TopPRenorm(32, sources)(none, np.zeros(0, f32)).shape == (0, vocab)


def test_wrong_arrays_are_named(sources: Sources) -> None:
    top_k, top_p = TopKRenorm(sources=sources), TopPRenorm(sources=sources)
    probs, ks, ps = np.full((2, 4), 0.25, f32), np.ones(2, np.int32), np.ones(2, f32)
    with pytest.raises(ValueError, match=r"probs must be \[R, V\], got shape \(4,\)"):
        top_k(probs[0], ks)
    with pytest.raises(ValueError, match="probs must be float32, got float64"):
        top_k(probs.astype(np.float64), ks)
    with pytest.raises(ValueError, match="probs must be C-contiguous"):
        top_p(np.asfortranarray(probs), ps)
    with pytest.raises(ValueError, match="probs must be finite and not negative"):
        top_p(probs * f32(np.nan), ps)
    with pytest.raises(ValueError, match="probs must be finite and not negative"):
        top_k(-probs, ks)
    with pytest.raises(ValueError, match="top_k must be int32, got int64"):
        top_k(probs, ks.astype(np.int64))
    with pytest.raises(ValueError, match=r"top_p must have shape \(2,\), got \(1,\)"):
        top_p(probs, ps[:1])
    with pytest.raises(ValueError, match=r"top_p must lie in \(0, 1\], got 0.0 to 1.0"):
        top_p(probs, np.array([0, 1], f32))
    with pytest.raises(ValueError, match="multiple of 32 from 256 to 1024, got 128"):
        TopKRenorm(128, sources)
    with pytest.raises(ValueError, match="multiple of 32 up to 1024, got 33"):
        TopPRenorm(33, sources)
