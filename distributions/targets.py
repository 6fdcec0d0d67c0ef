"""Target-logit families: what a language model's next-token logits can look like, and what trips a sampler.

A family draws float32 logits ``[nodes, vocab]``, one row for what follows each tree node; entries are finite, or -inf
for an impossible token. Three things hold for all of them, because samplers fail where tests forget them:

- Every row is another law (as far as the vocabulary offers so many), so that exchanged rows show.
- Token ids carry no meaning: ranks are given to ids at random, row by row, so no sampler wins by preferring low ids.
- The first and the last id take part: with two nodes or more, one row has token 0 on top and token ``vocab - 1`` last,
  and another has them the other way round. Out-of-range clamps and zero-filled defaults land on these two.

``TARGETS`` holds every family under its name.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["MAX_VOCAB", "TARGETS", "UNIT", "Family", "Target", "dyadic_covering", "dyadic_probs", "exact_probs"]

UNIT = 4096
"""Exact probabilities are multiples of 1/UNIT: any float32 sum of them, in any order, has no rounding error."""

MAX_VOCAB = 1 << 20
"""Largest vocabulary a family is asked for; today's largest have about 262,000 tokens."""

Floats: TypeAlias = npt.NDArray[np.float32]
Counts: TypeAlias = npt.NDArray[np.int64]
Family: TypeAlias = Callable[[np.random.Generator, int, int], Floats]


@dataclass(frozen=True, slots=True)
class Target:
    """A family of target logits.

    Attributes
    ----------
    name : str
        Key in ``TARGETS``.
    make : callable
        ``make(rng, nodes, vocab)`` draws float32 logits ``[nodes, vocab]``; ValueError where `vocab` is out of range.
    doc : str
        One line that says what the rows look like.
    exact : bool
        Probabilities are multiples of 1/4096; ``exact_probs(logits)`` gives them without rounding.
    min_vocab, max_vocab : int
        Vocabulary sizes the family is defined for, both included.
    one_outcome : bool
        Every row leaves one token only.
    """

    name: str
    make: Family
    doc: str
    exact: bool = False
    min_vocab: int = 2
    max_vocab: int = MAX_VOCAB
    one_outcome: bool = False


TARGETS: dict[str, Target] = {}


