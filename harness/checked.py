"""The gate from code: :func:`check` a verifier, look at the report, or let it raise."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from .errors import ChitreeError, UsageError
from .given import importable_name, put_given, shown_name
from .session import IN_WORKER, Asked, Session, search_path

if TYPE_CHECKING:
    from .results import Results

__all__ = ["BiasFound", "Report", "VerifierBroke", "check"]


class BiasFound(AssertionError):
    """The verifier's draws do not come from the exact law; the text says in which cases, and where."""


class VerifierBroke(ChitreeError):
    """The verifier could not be judged: it raised, crashed, hung, or returned what is no result."""

    exit_code = 3


@dataclass(frozen=True)
class Report:
    """What :func:`check` found.

    Parameters
    ----------
    results : harness.results.Results
        All figures, as in results.json.
    lines : sequence of str
        The verdict, what a pass could have missed at worst, and what failed.
    """

    results: Results = field(repr=False)
    lines: Sequence[str]

    @property
    def verdict(self) -> str:
        """Of the run: "pass", "biased" or "broken"."""
        return self.results.verdict

    @property
    def passed(self) -> bool:
        """All that was asked for ran, and no bias was found."""
        return self.verdict == "pass"

    def raise_for_bias(self) -> None:
        """Do nothing where the verifier passed.

        Raises
        ------
        BiasFound
            An AssertionError, with the worst places.
        VerifierBroke
            No bias was found, but the verifier could not be judged in full.
        """
        if self.verdict == "biased":
            raise BiasFound(str(self))
        if self.verdict != "pass":
            raise VerifierBroke(str(self))

    def __str__(self) -> str:
        return "\n".join(self.lines)


def check(
    verifier: object,
    *,
    suite: str = "smoke",
    alpha: float = 1e-6,
    seed: int = 0,
    cases: str | Sequence[str] = (),
    shrink: int | None = None,
    workers: int | None = None,
) -> Report:
    """Run the gate on a verifier and report what it found; counts and verdicts are those of the command line.

    Parameters
    ----------
    verifier : class, zero-argument factory, instance, or str
        As in the contract for ``--sampler``, or its name there. It runs in processes of its own: a class or function
        is imported there by its name, an instance gets there pickled. What it prints is not shown.
    suite, alpha, seed, shrink, workers
        As ``chitree gate`` takes them.
    cases : str or sequence of str
        Globs of case names, and names of case files; none means all.

    Returns
    -------
    Report

    Raises
    ------
    UsageError
        No such sampler, suite or case, a number out of range, or a verifier that no other process can get.
    """
    if os.environ.get(IN_WORKER):
        raise UsageError(
            "harness.check() was called while a worker imports the file that the verifier is in; "
            "put the call into a function or under `if __name__ == '__main__':`"
        )
    if not isinstance(verifier, str) and not callable(getattr(verifier, "verify", verifier)):
        raise UsageError(
            "expected a class, an instance or a zero-argument factory of something with verify(request), or its name, "
            f"got {type(verifier).__name__}"
        )
    numbers: tuple[tuple[str, object, type], ...] = (
        ("alpha", alpha, float),
        ("seed", seed, int),
        ("shrink", 0 if shrink is None else shrink, int),
        ("workers", 1 if workers is None else workers, int),
    )
    for option, value, kind in numbers:
        if isinstance(value, bool) or not isinstance(value, (int, float) if kind is float else int):
            raise UsageError(f"{option} must be {'a number' if kind is float else 'an integer'}, got {value!r}")
    if not isinstance(suite, str):
        raise UsageError(f"suite must be the name of a suite, got {suite!r}")
    with TemporaryDirectory(prefix="chitree-given-") as folder:
        given, name = None, verifier if isinstance(verifier, str) else importable_name(verifier)
        if name is None:
            given, name = str(Path(folder, "verifier.pickle")), shown_name(verifier)
            put_given(verifier, Path(given))
        asked = Asked(
            samplers=(name,),
            suite=suite,
            cases=(cases,) if isinstance(cases, str) else tuple(cases),
            alpha=alpha,
            seed=seed,
            shrink=shrink,
            workers=workers,
            path=search_path(),
            given=given,
            whole=True,
        )
        session = Session(asked)
        try:
            lines = session.end()["lines"]
            return Report(_results(session.folder), lines)
        finally:
            session.close()


def _results(folder: Path) -> Results:
    from .results import read

    return read(folder / "results.json")
