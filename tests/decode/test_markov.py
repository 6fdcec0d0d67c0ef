"""The law of sequences, and of tokens that are drafted by position, against enumeration."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from harness.decode.drafting import TreeTable, draft_laws, draw_drafts
from harness.decode.markov import marginals, sequence_law, state
from harness.streams import stream
from harness.tree import Tree

Floats = NDArray[np.float64]
VOCAB = 3


def laws(seed: int, holes: bool = True) -> Floats:
    rng = stream("laws", seed)
    rows = rng.dirichlet(np.ones(VOCAB), VOCAB**2)
    if holes:
        rows[rng.random(rows.shape) < 0.3] = 0.0
        rows[:, 0] += rows.sum(axis=1) == 0.0
    return rows / rows.sum(axis=1, keepdims=True)


def probability(rows: Floats, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> float:
    """Return the chance of these tokens, one after the other."""
    known, chance = list(prompt), 1.0
    for token in tokens:
        chance *= rows[state(known[-2], known[-1], VOCAB), token]
        known.append(token)
    return chance


@given(st.integers(0, 1000), st.integers(1, 4), st.sampled_from([None, 0, 2]), st.integers(2, 4))
def test_the_law_of_sequences_is_that_of_every_sequence(seed: int, most: int, eos: int | None, length: int) -> None:
    rows = laws(seed)
    prompt = tuple(stream("prompt", seed).integers(VOCAB, size=length).tolist())
    law = sequence_law(rows, prompt, most, eos)
    assert law.lengths.sum() == pytest.approx(1.0, abs=1e-12)
    total = 0.0
    for size in range(1, most + 1):
        for tokens in itertools.product(range(VOCAB), repeat=size):
            over = eos is not None and tokens[-1] == eos
            if (eos is not None and eos in tokens[:-1]) or (size < most and not over):
                continue
            m = law.find(tokens[:-1])
            chance = float(law.outcome(np.array([m]), np.array([tokens[-1]]))[0]) if m >= 0 else 0.0
            assert chance == pytest.approx(probability(rows, prompt, tokens), abs=1e-12)
            total += chance
    assert total == pytest.approx(1.0, abs=1e-12)


def test_too_many_sequences_are_refused() -> None:
    with pytest.raises(ValueError, match="prefixes"):
        sequence_law(laws(0, holes=False), (0, 1), 40, None)


@given(st.integers(0, 1000))
def test_tokens_by_position_have_the_law_of_their_position(seed: int) -> None:
    rows, depth = laws(seed), 3
    found = marginals(rows, depth)
    for s in range(VOCAB**2):
        prompt = (s // VOCAB, s % VOCAB)
        for d in range(depth):
            expected = np.zeros(VOCAB)
            for tokens in itertools.product(range(VOCAB), repeat=d + 1):
                expected[tokens[-1]] += probability(rows, prompt, tokens)
            np.testing.assert_allclose(found[s, d], expected, atol=1e-12)


@pytest.mark.parametrize("how", ["position", "replacement", "no-replacement"])
def test_drafts_are_drawn_from_their_laws(how: str) -> None:
    """Frequencies of each node's token given its state lie within 6 standard errors of the law: 36 of them."""
    tree, rows = Tree(np.zeros(4, np.int64), np.array([-1, 0, 0, 1])), laws(3, holes=False)
    if how == "position":
        tree = Tree(np.zeros(4, np.int64), np.array([-1, 0, 1, 2]))
    n, root = 200_000, 4
    noise = stream("drafts", how).random((n, 4))
    drawn_from = draft_laws(rows, how, tree).astype(np.float64)  # type: ignore[arg-type]
    tokens = draw_drafts(how, tree, drawn_from, np.full(n, root), np.zeros(n, np.int64), noise)  # type: ignore[arg-type]
    assert (tokens[:, 0] == root % VOCAB).all()
    law = rows[root]

    def close(seen: NDArray[np.bool_], p: float) -> None:
        assert abs(seen.mean() - p) <= 6 * np.sqrt(p * (1 - p) / len(seen))

    for x in range(VOCAB):
        close(tokens[:, 1] == x, law[x])
        if how == "position":
            close(tokens[:, 3] == x, float(marginals(rows, 3)[root, 2, x]))
            continue
        below = tokens[tokens[:, 1] == x]
        for y in range(VOCAB):
            close(below[:, 3] == y, rows[state(root % VOCAB, x, VOCAB), y])
            beside = law[y] if how == "replacement" else 0.0 if x == y else law[y] / (1.0 - law[x])
            close(below[:, 2] == y, beside)


def test_tables_of_trees_hold_their_encodings() -> None:
    trees = [Tree(np.array([2, 1, 0]), np.array([-1, 0, 0]), ((2, 1), (), ())), Tree(np.array([1]), np.array([-1]))]
    table = TreeTable.of(trees, 4)
    assert table.tokens.tolist() == [[2, 1, 0, 0], [1, 0, 0, 0]]
    assert table.parents.tolist() == [[-1, 0, 0, -1], [-1, -1, -1, -1]]
    assert table.next_token.tolist() == [[2, -1, -1, -1], [-1] * 4]
    assert table.next_sibling.tolist() == [[-1, -1, 1, -1], [-1] * 4]
    assert table.depth.tolist() == [[0, 1, 1, 0], [0] * 4]
    assert table.node_count.tolist() == [3, 1]
    assert len(TreeTable.stack([table, table]).tokens) == 4
