"""What the suites hold for every rule: all pairs and triples of what matters, and each thing that trips a verifier."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product

from cases.arrays import CHAIN_RULES, LARGE, SMALL, Extent, Row, constraints_of, factors
from cases.catalogue import WIDE_IN_SMOKE

from .measure import KINDS, both_suites, every_rule, facts, made

TRIPLE = ("family", "size", "filter")
"""What matters together: of these, every triple of values is wanted."""
EXTENT = {"smoke": SMALL, "standard": LARGE}

Combination = tuple[tuple[str, str], ...]


def combinations_of(rule: str, extent: Extent) -> Iterator[Combination]:
    """Every pair of values, and with triples every one of family, V class and filter, that the constraints allow."""
    columns = factors(rule, extent)
    wanted = list(combinations(sorted(columns), 2))
    if extent.triples and set(TRIPLE) <= set(columns):
        wanted.append(TRIPLE)
    for names in wanted:
        for values in product(*(columns[name] for name in names)):
            if possible(rule, columns, dict(zip(names, values, strict=True))):
                yield tuple(zip(names, values, strict=True))


def possible(rule: str, columns: dict[str, list[str]], given: Row) -> bool:
    """Whether some row with these values meets the constraints."""
    asked = sorted({name for names, _ in constraints_of(rule) for name in names if name in columns})
    choices = [[given[name]] if name in given else columns[name] for name in asked]
    return any(allowed(rule, dict(zip(asked, values, strict=True))) for values in product(*choices))


def allowed(rule: str, row: Row) -> bool:
    return all(holds(row) for names, holds in constraints_of(rule) if set(names) <= set(row))


@both_suites
@every_rule
def test_every_pair_and_triple_is_in_a_case_that_leaves_a_choice(name: str, rule: str) -> None:
    """Triples are of family, V class and filter; smoke has pairs alone, and fewer values, to be done in seconds.

    Rule greedy has no choice to leave: its laws are of one outcome.
    """
    rows = [fact.row for fact in facts(name, rule) if fact.row and (fact.chooses or rule == "greedy")]
    missing = [
        wanted
        for wanted in combinations_of(rule, EXTENT[name])
        if not any(all(row.get(factor) == value for factor, value in wanted) for row in rows)
    ]
    assert not missing, f"{len(missing)} of them: {missing[:5]}"


@both_suites
@every_rule
def test_cases_are_what_their_rows_say(name: str, rule: str) -> None:
    rows = [fact for fact in facts(name, rule) if fact.row]
    assert len(rows) >= (30 if rule == "target-only" or name == "standard" else 20)
    for fact in rows:
        row, params = fact.row, fact.params
        assert row
        assert allowed(rule, row), fact.name
        low, high = {"tiny": (4, 6), "small": (16, 64), "wide": (4096, 4200), "huge": (32768, 1 << 20)}[row["size"]]
        assert low <= fact.vocab <= high, fact.name
        if "filter" in row:
            cuts = {"top-k": params.top_k > 0, "top-p": params.top_p < 1, "min-p": params.min_p > 0}  # type: ignore[attr-defined]
            tempered = params.temperature != 1  # type: ignore[attr-defined]
            filtering = row["filter"]
            assert tempered == (filtering in ("temperature", "all")), fact.name
            assert {cut for cut, on in cuts.items() if on} == (
                set(cuts) if filtering == "all" else {filtering} & set(cuts)
            )
        else:
            assert params.greedy, fact.name  # type: ignore[attr-defined]


@both_suites
@every_rule
def test_trees_are_what_their_rows_say(name: str, rule: str) -> None:
    rows = {fact.name: fact.row for fact in facts(name, rule) if fact.row}
    for case in made(name, rule, vocab=64):
        row, tree = rows.get(case.name), case.tree
        if row is None or rule == "plain":
            continue
        if row["padding"] == "padded":
            assert len(tree) < case.nodes
        elif row.get("shape") != "star":  # of no more children than there are tokens
            assert len(tree) == case.nodes
        if row["depth"] == "limited":
            assert case.depth_limit == 3
        assert (min(case.threshold_single, case.threshold_acc) < 1) == (row.get("thresholds") == "lossy")
        if row["order"] == "listed":
            assert all(list(children) == sorted(children) for children in tree.children)


IMPOSSIBLE: dict[str, dict[str, str]] = {
    "plain": dict.fromkeys(
        (
            "a padded tree where token 0 is likely",
            "a node with three children",
            "a leaf that is a second child",
            "a tree deeper than the limit",
            "token 0 accepted",
            "token V - 1 accepted",
        ),
        "its tree is one node",
    ),
    "greedy": dict.fromkeys(
        ("ties at the top-k cut", "a flat law with V >= 4096 under top-p", "min-p"),
        "filters change nothing at temperature 0",
    ),
    **{
        rule: dict.fromkeys(
            ("a node with three children", "a leaf that is a second child"), "a node of a chain has one child"
        )
        for rule in CHAIN_RULES
    },
}
"""What a rule cannot have, and why."""
SLOW_IN_SMOKE = "a flat law with V >= 4096 under top-p"
"""What smoke leaves to standard for most rules: laws of so many tokens take too long."""


@both_suites
@every_rule
def test_every_rule_has_a_case_of_every_kind_that_it_can_have(name: str, rule: str) -> None:
    found = set().union(*(fact.kinds for fact in facts(name, rule)))
    cannot = set(IMPOSSIBLE.get(rule, {}))
    if name == "smoke" and rule not in WIDE_IN_SMOKE:
        cannot.add(SLOW_IN_SMOKE)
    assert found == set(KINDS) - cannot


@both_suites
@every_rule
def test_requests_of_a_group_differ_in_their_parameters(name: str, rule: str) -> None:
    """In the groups of the arrays."""
    mixed: dict[str, set[object]] = {}
    for fact in facts(name, rule):
        if fact.row:
            mixed.setdefault(fact.group, set()).add(repr(fact.params))
    alike = [group for group, params in mixed.items() if len(params) < 2]
    assert not alike
