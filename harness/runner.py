"""The process of a :class:`.session.Session`: says what there is to run, waits for a selection, runs the gate on it."""

from __future__ import annotations

import json
import os
import shlex
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TextIO

from .asked import results_folder, samplers_asked
from .commands.report import write_reports
from .errors import ChitreeError
from .gate import GateOptions, gate
from .results import CaseResult, Results, SamplerResult, write
from .samplers.base import Claims
from .samplers.registry import is_plugin, sampler
from .selection import select
from .session import GIVEN, SEARCH_PATH, Asked, Outcome, held, put
from .suite import Suite
from .supervisor import Limits, SamplerBroke, Worker

__all__ = ["main"]

_LOOK_EVERY = 0.02
_WHERE_ROWS = 3


def main(folder: str, lock: str) -> None:
    """Serve the session in ``folder``, and hold ``lock``, a file descriptor, until the end."""
    os.set_inheritable(int(lock), False)
    home = Path(folder)
    threading.Thread(target=_end_with_owner, args=(home,), daemon=True).start()
    asked = Asked(**json.loads((home / "asked.json").read_bytes()))
    os.environ[SEARCH_PATH] = os.pathsep.join(asked.path)
    if asked.given is not None:
        os.environ[GIVEN] = asked.given
    answer = "end.json" if asked.whole else "plan.json"
    try:
        suite, options = _options(asked)
        if asked.whole:
            results = gate(suite, options, judged=_unnamed if asked.given else lambda _: None)
        else:
            put(home / answer, {"samplers": _plan(suite, options)})
            answer = "end.json"
            results = _selected(suite, options, asked, home)
        write(results, home / "results.json")
        put(home / answer, {"verdict": results.verdict, "lines": _lines(results, options)})
    except ChitreeError as error:
        put(home / answer, {"usage": str(error)})


def _end_with_owner(home: Path) -> None:
    """End this process, and with it its workers, when nobody holds the owner's lock any more."""
    while held(home / "owner.lock"):
        time.sleep(5 * _LOOK_EVERY)
    os._exit(1)


def _options(asked: Asked) -> tuple[Suite, GateOptions]:
    from cases.catalogue import suite

    chosen, cores = suite(asked.suite), len(os.sched_getaffinity(0))
    options = GateOptions(
        samplers=tuple(asked.samplers) if asked.given else samplers_asked(asked.samplers, chosen, asked.cases),
        cases=tuple(asked.cases),
        alpha=asked.alpha,
        seed=asked.seed,
        workers=cores if asked.workers is None else asked.workers,
        threads=cores,
        shrink=asked.shrink,
        limits=Limits.from_environment(),
    )
    options.check()
    return chosen, options if asked.out is None else replace(options, out=results_folder(Path(asked.out)))


def _plan(suite: Suite, options: GateOptions) -> dict[str, list[str]]:
    """Return the names of each sampler's cases, none where it cannot be made."""
    selection = select(suite, options.cases)
    plan: dict[str, list[str]] = {}
    for name in options.samplers:
        claims = _claims(name, options) if is_plugin(name) else sampler(name).claims
        plan[name] = []
        if claims is not None:
            plan[name] = [*selection.cases(claims.rules), *selection.coin_cases(name, claims)]
    return plan


def _claims(name: str, options: GateOptions) -> Claims | None:
    """Return the claims of a plugin, None where it cannot be made."""
    worker = Worker(name, options.limits, options.threads)
    try:
        worker.start()
        return Claims.from_wire(worker.claims)
    except SamplerBroke as broke:
        if broke.how == "usage":
            raise broke.as_usage(name) from None
        return None
    finally:
        worker.end()


def _selected(suite: Suite, options: GateOptions, asked: Asked, home: Path) -> Results:
    """Wait for the selected cases of each sampler, run them, and tell what comes of them."""
    while not (home / "selection.json").exists():
        time.sleep(_LOOK_EVERY)
    selected = json.loads((home / "selection.json").read_bytes())
    names = tuple(name for name in options.samplers if name in selected)
    only = {name: frozenset(selected[name]) for name in names}
    with (home / "outcomes").open("a", encoding="utf-8") as stream:
        told = _Told(stream, asked, selected)
        results = gate(suite, replace(options, samplers=names, only=only), judged=told.so_far)
        told.rest()
    return results


