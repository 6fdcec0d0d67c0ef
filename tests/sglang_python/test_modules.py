"""Python files of a wheel: fetched by name, verified like headers, on no import path."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import Unavailable
from harness.simt.wheels import SGLANG, fetch
from tests.simt.test_wheels import FIRST, make_wheel

pytestmark = pytest.mark.usefixtures("fresh_cache")


@pytest.fixture
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHITREE_CACHE", str(tmp_path / "cache"))


def test_named_files_alone_are_unpacked(tmp_path: Path) -> None:
    files = {**FIRST, "first/other.py": "raise SystemExit"}
    pin = replace(make_wheel(tmp_path, "first", "1.0", files), modules=("first/code.py",))
    (folder,) = fetch(wheels=tmp_path, pins=(pin,)).folders
    assert (folder / "first/code.py").read_text() == "raise SystemExit"
    assert not (folder / "first/other.py").exists()


def test_a_file_that_the_wheel_lacks_is_named(tmp_path: Path) -> None:
    pin = replace(make_wheel(tmp_path, "first", "1.0", FIRST), modules=("first/code.py", "first/gone.py"))
    with pytest.raises(Unavailable, match=r"first-1\.0-py3-none-any\.whl holds no first/gone\.py"):
        fetch(wheels=tmp_path, pins=(pin,))


def test_sources_from_before_a_file_was_named_are_fetched_again(tmp_path: Path) -> None:
    pin = make_wheel(tmp_path, "first", "1.0", FIRST)
    before = fetch(wheels=tmp_path, pins=(pin,))
    wider = replace(pin, modules=("first/code.py",))
    after = fetch(wheels=tmp_path, pins=(wider,))
    assert (after.folders[0] / "first/code.py").exists()
    assert after.digest == before.digest  # nothing that is compiled has changed
    assert fetch(wheels=tmp_path / "no such folder", pins=(pin,)) == before  # a wider one serves it too


def test_a_changed_file_is_fetched_again(tmp_path: Path) -> None:
    pin = replace(make_wheel(tmp_path, "first", "1.0", FIRST), modules=("first/code.py",))
    (folder,) = fetch(wheels=tmp_path, pins=(pin,)).folders
    (folder / "first/code.py").write_text("import os")
    with pytest.raises(Unavailable, match=r"no first-1\.0"):
        fetch(wheels=tmp_path / "no such folder", pins=(pin,))
    fetch(wheels=tmp_path, pins=(pin,))
    assert (folder / "first/code.py").read_text() == "raise SystemExit"


def test_the_released_files_are_python_and_in_order() -> None:
    assert list(SGLANG.modules) == sorted(set(SGLANG.modules))
    assert all(name.startswith("sglang/") and name.endswith(".py") for name in SGLANG.modules)


def test_nothing_of_the_wheel_is_importable() -> None:
    spec = importlib.util.find_spec("sglang")
    assert spec is None or "sources" not in str(spec.origin)
