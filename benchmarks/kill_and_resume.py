"""Kill a run of the gate again and again, the parent or a worker, and go on with it until it ends.

After every kill results.json must be readable, and every case that had a verdict other than broken or skipped must have
it still. A run that goes on to its end must end with what an unbroken run finds, to the last count. Usage:

    python benchmarks/kill_and_resume.py --kills 200
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SAMPLERS = ("--sampler", "reference", "--sampler", "sglang-tree-port")
CASES = ("target-only/tiny-[012]/*", "plain/tiny-0/*", "coins/*")
OPTIONS = (
    *SAMPLERS,
    *(word for case in CASES for word in ("--case", case)),
    "--suite",
    "smoke",
    "--seed",
    "3",
    "--shrink",
    "3",
)


def main() -> None:
    """Kill as often as asked for; raises AssertionError at the first thing that is lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--pause", type=float, help="mean seconds between kills; default: a fifth of an unbroken run")
    asked = parser.parse_args()
    rng = random.Random(asked.seed)
    kills = {"parent": 0, "worker": 0}
    runs = 0
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder, "whole")
        started = time.monotonic()
        begin(whole, asked.workers, resume=False).wait()
        seconds = time.monotonic() - started
        expected = found(whole)
        print(f"an unbroken run of {sum(map(len, expected.values()))} cases takes {seconds:.1f} s", flush=True)
        while sum(kills.values()) < asked.kills:
            runs += 1
            out = Path(folder, f"run-{runs}")
            codes = one_run(out, asked.workers, asked.kills, asked.pause or seconds / 5, kills, rng)
            assert found(out) == expected, f"run {runs} ended with other results"
            assert not (out / "progress").exists()
            said = ", ".join(f"{count} of a {what}" for what, count in kills.items())
            print(f"run {runs}: equal to the unbroken one after exit codes {codes}; kills: {said}", flush=True)


def one_run(out: Path, workers: int, most: int, pause: float, kills: dict[str, int], rng: random.Random) -> list[int]:
    """Run to a good end with kills on the way; returns the exit codes."""
    codes: list[int] = []
    before: dict[str, dict[str, Any]] = {}
    while True:
        process = begin(out, workers, resume=(out / "run.json").exists())
        while sum(kills.values()) < most:
            wait = rng.expovariate(1.0 / pause)
            try:
                process.wait(wait)
                break
            except subprocess.TimeoutExpired:
                kill(process, kills, rng)
                before = intact(out, before)
        codes.append(process.wait())
        before = intact(out, before)
        assert codes[-1] in (0, 3, -signal.SIGKILL), codes
        if codes[-1] == 0:
            return codes


def begin(out: Path, workers: int, resume: bool) -> subprocess.Popen[bytes]:
    """Start the gate, or go on with it."""
    words = ["gate", *(["--resume", str(out)] if resume else [*OPTIONS, "--out", str(out)])]
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "harness", *words, "--workers", str(workers), "-q"]
    return subprocess.Popen(command, cwd=Path(__file__).resolve().parent.parent, stdout=quiet, stderr=quiet)


def kill(process: subprocess.Popen[bytes], kills: dict[str, int], rng: random.Random) -> None:
    """Kill the parent, or one of its workers, which are its children that are not the shells that watch them."""
    victim, what = process.pid, "parent"
    if rng.random() < 0.7:  # there is none while the parent starts
        workers = [pid for pid in children(process.pid) if b"harness.worker" in command_line(pid)]
        if not workers:
            return
        victim, what = rng.choice(workers), "worker"
    try:
        os.kill(victim, signal.SIGKILL)
    except ProcessLookupError:
        return
    kills[what] += 1
    if what == "parent":
        process.wait()


def children(pid: int) -> list[int]:
    """Return the children of a process, by whichever of its threads."""
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, file.read_text().split())
        except OSError:
            continue
    return found


def command_line(pid: int) -> bytes:
    """Return a process's command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def found(out: Path) -> dict[str, dict[str, Any]]:
    """Return what results.json has of each case of each sampler, times apart, and of the tests over all cases."""
    results = json.loads((out / "results.json").read_bytes())
    samplers = {}
    for sampler in results["samplers"]:
        cases = {case["case"]: {**case, "seconds": None} for case in sampler["cases"]}
        samplers[sampler["name"]] = {**cases, "": {**sampler, "cases": None}}
    return samplers


def intact(out: Path, before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Hold results.json against what was there before: nothing that was found is lost or changed."""
    if not (out / "results.json").exists():
        assert not before
        return before
    now = found(out)
    for sampler, cases in before.items():
        for name, case in cases.items():
            if name and case["verdict"] not in ("broken", "skipped"):
                assert now[sampler][name] == case, (sampler, name)
    return now


if __name__ == "__main__":
    main()
