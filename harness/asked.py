"""What a run is asked for in words: names of samplers spelt out, and the folder of its results."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from .errors import UsageError
from .samplers.registry import SAMPLERS, sampler
from .selection import select
from .suite import Suite

__all__ = ["results_folder", "samplers_asked", "used_folder"]

DEFAULT_SAMPLERS = ("sglang-tree", "reference")


def samplers_asked(names: Sequence[str], suite: Suite, cases: Sequence[str]) -> tuple[str, ...]:
    """Return the samplers named, ``all`` and ``all-cpu`` spelt out, each once.

    Where none is named: the default ones that have a case to run among ``cases``, native ones where a GPU allows.
    """
    if not names:
        rules = select(suite, cases).rules
        native = [known.name for known in SAMPLERS.values() if known.runs_on == "gpu" and known.unavailable() is None]
        return tuple(name for name in (*DEFAULT_SAMPLERS, *native) if rules.intersection(sampler(name).claims.rules))
    spelt: list[str] = []
    for name in names:
        if name in ("all", "all-cpu"):
            spelt += [known.name for known in SAMPLERS.values() if name == "all" or known.runs_on != "gpu"]
        else:
            spelt.append(name)
    return tuple(dict.fromkeys(spelt))


@contextlib.contextmanager
def used_folder(out: Path | None) -> Iterator[Path]:
    """Make the folder of the results; what was made goes again where a UsageError comes before there are any."""
    folder = _named(out)
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    try:
        yield results_folder(folder)
    except UsageError:
        if made and not (folder / "results.json").exists():
            with contextlib.suppress(OSError):
                (folder / "run.json").unlink(missing_ok=True)
                for path in made:
                    path.rmdir()
        raise


def _named(out: Path | None) -> Path:
    return out if out is not None else Path("reports", "out", datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ"))


def results_folder(out: Path | None) -> Path:
    """Make the folder of the results; without a name, a new one for this time."""
    folder = _named(out)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / f".write.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"--out {folder}: cannot be written: {error.strerror}") from None
    return folder