def _family(
    name: str, *, exact: bool = False, min_vocab: int = 2, one_outcome: bool = False
) -> Callable[[Family], Family]:
    """Register a family under `name`, with its sizes checked before it is asked for a draw."""

    def register(draw: Family) -> Family:
        @functools.wraps(draw)
        def make(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
            _check_sizes(name, nodes, vocab, min_vocab)
            return draw(rng, nodes, vocab)

        doc = (draw.__doc__ or "").partition("\n")[0]
        TARGETS[name] = Target(name, make, doc, exact=exact, min_vocab=min_vocab, one_outcome=one_outcome)
        return make

    return register


def _check_sizes(name: str, nodes: int, vocab: int, min_vocab: int) -> None:
    if nodes < 1:
        raise ValueError(f"target family {name!r} needs at least 1 node, got {nodes}")
    if not min_vocab <= vocab <= MAX_VOCAB:
        raise ValueError(f"target family {name!r} needs a vocabulary of {min_vocab} to {MAX_VOCAB} tokens, got {vocab}")


# --- families ---------------------------------------------------------------------------------------------------------


@_family("flat")
def flat(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """All tokens nearly equally likely, within a factor 1.3 of each other."""
    return _seat_edges(rng, np.float32(0.25) * rng.random((nodes, vocab), dtype=np.float32))


@_family("zipf")
def zipf(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Probability falls as a power of the rank (exponent 0.8 to 1.6), with 10% jitter."""
    rows = -_row_uniform(rng, nodes, 0.8, 1.6) * np.log(_ranks(vocab))
    rows += np.float32(0.1) * rng.standard_normal((nodes, vocab), dtype=np.float32)
    return _assign_ids(rng, rows)


@_family("peaked")
def peaked(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """One token with 90% to 99.9% of the mass."""
    return _assign_ids(rng, _with_heads(rng, 1 - 10 ** -_row_uniform(rng, nodes, 1, 3), vocab))


@_family("bimodal", min_vocab=3)
def bimodal(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Two tokens with 30% to 48% each, as at a fork in the text; the rest share what is left."""
    heads = np.hstack([_row_uniform(rng, nodes, 0.3, 0.48) for _ in range(2)])
    return _assign_ids(rng, _with_heads(rng, heads, vocab))


@_family("one-hot", exact=True, one_outcome=True)
def one_hot(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """One token possible, all others not; rows repeat only where there are more nodes than tokens, neighbours never."""
    inner = 1 + rng.permutation(vocab - 2)
    tokens = np.concatenate([[0, vocab - 1], inner])[:nodes] if nodes > 1 else rng.integers(vocab, size=1)
    rows = np.full((nodes, vocab), -np.inf, dtype=np.float32)
    rows[np.arange(nodes), np.resize(rng.permutation(tokens), nodes)] = 0
    return rows


@_family("holes", min_vocab=3)
def holes(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Impossible tokens in every row: from one to all but two, log-uniform in the number of possible ones."""
    rows = np.float32(1.5) * rng.standard_normal((nodes, vocab), dtype=np.float32)
    rows[np.arange(vocab) >= _log_uniform(rng, nodes, 2, vocab - 1)] = -np.inf
    return _assign_ids(rng, rows)


@_family("ties", min_vocab=3)
def ties(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Equal logits in groups at all ranks; a cut at k = 1 splits one in half of the rows, at k = 2 in the others."""
    return _assign_ids(rng, -_tied(rng, nodes, vocab))


@_family("near-ties", min_vocab=3)
def near_ties(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Logits like those of `ties` but 1, 2 or 3 float32 ulps apart in a group (one spacing a row); none are equal."""
    # Positive floats are ordered as their bits are: a running maximum over bits less their least place forces the gaps.
    bits = (1 + _tied(rng, nodes, vocab)).view(np.int32)
    least = np.outer(rng.integers(1, 4, nodes, dtype=np.int32), np.arange(vocab, dtype=np.int32))
    bits -= least
    np.maximum.accumulate(bits, axis=1, out=bits)
    bits += least
    return _assign_ids(rng, -bits.view(np.float32))


@_family("rounding-prone", min_vocab=8)
def rounding_prone(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """One large mass, a ladder down to 2**-26 of it, half the tokens at its foot: each lost if added to the large."""
    rungs = np.minimum(26, np.arange(vocab) * max(1, 52 / vocab)).astype(np.float32)
    halvings = rungs + rng.random((nodes, vocab), dtype=np.float32)
    halvings[:, 0] = 0
    return _assign_ids(rng, np.float32(-np.log(2)) * halvings)


@_family("dyadic", exact=True, min_vocab=3)
def dyadic(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Probabilities k/4096, with impossible tokens in every row: the logs of `dyadic_probs`."""
    with np.errstate(divide="ignore"):
        return np.log(dyadic_probs(rng, nodes, vocab))


@_family("llm-like")
def llm_like(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Few strong tokens, a heavy tail (power 1.2 to 2), a noise floor e**16 lower, and an offset of 10 to 30."""
    rows = -_row_uniform(rng, nodes, 1.2, 2) * np.log(_ranks(vocab))
    np.maximum(rows, np.float32(-16), out=rows)
    noise = rng.standard_normal((nodes, vocab), dtype=np.float32)
    noise *= np.float32(0.5)
    rows += noise
    rows[:, :4] += np.float32(1.5) * rng.standard_exponential((nodes, min(4, vocab)), dtype=np.float32)
    rows += _row_uniform(rng, nodes, 10, 30)
    return _assign_ids(rng, rows)


# --- laws exact in float32 --------------------------------------------------------------------------------------------


def dyadic_probs(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Draw probabilities that are multiples of 1/4096, with impossible tokens in every row.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness; `dyadic` with an equal one gives the logs of the same table.
    nodes, vocab : int
        Rows and tokens, ``vocab >= 3``.

    Returns
    -------
    ndarray of float32, shape [nodes, vocab]
        Each row sums to exactly 1 in float32, in any order of summation. From 2 to ``min(vocab - 1, 4095)`` tokens of a
        row are possible.

    Raises
    ------
    ValueError
        Where `nodes` or `vocab` is out of range.
    """
    _check_sizes("dyadic", nodes, vocab, min_vocab=3)
    width = min(vocab, UNIT) - 1
    # Possible tokens come last: numpy's multinomial gives what rounding leaves over to the last category.
    possible = np.arange(width) >= width - _log_uniform(rng, nodes, 2, width)
    counts = _dyadic_counts(rng, possible)
    for _ in range(64):  # rows alike are drawn again; as multisets, since ids are given out later
        _, first = np.unique(np.sort(counts, axis=1), axis=0, return_index=True)
        repeated = np.setdiff1d(np.arange(nodes), first)
        if not repeated.size:
            break
        counts[repeated] = _dyadic_counts(rng, possible[repeated])
    probs = np.zeros((nodes, vocab), dtype=np.float32)
    probs[:, :width] = counts / UNIT
    return _assign_ids(rng, probs)


def dyadic_covering(rng: np.random.Generator, vocab: int, tokens: npt.ArrayLike) -> Floats:
    """Draw a law in multiples of 1/4096 whose whole mass lies on the given tokens.

    For a node whose children cover all that can follow it: the residual after rejecting every child is empty, so some
    child must be accepted.

    Parameters
    ----------
    rng : numpy.random.Generator
        Source of randomness.
    vocab : int
        Number of tokens.
    tokens : array_like of int, shape [k]
        Distinct tokens, ``1 <= k <= 4096``; each gets at least 1/4096.

    Returns
    -------
    ndarray of float32, shape [vocab]
        Sums to exactly 1 in float32, in any order of summation.

    Raises
    ------
    ValueError
        Where `tokens` is empty, too long, repeats a token, or leaves the vocabulary.
    """
    covered = np.asarray(tokens, dtype=np.int64)
    if covered.ndim != 1 or not 1 <= covered.size <= UNIT or np.unique(covered).size < covered.size:
        raise ValueError(f"tokens must be 1 to {UNIT} distinct ids in one dimension, got {tokens!r}")
    if covered.min() < 0 or covered.max() >= vocab:
        raise ValueError(f"tokens must lie in 0..{vocab - 1}, got {tokens!r}")
    probs = np.zeros(vocab, dtype=np.float32)
    probs[covered] = _dyadic_counts(rng, np.ones((1, covered.size), dtype=np.bool_))[0] / UNIT
    return probs


def exact_probs(logits: Floats) -> Floats:
    """Give back the probabilities k/4096 that logits of an `exact` family are the logs of, free of rounding.

    Parameters
    ----------
    logits : ndarray of float32, shape [..., vocab]
        Logits of a family whose `Target.exact` is true.

    Returns
    -------
    ndarray of float32, shape [..., vocab]
        Multiples of 1/4096; rows sum to exactly 1.
    """
    probs: Floats = np.rint(np.exp(logits) * UNIT) / UNIT
    return probs


def _dyadic_counts(rng: np.random.Generator, possible: npt.NDArray[np.bool_]) -> Counts:
    """Split UNIT over the possible tokens of each row ``[nodes, width]``, at least 1 to each."""
    weights = rng.standard_exponential(possible.shape) * possible
    spare = UNIT - possible.sum(axis=1)
    return possible + rng.multinomial(spare, weights / weights.sum(axis=1, keepdims=True))


# --- parts ------------------------------------------------------------------------------------------------------------


def _ranks(vocab: int) -> Floats:
    return np.arange(1, vocab + 1, dtype=np.float32)


def _row_uniform(rng: np.random.Generator, nodes: int, low: float, high: float) -> Floats:
    """Draw one float32 parameter a row, ``[nodes, 1]``."""
    return rng.uniform(low, high, (nodes, 1)).astype(np.float32)


def _log_uniform(rng: np.random.Generator, nodes: int, low: int, high: int) -> Counts:
    """Draw one integer in low..high a row, ``[nodes, 1]``, small ones as likely as large ones on a log scale."""
    draws = np.exp(rng.uniform(np.log(low), np.log(high + 1), (nodes, 1)))
    return np.clip(draws, low, high).astype(np.int64)


def _with_heads(rng: np.random.Generator, heads: Floats, vocab: int) -> Floats:
    """Log-probabilities by rank: `heads` ``[nodes, k]`` first, then normal logits that share what mass is left."""
    k = heads.shape[1]
    rows = rng.standard_normal((nodes := heads.shape[0], vocab), dtype=np.float32)
    tail = rows[:, k:]
    tail += np.log((1 - heads.sum(axis=1)) / np.exp(tail).sum(axis=1)).reshape(nodes, 1)
    rows[:, :k] = np.log(heads)
    return rows


def _tied(rng: np.random.Generator, nodes: int, vocab: int) -> Floats:
    """Distances below the top logit by rank, ascending from 0, with runs of equal ones; a zipf-like fall over all."""
    starts = rng.random((nodes, vocab), dtype=np.float32) < 0.4
    starts[:, 1] = (np.arange(nodes) + rng.integers(2)) % 2
    starts[:, 2] = ~starts[:, 1]
    starts[:, 0] = False
    gaps = rng.standard_exponential((nodes, vocab), dtype=np.float32)
    gaps *= 2 / _ranks(vocab)
    gaps[~starts] = 0
    return np.cumsum(gaps, axis=1, out=gaps)


def _assign_ids(rng: np.random.Generator, rows: Floats) -> Floats:
    """Give ranks to token ids at random, row by row and in place."""
    return _seat_edges(rng, rng.permuted(rows, axis=1, out=rows))


def _seat_edges(rng: np.random.Generator, rows: Floats) -> Floats:
    """Put token 0 on top and the last token at the bottom of one row, and the reverse in another; in place."""
    nodes, vocab = rows.shape
    if nodes >= 2:
        for row, (top, bottom) in zip(
            rng.choice(nodes, 2, replace=False), [(0, vocab - 1), (vocab - 1, 0)], strict=True
        ):
            values = rows[row]
            best = values.argmax()
            values[[top, best]] = values[[best, top]]
            worst = values.argmin()
            values[[bottom, worst]] = values[[worst, bottom]]
    return rows
