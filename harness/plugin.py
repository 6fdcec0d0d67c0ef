"""The pytest plugin: options ``--chitree-NAME``, the gate behind the tests of ``cases``, and its verdict at the end.

One run of the gate (:mod:`.session`) serves all tests of a session: the first that asks starts it with what is
selected, and each waits for its own case. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from .errors import ChitreeError
from .session import Asked, Outcome, Session, search_path

__all__ = ["case_parameters", "report", "sampler_parameters"]

ROOT = Path(__file__).resolve().parent.parent
FOLDER = "chitree_folder"
_OPTIONS: Sequence[tuple[str, dict[str, Any]]] = (
    (
        "sampler",
        {"action": "append", "metavar": "NAME|MODULE:ATTR|FILE.py:ATTR", "help": "Repeatable. Default: as the gate's."},
    ),
    ("suite", {"metavar": "smoke|standard|deep", "help": "Default: smoke."}),
    ("case", {"action": "append", "metavar": "GLOB|FILE.json", "help": "Repeatable. Default: the whole suite."}),
    (
        "alpha",
        {"type": float, "help": "Probability that a correct sampler fails any test of the gate. Default: 1e-6."},
    ),
    ("seed", {"type": int, "help": "Of every random stream. Default: 0."}),
    ("shrink", {"type": int, "metavar": "K", "help": "Take n / 2^K draws."}),
    ("workers", {"type": int, "help": "Worker processes of the gate. Default: one a core."}),
    ("out", {"metavar": "DIR", "help": "Write results.json and reports there."}),
)
_STRICT = "Fail on deviations that are known, too."


class _Gate:
    """What a session knows of the gate: the run, made when it is first needed, and what is selected."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._session: Session | None = None
        self._plan: dict[str, list[str]] | None = None
        self._first: dict[str, str] | None = None

    @property
    def asked_for(self) -> bool:
        """An option was given."""
        return any(self._option(name) is not None for name, _ in _OPTIONS)

    @property
    def session(self) -> Session:
        """The run of this session, that of the controller under pytest-xdist."""
        if self._session is None:
            given = getattr(self._config, "workerinput", {}).get(FOLDER)
            folder = Path(given) if given and Path(given).is_dir() else None
            self._session = Session(self._asked(), folder)
        return self._session

    @property
    def begun(self) -> Session | None:
        """The run, where there is one already."""
        return self._session

    def plan(self) -> dict[str, list[str]]:
        """Return the cases of each sampler."""
        if self._plan is None:
            self._plan = self.session.plan()
        return self._plan

    def outcome(self, sampler: str, case: str | None, items: Sequence[pytest.Item]) -> Outcome:
        """Return what came of a selected case, or of the tests over all cases of a sampler."""
        if self._first is None:
            selected, self._first = _selected(self.plan(), items)
            self.session.select(selected)
        return self.session.outcome(sampler, case)

    def is_first(self, outcome: Outcome) -> bool:
        """Return True for the first selected case of a sampler."""
        return self._first is not None and self._first.get(outcome.sampler) == outcome.case

    def close(self) -> None:
        if self._session is not None:
            self._session.close()

    def _option(self, name: str) -> Any:
        return self._config.getoption(f"chitree_{name}")

    def _asked(self) -> Asked:
        given = {name: self._option(name) for name, _ in _OPTIONS}
        given["samplers"], given["cases"] = given.pop("sampler"), given.pop("case")
        named = {name: value for name, value in given.items() if value is not None}
        return Asked(**named, folder=str(self._config.invocation_params.dir), path=search_path())


_GATE = pytest.StashKey[_Gate]()


