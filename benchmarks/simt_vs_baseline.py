"""Speed of SGLang's tree kernel on one CPU core, alone or next to another implementation on the same inputs.

    python benchmarks/simt_vs_baseline.py
    python benchmarks/simt_vs_baseline.py --baseline DIR --wheels DIR

A baseline is a folder with the modules ``build`` (``Kern``: PTX to a kernel that is called with grid, block, dynamic
shared memory and arguments). It is given the same PTX and the same arrays, and the two take turns, so that a busy
machine slows both. Printed are microseconds a block, best of the rounds, and baseline time over ours: above 1, ours is
faster.
"""

from __future__ import annotations

import argparse
import importlib
import math
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from harness.simt import TreeTargetOnly, fetch, tree_target_only
from harness.simt.nvrtc import compile_ptx
from harness.simt.tree import tree_program
from harness.simt.wheels import Sources

NODES, DEPTH = 6, 4
SHAPES = ((1024, 16, 512), (1024, 1024, 128), (1024, 32000, 16), (32, 16, 4096), (32, 1024, 512), (32, 32000, 32))
BASELINE_FLAGS = (
    "-O1", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing", "-fno-math-errno", "-w",
)  # fmt: skip

Args = tuple[Any, ...]


def inputs(batch: int, vocab: int) -> Args:
    """Random trees of six nodes, softmax laws of normal logits: the arrays that the kernel takes, in its order."""
    rng = np.random.default_rng(zlib.crc32(f"{batch} {vocab}".encode()))
    child = np.full((batch, NODES), -1, np.int64)
    sibling = child.copy()
    for row in range(batch):
        last: dict[int, int] = {}
        for node in range(1, NODES):
            parent = int(rng.integers(max(0, node - 4), node))
            (sibling if parent in last else child)[row, last.get(parent, parent)] = node
            last[parent] = node
    logits = rng.standard_normal((batch, NODES, vocab)) * 2
    mass = np.exp(logits - logits.max(-1, keepdims=True))
    target = (mass / mass.sum(-1, keepdims=True)).astype(np.float32)
    return (
        np.zeros(batch * NODES, np.int32),
        np.zeros((batch, DEPTH), np.int32),
        np.zeros(batch, np.int32),
        rng.integers(0, vocab, (batch, NODES)),
        np.arange(batch * NODES).reshape(batch, NODES),
        child,
        sibling,
        rng.random((batch, NODES), np.float32),
        rng.random(batch, np.float32),
        target,
        np.zeros_like(target),
    )


def load_baseline(folder: Path, sources: Sources, threads: int, vec: int) -> Callable[[Args], None]:
    """Have the baseline compile the same PTX."""
    sys.path.insert(0, str(folder))
    ptx = compile_ptx(tree_program(sources, threads=threads, vec=vec)).text
    kernel = importlib.import_module("build").Kern(ptx, "TreeSpec", cflags=BASELINE_FLAGS)

    def run(args: Args) -> None:
        batch, vocab = len(args[2]), args[9].shape[2]
        kernel(batch, threads, 4096, [*args, batch, DEPTH, NODES, vocab, 1.0, 1.0])

    return run


def best_times(runs: list[Callable[[Args], None]], args: Args, rounds: int) -> list[float]:
    """Best CPU seconds of each, taking turns."""
    best = [math.inf] * len(runs)
    for _ in range(rounds):
        for index, run in enumerate(runs):
            args[10][...] = 0
            start = time.process_time()
            run(args)
            best[index] = min(best[index], time.process_time() - start)
    return best


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--baseline", type=Path, help="folder of another implementation to compare with")
    parser.add_argument("--wheels", type=Path, help="folder with the vendor's wheels, instead of the package index")
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    sources = fetch(wheels=options.wheels)
    scratch = tempfile.TemporaryDirectory()
    os.environ.setdefault("SIMT_CACHE", scratch.name)
    loaded: dict[tuple[int, int], tuple[TreeTargetOnly, Callable[[Args], None] | None]] = {}
    print(f"{'threads':>7} {'vec':>3} {'V':>6} {'us/block':>9} {'blocks/s':>9}" + "  ratio" * bool(options.baseline))
    for threads, vocab, batch in SHAPES:
        vec = math.gcd(4, vocab)
        if (threads, vec) not in loaded:
            other = load_baseline(options.baseline, sources, threads, vec) if options.baseline else None
            loaded[threads, vec] = (tree_target_only(threads=threads, vec=vec, sources=sources), other)
        kernel, other = loaded[threads, vec]

        def ours(args: Args, kernel: TreeTargetOnly = kernel) -> None:
            kernel(*args, threads=1)

        seconds = best_times([ours, *([other] if other else [])], inputs(batch, vocab), options.rounds)
        line = f"{threads:>7} {vec:>3} {vocab:>6} {seconds[0] / batch * 1e6:>9.2f} {batch / seconds[0]:>9,.0f}"
        print(line + (f" {seconds[1] / seconds[0]:>6.2f}" if other else ""))
    scratch.cleanup()


if __name__ == "__main__":
    main()
