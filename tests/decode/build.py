"""Groups and runs of decoding for the tests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from cases.sequences import sequence_groups
from harness.counts import count_sequences
from harness.decode.decoder import Decoded, Decoder, Parts, verifying
from harness.decode.sequences import SequenceCase, SequenceGroup, SequencePlan
from harness.samplers.base import Verifier
from harness.samplers.reference import Reference
from harness.stats.verdict import Judgement, judge
from harness.streams import stream

Ints = NDArray[np.int64]

ALPHA = 1e-9
"""Of each case of each run here: a right decoding is called wrong once in so many."""


@cache
def group(rule: str, drafts: str) -> SequenceGroup:
    """Return a group of the suites."""
    (entry,) = (entry for entry in sequence_groups(1 << 12) if entry.name == f"sequences/{rule}/{drafts}")
    return entry.group


@cache
def shuffled(rule: str, drafts: str) -> SequenceGroup:
    """Return the same with another numbering of every tree, and its siblings in another order."""
    made = group(rule, drafts)
    return SequenceGroup(f"{made.name}, shuffled", tuple(_shuffled(case) for case in made.cases))


def _shuffled(case: SequenceCase) -> SequenceCase:
    rng = stream("shuffled", case.name)
    trees = []
    for tree in case.trees:
        tree = tree.reordered([rng.permutation(children).tolist() for children in tree.children])
        trees.append(tree.renumbered(np.concatenate([[0], 1 + rng.permutation(len(tree) - 1)])))
    return replace(case, trees=tuple(trees))


@dataclass
class Run:
    """What was decoded in one call after the other: the case of each sequence and its tokens, and the decoders'."""

    group: SequenceGroup
    which: Ints
    tokens: Ints
    parts: list[Decoded]

    @property
    def faults(self) -> set[str]:
        """Which of the decoder's own checks found something."""
        return {kind for part in self.parts for kind in part.faults}

    def judged(self) -> list[Judgement]:
        """Hold the sequences of each case against their law."""
        found = []
        for g, case in enumerate(self.group.cases):
            counts = count_sequences(self.tokens[self.which == g])
            found.append(judge(case.law(), counts, ALPHA, stream("pit", case.name), nodes=case.nodes))
        return found

    def seen(self) -> set[str]:
        """Return what sees that something is wrong: checks of the decoder and tests of the law; nothing where right."""
        fired = {
            part.test
            for judgement in self.judged()
            for part in judgement.evidence
            if part.decides and part.p_value is not None and part.p_value / part.share <= ALPHA
        }
        return self.faults | fired


def decode(
    made: SequenceGroup,
    n: int,
    verifier: Callable[[SequenceGroup], Verifier] = lambda made: Reference(made.rule),
    parts: Parts | None = None,
    seed: int = 0,
) -> Run:
    """Decode ``n`` sequences of each case of a group with one verifier."""
    plan = SequencePlan(made, "tests", seed, n)
    decoder = Decoder(made, verifying(verifier(made)), parts)
    which, tokens, decoded = [], [], []
    for number in range(plan.calls):
        batch = plan.batch(number)
        decoded.append(decoder.decode(batch))
        which.append(batch.which)
        tokens.append(decoded[-1].tokens)
    return Run(made, np.concatenate(which), np.concatenate(tokens), decoded)
