"""Decoding is right under every rule, however the batch is made up; what a verifier is handed is what it relies on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from cases.sequences import OF_RULE
from harness.decode.decoder import Decoder, verifying
from harness.decode.markov import state
from harness.decode.sequences import SequenceCase, SequenceGroup, SequencePlan
from harness.filters import SamplingParams
from harness.request import Request
from harness.samplers.reference import Reference
from harness.samplers.sglang_tree_port import TreePort

from .build import decode, group, shuffled

Ints = NDArray[np.int64]
GROUPS = [(rule, drafts.name) for rule, several in OF_RULE.items() for drafts in several]


def plan_of(made: SequenceGroup, n: int = 256) -> SequencePlan:
    return SequencePlan(made, "tests", 0, n)


@pytest.mark.parametrize(("rule", "drafts"), GROUPS)
def test_decoding_is_right(rule: str, drafts: str) -> None:
    assert decode(group(rule, drafts), 1 << 11).seen() == set()


def test_the_kernel_in_numpy_decodes_right_whatever_the_numbering_and_sibling_order() -> None:
    assert decode(shuffled("target-only", "ddtree"), 1 << 11, lambda made: TreePort(32)).seen() == set()


def test_a_step_accepts_no_more_than_the_depth_limit_allows() -> None:
    made = group("target-only", "ddtree")
    shallow = SequenceGroup("shallow", tuple(replace(case, depth_limit=2) for case in made.cases))
    run = decode(shallow, 1 << 11)
    assert run.seen() == set()
    accepted, steps = (sum(part.accepted for part in run.parts), sum(int(part.steps.sum()) for part in run.parts))
    assert 0 < accepted <= steps


def plain_greedy(case: SequenceCase) -> list[int]:
    """Decode token by token: the likeliest after the last two, until the end."""
    known = list(case.prompt)
    for _ in range(case.new_tokens):
        row = case.logits[state(known[-2], known[-1], case.vocab)]
        known.append(int(row.argmax()))
        if known[-1] == case.eos:
            break
    return known[len(case.prompt) :]


@pytest.mark.parametrize("drafts", ["ddtree", "eagle", "chain"])
def test_greedy_equals_plain_greedy_decoding_token_for_token(drafts: str) -> None:
    made = group("greedy", drafts)
    run = decode(made, 16)
    assert not run.faults
    for g, case in enumerate(made.cases):
        rows = run.tokens[run.which == g]
        assert len(rows) == 16
        for row in rows:
            assert [token for token in row.tolist() if token >= 0] == plain_greedy(case)


@pytest.mark.parametrize("drafts", ["ddtree", "eagle", "chain"])
def test_sampling_at_temperature_zero_equals_greedy(drafts: str) -> None:
    """Claim: one verify for both. The sampling walk on laws of one outcome commits what the greedy one does."""
    made = group("greedy", drafts)
    greedy = decode(made, 16)
    sampled = decode(made, 16, lambda made: Reference("target-only"))
    np.testing.assert_array_equal(greedy.tokens, sampled.tokens)
    for one, other in zip(greedy.parts, sampled.parts, strict=True):
        np.testing.assert_array_equal(one.steps, other.steps)


@pytest.mark.parametrize("rows", [1, 3, 64, 1000])
def test_it_does_not_matter_how_many_are_under_way_at_a_time(rows: int) -> None:
    made = group("target-only", "eagle")
    batch = plan_of(made).batch(0)
    decoder = Decoder(made, verifying(Reference("target-only")))
    few, all_at_once = decoder.decode(batch, rows), decoder.decode(batch, len(batch))
    np.testing.assert_array_equal(few.tokens, all_at_once.tokens)
    np.testing.assert_array_equal(few.steps, all_at_once.steps)
    assert not few.faults


@pytest.mark.parametrize(("rule", "drafts"), [("target-only", "ddtree"), ("block", "chain")])
def test_equal_sequences_come_out_equal(rule: str, drafts: str) -> None:
    """Equal coins, seeds and prompts, in other rows and at other times; most other pairs differ."""
    made = group(rule, drafts)
    batch, twins = plan_of(made).repeats()
    found = Decoder(made, verifying(Reference(rule))).decode(batch)
    np.testing.assert_array_equal(batch.seeds[twins[:, 0]], batch.seeds[twins[:, 1]])
    np.testing.assert_array_equal(found.tokens[twins[:, 0]], found.tokens[twins[:, 1]])
    np.testing.assert_array_equal(np.sort(twins, axis=None), np.arange(len(batch)))
    assert len(np.unique(batch.seeds)) == len(batch) // 2


def test_seeds_differ_between_sequences_and_calls() -> None:
    plan = plan_of(group("target-only", "ddtree"), 1 << 12)
    seeds = np.concatenate([plan.batch(number).seeds for number in range(plan.calls)])
    assert plan.calls > 1
    assert len(np.unique(seeds)) == len(seeds) == 4 << 12


class Watching:
    """Looks at what it is handed, overwrites it, and verifies."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Ints]] = []
        self.widths: list[int] = []

    def verify(self, request: Request) -> object:
        self.requests.append({"seeds": request.seeds.copy(), "positions": request.positions.copy()})
        self.widths.append(request.batch)
        assert (request.candidates[np.arange(request.nodes) >= request.node_count[:, None]] == 0).all()
        sums = request.target_probs.sum(axis=2, dtype=np.float64)
        np.testing.assert_allclose(sums, 1.0, atol=1e-5)
        result = Reference("target-only").verify(request)
        for name in (
            "candidates",
            "parents",
            "node_count",
            "retrieve_next_token",
            "retrieve_next_sibling",
            "positions",
        ):
            getattr(request, name)[:] = 0
        for name in ("target_probs", "coins", "final_coins"):
            getattr(request, name)[:] = 0.0
        return result


