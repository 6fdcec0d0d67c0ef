"""SGLang's tree kernel on a GPU against the same kernel simulated on the CPU, coin for coin.

    python benchmarks/gpu_compare.py [--suite smoke --suite standard] [--rows 2048] [--seconds 150] [--doc docs/gpu.md]

The same requests go through ``sglang-tree-gpu``, through a sampler on the CPU (``sglang-tree``, or ``--against``) and
through ``reference``, a float64 walk driven by the same coins. The accept path must be equal bit for bit. The last
token is drawn from a sum of floats, whose order a GPU may choose: where it differs, the coin must lie within rounding
of every boundary between the two tokens. What the GPU emitted is held against the exact law too. With ``--doc`` the
figures go into that page, between its two markers.

Exit code: 0 all is as it must be; 1 it is not; 3 a sampler cannot run here.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cases.catalogue import suite
from harness import __version__
from harness.counts import SequenceCounts, distinct_rows
from harness.errors import ChitreeError, Unavailable
from harness.groups import Plan
from harness.request import Request
from harness.rules import rule
from harness.samplers.base import Sampler
from harness.samplers.registry import sampler
from harness.stats.verdict import judge
from harness.streams import stream
from harness.suite import SuiteGroup
from harness.validate import Expected, emitted

NATIVE = "sglang-tree-gpu"
MARKERS = "<!-- figures: begin -->", "<!-- figures: end -->"
ALPHA = 1e-6
"""Of all cases held against their exact laws together."""
SHOWN = 20
"""Differing rows that are kept in full in the JSON."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass
class Figures:
    """Rows of one V, and how many of them differ."""

    vocab: int
    rows: int = 0
    path_differs: int = 0
    """Another accepted node or length than the simulated kernel's: must be 0."""
    last_differs: int = 0
    """Equal path, another last token."""
    exact_rows: int = 0
    """Rows in which every sum is exact in float32."""
    exact_differs: int = 0
    """Of these, rows that differ in anything: must be 0."""
    beyond: int = 0
    """Of ``last_differs``, rows whose coin is not within rounding of a boundary that lies between: must be 0."""
    impossible: int = 0
    """Last tokens of probability 0, whatever the other sampler emitted."""
    reference_path: int = 0
    reference_last: int = 0
    """The same two against the float64 walk."""
    gpu_seconds: float = 0.0
    cpu_seconds: float = 0.0
    examples: list[dict[str, Any]] = field(default_factory=list)


