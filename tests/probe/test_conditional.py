"""Laws given the drafts: mixed over all draws of the drafts they are the rule's law; walks have them as measured."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.case import Case
from harness.conditional import Drafted, conditional_law
from harness.filters import softmax
from harness.groups import Group
from harness.law import Law
from harness.redraw import next_state
from harness.rules import rule
from harness.samplers.base import Claims
from harness.samplers.reference import Reference
from harness.streams import stream
from harness.tree import Tree

from .asking import judged

VOCAB, STATES = 3, 5
CHAIN, PAIR = (-1, 0, 1), (-1, 0, 0)


def case_of(name: str, parents: tuple[int, ...], seed: int, depth_limit: int = 0) -> Case:
    """Return a case with random laws of a few tokens, some without mass."""
    rng = stream("conditional", seed)
    z = rng.normal(0.0, 1.5, (2, STATES, VOCAB))
    z[0][rng.random((STATES, VOCAB)) < 0.2] = -np.inf
    z[0][:, 0] = 0.0
    with np.errstate(divide="ignore"):
        logits = np.log(softmax(z[0])).astype(np.float32)
    return Case(
        f"conditional/{seed}",
        name,
        Tree(np.zeros(len(parents), np.int64), np.array(parents)),
        logits,
        draft=softmax(z[1]).astype(np.float32),
        depth_limit=depth_limit,
        replacement=name != "rejection-no-replacement",
    )


def drafts_of(case: Case) -> list[tuple[float, Drafted]]:
    """Return every draw of the drafts of a case with its probability, one by one."""
    rows = case.draft_rows
    found = []
    for drawn in product(range(case.vocab), repeat=len(case.tree) - 1):
        tokens, states, weight = np.array([0, *drawn]), np.zeros(len(case.tree), np.int64), 1.0
        for node in case.tree.order[1:]:
            parent = int(case.tree.parents[node])
            earlier = [int(tokens[c]) for c in case.tree.children[parent] if c < node]
            q = rows[states[parent]].copy()
            if not case.replacement:
                q[earlier] = 0.0
                q /= q.sum()
            weight *= q[tokens[node]]
            states[node] = next_state(int(states[parent]), int(tokens[node]), case.states)
        if weight > 0.0:
            found.append((weight, Drafted(case, tokens, states)))
    return found


def mixed(laws: list[tuple[float, Law]], vocab: int) -> dict[tuple[int, ...], tuple[float, np.ndarray]]:
    """Return reach and next-token law of every prefix of a mixture of laws."""
    found: dict[tuple[int, ...], np.ndarray] = {}
    for weight, law in laws:
        for m in range(law.size):
            row = found.setdefault(tuple(law.prefix(m)), np.zeros(vocab))
            row += weight * law.reach[m] * law.rows[m]
    return {prefix: (float(row.sum()), row / row.sum()) for prefix, row in found.items() if row.sum() > 0}


@pytest.mark.parametrize(
    ("name", "parents", "depth_limit"),
    [
        ("rejection", CHAIN, 0),
        ("rejection", CHAIN, 2),
        ("block", CHAIN, 0),
        ("block", (-1, 0, 1, 2), 3),
        ("rejection-no-replacement", PAIR, 0),
        ("rejection-no-replacement", (-1, 0, 0, 0), 0),
    ],
)
@settings(max_examples=15)
@given(st.integers(0, 2**20))
def test_mixture_over_the_drafts_is_the_rules_law(
    name: str, parents: tuple[int, ...], depth_limit: int, seed: int
) -> None:
    case = case_of(name, parents, seed, depth_limit)
    law = rule(name).law(case)
    found = mixed([(weight, conditional_law(drafted)) for weight, drafted in drafts_of(case)], case.vocab)
    for m in range(law.size):
        prefix = tuple(law.prefix(m))
        reach, row = found.pop(prefix, (0.0, law.rows[m]))
        assert reach == pytest.approx(law.reach[m], abs=1e-12)
        if law.reach[m] > 1e-9:
            np.testing.assert_allclose(row, law.rows[m], atol=1e-9)
    assert sum(reach for reach, _ in found.values()) < 1e-12


@pytest.mark.parametrize("name", ["rejection", "block", "rejection-replacement", "rejection-no-replacement"])
@settings(max_examples=6, deadline=None)
@given(st.integers(0, 2**20))
def test_reference_walks_have_the_law_given_their_drafts(name: str, seed: int) -> None:
    parents = (-1, 0, 1, 2) if rule(name).shape == "chain" else (-1, 0, 0, 1, 1, 2)
    group = Group("conditional", (case_of(name, parents, seed),))
    (found,) = judged(group, Reference(name), Claims((name,), coins=True)).values()
    assert found.verdict == "pass", found


def test_siblings_of_one_token() -> None:
    case = case_of("rejection-replacement", PAIR, 0)
    drafted = Drafted(case, np.array([0, 1, 1]), np.array([0, 3, 3]))
    assert not drafted.distinct
    with pytest.raises(ValueError, match="siblings of one token"):
        conditional_law(drafted)
