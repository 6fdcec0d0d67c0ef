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
from typing import Any, TextIO

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
    try:
        suite, options = _options(asked)
        put(home / "plan.json", {"samplers": _plan(suite, options)})
    except ChitreeError as error:
        put(home / "plan.json", {"usage": str(error)})
        return
    while not (home / "selection.json").exists():
        time.sleep(_LOOK_EVERY)
    selected = json.loads((home / "selection.json").read_bytes())
    try:
        with (home / "outcomes").open("a", encoding="utf-8") as stream:
            results = _run(suite, options, _Told(stream, asked, selected))
    except ChitreeError as error:
        put(home / "end.json", {"usage": str(error)})
        return
    write(results, home / "results.json")
    put(home / "end.json", {"verdict": results.verdict, "lines": _lines(results, options)})


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
        rules = _plugin_rules(name, options) if is_plugin(name) else sampler(name).claims.rules
        plan[name] = selection.cases(rules)
    return plan


def _plugin_rules(name: str, options: GateOptions) -> Sequence[str]:
    worker = Worker(name, options.limits, options.threads)
    try:
        worker.start()
        return Claims.from_wire(worker.claims).rules
    except SamplerBroke as broke:
        if broke.how == "usage":
            raise broke.as_usage(name) from None
        return ()
    finally:
        worker.end()


def _run(suite: Suite, options: GateOptions, told: _Told) -> Results:
    """Run the selected cases of each sampler and tell what comes of them."""
    names = tuple(name for name in options.samplers if name in told.selected)
    only = {name: frozenset(told.selected[name]) for name in names}
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
    """Tells the session what came of each selected case, as soon as it is known."""

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
            if self._asked.given is not None:
                case.reproduce = _in_code(case)
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
        if self._asked.given is None:
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
    from reports import describe, printable

    if case.p_value is None:
        lines = [f"{case.case}: {case.verdict}: {case.reason or 'no reason given'}"]
    else:
        figures = f"p = {case.p_value:.3g} at alpha {case.alpha:.3g}, n = {case.n:,}"
        lines = [f"{case.case}: {case.verdict}, {figures}{f'; {case.reason}' if case.reason else ''}"]
        lines += [f"  {describe(row)}" for row in case.where[:_WHERE_ROWS]]
    return "\n".join(map(printable, [*lines, f"  {case.reproduce}"]))


def _in_code(case: CaseResult) -> str:
    """Return how to run a case again where the verifier has no name: the call for the command line."""
    if case.reproduce.startswith("harness.check"):
        return case.reproduce
    words: list[Any] = shlex.split(case.reproduce)[2:]
    named = dict(zip(words[::2], words[1::2], strict=True))
    return (
        f"harness.check(verifier, suite={named['--suite']!r}, cases=[{named['--case']!r}], alpha={named['--alpha']}, "
        f"seed={named['--seed']}, shrink={named['--shrink']})"
    )
