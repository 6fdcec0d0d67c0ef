"""The smoke gate as tests: SGLang's kernel and the reference sampler against the exact law."""

from __future__ import annotations

import os

import pytest

from cases.catalogue import suite
from harness.gate import GateOptions, gate


@pytest.mark.parametrize("sampler", ["sglang-tree", "reference"])
def test_smoke(sampler: str) -> None:
    cores = len(os.sched_getaffinity(0))
    results = gate(suite("smoke"), GateOptions((sampler,), workers=cores, threads=cores))
    found = {
        case.case: case.reason or case.where[:1] for s in results.samplers for case in s.cases if case.verdict != "pass"
    }
    assert results.verdict == "pass", found or results.samplers[0].reason
