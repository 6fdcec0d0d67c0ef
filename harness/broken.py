"""What a broken sampler left to read: its tracebacks and the end of what it printed, a file for each sampler.

The one line of a verdict names where it broke; this is the rest, in the folder of the run.
"""

from __future__ import annotations

import contextlib
import os
import re
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

__all__ = ["broken_file", "place", "put_broken", "trace"]

MOST_GROUPS = 20
MOST_LETTERS = 20_000
_ROOT = Path(__file__).resolve().parent.parent
_OURS = tuple(f"{_ROOT / name}{os.sep}" for name in ("harness", "distributions", "cases", "reports"))
_INSTALLED = tuple(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def broken_file(out: Path, sampler: str) -> Path:
    """Return the file of a sampler in the folder of a run."""
    return out / f"broken-{re.sub('[^A-Za-z0-9._-]+', '-', sampler).strip('-.')[-80:]}.txt"


def put_broken(out: Path, sampler: str, told: Sequence[tuple[str, str]]) -> None:
    """Write what there is to read, with a heading each; nothing to read removes the file of an earlier run."""
    file = broken_file(out, sampler)
    with contextlib.suppress(OSError):
        if told:
            text = "\n\n".join(f"== {heading}\n{rest}".rstrip() for heading, rest in told[:MOST_GROUPS])
            file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        else:
            file.unlink(missing_ok=True)


def trace(error: BaseException) -> str:
    """Return the whole traceback of an error, the end of it where it is very long."""
    try:
        text = "".join(traceback.format_exception(error))[-MOST_LETTERS:]
    except BaseException:
        return ""
    return text.encode("utf-8", "backslashreplace").decode()


def place(error: BaseException) -> str:
    """Return file and line of the last frame in the user's own code that an error came through, else of the deepest.

    The user's own is what is neither Python's, nor installed, nor ours.
    """
    deepest = mine = ""
    at: TracebackType | None = error.__traceback__
    while at is not None:
        file = at.tb_frame.f_code.co_filename
        deepest = f"({os.path.basename(file)}:{at.tb_lineno})"
        if os.path.isabs(file) and not file.startswith(_OURS + _INSTALLED):
            mine = deepest
        at = at.tb_next
    return mine or deepest
