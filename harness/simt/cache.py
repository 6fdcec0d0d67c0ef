"""The cache folder: where downloaded headers, PTX and compiled kernels are kept.

Compiled code in it is loaded and run, so the folder must belong to the user and be closed to everybody else. Entries
are named by the SHA-256 of everything that determines them and appear by rename, so that readers never see half a file
and processes need no locks to share it.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterable
from pathlib import Path

from harness.errors import UsageError

__all__ = ["cache_folder", "content_key", "put_bytes"]


def cache_folder(*parts: str) -> Path:
    """Return a folder inside the cache, made if it is not there.

    The cache is ``$CHITREE_CACHE``, else ``$XDG_CACHE_HOME/chitree``, else ``~/.cache/chitree``.

    Raises
    ------
    UsageError
        If the cache is not a folder, is not the user's own, or others may read or write it.
    """
    root = _root()
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise UsageError(f"cache folder {root} is not a folder; set CHITREE_CACHE to one of your own") from error
    except OSError as error:
        raise UsageError(f"cache folder {root} cannot be made ({error.strerror}); set CHITREE_CACHE") from error
    _check_private(root)
    folder = root.joinpath(*parts)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def _root() -> Path:
    named = os.environ.get("CHITREE_CACHE")
    if named:
        return Path(named).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base and os.path.isabs(base) else Path.home() / ".cache") / "chitree"


def _check_private(root: Path) -> None:
    found = root.stat()
    if not stat.S_ISDIR(found.st_mode):
        raise UsageError(f"cache folder {root} is not a folder; set CHITREE_CACHE to one of your own")
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise UsageError(f"cache folder {root} belongs to another user; set CHITREE_CACHE to a folder of your own")
    if os.name == "posix" and found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise UsageError(f"cache folder {root} is open to others (mode {mode:04o}); mend it with: chmod 700 {root}")


def content_key(parts: Iterable[str | bytes]) -> str:
    """Return the SHA-256, in hex, of a list of parts; each is hashed with its length, so parts never run together."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def put_bytes(path: Path, data: bytes) -> None:
    """Write a file so that it appears whole or not at all."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.rename(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