def rounding(vocab: int) -> float:
    """Bound on the error of a running sum of V floats relative to the total, and of the coin's mark.

    As many additions as lie on the longest way through the block's sum: the tokens of a thread, five steps in a warp,
    the warps, and one for each chunk of the vocabulary; twice, for the running sum and for the total.
    """
    per_thread = math.gcd(4, vocab)
    steps = per_thread + 5 + 32 + -(-vocab // (1024 * per_thread))
    return 2 * steps * 2.0**-24


def compare(entry: SuiteGroup, rows: int, samplers: Sequence[Any], into: Figures) -> list[SequenceCounts]:
    """Run ``rows`` rows of a group through native, CPU and reference sampler; return the native counts, a case each."""
    native, cpu, reference = samplers
    plan = Plan(entry.group, "gpu-compare", 0, entry.n)
    counted: list[list[Ints]] = [[] for _ in entry.names]
    done, number = 0, 0
    while done < rows:
        request, which = plan.call(number)
        part = np.arange(min(rows - done, request.batch))
        request, which = request.take(part), which[: len(part)]
        done, number = done + len(part), number + 1
        expected = Expected.of(request)
        results, seconds = [], []
        for each in (native, cpu, reference):
            given = request.take(part)
            _ = given.target_probs  # gathered outside the clock
            started = time.perf_counter()
            results.append(each.verify(given))
            seconds.append(time.perf_counter() - started)
        into.gpu_seconds += seconds[0]
        into.cpu_seconds += seconds[1]
        tokens = emitted(results[0], expected)
        for g in range(len(entry.names)):
            counted[g].append(tokens[which == g])
        _tally(request, entry.name, results, into)
    return [_counts(parts) for parts in counted]


def _counts(parts: list[Ints]) -> SequenceCounts:
    distinct, inverse = distinct_rows(np.concatenate(parts))
    return SequenceCounts(distinct, np.bincount(inverse))


def _tally(request: Request, group: str, results: Sequence[Any], into: Figures) -> None:
    """Add what differs between the results of one request."""
    native, cpu, reference = results
    batch = np.arange(request.batch)
    last = [np.asarray(result.tokens)[batch, np.asarray(result.lengths) - 1] for result in results]
    equal = [
        (native.lengths == other.lengths) & (np.asarray(native.nodes) == np.asarray(other.nodes)).all(axis=1)
        for other in (cpu, reference)
    ]
    differs = equal[0] & (last[0] != last[1])
    scaled = request.target_probs * np.float32(4096)
    padding = np.arange(request.nodes) >= request.node_count[:, None]
    exact = ((scaled == np.round(scaled)).all(axis=2) | padding).all(axis=1)
    into.rows += request.batch
    into.path_differs += int((~equal[0]).sum())
    into.last_differs += int(differs.sum())
    into.exact_rows += int(exact.sum())
    into.exact_differs += int((exact & (~equal[0] | differs)).sum())
    into.reference_path += int((~equal[1]).sum())
    into.reference_last += int((equal[1] & (last[0] != last[2])).sum())
    law = rest(request, native)
    into.impossible += int((law[batch, last[0]] <= 0).sum())
    for row in np.flatnonzero(~equal[0] | differs):
        crossed = None
        if differs[row]:
            crossed = crossing(law[row], float(request.final_coins[row]), int(last[0][row]), int(last[1][row]))
            into.beyond += crossed > rounding(request.vocab)
        if len(into.examples) < SHOWN:
            emitted_by = [np.asarray(result.tokens)[row].tolist() for result in results]
            into.examples.append(
                {"group": group, "row": int(row), "gpu": emitted_by[0], "cpu": emitted_by[1], "crossed": crossed}
            )


def rest(request: Request, result: Any) -> Floats:
    """Return what the last token of each row is drawn from, float64 [B, V]: the law without the rejected children."""
    rows = np.arange(request.batch)
    accepted = np.asarray(result.lengths) - 1
    at = np.asarray(result.nodes)[rows, accepted]
    law: Floats = request.target_probs[rows, at].astype(np.float64)
    child = np.where(accepted < request.depth_limit - 1, request.retrieve_next_token[rows, at], -1)
    while (child >= 0).any():
        live = rows[child >= 0]
        law[live, request.candidates[live, child[live]]] = 0.0
        child[live] = request.retrieve_next_sibling[live, child[live]]
    return law


def crossing(law: Floats, coin: float, one: int, other: int) -> float:
    """Return how far ``coin`` is from the farthest boundary between two tokens of a law [V], relative to its total."""
    running = np.cumsum(law)
    low, high = sorted((one, other))
    return float(np.abs(running[low:high] / running[-1] - coin).max())


def against_law(pairs: Iterable[tuple[SuiteGroup, list[SequenceCounts]]]) -> tuple[int, list[str]]:
    """Hold counts against exact laws; return how many cases were, and the names of those that deviate."""
    pairs = list(pairs)
    cases = sum(len(entry.names) for entry, _ in pairs)
    biased = []
    for entry, counts in pairs:
        for case, drawn in zip(entry.group.cases, counts, strict=True):
            law = rule(case.rule).law(case)
            if judge(law, drawn, ALPHA / cases, stream("gpu-compare", case.name)).biased:
                biased.append(case.name)
    return cases, biased


def ready(name: str) -> Sampler:
    """Return a sampler that can run here."""
    known = sampler(name)
    why = known.unavailable()
    if why:
        raise Unavailable(f"{name} cannot run here: {why}")
    known.prepare()
    return known


def table(figures: Iterable[Figures]) -> list[str]:
    """Return the figures as the lines of a Markdown table."""
    lines = [
        "| V | rows | accept path differs | last token differs | of these beyond rounding | token of probability 0 "
        "| exact sums: rows, differing | against float64: path, last token | GPU, µs a row |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for each in figures:
        rate = f" ({each.last_differs / each.rows:.1e})" if each.last_differs else ""
        lines.append(
            f"| {each.vocab:,} | {each.rows:,} | {each.path_differs} | {each.last_differs}{rate} | {each.beyond} "
            f"| {each.impossible} | {each.exact_rows:,}, {each.exact_differs} "
            f"| {each.reference_path}, {each.reference_last} | {1e6 * each.gpu_seconds / each.rows:.2g} |"
        )
    return lines


def gate_line(path: Path) -> str:
    """Say in a line what a run of the gate, in a results.json, found of the native sampler."""
    found = json.loads(path.read_text())
    (entry,) = [entry for entry in found["samplers"] if entry["name"] == NATIVE]
    cases = [case for case in entry["cases"] if case["n"]]
    draws = sum(case["n"] for case in cases)
    reason = f" ({entry['reason']})" if entry.get("reason") else ""
    deviating = [case["case"] for case in cases if case["verdict"] == "biased"]
    which = f"; deviating: {', '.join(deviating)}" if deviating else ""
    return (
        f"Gate, suite {found['suite']}, {len(cases)} cases, {draws:,} draws, alpha {found['alpha']:g}: "
        f"**{entry['verdict']}**{reason}{which}."
    )


def page(figures: Sequence[Figures], facts: dict[str, Any], gates: Sequence[str]) -> str:
    """Return the Markdown that goes between the markers."""
    total = Figures(0, *(sum(getattr(each, name) for each in figures) for name in ("rows", "path_differs")))
    native = ", ".join(f"{name} {version}" for name, version in facts["native"].items())
    cpu = ", ".join(f"{name} {version}" for name, version in facts["cpu"].items())
    deviating = f"; deviating: {', '.join(facts['biased'])}" if facts["biased"] else ""
    lines = [
        f"Measured on {facts['date']} with chitree {facts['chitree']}, Python {facts['python']}.",
        "",
        f"- `{NATIVE}`: {native}.",
        f"- Compared with `{facts['against']}`: {cpu}.",
        f"- {total.rows:,} rows in {facts['groups']} groups; accept path different in {total.path_differs}.",
        f"- Against the exact law: {facts['cases']} cases, {len(facts['biased'])} deviate{deviating}.",
        *(f"- {line}" for line in gates),
        "",
        *table(figures),
    ]
    if facts["native"].get("device", "").startswith("cpu"):
        lines.insert(0, "**A dry run: a stand-in on the CPU took the place of the GPU. No figure here is of a GPU.**\n")
    return "\n".join(lines)


def put(doc: Path, text: str) -> None:
    """Write ``text`` between the markers of a page."""
    begin, end = MARKERS
    before, found, rest_of_page = doc.read_text().partition(begin)
    _, found_too, after = rest_of_page.partition(end)
    if not found or not found_too:
        raise SystemExit(f"{doc}: the markers {begin} and {end} are not there")
    doc.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", action="append", dest="suites", help="repeatable; default: smoke and standard")
    parser.add_argument("--rows", type=int, default=2048, help="of each group (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=150.0, help="begin no further group after that")
    parser.add_argument("--against", default="sglang-tree", help="sampler on the CPU (default: %(default)s)")
    parser.add_argument("--group", default="", help="only groups whose name has this in it")
    parser.add_argument("--doc", type=Path, help="page to write the figures into")
    parser.add_argument("--json", type=Path, help="file to write all figures to")
    parser.add_argument("--gate", type=Path, action="append", default=[], help="results.json of a gate, to be cited")
    chosen = parser.parse_args(arguments)
    if chosen.rows < 1:
        parser.error(f"--rows must be at least 1, got {chosen.rows}")
    return chosen


def main(arguments: Sequence[str]) -> int:
    """Compare, print and write; return the exit code."""
    chosen = options(arguments)
    try:
        native, cpu = ready(NATIVE), ready(chosen.against)
    except ChitreeError as error:
        print(f"gpu_compare: {error}", file=sys.stderr)
        return 3
    samplers = [known.make("target-only") for known in (native, cpu, sampler("reference"))]
    entries = [
        entry
        for name in chosen.suites or ["smoke", "standard"]
        for entry in suite(name).groups
        if entry.rule == "target-only" and chosen.group in entry.name
    ]
    figures: dict[int, Figures] = {}
    judged: list[tuple[SuiteGroup, list[SequenceCounts]]] = []
    started = time.monotonic()
    for entry in sorted(entries, key=lambda entry: entry.vocab):
        if time.monotonic() - started > chosen.seconds and judged:
            print(f"stopped after {chosen.seconds:g} s: {len(judged)} of {len(entries)} groups", file=sys.stderr)
            break
        into = figures.setdefault(entry.vocab, Figures(entry.vocab))
        judged.append((entry, compare(entry, chosen.rows, samplers, into)))
    cases, biased = against_law(judged)
    facts = {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "chitree": __version__,
        "python": platform.python_version(),
        "against": chosen.against,
        "native": dict(native.versions()),
        "cpu": dict(cpu.versions()),
        "groups": len(judged),
        "cases": cases,
        "biased": biased,
    }
    found = list(figures.values())
    text = page(found, facts, [gate_line(path) for path in chosen.gate])
    print(text)
    if chosen.json:
        chosen.json.write_text(json.dumps({**facts, "figures": [asdict(each) for each in found]}, indent=1))
    if chosen.doc:
        put(chosen.doc, text)
    wrong = biased or any(e.path_differs or e.beyond or e.exact_differs or e.impossible for e in found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
