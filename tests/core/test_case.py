"""A case says what a sampler gets and what its laws are, and refuses what is no case."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from harness.case import Case
from harness.filters import SEMANTICS, SamplingParams, target_probs
from harness.groups import Group
from harness.tree import Tree

from .build import groups
from .oracles import stream

quick = settings(max_examples=20, deadline=None)

TREE = Tree([1, 0, 2], [-1, 0, 0])
LOGITS = stream("case").normal(size=(3, 4)).astype(np.float32)


def case(**changes: Any) -> Case:
    return Case(**{"name": "x", "rule": "target-only", "tree": TREE, "logits": LOGITS, **changes})


def test_defaults_are_those_of_the_tree() -> None:
    made = case()
    assert (made.nodes, made.depth_limit, made.vocab) == (3, 2, 4)
    assert made.threshold_single == made.threshold_acc == 1.0
    assert made.probs is None
    assert case(tree=Tree([1, 0, 2], [-1, 0, 1])).depth_limit == 3


@quick
@given(groups())
def test_laws_are_those_of_the_float32_rows(group: Group) -> None:
    for made in group.cases:
        given_rows = made.target_probs
        assert given_rows.dtype == np.float32
        assert given_rows.shape == made.logits.shape
        np.testing.assert_array_equal(given_rows, target_probs(made.logits, made.params).astype(np.float32))
        assert made.law_rows.dtype == np.float64
        for row, law in zip(given_rows.tolist(), made.law_rows, strict=True):
            np.testing.assert_allclose(law, [p / sum(row) for p in row], rtol=1e-13)
            assert abs(law.sum() - 1) < 1e-14


def test_exact_laws_are_used_as_they_are() -> None:
    probs = np.array([[1, 4095, 0, 0], [2048, 1024, 1024, 0], [4096, 0, 0, 0]], np.float32) / 4096
    made = case(probs=probs)
    np.testing.assert_array_equal(made.target_probs, probs)
    np.testing.assert_array_equal(made.law_rows, probs)
    cut = case(probs=probs, params=SamplingParams(top_k=1))
    assert cut.law_rows.tolist() == [[0, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]


def test_filtered_by_another_semantics() -> None:
    params = SamplingParams(min_p=0.5, top_p=0.6)
    p = np.array([[0.5, 0.3, 0.1, 0.1]] * 3)
    made = case(logits=np.log(p), params=params)
    assert np.flatnonzero(made.filtered(SEMANTICS["vllm"])[0]).tolist() == [0]
    assert np.flatnonzero(made.filtered(SEMANTICS["sequential"])[0]).tolist() == [0, 1]
    assert np.flatnonzero(made.law_rows[0]).tolist() == [0, 1]


LAST_HOT = np.array([[0, 0, 0, 1]] * 3, np.float32)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"logits": LOGITS[:2]}, r"logits .*3 nodes.*\(2, 4\)"),
        ({"logits": LOGITS[0]}, r"logits .*\(4,\)"),
        ({"logits": LOGITS * np.nan}, "logits must be finite or -inf"),
        ({"logits": LOGITS + np.inf}, "logits must be finite or -inf"),
        ({"logits": np.where(np.arange(3)[:, None] == 1, -np.inf, LOGITS)}, "node 1 are all -inf"),
        ({"tree": Tree([1, 4, 2], [-1, 0, 0])}, r"tokens must lie in \[0, 4\)"),
        ({"tree": Tree([1, -1, 2], [-1, 0, 0])}, r"tokens must lie in \[0, 4\)"),
        ({"depth_limit": -1}, "depth_limit must be at least 1, got -1"),
        ({"nodes": 2}, "nodes must be at least the tree's 3, got 2"),
        ({"threshold_single": 1.1}, r"threshold_single must lie in \[0, 1\], got 1.1"),
        ({"threshold_acc": -0.1}, r"threshold_acc must lie in \[0, 1\], got -0.1"),
        ({"threshold_acc": np.nan}, r"threshold_acc must lie in \[0, 1\], got nan"),
        ({"probs": LAST_HOT[:2]}, r"probs must have the shape of logits \(3, 4\), got \(2, 4\)"),
        ({"probs": LAST_HOT * 0.9}, "sum to 1"),
        ({"probs": LAST_HOT * np.nan}, "sum to 1"),
        ({"probs": LAST_HOT + np.array([0.5, -0.5, 0, 0])}, "probs must be >= 0"),
    ],
)
def test_no_case(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        case(**changes)
