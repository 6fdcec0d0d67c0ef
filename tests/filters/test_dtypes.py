"""Law rows in 16 bits: rounded as torch rounds them, in requests and in laws alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.boundaries import boundary_groups
from harness.case import Case
from harness.dtypes import rounded
from harness.groups import Group, Plan
from harness.rules import RULES
from harness.tree import Tree

FORMATS = ["float16", "bfloat16"]
formats = pytest.mark.parametrize("dtype", FORMATS)


@formats
def test_rounding_is_a_cast_bit_for_bit(dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    any_bits = rng.integers(0, 2**32, 1 << 20, dtype=np.uint32).view(np.float32)
    laws = rng.dirichlet(np.full(50, 0.2), 2000).astype(np.float32).ravel()
    halves = (np.arange(1 << 16, dtype=np.uint32) << 16 | 0x8000).view(np.float32)  # half-way between bfloat16s
    edges = np.array([0.0, -0.0, np.inf, -np.inf, 65504, 65519.996, 65520, 2.0**-24, 2.0**-25, 3e-8, 1e-45], np.float32)
    values = np.concatenate([any_bits, laws, halves, edges])
    own = rounded(values, dtype)
    cast = torch.from_numpy(values.copy()).to(getattr(torch, dtype)).to(torch.float32).numpy()
    assert own.dtype == np.float32
    number = ~np.isnan(cast)
    np.testing.assert_array_equal(np.isnan(own), ~number)
    np.testing.assert_array_equal(own[number].view(np.uint32), cast[number].view(np.uint32))


def test_float32_is_left_alone() -> None:
    values = np.array([[0.1, 1e-40]], np.float32)
    assert rounded(values, "float32") is values


@formats
def test_shapes(dtype: Any) -> None:
    assert rounded(np.float32(0.1), dtype).shape == ()
    assert rounded(np.zeros((2, 0, 3), np.float32), dtype).shape == (2, 0, 3)
    assert rounded(np.full((2, 3), 0.1, np.float32).T, dtype).shape == (3, 2)


def redrawn() -> Group:
    rng = np.random.default_rng(4)
    logits = rng.normal(size=(3, 5)).astype(np.float32)
    draft = rng.dirichlet(np.ones(5), 3).astype(np.float32)
    tree = Tree(np.zeros(3, np.int64), np.array([-1, 0, 1]))
    return Group("r", tuple(Case(f"r/{i}", "rejection", tree, logits, draft=draft) for i in range(2)))


@formats
@pytest.mark.parametrize("group", [boundary_groups("target-only")[0], redrawn()], ids=lambda group: group.rule)
def test_a_group_in_16_bits(group: Group, dtype: Any) -> None:
    made = group.rounded(dtype)
    assert group.rounded("float32") is group
    assert [case.name for case in made.cases] == [case.name for case in group.cases]
    for before, case in zip(group.cases, made.cases, strict=True):
        np.testing.assert_array_equal(case.target_logits, rounded(before.logits, dtype))
        np.testing.assert_array_equal(case.target_probs, rounded(before.target_probs, dtype))
        given = case.target_probs.astype(np.float64)
        np.testing.assert_array_equal(case.law_rows, given / given.sum(axis=1, keepdims=True))
        law = RULES[case.rule].law(case)
        np.testing.assert_allclose(law.rows[0], case.law_rows[0])
    request, which = Plan(made, "test", 0, 64).call(0)
    for rows, name in ((request.target_logits, "target_logits"), (request.target_probs, "target_probs")):
        np.testing.assert_array_equal(rows, rounded(rows, dtype))
        np.testing.assert_array_equal(rows[0, 0], getattr(made.cases[which[0]], name)[0])
    if group.redrawn:
        np.testing.assert_array_equal(request.draft_probs, rounded(request.draft_probs, dtype))
        q = rounded(group.cases[0].draft, dtype).astype(np.float64)
        np.testing.assert_array_equal(made.cases[0].draft_rows, q / q.sum(axis=1, keepdims=True))


@formats
def test_tensors_have_the_format(dtype: Any) -> None:
    torch = pytest.importorskip("torch")
    request, _ = Plan(redrawn().rounded(dtype), "test", 0, 64).call(0)
    tensors = request.torch()
    for name in ("target_logits", "target_probs", "draft_probs"):
        rows = getattr(tensors, name)
        assert rows.dtype == getattr(torch, dtype)
        np.testing.assert_array_equal(rows.float().numpy(), getattr(request, name))
    assert tensors.coins.dtype == tensors.temperature.dtype == torch.float32
    plain, _ = Plan(redrawn(), "test", 0, 64).call(0)
    assert plain.torch().target_probs.dtype == torch.float32


def test_no_such_format() -> None:
    with pytest.raises(ValueError, match="dtype must be one of float32, float16, bfloat16, got 'int8'"):
        Case("x", "plain", Tree(np.zeros(1, np.int64), np.array([-1])), np.zeros((1, 3), np.float32), dtype="int8")  # type: ignore[arg-type]
