"""How a run ends where something other than the sampler fails: no exit code 1, no traceback, what is known is told."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness import cli, sweep
from harness.display import Display
from harness.supervisor import Limits, SamplerBroke, Worker
from harness.sweep import GroupRun, Sweep

from .running import QUICK, Gate, plugin
from .small import suite


@pytest.fixture
def at_group(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, Callable[[], None]], None]:
    """Return a function that has something happen when so many groups are judged."""

    def when(number: int, happens: Callable[[], None]) -> None:
        def progress(self: Display, sampler: str, run: GroupRun | None, done: int, groups: int) -> None:
            if done == number:
                happens()

        monkeypatch.setattr(Display, "progress", progress)

    return when


TWO = ("--suite", "smoke", "--case", "four/*", "--case", "five/*", "--shrink", "3", "--workers", "1")


def fail() -> None:
    raise ZeroDivisionError("oh\nno")


@pytest.mark.parametrize("how", ["plain", "-v", "variable"])
def test_a_fault_of_ours(gate: Gate, at_group: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    if how == "variable":
        monkeypatch.setenv("CHITREE_DEBUG", "1")
    at_group(1, fail)
    run = gate("--sampler", "reference", *TWO, *(["-v"] if how == "-v" else []))
    assert run.code == 3
    said = [line for line in run.err.splitlines() if line.startswith("chitree: ")]
    assert said[0].startswith("chitree: internal error: ZeroDivisionError: oh no (test_endings.py:")
    assert "a fault of chitree, not of the sampler" in said[1]
    assert f"what was judged so far is in {run.folder}" in said[1]
    assert ("Traceback" in run.err) == (how != "plain")
    assert how != "plain" or len(run.err.splitlines()) == 2
    assert {case["group"] for case in run.cases} == {"four"}
    assert run.results["unfinished"]["cases"] == {"reference": 8}


@pytest.mark.parametrize("command", [["cases"], ["samplers"]])
def test_a_fault_of_ours_in_another_command(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("harness.selection.select", lambda *_, **__: fail())
    monkeypatch.setattr("harness.samplers.registry.SAMPLERS", {"x": None})
    assert cli.run(command) == 3
    said = capsys.readouterr().err
    assert "internal error" in said
    assert "Traceback" not in said
    assert "judged so far" not in said


@pytest.mark.parametrize("group", [0, 1, 2])
@pytest.mark.parametrize(
    ("sampler", "code", "headline"), [("reference", 3, "PASS: 8 pass ("), (plugin("LastFromWhole"), 1, "BIASED: ")]
)
def test_results_that_cannot_be_written(
    gate: Gate, at_group: Any, tmp_path: Path, group: int, sampler: str, code: int, headline: str
) -> None:
    """The run goes on, and its whole verdict is told."""
    file = tmp_path / "out" / "results.json"

    def no_file() -> None:
        file.unlink()
        file.mkdir()

    at_group(group, no_file)
    run = gate("--sampler", sampler, *TWO)
    assert run.code == code
    assert f"\n{headline}" in run.out
    assert "results: " not in run.out
    assert run.err == f"chitree: {file}: cannot be written: Is a directory\n"
    assert not [path for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


def test_a_folder_that_was_removed_is_made_again(gate: Gate, at_group: Any, tmp_path: Path) -> None:
    at_group(1, lambda: shutil.rmtree(tmp_path / "out"))
    run = gate("--sampler", "reference", *TWO)
    assert "PASS: 8 pass (" in run.out
    assert run.code == 0
    assert {case["verdict"] for case in run.cases} == {"pass"}


def test_a_process_that_cannot_be_started(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("harness.supervisor.subprocess.Popen", none)
    run = gate("--sampler", "reference", *QUICK)
    assert run.code == 3
    assert "no process can be started for it here: Too many open files" in run.out
    with pytest.raises(SamplerBroke, match="Too many open files"):
        Worker("reference", Limits(), 1).start()
    assert subprocess.Popen is none


def test_no_more_workers_than_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Worker] = []

    def shard(self: Sweep, worker: Worker, plan: Any, shard: Any) -> None:
        started.append(worker)

    monkeypatch.setattr(sweep.Sweep, "_shard", shard)
    many = Sweep("reference", 50, 2, Limits())
    many.plans = suite().plans([entry for entry in suite().groups if entry.name == "four"], 0)
    shards = many.plans[0].shards(5)
    threads = []
    monkeypatch.setattr("harness.sweep.threading.Thread", lambda **settings: threads.append(settings) or _Now(settings))
    list(many.run(5))
    assert 0 < len(threads) <= len(shards)
    assert many.abreast == 2


class _Now:
    """A thread that runs at once."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def start(self) -> None:
        self._settings["target"](*self._settings["args"])


@pytest.mark.parametrize(
    "wrong", [["--alpha", "2"], ["--case", "nothing/*"], ["--sampler", plugin("Nope")], ["--workers", "100000"]]
)
def test_a_mistaken_command_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    sampler = [] if "--sampler" in wrong else ["--sampler", "reference"]
    assert cli.run(["gate", *sampler, *QUICK, *wrong]) == 2
    assert capsys.readouterr().err.startswith("chitree: ")
    assert list(tmp_path.iterdir()) == []


def test_a_mistaken_command_leaves_what_was_there(gate: Gate, tmp_path: Path) -> None:
    run = gate("--sampler", "reference", *QUICK)
    before = (run.folder / "results.json").read_bytes()
    assert gate("--sampler", plugin("Nope"), *QUICK).code == 2
    assert (run.folder / "results.json").read_bytes() == before
    (tmp_path / "kept").mkdir()
    assert gate("--sampler", plugin("Nope"), *QUICK, out="kept").code == 2
    assert (tmp_path / "kept").is_dir()


def test_an_earlier_verdict_goes_before_the_first_draw(gate: Gate, at_group: Any) -> None:
    """A run that is killed at once must not be taken for the run before it in the same folder."""
    gate("--sampler", "reference", *QUICK)
    at_group(0, fail)
    run = gate("--sampler", "reference", *TWO)
    assert run.code == 3
    assert json.loads((run.folder / "results.json").read_text())["unfinished"]["cases"] == {"reference": 8}
    assert run.cases == []
