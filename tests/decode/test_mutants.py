"""Faults of decoding are seen, by the law of the sequences or by reading KV back; decoding without them is right."""

from __future__ import annotations

import numpy as np
import pytest

from cases.claims.common import Buffers
from harness.samplers.registry import sampler

from .build import decode, group, shuffled
from .mutants import MUTANTS

SEQUENCES = 1 << 12


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_seen(name: str) -> None:
    mutant = MUTANTS[name]
    made = (shuffled if mutant.shuffled else group)("target-only", mutant.drafts)
    seen = decode(made, SEQUENCES, mutant.verifier, mutant.parts).seen()
    assert mutant.seen_by <= seen, f"{name}: seen by {sorted(seen)}"


def test_the_kernel_itself_with_draft_probs_that_are_zeroed_once_is_seen() -> None:
    kernel = sampler("sglang-tree-32")
    reason = kernel.unavailable()
    if reason is not None:
        pytest.skip(reason)
    made = group("target-only", "ddtree")
    kept = np.zeros((1 << 13, made.nodes, made.vocab), np.float32)
    dirty = Buffers(32, lambda request: kept[: request.batch])
    seen = decode(made, SEQUENCES, lambda made: dirty).seen()
    assert kept.any()
    assert {"support"} <= seen
    assert decode(made, SEQUENCES, lambda made: Buffers(32)).seen() == set()