def _lines(results: Results, options: GateOptions) -> list[str]:
    """Return the verdict in lines, with where the reports are."""
    from reports import brief

    lines = brief(results)
    if options.out is not None:
        lines += [f"results: {options.out / 'results.json'}", *write_reports(results, options.out)]
    return lines


class _Told:
    """Tells a session what came of each selected case, as soon as it is known."""

    def __init__(self, stream: TextIO, asked: Asked, selected: Mapping[str, Sequence[str]]) -> None:
        self.selected = selected
        self._stream = stream
        self._asked = asked
        self._told: set[tuple[str, str | None]] = set()
        self._current: SamplerResult | None = None

    def so_far(self, found: SamplerResult) -> None:
        """Tell what is new of what was found of a sampler."""
        if self._current is not found:
            self.rest()
            self._current = found
        for case in found.cases:
            if (found.name, case.case) not in self._told:
                facts = {"n": case.n, "p_value": case.p_value, "alpha": case.alpha, "group": case.group}
                self._tell(Outcome(found.name, case.case, case.verdict, _message(case), facts))

    def rest(self) -> None:
        """Tell the rest of a sampler that is done: the tests over all cases, and cases that it did not come to."""
        found, self._current = self._current, None
        if found is None:
            return
        reason = found.reason or "it was not run"
        for case in self.selected[found.name] or [""]:
            if (found.name, case) not in self._told:
                self._tell(Outcome(found.name, case, "broken", f"{found.name}: broken: {reason}", whole=True))
        self._tell(self._across(found))

    def _across(self, found: SamplerResult) -> Outcome:
        if not found.suite_tests:
            reason = found.reason or "no case was drawn from"
            return Outcome(found.name, None, "skipped", f"not tested over all cases: {reason}")
        failed = [test for test in found.suite_tests if test["biased"]]
        lines = [f"{found.name}: {len(failed)} of {len(found.suite_tests)} tests over all cases failed"]
        for test in failed:
            lines.append(f"  {test['test']}: p = {test['p_value']:.3g} at alpha {test['alpha']:.3g}")
            lines.append(f"    {test.get('says', '')}")
        lines.append(f"  {self._command(found)}")
        facts = {test["test"]: test["p_value"] for test in found.suite_tests}
        return Outcome(found.name, None, "biased" if failed else "pass", "\n".join(lines), facts)

    def _command(self, found: SamplerResult) -> str:
        """Return the command line of the same run."""
        asked = self._asked
        words = ["chitree", "gate", "--sampler", found.name]
        words += [word for case in asked.cases for word in ("--case", case)]
        words += ["--suite", asked.suite, "--seed", str(asked.seed), "--alpha", repr(asked.alpha)]
        return shlex.join([*words, "--shrink", str(found.shrink.get("k", 0))])

    def _tell(self, outcome: Outcome) -> None:
        self._told.add((outcome.sampler, outcome.case))
        self._stream.write(json.dumps(asdict(outcome)) + "\n")
        self._stream.flush()


def _message(case: CaseResult) -> str:
    """Say in lines what came of a case: the worst places first, and at last how to run it again."""
    from reports import describe, places, printable

    if case.p_value is None:
        lines = [f"{case.case}: {case.verdict}: {case.reason or 'no reason given'}"]
    else:
        figures = f"p = {case.p_value:.3g} at alpha {case.alpha:.3g}, n = {case.n:,}"
        lines = [f"{case.case}: {case.verdict}, {figures}{f'; {case.reason}' if case.reason else ''}"]
        lines += [f"  {describe(row)}" for row in places(case)[:_WHERE_ROWS]]
    return "\n".join(map(printable, [*lines, f"  {case.reproduce}"]))


def _unnamed(found: SamplerResult) -> None:
    """Say how to run cases again of a verifier that has no name on a command line."""
    for case in found.cases:
        if not case.reproduce.startswith("harness.check("):
            case.reproduce = _call(shlex.split(case.reproduce)[2:])


def _call(words: Sequence[str]) -> str:
    """Return the call in code of the options of a command line."""
    named = dict(zip(words[::2], words[1::2], strict=True))
    return (
        f"harness.check(verifier, suite={named['--suite']!r}, cases=[{named['--case']!r}], alpha={named['--alpha']}, "
        f"seed={named['--seed']}, shrink={named['--shrink']})"
    )
