"""Requests: rows gathered on first use, and the same as torch tensors."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

from harness import Request, Result
from harness.request import Gather

from .build import plan
from .test_groups import GROUP, redrawn_group


def test_rows_are_gathered_once_into_a_fresh_array() -> None:
    table = np.arange(12, dtype=np.float32).reshape(4, 3)
    values = plan(GROUP, 1).call(0)[0].__dict__
    plain = {name.removeprefix("_"): value for name, value in values.items()}
    index = np.array([[0, 1], [1, 1], [3, 2]])
    request = Request(**{**plain, "target_probs": Gather(table, index), "draft_probs": None})
    assert request.vocab == 3
    rows = request.target_probs
    assert rows.shape == (3, 2, 3)
    np.testing.assert_array_equal(rows, table[index])
    assert request.target_probs is rows
    assert request.vocab == 3
    rows[:] = 0
    assert table.sum() == 66
    assert not np.shares_memory(request.target_probs[0, 1], request.target_probs[1, 0])


def test_rows_can_be_given_and_set() -> None:
    request, _ = plan(GROUP, 1).call(0)
    rows = np.zeros((5, 2, 9), np.float32)
    request.target_probs = rows
    assert request.target_probs is rows
    assert request.vocab == 9


def test_every_field_is_required() -> None:
    with pytest.raises(TypeError, match="target_logits"):
        Request()


@pytest.mark.parametrize("redrawn", [False, True])
def test_torch(redrawn: bool) -> None:
    torch = pytest.importorskip("torch")
    made = plan(redrawn_group() if redrawn else GROUP, 2)
    request, _ = made.call(0)
    tensors = made.call(0)[0].torch()
    dtypes = {np.dtype(np.int64): torch.int64, np.dtype(np.float32): torch.float32}
    for entry in fields(request):
        value, tensor = getattr(request, entry.name), getattr(tensors, entry.name)
        if isinstance(value, np.ndarray):
            assert isinstance(tensor, torch.Tensor), entry.name
            assert tensor.dtype == dtypes[value.dtype]
            assert tensor.device.type == "cpu"
            assert tensor.is_contiguous()
            np.testing.assert_array_equal(tensor.numpy(), value)
        else:
            assert tensor == value
            assert type(tensor) is type(value)
    assert (tensors.draft_probs is None) == (not redrawn)
    with pytest.raises(AttributeError, match=r"no field 'probs'.*target_probs"):
        _ = tensors.probs


def test_nodes_of_a_result_are_optional() -> None:
    result = Result(tokens=np.zeros((1, 2), np.int64), lengths=np.ones(1, np.int64))
    assert result.nodes is None
