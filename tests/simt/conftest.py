"""What the tests of harness.simt share: the vendor's headers, and a private cache for everything else."""

from __future__ import annotations

import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from harness.errors import Unavailable
from harness.simt import Sources, fetch, tree_target_only
from harness.simt.compile import find_compiler

INSTANCES = [{"threads": threads, "vec": vec} for threads in (1024, 32) for vec in (4, 2, 1)]


@pytest.fixture(scope="session")
def sources() -> Sources:
    """Bring the vendor's headers, from the user's cache or the package index."""
    try:
        find_compiler()
        found = fetch()
        with ThreadPoolExecutor(2) as pool:  # the tests' kernels, two at a time: NVRTC and the C compiler take seconds
            list(pool.map(lambda instance: tree_target_only(sources=found, **instance), INSTANCES))
    except Unavailable as error:
        pytest.skip(f"the vendor's kernels cannot be built here: {error}")
    return found


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
