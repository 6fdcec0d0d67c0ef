"""What a probe finds of right verifiers, whatever their ways, and of wrong ones, each at its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cases.coins import coin_groups
from cases.probes import default_case, probe_groups
from harness.groups import Group
from harness.measured import Measured
from harness.probegroup import ProbeGroup
from harness.probejudge import ProbeJudgement
from harness.reads import COINS, is_dyadic
from harness.results import Where
from harness.rules import RULES, rule
from harness.samplers.base import Claims
from harness.samplers.reference import Reference
from harness.samplers.sglang_tree_port import TreePort

from . import plugins
from .asking import judged, measured

GROUPS = {group.name: group for group in probe_groups("smoke")}
TARGET_ONLY = [name for name, group in GROUPS.items() if group.rule == "target-only" and not group.outside]
DYADIC, LIMITED, PERMISSIVE = (GROUPS[f"probe/target-only/{key}"] for key in ("dyadic", "limited", "permissive"))


def alone(group: ProbeGroup) -> ProbeGroup:
    """Return the first case of a group as a group."""
    return replace(group, cases=group.cases[:1])


def verdicts(group: ProbeGroup, verifier: object) -> set[str]:
    return {judgement.verdict for judgement in judged(group, verifier).values()}


def top(judgement: ProbeJudgement) -> Where:
    assert judgement.verdict == "biased"
    return judgement.where[0]


@pytest.mark.parametrize("name", GROUPS)
def test_reference_is_right(name: str) -> None:
    group = GROUPS[name]
    if group.outside:
        pytest.skip("no verifier need take it")
    found = judged(group, Reference(group.rule), Claims((group.rule,), coins=True))
    assert {judgement.verdict for judgement in found.values()} == {"pass"}, found


@pytest.mark.parametrize(
    ("verifier", "names"),
    [
        ("Single", TARGET_ONLY),
        *((name, ["dyadic", "gap"]) for name in ("Reversed", "Descending", "Mirrored", "Turned")),
    ],
)
def test_right_verifiers_of_all_kinds_pass(verifier: str, names: list[str]) -> None:
    for name in names:
        group = GROUPS[f"probe/target-only/{name.removeprefix('probe/target-only/')}"]
        assert verdicts(group, getattr(plugins, verifier)()) == {"pass"}, name


def test_a_token_may_have_several_stretches() -> None:
    assert verdicts(alone(DYADIC), plugins.Alias()) == {"pass"}


def test_the_walk_reads_what_is_expected() -> None:
    """No decision of the reference but those that are expected, so that a right verifier is measured quickly."""
    for group in GROUPS.values():
        if group.outside:
            continue
        claims = Claims((group.rule,), coins=True)
        plan, found = measured(group, Reference(group.rule), claims)
        for subject, one in zip(plan.subjects(claims), found, strict=True):
            expected = {read.coin for tokens in one.sequences for read in subject.reads(tokens) if read.open}
            assert one.used <= expected
            assert (one.unresolved, one.loose, one.changed) == ([], [], 0)
            assert one.rows < 100 + 140 * len(subject.case.tree) * (1 + subject.case.vocab // 16)


def test_counts_on_dyadic_laws_are_exact() -> None:
    claims = Claims(("target-only",), coins=True)
    plan, found = measured(DYADIC, plugins.Reversed())
    for subject, one in zip(plan.subjects(claims), found, strict=True):
        assert is_dyadic(subject.case)
        decision = one.decisions[0]
        assert decision.coin == 0
        for label in decision.labels:
            tokens = one.sequences[label]
            if len(tokens) > 1:
                assert decision.stretches.count(label) == subject.case.target_probs[0, tokens[0]] * COINS


def test_one_millionth_at_one_node() -> None:
    found = judged(alone(DYADIC), plugins.OffByMillionth())["bush-0"]
    row = top(found)
    tree = DYADIC.cases[0].tree
    assert (row.node, row.token, row.kind) == (1, tree.child_tokens(1)[0], "accepted-draft")
    assert round((row.observed - row.expected) * COINS) == 17
    last = top(judged(alone(DYADIC), plugins.LastOffByMillionth())["bush-0"])
    assert (last.node, last.kind) == (0, "last")


def test_one_coin() -> None:
    for case, judgement in judged(DYADIC, plugins.OneCoin()).items():
        row = top(judgement)
        assert row.kind in ("accepted-draft", "token"), case
        assert abs(round((row.observed - row.expected) * COINS)) == 1


def test_coins_of_other_nodes() -> None:
    found = judged(alone(DYADIC), plugins.RootsCoinAtTheEnd())["bush-0"]
    assert found.reason is not None
    assert "(node 1) the last token is drawn with the coin of node 0" in found.reason
    parents = judged(alone(DYADIC), plugins.ParentsCoin())["bush-0"]
    assert parents.reason is not None
    assert "(node 3) acceptance is decided by the coin of node 1" in parents.reason
    two = judged(alone(DYADIC), plugins.TwoCoins())["bush-0"]
    assert two.reason is not None
    assert "at the root (node 0) acceptance is decided by the coin of node 7" in two.reason


def test_residual() -> None:
    found = judged(alone(DYADIC), plugins.KeepsRejected())["bush-0"]
    row = top(found)
    assert row.kind == "last"
    assert row.token in DYADIC.cases[0].tree.child_tokens(row.node)


def test_depth_limit() -> None:
    row = top(judged(LIMITED, plugins.Deeper())["bush-0"])
    assert row.kind == "length"
    assert len(row.prefix) == LIMITED.depth_limit - 1


def test_draft_without_mass() -> None:
    row = top(judged(PERMISSIVE, plugins.ZeroMass())["bush-2"])
    case = PERMISSIVE.cases[2]
    assert row.kind == "token"
    assert case.target_probs[row.node, row.token] == 0.0
    assert row.token in case.tree.child_tokens(row.node)
    assert verdicts(DYADIC, plugins.ZeroMass()) == {"pass"}


def test_island() -> None:
    found = [judgement for judgement in judged(LIMITED, plugins.Island()).values() if judgement.verdict == "biased"]
    row = top(found[0])
    assert (row.prefix, row.kind) == ([], "last")


def test_noise_of_its_own() -> None:
    found = judged(alone(DYADIC), plugins.OwnNoise())["bush-0"]
    assert found.verdict == "biased"
    assert found.reason is not None
    assert "asked again with equal coins" in found.reason


def test_what_is_scattered_is_not_judged() -> None:
    """Other ways to read a coin are allowed, only that bisection does not find its law."""
    found = judged(DYADIC, plugins.Scattered())
    assert {judgement.verdict for judgement in found.values()} == {"skipped"}
    assert "strewn" in str(found["bush-0"].reason)


def test_coins_that_decide_nothing_are_named() -> None:
    detail = judged(alone(DYADIC), plugins.ParentsCoin())["bush-0"].detail
    assert detail["coins_never_read"]
    assert not judged(alone(DYADIC), plugins.Right())["bush-0"].detail["coins_never_read"]


def test_gap_and_repeated_siblings_of_the_port() -> None:
    group = GROUPS["probe/target-only/gap"]
    for member, judgement in zip(coin_groups()[0].members, judged(group, TreePort()).values(), strict=True):
        row = top(judgement)
        case = member.case
        covered = {0: [], 1: [5]}[len(member.coins) - 1]
        assert (row.prefix, row.token, row.kind) == (covered, case.vocab - 1, "token")
        assert row.observed * COINS == 1.0  # of the coins at that node, whatever the final coin
    repeated = judged(GROUPS["probe/target-only/repeated-siblings"], TreePort())["between"]
    row = next(row for row in repeated.where if row.token == 0)
    assert row.observed == pytest.approx(2 * row.expected, abs=1e-6)


def test_equal_seeds_give_equal_results() -> None:
    runs: list[list[Measured]] = [measured(DYADIC, plugins.Single(), seed=seed)[1] for seed in (1, 1, 2)]
    tables = [[[d.stretches.starts.tolist() for d in one.decisions] for one in run] for run in runs]
    rows = [[one.rows for one in run] for run in runs]
    assert tables[0] == tables[1]
    assert rows[0] == rows[1]
    held = [[d.held.tolist() for d in run[0].decisions] for run in runs]
    assert held[0] == held[1] != held[2]


def test_groups_are_what_their_rules_take() -> None:
    for name in ("smoke", "standard"):
        groups = probe_groups(name)
        assert {group.rule for group in groups} == set(RULES) - {"none-chain"}
        for group in groups:
            assert isinstance(group.group, Group)
            for case in group.cases:
                if not group.outside:
                    rule(case.rule).check(case)
        exact = {group.rule for group in groups if all(map(is_dyadic, group.cases))}
        assert {"plain", "target-only", "sampler-match", "none"} <= exact


def test_edges_are_among_the_cases() -> None:
    """Zero mass, p = 1, covered supports, a mass below the normal ones, thresholds 0 and 1, V = 1, padding, depth."""
    cases = [case for group in probe_groups("smoke") if group.rule == "target-only" for case in group.cases]
    drafts = [
        (case, float(case.target_probs[node, token]))
        for case in cases
        for node in range(len(case.tree))
        for token in case.tree.child_tokens(node)
    ]
    masses = [mass for _, mass in drafts]
    assert {0.0, 1.0} <= set(masses)
    assert any(0.0 < mass < 2.0**-126 for mass in masses)
    covered = [
        case
        for case in cases
        if set((case.target_probs[0] > 0).nonzero()[0].tolist()) <= set(case.tree.child_tokens(0)) and case.vocab > 1
    ]
    assert any(is_dyadic(case) for case in covered)
    assert not all(is_dyadic(case) for case in covered)
    assert {(1.0, 1.0), (0.6, 0.8), (0.0, 1.0), (1.0, 0.0)} == {(c.threshold_single, c.threshold_acc) for c in cases}
    assert any(case.vocab == 1 for case in cases)
    assert any(case.nodes > len(case.tree) for case in cases)
    assert any(case.tree.depth.max() >= case.depth_limit for case in cases)
    for case in (case for case in cases if case.tree.depth.max() >= case.depth_limit and is_dyadic(case)):
        assert (rule("target-only").law(case).lengths[1:] > 0).all()


def test_default_cases() -> None:
    for name in set(RULES) - {"none-chain"}:
        case = default_case(name)
        assert case is not None
        assert case.vocab == 16
        assert len(case.tree) == {"plain": 1, "rejection": 4, "block": 4}.get(name, 8)
        if rule(name).shape == "tree" and not rule(name).redraws and name != "greedy":
            assert set(rule(name).law(case).node.tolist()) == set(range(8)), "every node can be reached"
    assert default_case("none-chain") is None


BOUNDARIES = GROUPS["probe/target-only/boundaries"]


@pytest.mark.parametrize("name", ["Filters", "Joint"])
def test_samplers_that_filter_for_themselves(name: str) -> None:
    for group in (BOUNDARIES, GROUPS["probe/target-only/rounded"]):
        assert verdicts(group, getattr(plugins, name)()) == {"pass"}, group.name


@pytest.mark.parametrize(
    ("verifier", "case", "reading"),
    [
        ("JointSaysSequential", "top-k-then-top-p-or-joint", "joint"),
        ("VllmSaysSequential", "min-p-first-or-last", "vllm"),
    ],
)
def test_the_reading_that_is_followed_is_named(verifier: str, case: str, reading: str) -> None:
    found = judged(BOUNDARIES, getattr(plugins, verifier)())[case]
    assert found.verdict == "biased"
    (entry,) = found.diagnosis
    assert entry["fits"]
    assert reading in entry["bug"]
    assert "as claimed" not in entry["bug"]


def test_the_reading_of_a_right_sampler_is_named_too() -> None:
    found = judged(BOUNDARIES, plugins.Filters())["top-k-then-top-p-or-joint"]
    (entry,) = found.diagnosis
    assert "sequential, as claimed" in entry["bug"]