def _selected(plan: dict[str, list[str]], items: Sequence[pytest.Item]) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Return the cases to run of each sampler, and the first one that is tested.

    The tests over all cases are over all that the options name, whatever else is selected.
    """
    tested: dict[str, dict[str | None, None]] = {}
    for item in items:
        for marker in item.iter_markers("chitree"):
            sampler, case = marker.args
            tested.setdefault(sampler, {})[case] = None
    selected = {
        sampler: [case for case in plan[sampler] if case in names or None in names] for sampler, names in tested.items()
    }
    first = {
        sampler: next((case for case in [*plan[sampler], ""] if case in names), "") for sampler, names in tested.items()
    }
    return selected, first


def case_parameters(config: pytest.Config) -> list[Any]:
    """Return the parameters ``sampler, case`` of a test of each case; case is empty where a sampler has none."""
    return [
        pytest.param(sampler, case, id=f"{sampler}-{case}", marks=pytest.mark.chitree(sampler, case))
        for sampler, names in config.stash[_GATE].plan().items()
        for case in names or [""]
    ]


def sampler_parameters(config: pytest.Config) -> list[Any]:
    """Return the parameter ``sampler`` of the tests over all cases of each sampler that has any."""
    return [
        pytest.param(sampler, id=sampler, marks=pytest.mark.chitree(sampler, None))
        for sampler, names in config.stash[_GATE].plan().items()
        if names
    ]


@pytest.fixture
def chitree_verdict(request: pytest.FixtureRequest) -> Callable[[str, str | None], None]:
    """Return a function that passes, fails or skips as the gate did on a case (None: over all cases) of a sampler."""
    gate = request.config.stash[_GATE]
    strict = request.config.getoption("chitree_strict")

    def verdict(sampler: str, case: str | None) -> None:
        try:
            outcome = gate.outcome(sampler, case, request.session.items)
        except ChitreeError as error:
            pytest.fail(str(error), pytrace=False)
        request.node.user_properties += [("verdict", outcome.verdict), *outcome.facts.items()]
        if outcome.whole and not gate.is_first(outcome):
            pytest.skip(outcome.message)
        report(outcome, strict=strict)

    return verdict


def report(outcome: Outcome, *, strict: bool) -> None:
    """End a test as its verdict has it: bias and what is broken fail, what is known fails where ``strict``."""
    if outcome.verdict == "skipped":
        pytest.skip(outcome.message.partition("\n")[0])
    if outcome.verdict in ("biased", "broken") or (strict and outcome.verdict == "known"):
        pytest.fail(outcome.message, pytrace=False)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("chitree", "statistical gate for speculative-decoding samplers (pytest --pyargs cases)")
    for name, settings in _OPTIONS:
        group.addoption(f"--chitree-{name}", default=None, **settings)
    group.addoption("--chitree-strict", action="store_true", default=False, help=_STRICT)


def pytest_configure(config: pytest.Config) -> None:
    """Make room for the session's run; with our options, ``--pyargs cases`` means our cases."""
    config.addinivalue_line("markers", "chitree(sampler, case): a test of the statistical gate")
    gate = config.stash[_GATE] = _Gate(config)
    if gate.asked_for and config.option.pyargs:
        config.args[:] = [_ours(name) for name in config.args]


def _ours(argument: str) -> str:
    """Return the path of our tests where an argument names them as modules, with what it selects of them."""
    name, colons, test = argument.partition("::")
    paths = {"cases": ROOT / "cases", "cases.test_gate": ROOT / "cases" / "test_gate.py"}
    return f"{paths[name]}{colons}{test}" if name in paths else argument


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave the claims about SGLang's kernel to runs of this checkout that name no sampler, case or suite."""
    asked = any(config.getoption(f"chitree_{name}", None) is not None for name in ("sampler", "case", "suite"))
    apart = asked or config.rootpath != ROOT
    return True if apart and collection_path == ROOT / "cases" / "test_claims.py" else None


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect our cases as a plain folder: as a package it could be mixed up with another of its name."""
    return pytest.Dir.from_parent(parent, path=path) if path == ROOT / "cases" else None


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Collect the tests of the gate under a name of their own, for the same reason."""
    return _Tests.from_parent(parent, path=module_path) if module_path == ROOT / "cases" / "test_gate.py" else None


class _Tests(pytest.Module):
    """The tests of the gate, imported from their file whatever ``cases`` is in this process."""

    def _getobj(self) -> ModuleType:
        spec = spec_from_file_location("chitree_test_gate", self.path)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return module


def pytest_sessionstart(session: pytest.Session) -> None:
    """Say at once, in one line, what is wrong with the options."""
    gate = session.config.stash[_GATE]
    if gate.asked_for and not hasattr(session.config, "workerinput"):
        try:
            gate.plan()
        except ChitreeError as error:
            raise pytest.UsageError(f"chitree: {error}") from None


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist where the run of the session is."""
    node.workerinput[FOLDER] = str(node.config.stash[_GATE].session.folder)


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Print the verdict of the gate."""
    gate = config.stash[_GATE]
    known, selected = gate.begun.progress if gate.begun is not None else (0, 0)
    if gate.begun is None or not selected:
        return
    terminalreporter.section("chitree")
    if known < selected:
        terminalreporter.line(f"ended before its time: {known} of {selected} cases judged")
        return
    try:
        lines = gate.begun.end()["lines"]
    except ChitreeError as error:
        lines = [str(error)]
    for line in lines:
        terminalreporter.line(line)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the run, if it goes on."""
    if _GATE in config.stash:
        config.stash[_GATE].close()
