"""The cache folder: private, and written to by rename."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.simt.cache import cache_folder, content_key, put_bytes


def test_made_private(fresh_cache: Path) -> None:
    folder = cache_folder("a", "b")
    assert folder == fresh_cache / "a" / "b"
    assert fresh_cache.stat().st_mode & 0o777 == 0o700


def test_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CHITREE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "chitree"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "chitree"


@pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")
@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701])
def test_open_to_others_is_refused(fresh_cache: Path, mode: int) -> None:
    fresh_cache.mkdir()
    fresh_cache.chmod(mode)
    with pytest.raises(UsageError, match=rf"mode {mode:04o}.*chmod 700 {fresh_cache}") as error:
        cache_folder()
    assert error.value.exit_code == 2


def test_a_file_in_its_place_is_refused(fresh_cache: Path) -> None:
    fresh_cache.write_text("")
    with pytest.raises(UsageError, match="is not a folder; set CHITREE_CACHE"):
        cache_folder()


def test_another_user_s_is_refused(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache_folder()
    monkeypatch.setattr(os, "getuid", lambda: fresh_cache.stat().st_uid + 1)
    with pytest.raises(UsageError, match="belongs to another user"):
        cache_folder()


def test_put_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    put_bytes(tmp_path / "file", b"one")
    put_bytes(tmp_path / "file", b"two")
    assert (tmp_path / "file").read_bytes() == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_keys_do_not_run_together() -> None:
    assert content_key(["ab", "c"]) != content_key(["a", "bc"])
    assert content_key(["ab"]) == content_key([b"ab"])
