"""The synthetic target: the next token depends on the last two, so that the law of every sequence is exact.

Two, and not one: the older of them is what a model would find in its KV cache, so that a cache in disorder changes the
law of what follows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..law import Law

__all__ = ["MOST_PREFIXES", "marginals", "sequence_law", "state"]

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_PREFIXES = 1 << 16
"""Of the largest law that is enumerated."""


def state(before: ArrayLike, last: ArrayLike, vocab: int) -> Ints:
    """Return the state of the chain after tokens ``before`` and ``last``, of V^2; arguments broadcast."""
    return np.asarray(before, np.int64) * vocab + np.asarray(last, np.int64)


def sequence_law(rows: Floats, prompt: tuple[int, ...], new_tokens: int, eos: int | None) -> Law:
    """Return the exact law of what is decoded after ``prompt``, prefix by prefix.

    Parameters
    ----------
    rows : float64 [V^2, V]
        The target's law in each state, after the filters.
    prompt : tuple of at least two tokens
    new_tokens : int
        The most that are decoded; the law's depth limit.
    eos : int or None
        A token that ends the sequence; it is part of it.

    Returns
    -------
    Law
        Node of a prefix is the number of tokens decoded; reach is the chance that it comes and does not end there.

    Raises
    ------
    ValueError
        Where there are more prefixes than can be enumerated.
    """
    vocab = rows.shape[1]
    parents, tokens, reaches = [np.array([-1])], [np.array([-1])], [np.ones(1)]
    states = [state([prompt[-2]], prompt[-1], vocab)]
    first, count = 0, 1
    for _ in range(new_tokens - 1):
        at, token = np.nonzero(rows[states[-1]])
        going = token != eos
        at, token = at[going], token[going]
        parents.append(first + at)
        tokens.append(token)
        reaches.append(reaches[-1][at] * rows[states[-1][at], token])
        states.append(state(states[-1][at] % vocab, token, vocab))
        first, count = count, count + len(at)
        if count > MOST_PREFIXES:
            raise ValueError(
                f"the sequences of {new_tokens} tokens have more than {MOST_PREFIXES} prefixes; "
                "give the target fewer tokens in a state, or decode fewer"
            )
    depth = np.repeat(np.arange(len(states)), [len(part) for part in states])
    return Law(
        np.concatenate(parents),
        np.concatenate(tokens),
        depth,
        np.concatenate(reaches),
        rows[np.concatenate(states)],
        new_tokens,
    )


def marginals(draft: Floats, depth: int) -> Floats:
    """Return the laws of the next ``depth`` tokens, each by itself, from each state: float64 [V^2, depth, V].

    This is what a draft model gives that predicts all positions of a block at once: the law of ``draft`` [V^2, V], a
    chain as the target is, without what earlier tokens of the block are.
    """
    states, vocab = draft.shape
    q = draft.reshape(vocab, vocab, vocab)
    pairs = np.eye(states).reshape(states, vocab, vocab)  # the last two tokens' law, from each state
    laws = np.empty((states, depth, vocab))
    for d in range(depth):
        pairs = np.einsum("sab,abc->sbc", pairs, q)
        laws[:, d] = pairs.sum(axis=1)
    return laws
