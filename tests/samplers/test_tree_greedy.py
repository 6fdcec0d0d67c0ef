"""SGLang's greedy kernel goes where plain greedy decoding goes, token for token, on every row that it is gated on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.catalogue import suite
from harness.errors import Unavailable
from harness.groups import Group, Plan
from harness.poison import BYTE, ENVIRONMENT
from harness.samplers.reference import Reference
from harness.samplers.sglang_tree_greedy import SglangTreeGreedy
from harness.simt.greedy import tree_greedy

GROUPS = [entry.group for entry in suite("smoke").groups if entry.rule == "greedy"]


@pytest.fixture(scope="module", autouse=True)
def _kernel() -> None:
    try:
        tree_greedy()
    except Unavailable as error:
        pytest.skip(f"the vendor's kernel cannot be built here: {error}")


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_kernel_equals_the_reference_walk_on_every_row(group: Group) -> None:
    plan = Plan(group, "greedy-test", 0, 1 << 10)
    for call in range(2):
        expected = Reference("greedy").verify(plan.call(call)[0])
        got = SglangTreeGreedy().verify(plan.call(call)[0])
        np.testing.assert_array_equal(got.lengths, expected.lengths)
        np.testing.assert_array_equal(got.tokens, expected.tokens)
        np.testing.assert_array_equal(got.nodes, expected.nodes)


def test_paths_of_every_length_are_among_them() -> None:
    seen: set[int] = set()
    for group in GROUPS:
        lengths = SglangTreeGreedy().verify(Plan(group, "greedy-test", 0, 1 << 10).call(0)[0]).lengths
        seen |= set(lengths.tolist())
    assert {2, 3, 4, 5, 6} <= seen


def test_poison_is_in_the_buffers_and_not_in_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = Plan(GROUPS[0], "greedy-test", 0, 1 << 10)
    expected = SglangTreeGreedy().verify(plan.call(0)[0])
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    sampler, kernel, given = SglangTreeGreedy(), tree_greedy(), []

    def launched(*arrays: np.ndarray) -> None:
        given.extend(array.tobytes() for array in arrays[:3])
        kernel(*arrays)

    monkeypatch.setattr(sampler, "_kernel", launched)
    got: Any = sampler.verify(plan.call(0)[0])
    assert set(b"".join(given)) == {BYTE}
    np.testing.assert_array_equal(got.tokens, expected.tokens)
    np.testing.assert_array_equal(got.lengths, expected.lengths)
