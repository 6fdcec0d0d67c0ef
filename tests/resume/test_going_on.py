"""Going on with a run: what is finished is kept, the rest is run, and the end is that of an unbroken run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.casefile import dump
from harness.results import merged, read

from .conftest import Gate, plugin, small

SOME = ("--case", "v*", "--shrink", "3")
NOTES = ("--sampler", plugin("Notes"), *SOME)


@pytest.mark.parametrize("until", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_interrupted(gate: Gate, calls: Callable[[], set[int]], until: int) -> None:
    whole = gate(*NOTES, out="whole")
    calls()
    broken = gate(*NOTES, until=until)
    assert broken.code == 130
    assert len(broken.verdicts) == until
    left = json.loads((broken.folder / "results.json").read_text())
    assert left["unfinished"] == {"cases": {plugin("Notes"): 16}, "resumable": True}
    assert "unfinished" not in whole.results
    calls()
    run = gate(resume=True)
    assert run.code == 0, run.err
    assert run.results == whole.results
    done = {4, 5, 6, 7}
    assert done - calls() >= set(sorted(done)[:until])


@pytest.mark.slow
def test_a_sampler_that_is_done_is_not_run_again(gate: Gate, calls: Callable[[], set[int]]) -> None:
    names = ("--sampler", plugin("Notes"), "--sampler", "reference", *SOME)
    whole = gate(*names, out="whole")
    gate(*names, until=6)
    calls()
    run = gate(*names, resume=True)
    assert run.results == whole.results
    assert calls() == set()


@pytest.mark.slow
def test_many_interruptions(gate: Gate) -> None:
    whole = gate(*NOTES, "--case", "coins/*", out="whole")
    codes = [gate(*NOTES, "--case", "coins/*", until=1).code]
    for _ in range(20):
        codes.append(gate(resume=True, until=len(codes) + 1).code)
        if codes[-1] != 130:
            break
    assert codes[-1] == 0
    assert gate(resume=True).results == whole.results


def test_what_was_found_stays_while_a_run_is_resumed(gate: Gate) -> None:
    gate(*NOTES, until=3)
    before = gate(resume=True, until=1)
    assert set(before.verdicts) >= {"v4", "v5", "v6"}


def test_finished_run(gate: Gate, calls: Callable[[], set[int]]) -> None:
    whole = gate(*NOTES)
    assert not (whole.folder / "progress").exists(), "nothing is left to go on with"
    results, _ = whole.results, calls()
    run = gate(resume=True)
    assert (run.code, run.results) == (0, results)
    assert "PASS" in run.out
    assert calls() == set()


def test_killed_worker(gate: Gate, tmp_path: Path, calls: Callable[[], set[int]]) -> None:
    """A group that broke is run again."""
    names = ("--sampler", plugin("DiesAtFive"), *SOME)
    whole = gate(*names, out="whole")
    (tmp_path / "die").touch()
    broken = gate(*names)
    assert broken.code == 3
    assert broken.verdicts == {"v4": {"pass"}, "v5": {"broken"}, "v6": {"pass"}, "v7": {"pass"}}
    again = gate(resume=True)
    assert again.results == broken.results
    (tmp_path / "die").unlink()
    calls()
    run = gate(resume=True)
    assert (run.code, run.results) == (0, whole.results)
    assert calls() == {5}


def test_damaged_progress_is_run_again(gate: Gate, calls: Callable[[], set[int]]) -> None:
    whole = gate(*NOTES, out="whole")
    broken = gate(*NOTES, until=3)
    files = sorted((broken.folder / "progress").iterdir())
    assert len(files) >= 3
    files[0].write_bytes(files[0].read_bytes()[:-5])
    files[1].write_bytes(b"")
    shutil.copy(files[2], files[2].with_name(".half"))
    calls()
    run = gate(resume=True)
    assert (run.code, run.results) == (0, whole.results)
    assert len(calls()) >= 2


@pytest.mark.slow
def test_biased_run(gate: Gate) -> None:
    names = ("--sampler", plugin("Biased"), *SOME)
    whole = gate(*names, out="whole")
    gate(*names, until=2)
    run = gate(resume=True)
    assert (run.code, run.results) == (1, whole.results)
    assert gate(resume=True).code == 1, "also when it is done"


def test_options_must_be_the_same(gate: Gate, calls: Callable[[], set[int]]) -> None:
    broken = gate(*NOTES, until=1)
    before, _ = broken.results, calls()
    for option, *value in (
        ("--sampler", "reference"),
        ("--case", "v4/*"),
        ("--alpha", "1e-5"),
        ("--seed", "1"),
        ("--shrink", "4"),
        ("--fail-fast",),
        ("--strict",),
        ("--poison",),
        ("--out", "elsewhere"),
    ):
        run = gate(option, *value, resume=True)
        assert run.code == 2
        assert len(run.err.strip().splitlines()) == 1
        assert option in run.err
        assert run.results == before
    budget = gate("--budget", "5", resume=True)
    assert budget.code == 2
    assert "--budget" in budget.err
    assert calls() == set()
    assert gate(*NOTES, "--suite", "smoke", "--seed", "0", "--alpha", "1e-6", resume=True).code == 0


def test_other_versions(gate: Gate) -> None:
    broken = gate(*NOTES, until=1)
    file = broken.folder / "run.json"
    run = json.loads(file.read_text())
    for changed in ({**run, "chitree": "0.0.1"}, {**run, "schema": 2}):
        file.write_text(json.dumps(changed))
        again = gate(resume=True)
        assert again.code == 2
        assert "chitree" in again.err


@pytest.mark.parametrize("text", [None, "", "{}", "[1]", '{"schema": 1}', "\xff", "[" * 100000])
def test_no_run_to_go_on_with(gate: Gate, tmp_path: Path, text: str | None) -> None:
    (tmp_path / "out").mkdir()
    if text is not None:
        (tmp_path / "out" / "run.json").write_text(text, encoding="latin-1")
    run = gate(resume=True)
    assert run.code == 2
    assert len(run.err.strip().splitlines()) == 1
    assert run.err.startswith("chitree: --resume")
    missing = gate(resume=True, out="nowhere")
    assert missing.code == 2
    assert not (tmp_path / "nowhere").exists()


def test_new_run_in_the_folder_of_another(gate: Gate, calls: Callable[[], set[int]]) -> None:
    gate(*NOTES, until=2)
    calls()
    run = gate(*NOTES)
    assert run.code == 0
    assert calls() == {4, 5, 6, 7}, "nothing is taken over unasked"


def test_changed_case_file_is_drawn_again(gate: Gate, tmp_path: Path) -> None:
    first, second = (replace(small().groups[0].group.cases[i], name="mine") for i in (0, 1))
    file = tmp_path / "mine.json"
    file.write_bytes(dump(first))
    names = ("--sampler", plugin("Notes"), "--case", str(file), "--case", "v5/*", "--shrink", "3")
    gate(*names, until=2)
    file.write_bytes(dump(second))
    whole = gate(*names, out="whole")
    assert gate(resume=True).results == whole.results


def test_merging(gate: Gate) -> None:
    first = gate("--sampler", "reference", "--sampler", plugin("Biased"), *SOME)
    results = read(first.folder / "results.json")
    now = read(first.folder / "results.json")
    now.samplers = now.samplers[:1]
    now.samplers[0].cases = now.samplers[0].cases[:3]
    now.verdict = "pass"
    both = merged(now, results)
    assert [len(sampler.cases) for sampler in both.samplers] == [16, 16]
    assert both.verdict == "biased"
    assert len(now.samplers) == 1
    assert len(now.samplers[0].cases) == 3
