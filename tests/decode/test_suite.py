"""The suites' cases of many steps: what they see and certify, and that no float32 sum decides anything in them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cases.catalogue import suite
from cases.sequences import OF_RULE
from harness.decode.markov import state
from harness.decode.sequences import SequenceCase
from harness.rules import RULES
from harness.stats.alpha import case_alpha
from harness.stats.certificate import MISS
from harness.stats.outcomes import outcome_law
from harness.stats.power import least_leak, worst_move
from harness.suite import SequenceEntry

ENTRIES = {entry.name: entry for entry in suite("standard").sequences}
every_group = pytest.mark.parametrize("name", ENTRIES)


def test_every_rule_has_its_groups_and_smoke_has_none() -> None:
    assert {entry.rule for entry in ENTRIES.values()} == set(RULES) == set(OF_RULE)
    for rule in ("greedy", "target-only", "sampler-match", "none"):
        assert {name.split("/")[2] for name, entry in ENTRIES.items() if entry.rule == rule} == {
            "ddtree",
            "eagle",
            "chain",
        }
    assert not suite("smoke").sequences
    assert suite("standard").sizes["plain"] == 4 + sum(
        len(entry.names) for entry in suite("standard").groups if entry.rule == "plain"
    )


@every_group
def test_sizes_are_those_of_the_entry(name: str) -> None:
    entry = ENTRIES[name]
    made = entry.group
    assert (made.name, made.rule, made.vocab) == (entry.name, entry.rule, entry.vocab)
    assert (made.nodes, made.depth_limit) == (entry.nodes, entry.depth_limit)
    assert tuple(case.name for case in made.cases) == entry.names
    assert len({len(case.prompt) for case in made.cases}) > 1
    assert len({case.new_tokens for case in made.cases}) > 1
    assert min(case.new_tokens for case in made.cases) >= 8
    assert any(case.eos is not None for case in made.cases)


def expected_certificate(entry: SequenceEntry, case: SequenceCase) -> float:
    """Return about what a right sampler is certified to: the mean distance of counts, and the bound's own term."""
    table = outcome_law(case.law())
    mean = float(np.sqrt(table * (1.0 - table)).sum()) / math.sqrt(2.0 * math.pi * entry.n)
    return mean + math.sqrt(math.log(1.0 / MISS) / (2.0 * entry.n))


@every_group
def test_standard_sees_a_hundredth_and_certifies_two(name: str) -> None:
    """At the least share of alpha that a case has, that in the run of a sampler of all rules."""
    entry = ENTRIES[name]
    alpha = case_alpha(1e-6, sum(suite("standard").sizes.values()))
    for case in entry.group.cases:
        law = case.law()
        assert expected_certificate(entry, case) < 0.02, case.name
        leak = least_leak(law, entry.n)
        assert leak is not None
        assert leak < 1e-3
        move = worst_move(law, entry.n, alpha)
        assert (move is None) == case.params.greedy
        assert move is None or move.mass < 0.01, case.name


@every_group
def test_children_do_not_cover_what_the_filters_leave(name: str) -> None:
    """Or one token is left: then its probability is 1, and no sum is rounded."""
    group = ENTRIES[name].group
    for case in group.cases:
        possible = case.laws.target_probs > 0
        if case.how != "given":
            widest = max(len(children) for children in case.trees[0].children)
            support = possible.sum(axis=1)
            assert ((support == 1) | (support > widest)).all()
            continue
        for s, tree in enumerate(case.trees):
            assert tree.tokens[0] == s % case.vocab
            assert tree.has_distinct_siblings
            for node, children in enumerate(tree.children):
                above = s // case.vocab if node == 0 else int(tree.tokens[tree.parents[node]])
                left = np.flatnonzero(possible[int(state(above, tree.tokens[node], case.vocab))])
                assert len(left) == 1 or not set(left.tolist()) <= {int(tree.tokens[child]) for child in children}


@every_group
def test_no_token_hangs_on_rounding(name: str) -> None:
    from harness.filters import SEMANTICS
    from harness.margins import claimed_rows

    for case in ENTRIES[name].group.cases:
        for semantics in SEMANTICS.values():
            assert not claimed_rows(case.laws.target_logits, case.params, semantics).undecided.any()


@every_group
def test_laws_differ_between_cases_and_states(name: str) -> None:
    group = ENTRIES[name].group
    rows = np.concatenate([case.logits for case in group.cases])
    assert len(np.unique(rows, axis=0)) == len(rows)
