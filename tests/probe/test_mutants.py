"""Faults planted in the vendor's own kernel, before it is compiled: each is found, at a node where it is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cases.probes import probe_groups
from harness.errors import Unavailable
from harness.probejudge import ProbeJudgement
from harness.request import Request, Result
from harness.results import Where
from harness.samplers.base import Claims
from harness.samplers.sglang_tree import SglangTree
from harness.simt.tree import TreeTargetOnly, tree_target_only

from .asking import judged
from .mutants import MUTANTS

THREADS, VEC = 32, 4
GROUPS = {group.name.removeprefix("probe/target-only/"): group for group in probe_groups("smoke")}
CLAIMS = Claims(("target-only",), coins=True)

pytestmark = pytest.mark.slow


def compiled(name: str) -> TreeTargetOnly:
    """Return the kernel with a fault in it."""
    try:
        return tree_target_only(threads=THREADS, vec=VEC, edit=MUTANTS[name].edit)
    except Unavailable as error:
        pytest.skip(str(error))


class Walking:
    """Runs a kernel and reads the emitted tokens by walking along the tree, so that steps that are too long show."""

    def __init__(self, kernel: TreeTargetOnly) -> None:
        self._kernel = kernel

    def verify(self, request: Request) -> Any:
        """Marshal, launch, and follow what was emitted after each node."""
        batch, nodes, limit = request.batch, request.nodes, request.depth_limit
        predicts, accepted = np.full(batch * nodes, -1, np.int32), np.zeros(batch, np.int32)
        index = np.full((batch, limit + 1), -1, np.int32)  # room for one more after the last row
        probs = request.target_probs
        self._kernel(
            predicts,
            index.reshape(-1)[: batch * limit].reshape(batch, limit),
            accepted,
            request.candidates,
            request.retrieve_index,
            request.retrieve_next_token,
            request.retrieve_next_sibling,
            request.coins,
            request.final_coins,
            probs,
            np.zeros_like(probs),
            request.threshold_single,
            request.threshold_acc,
        )
        tokens = np.full((batch, nodes + 1), -1, np.int64)
        for row in range(batch):
            node = 0
            for place in range(accepted[row] + 1):
                tokens[row, place] = predicts[row * nodes + node]
                child = int(request.retrieve_next_token[row, node])
                while child >= 0 and request.candidates[row, child] != tokens[row, place]:
                    child = int(request.retrieve_next_sibling[row, child])
                node = child
        return Result(tokens, accepted.astype(np.int64) + 1)


def found(name: str, group: str) -> dict[str, ProbeJudgement]:
    """Return the judgements on a kernel with a fault."""
    kernel = compiled(name)
    if name == "one-draft-more":
        return judged(GROUPS[group], Walking(kernel), CLAIMS)
    verifier = SglangTree(THREADS)
    verifier._kernels[VEC] = kernel
    return judged(GROUPS[group], verifier, CLAIMS)


def where(judgement: ProbeJudgement) -> Where:
    """Return the top row of a judgement, which has to be one of bias."""
    assert judgement.verdict == "biased", judgement
    return judgement.where[0]


def test_the_kernel_itself_passes() -> None:
    try:
        kernel = tree_target_only(threads=THREADS, vec=VEC)
    except Unavailable as error:
        pytest.skip(str(error))
    for group in ("dyadic", "limited", "permissive"):
        for verifier in (SglangTree(THREADS), Walking(kernel)):
            assert {one.verdict for one in judged(GROUPS[group], verifier, CLAIMS).values()} == {"pass"}


def test_at_most_instead_of_below() -> None:
    """One coin of 2^24 too many is accepted at every node that has a draft."""
    case = GROUPS["dyadic"].cases[0]
    judgement = found("at-most", "dyadic")["bush-0"]
    rows = [row for row in judgement.where if row.p_value == 0.0 and row.kind == "accepted-draft"]
    assert {row.node for row in rows} == {node for node in range(len(case.tree)) if case.tree.children[node]}
    for row in rows:
        assert row.token == case.tree.child_tokens(row.node)[0]
        assert (row.observed - row.expected) * 2**24 == pytest.approx(1.0, abs=1e-6)


def test_roots_coin_for_the_final_draw() -> None:
    judgement = found("roots-coin-at-the-end", "dyadic")["bush-0"]
    assert where(judgement).kind == "last"
    for node in (0, 1, 2):
        assert f"(node {node}) the last token is drawn with the coin of node 0" in str(judgement.reason)


def test_residual_not_subtracted() -> None:
    judgement = found("residual-not-subtracted", "dyadic")["bush-0"]
    row = where(judgement)
    tree = GROUPS["dyadic"].cases[0].tree
    assert row.kind == "last"
    assert row.token in tree.child_tokens(row.node)
    inner = {node for node in range(len(tree)) if tree.children[node]}
    assert {row.node for row in judgement.where if row.p_value == 0.0} == inner


def test_sum_not_reset() -> None:
    """The sums of a node's children go on from those of its parent's: right at the root, wrong below."""
    judgement = found("sum-not-reset", "dyadic")["bush-0"]
    assert where(judgement).kind == "accepted-draft"
    off = {row.node for row in judgement.where if row.p_value == 0.0}
    tree = GROUPS["dyadic"].cases[0].tree
    assert off == {node for node in range(1, len(tree)) if tree.children[node]}


def test_one_draft_beyond_the_depth_limit() -> None:
    judgement = found("one-draft-more", "limited")["bush-0"]
    row = where(judgement)
    group = GROUPS["limited"]
    assert row.kind == "length"
    assert group.cases[0].tree.depth[row.node] == group.depth_limit - 1
    assert row.token in group.cases[0].tree.child_tokens(row.node)


def test_one_draft_less_than_the_depth_limit() -> None:
    judgement = found("one-draft-less", "limited")["bush-0"]
    row = where(judgement)
    group = GROUPS["limited"]
    assert row.kind in ("last", "accepted-draft")
    assert group.cases[0].tree.depth[row.node] == group.depth_limit - 2
    assert row.token in group.cases[0].tree.child_tokens(row.node)


def test_zero_mass_check_removed() -> None:
    judgement = found("zero-mass-accepted", "permissive")["bush-2"]
    row = where(judgement)
    case = GROUPS["permissive"].cases[2]
    assert row.kind == "token"
    assert case.target_probs[row.node, row.token] == 0.0
    assert row.token in case.tree.child_tokens(row.node)


def test_edits_match_once() -> None:
    for mutant in MUTANTS.values():
        with pytest.raises(ValueError, match="matches 0 times"):
            mutant.edit("nothing of the kind")
