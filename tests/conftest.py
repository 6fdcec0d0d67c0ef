"""What tests of several folders share."""

from __future__ import annotations

import pytest

from harness.errors import Unavailable
from harness.samplers.registry import SAMPLERS


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> str:
    """Return the built-in sampler that a test is parametrised with, made ready; skip where it cannot run here."""
    known = SAMPLERS[request.param]
    try:
        reason = known.unavailable()
        if not reason:
            known.prepare()
    except Unavailable as error:
        reason = str(error)
    if reason:
        pytest.skip(reason)
    return known.name
