"""Print what is measured of every claim, as a table in Markdown."""

from __future__ import annotations

from collections.abc import Iterable

from harness.stats.verdict import Judgement

from . import (
    accept_index_includes_the_root,
    batches_of_every_acceptance,
    commit_is_shared,
    filters_before_the_kernel,
    numbering_of_nodes,
    order_of_siblings,
    ties,
    verify_cost,
    zeros_for_draft_probs,
)

KERNEL, THREADS = "sglang-tree-32", 32


def main() -> None:
    """Measure and print, a claim a line."""
    rows = [
        ("1", _zeros()),
        ("2", _order()),
        ("3", _shared()),
        ("4", _root()),
        ("5", _told(filters_before_the_kernel(KERNEL).values())),
        ("6", _ties()),
        ("7", _numbering()),
        ("8", _mixed()),
        ("9", _cost()),
    ]
    print("| claim | measured |\n|---|---|")
    for number, text in rows:
        print(f"| {number} | {text} |")


def _told(judged: Iterable[Judgement]) -> str:
    several = list(judged)
    biased = sum(one.biased for one in several)
    return (
        f"{len(several)} cases of {several[0].n:,} steps: {biased} biased at alpha {several[0].alpha:g}, "
        f"least p {min(one.p_value for one in several):.2g}, certified TV <= {max(o.certified_tv for o in several):.3f}"
    )


def _zeros() -> str:
    found = zeros_for_draft_probs(THREADS)
    return (
        f"{_told(found.shapes.values())}; exact by coins: {found.grid_differs} sequences differ; the drafter's law in "
        f"its place: TV {found.draft_law_instead:.3f}"
    )


def _order() -> str:
    found = order_of_siblings(KERNEL)
    laws = "; ".join(
        f"{rule}: TV {found.law[rule]:.2g}, accepted {down:.4f} descending, {up:.4f} ascending"
        for rule, (down, up) in found.accepted.items()
    )
    placed = "; ".join(
        f"{rule}: sorted siblings TV {tv:.3f}, acceptance {drawn:.3f} as drawn, {put:.3f} sorted"
        for rule, (tv, drawn, put) in found.sorted_siblings.items()
    )
    return f"{found.orders} orders, exact by coins: {found.kernel_differs} sequences differ; {laws}; {placed}"


def _shared() -> str:
    found = commit_is_shared(KERNEL)
    return (
        f"{found.steps:,} steps at temperature 0 under both kernels: {found.differ} differ in any of the five; "
        f"{found.sequences:,} sequences, {found.sequences_differ} differ"
    )


def _root() -> str:
    found = accept_index_includes_the_root(THREADS)
    return (
        f"{found.steps:,} steps of both kernels: {found.without_root} without the root in column 0, "
        f"{found.counted_otherwise} with another count than accept_token_num + 1"
    )


def _ties() -> str:
    found = ties()
    return (
        f"{found.trees} trees: tied siblings exchanged, largest difference {found.order_apart:.2g}; ties broken "
        f"otherwise: another node drafted in {found.other_tree}, next token apart by {found.next_token_apart:.2g}, "
        f"accepted drafts by up to {found.accepted_apart:.2f}"
    )


def _numbering() -> str:
    found = numbering_of_nodes(KERNEL)
    kinds = ", ".join(f"{kind} {count}" for kind, count in found.differ.items())
    return f"{found.rows:,} rows in each numbering, that emit something else: {kinds}"


def _mixed() -> str:
    found = batches_of_every_acceptance(KERNEL)
    return (
        f"steps that accepted nothing {found.nothing:,}, a part {found.part:,}, all {found.all:,}; {found.batches} "
        f"batches had all three; {found.biased} cases biased, KV and hidden states right"
    )


def _cost() -> str:
    costs = [verify_cost(vocab, batch) for vocab, batch in ((16, 256), (1024, 64), (32000, 8))]
    return "; ".join(
        f"V = {cost.vocab}: {cost.sampling:.0f} us against {cost.greedy:.2f} us, {cost.kernels:.0f} times; with "
        f"softmax and argmax {cost.whole:.1f} times"
        for cost in costs
    )


if __name__ == "__main__":
    main()
