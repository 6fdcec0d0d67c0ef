"""A sampler that breaks, in whatever way, is a finding: exit code 3, and everything else stands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.results import read
from harness.supervisor import Limits

from .running import QUICK, Gate, dead, plugin, stable
from .small import driver, suite

SOME = tuple(o for group in ("four", "five", "six") for o in ("--case", f"{group}/*"))
THREE = ("--suite", "smoke", *SOME, "--shrink", "5")


def broken(attribute: str) -> str:
    return plugin(attribute, "breakers.py")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Name the folder in which plugins leave notes."""
    monkeypatch.setenv("CHITREE_TEST_FOLDER", str(tmp_path))
    return tmp_path


def pids(folder: Path) -> list[int]:
    return [int(pid) for file in folder.glob("pids.*") if file.suffix != ".part" for pid in file.read_text().split()]


def wait_until(condition: object, seconds: float = 30.0) -> None:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("attribute", "words"),
    [
        ("VerifyRaises", "verify raised ValueError: first line second [/red] line (breakers.py:"),
        ("VerifyExits", "verify raised SystemExit: 0"),
        ("Interrupts", "verify raised KeyboardInterrupt (breakers.py:"),
        ("Wordless", "verify raised Error: an error without text"),
        ("Unprintable", "verify raised ValueError: lone ? surrogate"),
        ("LeavesQuietly", "the worker exited with code 0 without a reply"),
        ("KilledByRealTimeSignal", f"the worker was killed by signal {signal.SIGRTMIN + 3}"),
        ("FloatTokens", "tokens must be of an integer dtype, got float32"),
        ("NotANumber", "got float64 with NaN in it"),
        ("WrongShape", "tokens must have shape"),
        ("LengthZero", "lengths must lie in [1, 5], got 0 in row 3"),
        ("LengthBeyond", "lengths must lie in [1, 5], got 6 in row 3"),
        ("DisagreeingNodes", "tokens must be those of the accepted nodes"),
        ("NoPath", "nodes must be a path from the root"),
        ("Nothing", "tokens is missing"),
        ("TakesTenGigabytes", "Unable to allocate 10.0 GiB"),
        ("WritesGarbage", "garbled"),
        ("ForgesCounts", "garbled"),
    ],
)
def test_broken_call(gate: Gate, attribute: str, words: str) -> None:
    run = gate("--sampler", broken(attribute), *QUICK)
    assert run.code == 3, run.out + run.err
    assert run.err == ""
    assert run.samplers[0]["verdict"] == "broken"
    assert len(run.cases) == 4
    for case in run.cases:
        assert case["verdict"] == "broken"
        assert case["reason"].startswith("call 0 of group four: ")
        assert words in case["reason"]
        assert "\n" not in case["reason"]
        assert case["n"] == 0
        assert case["p_value"] is None
    assert "Traceback" not in run.out
    assert "\x1b" not in run.out


