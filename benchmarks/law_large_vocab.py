"""Time and memory of the exact law of a 64-node tree at V = 151,936 under temperature, top-k and top-p.

    python benchmarks/law_large_vocab.py

Prints seconds, the same as a multiple of one float64 softmax over the same logits, and the peak of memory.
"""

from __future__ import annotations

import resource
import time

import numpy as np

from distributions import SHAPES, TARGETS, sibling_tokens
from harness.case import Case
from harness.filters import SamplingParams, softmax, target_probs
from harness.rules import rule
from harness.streams import stream
from harness.tree import Tree

NODES, VOCAB = 64, 151_936


def main() -> None:
    """Make the case, then time its law as a gate computes it: filters, float32 rows, law."""
    rng = stream("benchmark", "law-large-vocab")
    logits = TARGETS["llm-like"].make(rng, NODES, VOCAB)
    parents = SHAPES["wide-random"](rng, NODES)
    filtered = SamplingParams(0.8, top_k=200, top_p=0.95)
    tokens = sibling_tokens(rng, parents, target_probs(logits, filtered), by="top")
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.perf_counter()
    softmax(logits)
    unit = time.perf_counter() - started
    for params in (filtered, SamplingParams(0.8, top_p=0.95)):
        case = Case("large", "target-only", Tree(tokens, parents), logits, params)
        started = time.perf_counter()
        law = rule("target-only").law(case)
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"top_k {params.top_k}, top_p {params.top_p:g}: {seconds:.2f} s = {seconds / unit:.1f} softmaxes, "
            f"{law.size} prefixes, support {np.count_nonzero(law.rows[0])}, peak {peak / 2**20:.2f} GiB "
            f"(before: {base / 2**20:.2f})"
        )


if __name__ == "__main__":
    main()
