"""What the tests of SGLang's own Python share: one sampler of each kind, and calls of the suites' groups."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from cases.catalogue import suite
from harness.chained import chained
from harness.errors import Unavailable
from harness.request import Request
from harness.samplers.base import Verifier
from harness.samplers.sglang_dflash import SglangDflash
from harness.samplers.sglang_eagle import SglangEagle
from harness.samplers.sglang_python import prepare, unavailable

MAKE: dict[str, Callable[[], Verifier]] = {
    "sglang-eagle": SglangEagle,
    "sglang-eagle-seeds": lambda: SglangEagle(seeded=True),
    "sglang-dflash": SglangDflash,
    "sglang-dflash-top-k": lambda: SglangDflash(apart=True),
}


@pytest.fixture(scope="session")
def sampler() -> Callable[[str], Verifier]:
    """Return a function that returns the sampler of a name, made once; skip where it cannot run."""
    reason = unavailable()
    if reason is None:
        try:
            prepare()
        except Unavailable as error:
            reason = str(error)
    if reason is not None:
        pytest.skip(reason)
    return cache(lambda name: MAKE[name]())


def call(group: str, number: int = 0, *, chains: bool = False, size: str = "smoke") -> Request:
    """Return a call of a suite's group."""
    whole = suite(size)
    (plan,) = whole.plans([entry for entry in whole.groups if entry.name == group], 0)
    request, _ = (chained(plan) if chains else plan).call(number)
    return request
