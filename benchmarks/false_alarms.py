"""False alarms of the whole gate: many runs of a right sampler, each with draws of its own.

The runs go through :func:`harness.gate.gate` as any run does: plans, calls, counts, laws, every layer, and the tests
over all cases. Calls are made in this process, since thousands of workers would be started else, and the least
detectable biases, which decide nothing, are not worked out. The suite is a few small groups, so that a run is short and
spends the whole of its alpha.

    python benchmarks/false_alarms.py [--runs 2000] [--alpha 0.01] [--sampler reference] [--first-seed 0]
"""

from __future__ import annotations

import argparse
import math
import time
from collections import Counter
from dataclasses import asdict, replace

from scipy import stats

import harness.gate
import harness.judge
from cases.catalogue import suite
from harness.gate import GateOptions, gate
from harness.protocol import Reply, ShardJob
from harness.results import Results
from harness.suite import Suite
from harness.supervisor import Limits, Worker
from harness.sweep import Sweep
from harness.worker import _load, _run

GROUPS = ("target-only/tiny-0", "rejection/tiny-0", "rejection-no-replacement/tiny-0", "block/tiny-0", "none/tiny-0")
DRAWS = 512


class Here(Worker):
    """Runs shards in this process."""

    def start(self) -> None:
        """Make the sampler."""
        if not self.claims:
            self._make, claims, _ = _load(self.sampler)
            self._claims = claims
            self.claims = asdict(claims)

    def _served(self, job: ShardJob) -> tuple[Reply, float, str]:
        self.start()
        return _run(job, self._make, self._claims, lambda beat: None), math.inf, "a call"


class SweepHere(Sweep):
    """A sweep whose worker is this process."""

    def __init__(self, sampler: str, workers: int, threads: int, limits: Limits, poison: bool = False) -> None:
        super().__init__(sampler, workers, threads, limits, poison)
        self._workers = [Here(sampler, limits, threads)]


def small() -> Suite:
    """Return the groups, alone in a suite, with few draws."""
    whole = suite("smoke")
    groups = tuple(replace(entry, n=DRAWS) for entry in whole.groups if entry.name in GROUPS)
    if len(groups) != len(GROUPS):
        raise SystemExit(f"suite smoke has not all of {', '.join(GROUPS)}")
    return Suite("false-alarms", groups, whole.seconds)


def alarms(results: Results) -> set[str]:
    """Return the tests of a run that raised an alarm."""
    (sampler,) = results.samplers
    if sampler.verdict == "broken":
        raise SystemExit(f"the sampler broke: {sampler.reason or [case.reason for case in sampler.cases]}")
    found = {f"all cases: {test['test']}" for test in sampler.suite_tests if test["biased"]}
    for case in sampler.cases:
        if case.verdict != "pass":
            deciding = [part for part in case.evidence if part["decides"] and part["p_value"] is not None]
            found |= {part["test"] for part in deciding if part["p_value"] / part["share"] <= case.alpha}
            assert found, f"{case.case} is {case.verdict} without a test that says so"
    assert (results.verdict == "biased") == bool(found)
    return found


def main() -> None:
    """Make the runs and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--alpha", type=float, default=1e-2)
    parser.add_argument("--sampler", default="reference")
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    harness.gate.Sweep = SweepHere  # type: ignore[misc]
    harness.judge.min_detectable = lambda *_, **__: {"move": None, "leak": None, "temperature": None}  # type: ignore
    chosen = small()
    cases = sum(len(entry.names) for entry in chosen.groups)
    print(
        f"{asked.sampler}: {cases} cases of {DRAWS} draws in {len(chosen.groups)} groups, alpha {asked.alpha:g} a run"
    )
    began, fired, biased = time.monotonic(), Counter[str](), 0
    for run in range(asked.runs):
        options = GateOptions(
            (asked.sampler,), alpha=asked.alpha, seed=asked.first_seed + run, workers=1, threads=1, shrink=0
        )
        found = alarms(gate(chosen, options))
        fired.update(found)
        biased += bool(found)
        if (run + 1) % 100 == 0:
            print(f"  {run + 1} runs, {biased} with an alarm, {time.monotonic() - began:.0f} s", flush=True)
    low, high = stats.binomtest(biased, asked.runs).proportion_ci(0.95, "exact")
    more = stats.binom.sf(biased - 1, asked.runs, asked.alpha)
    rate = f"{biased / asked.runs:.4f}, 95% interval {low:.4f} to {high:.4f}"
    print(f"{biased} of {asked.runs} runs raised an alarm: {rate}")
    print(f"at a rate of exactly {asked.alpha:g}, as many or more have a probability of {more:.3g}")
    for test, count in fired.most_common():
        print(f"  {test}: {count}")


if __name__ == "__main__":
    main()
