"""The NumPy port emits what the vendor's kernel emits, bit for bit, whatever the law and the block size."""

from __future__ import annotations

import numpy as np
import pytest

from cases.catalogue import suite
from harness.groups import Plan
from harness.samplers.sglang_tree import SglangTree
from harness.samplers.sglang_tree_port import TreePort, draw_in_block_order
from harness.streams import coins, stream

GROUPS = [entry.group for entry in suite("smoke").groups if entry.group.rule == "target-only"]


@pytest.mark.parametrize("threads", [32, 1024])
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_port_equals_kernel_on_every_row(group, threads):
    kernel, port = SglangTree(threads), TreePort(threads)
    plan = Plan(group, "port-test", 0, 1 << 13)
    for call in range(8 if threads == 32 else 3):
        ours, _ = plan.call(call)
        theirs, _ = plan.call(call)
        expected, got = kernel.verify(theirs), port.verify(ours)
        np.testing.assert_array_equal(got.lengths, expected.lengths)
        np.testing.assert_array_equal(got.tokens, expected.tokens)
        np.testing.assert_array_equal(got.nodes, expected.nodes)


@pytest.mark.parametrize("vocab", [1, 2, 3, 4, 127, 128, 129, 4096, 4098, 9001])
def test_draw_gives_a_token_of_positive_weight(vocab):
    rng = stream("draw-in-block-order", vocab)
    weights = rng.gamma(0.05, size=(64, vocab)).astype(np.float32)
    weights[rng.random(weights.shape) < 0.5] = 0.0
    weights[:, rng.integers(vocab)] = 0.25
    edges = np.tile(np.float32([0.0, 1 - 2**-24]), 32)
    for coin in (coins(rng, 64), edges):
        drawn = draw_in_block_order(weights, coin)
        assert (weights[np.arange(64), drawn] > 0).all()


def test_draw_of_an_empty_row_falls_through_to_the_last_token():
    assert draw_in_block_order(np.zeros((2, 6), np.float32), np.float32([0.0, 0.5])).tolist() == [5, 5]
