"""How long a probe takes: every built-in sampler driven by coins on the default case of each of its rules.

    python benchmarks/probe_speed.py [SAMPLER ...]

Prints for each the rows asked, the seconds in verify and in all (the worker is started before), the largest difference
from the exact law, and how many draws a standard error of one coin, 2^-24, would take.
"""

from __future__ import annotations

import sys

from cases.probes import default_case
from harness.errors import ChitreeError
from harness.probing import run_probe
from harness.samplers.registry import SAMPLERS, sampler


def main(names: list[str]) -> None:
    """Probe the samplers of these names, all of them where none is given."""
    known = [sampler(name) for name in names] or [s for s in SAMPLERS.values() if s.claims.coins]
    for one in known:
        for rule in one.claims.rules:
            case = default_case(rule)
            if case is None:
                continue
            try:
                found = run_probe(one.name, lambda claims, case=case: case, "standard", 0)  # type: ignore[misc]
            except ChitreeError as error:
                print(f"{one.name}: {error}")
                break
            detail = found.judgement.detail
            print(
                f"{one.name:20} {rule:26} {found.judgement.verdict:7} {found.measured.rows:6,} rows "
                f"{found.in_verify:6.2f} s in verify, {found.seconds:6.2f} s in all, difference "
                f"{detail['largest_difference']:.1e}, {detail['samples_for_the_same']:.1e} draws for the same",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1:])
