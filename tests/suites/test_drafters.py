"""Cases whose trees come from drafters: the trees are theirs, go deep, and are accepted to every depth."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest

from cases.drafters import DRAFTERS, Drafter, drafter_cases
from cases.recipe import Frame
from harness.case import Case
from harness.rules import RULES

from .measure import both_suites, entries

IN_SMOKE = ("greedy", "target-only")
RULES_WITH = (*IN_SMOKE, "sampler-match", "none")
FRAME = Frame("target-only", 16, 20, 6)


def drafted(name: str, rule: str) -> Iterator[Case]:
    for entry in entries(name, rule):
        if "/drafters" in entry.name and entry.vocab <= 64:
            yield from entry.group.cases


@both_suites
@pytest.mark.parametrize("rule", RULES_WITH)
def test_every_drafter_is_in_the_suites(name: str, rule: str) -> None:
    cases = list(drafted(name, rule))
    if name == "smoke" and rule not in IN_SMOKE:
        assert not cases
        return
    wanted = set(DRAFTERS) - ({"sampled-chain"} if rule == "greedy" else set())
    assert {builder for case in cases for builder in DRAFTERS if f"/{builder}-" in case.name} == wanted
    lengths = np.sum([RULES[rule].law(case).lengths for case in cases], axis=0) if name == "smoke" else None
    if lengths is not None:
        assert (lengths[1:] > 0).sum() >= (4 if rule == "greedy" else 6)  # from nothing accepted to all


@both_suites
def test_where_children_cover_a_support_no_coin_is_left_over(name: str) -> None:
    """Else a right answer depends on the float32 order of a sum, which is what coin cases are for."""
    for case in drafted(name, "target-only"):
        tree, probs = case.tree, case.target_probs
        for node in range(len(tree)):
            tokens = tree.child_tokens(node)
            if tokens and set(np.flatnonzero(probs[node])) <= set(tokens):
                running = np.float32(0)
                for token in tokens:
                    running += probs[node, token]
                assert running >= 1, f"{case.name}, node {node}"


@pytest.mark.parametrize("builder", DRAFTERS)
def test_trees_are_of_their_kind(builder: str) -> None:
    case = Drafter("bimodal", draft="noisy", builder=builder).make("drafters/test", FRAME)
    tree, widths = case.tree, [len(children) for children in case.tree.children]
    if builder.endswith("chain"):
        assert max(widths) == 1
        assert len(tree) == 7  # one deeper than S allows
    else:
        assert len(tree) == FRAME.nodes
        assert max(widths) >= 2
        assert tree.depth.max() >= 3
    if builder == "ddtree":
        assert (np.diff([int(tree.depth[node]) for node in range(len(tree))]) < 0).any()  # as the heap gave them
    if builder == "eagle":
        assert max(widths) <= 4
        assert all(tree.depth[one] <= tree.depth[other] for one, other in pairwise(range(len(tree))))


@pytest.mark.parametrize("builder", DRAFTERS)
def test_made_again_a_case_is_the_same(builder: str) -> None:
    recipe = Drafter("zipf", "top-p", draft="sharper", shuffled=True, builder=builder)
    one, other = (recipe.make("drafters/test", FRAME) for _ in range(2))
    np.testing.assert_array_equal(one.logits, other.logits)
    assert one.tree.children == other.tree.children
    assert one.tree.tokens.tolist() == other.tree.tokens.tolist()


def test_shuffling_changes_numbers_and_order_only() -> None:
    recipe = Drafter("bimodal", draft="noisy", builder="ddtree")
    plain = recipe.make("drafters/test", FRAME)
    shuffled = Drafter("bimodal", draft="noisy", builder="ddtree", shuffled=True).make("drafters/test", FRAME)

    def by_path(case: Case) -> dict[tuple[int, ...], bytes]:
        return {
            tuple(int(case.tree.tokens[step]) for step in case.tree.path(node)): case.logits[node].tobytes()
            for node in range(len(case.tree))
        }

    assert by_path(plain) == by_path(shuffled)
    assert plain.tree.tokens.tolist() != shuffled.tree.tokens.tolist()


def test_recipes_have_names_of_their_own() -> None:
    for rule in RULES_WITH:
        for recipes in drafter_cases(rule).values():
            assert len({tuple(recipe.words) for recipe in recipes}) == len(recipes) >= 4
