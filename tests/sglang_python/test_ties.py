"""Exactly k kept, any of equal tokens: what is undecided is what some choice keeps and another does not."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.filters import SamplingParams, Semantics, target_probs
from harness.margins import claimed_rows

ANY = Semantics("any of equals", top_k_ties="any")


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7), st.integers(1, 8), st.sampled_from([1.0, 0.7]))
def test_undecided_is_what_the_choice_decides(levels: list[int], k: int, temperature: float) -> None:
    logits = np.array(levels, np.float32)
    given_rows = claimed_rows(logits[None], SamplingParams(temperature, top_k=k), ANY)
    vocab = len(levels)
    if k >= vocab:
        choices = [set(range(vocab))]
    else:
        kth = sorted(levels, reverse=True)[k - 1]
        ahead = {token for token in range(vocab) if levels[token] > kth}
        equal = [token for token in range(vocab) if levels[token] == kth]
        choices = [ahead | set(some) for some in combinations(equal, k - len(ahead))]
    surely, possibly = set.intersection(*choices), set.union(*choices)
    assert set(np.flatnonzero(given_rows.rows[0] > 0)) == possibly
    assert set(np.flatnonzero(given_rows.undecided[0])) == possibly - surely


def test_the_law_takes_the_lowest_ids() -> None:
    logits, params = np.zeros(4, np.float32), SamplingParams(top_k=2)
    np.testing.assert_array_equal(target_probs(logits, params, ANY), [0.5, 0.5, 0.0, 0.0])


def test_another_word_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k_ties must be 'all', 'exact' or 'any', got 'some'"):
        Semantics(top_k_ties="some")  # type: ignore[arg-type]