def test_a_verifier_may_overwrite_its_request_and_gets_growing_positions() -> None:
    made, watching = group("target-only", "ddtree"), Watching()
    batch = plan_of(made, 64).batch(0)
    found = Decoder(made, verifying(watching)).decode(batch)
    plain = Decoder(made, verifying(Reference("target-only"))).decode(batch)
    assert not found.faults
    np.testing.assert_array_equal(found.tokens, plain.tokens)
    pairs = np.concatenate([np.column_stack([r["seeds"], r["positions"]]) for r in watching.requests])
    assert len(np.unique(pairs, axis=0)) == len(pairs) == found.steps.sum()
    prompts = {int(seed): len(made.cases[g].prompt) for seed, g in zip(batch.seeds, batch.which, strict=True)}
    first: dict[int, int] = {}
    for seed, position in pairs.tolist():
        assert position > first.get(seed, 0)
        first.setdefault(seed, position)
    assert first == prompts


def test_sequences_of_a_batch_end_at_different_times_and_leave_their_rows_to_others() -> None:
    made, watching = group("target-only", "ddtree"), Watching()
    batch = plan_of(made, 512).batch(0)
    found = Decoder(made, verifying(watching)).decode(batch, 40)
    assert len(batch) == 256
    assert len(set(found.steps.tolist())) > 2
    assert max(watching.widths) == 40
    assert watching.widths[-1] < 40
    assert watching.widths.count(40) > found.steps.max()


def test_what_a_case_must_be_is_said() -> None:
    case = group("target-only", "ddtree").cases[0]
    for change, message in (
        ({"logits": case.logits[1:]}, "logits must have a row for each pair"),
        ({"trees": case.trees[1:]}, "trees must be one a state"),
        ({"nodes": 2}, "nodes must be at least"),
        ({"prompt": (1,)}, "prompt must be two tokens or more"),
        ({"prompt": (1, 99)}, "prompt must be two tokens or more"),
        ({"new_tokens": 0}, "new_tokens must be at least 1"),
        ({"eos": 99}, "eos must be a token"),
    ):
        with pytest.raises(ValueError, match=message):
            replace(case, **change)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must agree in depth_limit"):
        SequenceGroup("g", (case, replace(case, name="other", depth_limit=2)))
    with pytest.raises(ValueError, match="different names"):
        SequenceGroup("g", (case, replace(case, params=SamplingParams(0.5))))