def test_token_v(gate: Gate) -> None:
    run = gate("--sampler", plugin("TokenV"), *QUICK)
    assert run.code == 3
    assert {case["reason"] for case in run.cases} == {
        "call 0 of group four: verify: tokens must lie in [0, 4), got 4 in row 0, column 0"
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("import no_such_dependency", "import raised ModuleNotFoundError: No module named 'no_such_dependency'"),
        ("def broken(:", "import raised SyntaxError"),
        ("raise SystemExit(0)", "import raised SystemExit: 0"),
        ("import os; os._exit(0)", "import: the worker exited with code 0 without a reply"),
        ("import os; os.abort()", "import: the worker was killed by SIGABRT"),
        ("class V:\n    def __init__(self): raise RuntimeError('x')", "constructor raised RuntimeError: x"),
        ("class V:\n    def __init__(self, model): pass", "constructor raised TypeError"),
    ],
)
def test_what_cannot_be_imported_or_made(gate: Gate, tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    run = gate("--sampler", f"{tmp_path / 'mine.py'}:V", *QUICK)
    assert run.code == 3, run.err
    (sampler,) = run.samplers
    assert sampler["verdict"] == "broken"
    assert words in sampler["reason"]
    assert words.split(":")[0] in run.out


def test_other_samplers_stand(gate: Gate) -> None:
    alone = gate("--sampler", "reference", "--sampler", plugin("Right"), *QUICK, out="alone")
    names = ("reference", plugin("Aborts"), plugin("TokenV"), plugin("Right"))
    run = gate(*(word for name in names for word in ("--sampler", name)), *QUICK)
    assert alone.code == 0
    assert run.code == 3
    assert [sampler["verdict"] for sampler in run.samplers] == ["pass", "broken", "broken", "pass"]
    assert stable([run.samplers[0], run.samplers[3]]) == stable(alone.samplers)
    assert "killed by SIGABRT" in run.samplers[1]["cases"][0]["reason"]


def test_sleeping_for_ever(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHITREE_FIRST_CALL_LIMIT", "10")
    run = gate("--sampler", plugin("Sleeps"), "--sampler", "reference", *THREE)
    assert run.code == 3
    sleeps, reference = run.samplers
    assert reference["verdict"] == "pass"
    hang = "call 0 of group four did not return within 10 s"
    for case in sleeps["cases"]:
        first = case["group"] == "four"
        assert case["verdict"] == ("broken" if first else "skipped")
        assert case["reason"] == (hang if first else f"the sampler was ended: {hang}")


def test_hang_in_call_50(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHITREE_CALL_LIMIT", "1.5")
    run = gate("--sampler", broken("HangsInCall50"), *SOME, "--suite", "smoke", "--shrink", "0", "--workers", "1")
    assert run.code == 3
    assert run.groups == {"four": "broken", "five": "skipped", "six": "skipped"}
    assert run.cases[0]["reason"].startswith("call 50 of group four did not return within")


def test_half_a_message_is_no_way_round_the_time_limit(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHITREE_FIRST_CALL_LIMIT", "10")
    run = gate("--sampler", broken("WritesHalfAMessage"), *QUICK)
    assert run.code == 3
    assert "did not return within 10 s" in run.cases[0]["reason"]


def test_crash_in_one_group_alone(gate: Gate) -> None:
    run = gate("--sampler", broken("AbortsAtOddVocab"), *THREE)
    assert run.code == 3
    assert run.groups == {"four": "pass", "five": "broken", "six": "pass"}
    reason = next(case["reason"] for case in run.cases if case["group"] == "five")
    assert "killed by SIGABRT" in reason
    assert "it last said: about to abort" in reason


def test_crash_while_the_speed_is_measured(gate: Gate) -> None:
    """Without --shrink the smallest and the largest group are timed first; what breaks there breaks alone."""
    selected = ("--case", "four/*", "--case", "five/*")
    run = gate("--sampler", broken("AbortsAtOddVocab"), "--suite", "smoke", *selected)
    assert run.code == 3
    assert run.groups == {"four": "pass", "five": "broken"}
    assert run.samplers[0]["shrink"] == {"k": 0, "reason": "the sampler could not be timed"}


@pytest.mark.slow
def test_a_slow_plugin_takes_fewer_draws_and_says_why(gate: Gate) -> None:
    run = gate("--sampler", broken("Slow"), "--suite", "smoke", "--case", "four/*", "--workers", "1")
    assert run.code == 0
    shrink = run.samplers[0]["shrink"]
    assert shrink["k"] > 0
    assert "speed of its first calls" in shrink["reason"]
    for case in run.cases:
        assert case["n"] == suite().groups[0].n >> shrink["k"]
        assert f"--shrink {shrink['k']}" in case["reproduce"]


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_three_crashes_end_the_sampler(gate: Gate, workers: int) -> None:
    """Whoever crashes first on the clock, the first three in the order of the suite are the broken ones."""
    run = gate("--sampler", broken("AbortsOften"), "--suite", "smoke", "--shrink", "5", "--workers", str(workers))
    assert run.code == 3
    order = [entry.group.name for entry in suite().groups if entry.group.rule == "target-only"]
    expected = {order[0]: "pass"} | {name: "broken" if i < 3 else "skipped" for i, name in enumerate(order[1:])}
    assert run.groups == expected
    assert {case["reason"] for case in run.cases if case["verdict"] == "skipped"} == {
        "the sampler was ended after 3 crashes"
    }


def test_flood_of_output(gate: Gate, folder: Path) -> None:
    run = gate("--sampler", broken("Floods"), *QUICK)
    assert run.code == 3, run.out
    assert all((case["reason"] or "").endswith("it printed more than 64 MiB") for case in run.cases)
    assert "torrent" not in run.out + run.err
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 1 << 20


def test_closed_descriptors(gate: Gate, folder: Path) -> None:
    run = gate("--sampler", broken("ClosesDescriptors"), *QUICK)
    assert run.code == 3
    assert {case["verdict"] for case in run.cases} == {"broken"}
    opened = list(folder.glob("opened-*"))
    assert opened
    assert all(not file.read_bytes() for file in opened), "nothing of ours goes into a file of the sampler"


def test_children_end_with_the_run(gate: Gate, folder: Path) -> None:
    run = gate("--sampler", broken("HasChildren"), *QUICK)
    assert run.code == 0
    assert len(pids(folder)) >= 3
    wait_until(lambda: all(map(dead, pids(folder))))


def test_crash_is_seen_through_children_that_live(gate: Gate, folder: Path) -> None:
    started = time.monotonic()
    run = gate("--sampler", broken("HasChildrenAndAborts"), *QUICK)
    assert run.code == 3
    assert "killed by SIGABRT" in run.cases[0]["reason"]
    assert time.monotonic() - started < Limits.first_call, "the socket that the child holds must not hide the crash"
    wait_until(lambda: all(map(dead, pids(folder))))


def test_threads_left_behind(gate: Gate) -> None:
    assert gate("--sampler", broken("HasThreads"), *QUICK).code == 0


def test_inputs_overwritten_and_buffers_used_again(gate: Gate) -> None:
    run = gate("--sampler", broken("Dirty"), *THREE)
    assert run.code == 0, run.out


@pytest.mark.parametrize("attribute", ["instance", "Holder.instance", "factory", "Stateful"])
def test_every_shard_has_a_fresh_verifier(gate: Gate, attribute: str) -> None:
    run = gate("--sampler", broken(attribute), *THREE, "--workers", "1")
    assert run.code == 0, run.out
    assert set(run.groups.values()) == {"pass"}


def test_no_case_to_run(gate: Gate) -> None:
    run = gate("--sampler", broken("TakesNothing"), *QUICK)
    assert run.code == 3
    assert {case["verdict"] for case in run.cases} == {"skipped"}
    assert "max_nodes is 1" in run.cases[0]["reason"]
    other = gate("--sampler", plugin("Right"), "--suite", "smoke", "--case", "plain/*", out="other")
    assert other.code == 3
    assert "no case of suite smoke to run" in other.samplers[0]["reason"]
    assert "its rule is target-only, and --case plain/* names cases of rule plain" in other.samplers[0]["reason"]


def test_cases_beyond_the_limits_of_a_sampler_are_skipped(gate: Gate) -> None:
    run = gate("--sampler", broken("TakesFewTokens"), *THREE)
    assert run.code == 0
    assert run.groups == {"four": "pass", "five": "skipped", "six": "skipped"}


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT], ids=lambda end: end.name)
def test_a_run_that_is_ended_leaves_results_and_no_process(folder: Path, end: signal.Signals) -> None:
    out = folder / "out"
    arguments = ("gate", "--sampler", broken("HasChildrenAndHangsLater"), *THREE, "--workers", "1", "--out", str(out))
    run = subprocess.Popen(
        [sys.executable, "-c", driver(), *arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        # A job that a shell put into the background ignores SIGINT, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        wait_until((folder / "hangs").exists, 60)
        wait_until(lambda: read(out / "results.json").samplers[0].cases)
        wait_until(lambda: len(pids(folder)) >= 3)
        assert not any(dead(pid) for pid in pids(folder)[-3:])
    finally:
        os.kill(run.pid, end)
        _, err = run.communicate(timeout=60)
    said = f"chitree: interrupted; what was judged so far is in {out}; go on with: chitree gate --resume {out}"
    assert (run.returncode, err.strip()) == ((-9, "") if end == signal.SIGKILL else (130, said))
    wait_until(lambda: all(map(dead, pids(folder))))
    (sampler,) = read(out / "results.json").samplers
    assert {case.group for case in sampler.cases} == {"four"}
    assert {case.verdict for case in sampler.cases} == {"pass"}
