"""The claims about verifying DDTree's drafts with SGLang's tree kernel, each held to its verdict in ``docs/claims.md``.

Judgements are made at alpha 1e-9 a case: all of this file together call a right kernel wrong once in 10^7 runs. The
figures come from :mod:`cases.claims`; ``python -m cases.claims`` prints them.
"""

from __future__ import annotations

import pytest

from harness.samplers.registry import sampler

from .claims import (
    accept_index_includes_the_root,
    batches_of_every_acceptance,
    commit_is_shared,
    filters_before_the_kernel,
    numbering_of_nodes,
    order_of_siblings,
    sequences_decoded,
    ties,
    verify_cost,
    zeros_for_draft_probs,
)

KERNEL, THREADS = "sglang-tree-32", 32
PRODUCTION = "sglang-tree"


@pytest.fixture(autouse=True, scope="module")
def kernels() -> None:
    """Have the vendor's kernels compiled, or skip where they cannot run."""
    for name in (KERNEL, PRODUCTION, "sglang-tree-greedy"):
        reason = sampler(name).unavailable()
        if reason is not None:
            pytest.skip(f"{name}: {reason}")
        sampler(name).prepare()


def test_1_zeros_for_draft_probs_are_right_for_any_tree() -> None:
    """Holds: by count over all coins on one tree, by chi-square on shapes of every kind; a draft law there is wrong."""
    found = zeros_for_draft_probs(THREADS)
    assert found.grid_differs == 0
    assert len(found.shapes) >= 12
    assert not any(one.biased for one in found.shapes.values())
    assert max(one.certified_tv for one in found.shapes.values()) < 0.06
    assert found.draft_law_instead > 0.1


def test_2_descending_order_of_siblings_is_not_needed() -> None:
    """Does not hold, but for thresholds below 1; where rules of rejection draw siblings, sorting them is a fault."""
    found = order_of_siblings(KERNEL)
    assert (found.orders, found.kernel_differs) == (12, 0)
    for rule in ("target-only", "sampler-match", "greedy"):
        assert found.law[rule] < 1e-12
        down, up = found.accepted[rule]
        assert down == pytest.approx(up, abs=1e-12)
    assert found.law["target-only, threshold_acc 0.5"] > 0.01
    for tv, _, _ in found.sorted_siblings.values():
        assert tv > 0.01


def test_3_commit_can_be_shared_between_greedy_and_sampling() -> None:
    """Holds: at temperature 0 both kernels lead to the same five intermediates in every step."""
    found = commit_is_shared(KERNEL, 1 << 6)
    assert (found.differ, found.sequences_differ) == (0, 0)
    assert found.steps > 1000


def test_4_accept_index_includes_the_root() -> None:
    """Holds: column 0 is the root, whatever was accepted, and accept_token_num does not count it."""
    found = accept_index_includes_the_root(THREADS)
    assert (found.without_root, found.counted_otherwise) == (0, 0)
    assert found.steps >= 10_000


def test_5_filters_can_precede_the_kernel() -> None:
    """Holds: the kernel's law is that of the filtered law, for each filter and all together."""
    found = filters_before_the_kernel(KERNEL, 1 << 14)
    assert set(found) == {"none", "temperature", "top-k", "top-p", "all"}
    assert not any(one.biased for one in found.values())
    assert max(one.certified_tv for one in found.values()) < 0.06


def test_6_ties_in_log_weight_change_order_and_what_is_drafted_but_no_law() -> None:
    """Holds for siblings; at the budget's edge another node is drafted, which changes acceptance but no law."""
    found = ties()
    assert found.order_apart < 1e-12
    assert found.next_token_apart < 1e-12
    assert found.other_tree > 0
    assert found.accepted_apart > 0.0


def test_7_the_kernel_does_not_depend_on_the_numbering_of_nodes() -> None:
    """Holds: with the coins of the same nodes, every row emits the same tokens."""
    found = numbering_of_nodes(KERNEL)
    assert set(found.differ.values()) == {0}
    assert len(found.differ) == 4
    assert found.rows >= 10_000


def test_8_no_some_and_all_accepted_commit_rightly_in_one_batch() -> None:
    """Holds: by the law of the sequences, and by reading KV and hidden states back after every step."""
    found = batches_of_every_acceptance(KERNEL, 1 << 10)
    assert min(found.nothing, found.part, found.all) > 500
    assert found.batches > 50
    assert found.biased == 0


def test_9_sampling_verify_costs_more_than_greedy_verify() -> None:
    """Measured, on kernels that accept the same nodes; the figures are in docs/claims.md."""
    cost = verify_cost(256, 64, rounds=3)
    assert cost.differ == 0
    assert cost.kernels > 1.0
    assert cost.whole > 1.0


@pytest.mark.slow
@pytest.mark.parametrize("drafts", ["ddtree", "eagle", "chain"])
def test_a_hundred_thousand_sequences_of_the_kernel_in_production_size(drafts: str) -> None:
    """Of four requests in one batch, 32,768 of each: none is biased, and each has its certificate."""
    found = sequences_decoded(PRODUCTION, drafts, 1 << 15)
    assert sum(one.n for one in found) > 100_000
    assert not any(one.biased for one in found)
    assert max(one.certified_tv for one in found) < 0.06


@pytest.mark.slow
def test_claims_about_laws_hold_for_the_kernel_in_production_size() -> None:
    """1 and 7 with 1024 threads a block, which add in another order."""
    zeros = zeros_for_draft_probs(1024, 1 << 12)
    assert zeros.grid_differs == 0
    assert not any(one.biased for one in zeros.shapes.values())
    assert set(numbering_of_nodes(PRODUCTION, 1 << 9).differ.values()) == {0}
