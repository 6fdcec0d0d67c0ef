"""What the tests of harness.simt share: the vendor's headers, and a private cache for everything else."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import pytest

from harness.errors import Unavailable
from harness.simt import Sources, fetch
from harness.simt.compile import find_compiler


@pytest.fixture(scope="session")
def sources() -> Sources:
    """Bring the vendor's headers, from the user's cache or the package index."""
    try:
        find_compiler()
        return fetch()
    except Unavailable as error:
        pytest.skip(f"the vendor's kernels cannot be built here: {error}")


@pytest.fixture
def compiler() -> None:
    """Skip where there is no C compiler."""
    try:
        find_compiler()
    except Unavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def rng(request: pytest.FixtureRequest) -> np.random.Generator:
    """Random numbers that depend on the test's name only."""
    return np.random.default_rng(zlib.crc32(request.node.name.encode()))


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty cache folder of this test's own."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("CHITREE_CACHE", str(folder))
    return folder
