"""The gate's suites: what every sampler of a rule is run on.

The cases of a rule are the rows of its covering array, put into groups of equal V, N, S and thresholds, and a few
groups of their own for what no array holds: laws with one outcome, children that cover the support, large trees, laws
on which rules that look alike part ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache

from harness.errors import UsageError
from harness.groups import Group
from harness.suite import Suite, SuiteGroup

from .arrays import (
    ARRAY_RULES,
    CHAIN_RULES,
    FILTERS,
    LARGE,
    REDRAWN_RULES,
    SIZES,
    SMALL,
    TREE_RULES,
    Extent,
    Row,
    covering_array,
    factors,
)
from .boundaries import boundary_groups
from .coins import coin_groups
from .drafters import drafter_cases
from .findings import known_findings
from .mixups import mixup_groups
from .probes import probe_groups
from .recipe import Frame, Recipe
from .sequences import sequence_groups

__all__ = ["SUITES", "array_rows", "suite"]

LEAST_GROUP, LARGEST_GROUP = 4, 8
LOSSLESS, LOSSY = (1.0, 1.0), (0.6, 0.8)


@dataclass(frozen=True)
class Size:
    """A class of vocabularies: the V that its groups take in turn, and the shape of their cases."""

    vocabs: tuple[int, ...]
    nodes: int
    depth_limit: int
    redrawn: tuple[int, ...]
    """The V where drafts are redrawn: with few tokens, a certificate over whole sequences wants few of these."""
    chain: int
    """Nodes of a chain whose drafts are redrawn: its prefixes are enumerated."""
    support: int
    """Tokens of a draft law there."""


SIZE = {
    "tiny": Size((5, 6, 4), nodes=8, depth_limit=5, redrawn=(5, 6, 4), chain=3, support=6),
    "small": Size((16, 16, 64), nodes=12, depth_limit=6, redrawn=(24, 18, 64), chain=4, support=12),
    "wide": Size((4100, 4098, 4097), nodes=6, depth_limit=4, redrawn=(4100, 4098, 4097), chain=3, support=6),
    "huge": Size((32768, 32770, 151936), nodes=3, depth_limit=3, redrawn=(32768, 32770, 151936), chain=3, support=4),
}
LIMITED_DEPTH = 3
WIDE_IN_SMOKE = ("plain", "greedy", "target-only")
STATES = {"tiny": 13, "small": 13, "wide": 7, "huge": 3}


@dataclass(frozen=True)
class Scale:
    """How much a suite takes: draws a case of each size, its arrays' extent, seconds for a quick plugin, and sequences.

    The latter are those of a case of many steps; 0 leaves such cases out.
    """

    draws: dict[str, int]
    extent: Extent
    seconds: float
    sequences: int = 0


SUITES = {
    "smoke": Scale({"tiny": 7 << 10, "small": 7 << 10, "wide": 3 << 11}, SMALL, seconds=15.0),
    "standard": Scale(
        {"tiny": 3 << 16, "small": 3 << 16, "wide": 1 << 12, "huge": 1 << 8}, LARGE, seconds=90.0, sequences=3 << 15
    ),
    "deep": Scale(
        {"tiny": 3 << 19, "small": 3 << 19, "wide": 1 << 16, "huge": 1 << 12}, LARGE, seconds=1800.0, sequences=3 << 18
    ),
}


@cache
def suite(name: str) -> Suite:
    """Return the suite of this name; a UsageError lists those there are."""
    if name not in SUITES:
        raise UsageError(f"no such suite: {name!r}; expected one of {', '.join(SUITES)}")
    scale = SUITES[name]
    groups = [entry for rule in ARRAY_RULES for entry in _groups(rule, scale)]
    sequences = sequence_groups(scale.sequences) if scale.sequences else ()
    return Suite(name, tuple(groups), scale.seconds, coin_groups(), known_findings(), sequences, probe_groups(name))


@cache
def array_rows(name: str) -> dict[str, Row]:
    """Return the row of its rule's array that each case of a suite was made from; cases of its own groups have none."""
    packs = [pack for rule in ARRAY_RULES for pack in _packs(rule, SUITES[name])]
    return {
        case: row
        for group, frame, _, rows in packs
        for case, row in zip(_names(group, frame, _recipes(rows)), rows, strict=True)
    }


def _groups(rule: str, scale: Scale) -> Iterator[SuiteGroup]:
    for name, frame, size, rows in _packs(rule, scale):
        yield _group(name, frame, _recipes(rows), scale.draws[size])
    yield from _own_groups(rule, scale)


def _packs(rule: str, scale: Scale) -> Iterator[tuple[str, Frame, str, list[Row]]]:
    """Yield the groups of a rule's array: the name, what its cases share, the size, and the row of each case."""
    packs: dict[tuple[str, str, str], list[Row]] = {}
    for row in _rows(rule, scale):
        key = (row["size"], row.get("depth", "full"), row.get("thresholds", "lossless"))
        packs.setdefault(key, []).append(row)
    number: dict[str, int] = {}
    for (size, depth, thresholds), rows in sorted(packs.items(), key=lambda item: SIZES.index(item[0][0])):
        for part in _parts(rows):
            turn = number[size] = number.get(size, -1) + 1
            yield f"{rule}/{size}-{turn}", _frame(rule, size, turn, depth, thresholds), size, part


def _rows(rule: str, scale: Scale) -> Iterator[Row]:
    """Yield the rows of a suite: its array, and in smoke a few wide laws for some rules only, since they are slow."""
    yield from covering_array(rule, scale.extent)
    if "wide" in scale.extent.sizes or rule not in WIDE_IN_SMOKE:
        return
    shared = {"size": "wide", "shape": "comb", "by": "top", "padding": "none", "order": "shuffled", "draft": "noisy"}
    columns = factors(rule, LARGE)
    for family in ("flat", "llm-like"):
        for filtering in ("none", "top-p") if family == "flat" else ("top-k", "all"):
            row = {**shared, "family": family, "filter": filtering}
            yield {name: value for name, value in row.items() if name in columns}


def _recipes(rows: Sequence[Row]) -> list[Recipe]:
    """Return the recipes of the rows of a group."""
    return [_recipe(row, turn) for turn, row in enumerate(rows)]


def _recipe(row: Row, turn: int) -> Recipe:
    return Recipe(
        family=row["family"],
        filter=row.get("filter", "argmax"),
        shape=row.get("shape", "chain"),
        by=row.get("by", "sampled"),
        draft=row.get("draft", "noisy"),
        padded=row.get("padding") == "padded",
        shuffled=row.get("order") == "shuffled",
        idle=turn,
    )


def _frame(rule: str, name: str, turn: int, depth: str = "full", thresholds: str = "lossless") -> Frame:
    """Return what the cases of the ``turn``-th group of a size share."""
    size = SIZE[name]
    vocabs = size.redrawn if rule in REDRAWN_RULES else size.vocabs
    vocab = vocabs[turn % len(vocabs)]
    if rule == "plain":
        return Frame(rule, vocab, 1, 1)
    limit = LIMITED_DEPTH if depth == "limited" else size.depth_limit
    lossy = LOSSY if thresholds == "lossy" else LOSSLESS
    if rule not in REDRAWN_RULES:
        return Frame(rule, vocab, size.nodes, limit, lossy)
    support = min(size.support, vocab)
    if rule in CHAIN_RULES:  # one node more than the depth limit takes, where that is to bite
        return Frame(
            rule, vocab, size.chain + (depth == "limited"), min(limit, size.chain), lossy, STATES[name], support
        )
    return Frame(rule, vocab, size.nodes, min(limit, LIMITED_DEPTH + 1), lossy, STATES[name], support)


def _parts(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Cut rows into parts of a group's size, so that each has requests with different filters.

    Too few rows are made up by the same ones again, with other filters.
    """
    more = [
        {**row, "filter": FILTERS[(FILTERS.index(row["filter"]) + again) % len(FILTERS)]} if "filter" in row else row
        for again in range(1, LEAST_GROUP)
        for row in rows
    ]
    rows = sorted([*rows, *more[: max(0, LEAST_GROUP - len(rows))]], key=lambda row: row.get("filter", ""))
    parts = -(-len(rows) // LARGEST_GROUP)
    yield from (list(rows[i::parts]) for i in range(parts))


def _names(group: str, frame: Frame, recipes: Sequence[Recipe]) -> list[str]:
    """Name cases for what they are, with a number where that is not unique."""
    names: list[str] = []
    for recipe in recipes:
        words = recipe.words + ([recipe.draft] if frame.states else [])
        base = f"{group}/{'-'.join(words)}"
        names.append(f"{base}-{len(names)}" if base in names else base)
    return names


def _group(name: str, frame: Frame, recipes: Sequence[Recipe], n: int) -> SuiteGroup:
    names = _names(name, frame, recipes)

    def make() -> Group:
        return Group(name, tuple(recipe.make(key, frame) for key, recipe in zip(names, recipes, strict=True)))

    shape = (frame.vocab, frame.nodes, frame.depth_limit, frame.thresholds)
    return SuiteGroup(name, frame.rule, tuple(names), n, make, *shape)


def _own_groups(rule: str, scale: Scale) -> Iterator[SuiteGroup]:
    """Yield the groups that are in no array."""
    draws = scale.draws["small"]
    frame = _frame(rule, "small", 0)
    single = Recipe("zipf", shape="star" if rule not in CHAIN_RULES and rule != "plain" else "chain", by="top")
    if rule != "greedy":
        outcomes = [replace(single, filter=name) for name in ("argmax", "cold", "top-1", "least-top-p")]
        few = max(1 << 12, draws >> 3)
        yield _group(f"{rule}/one-outcome", frame, [*outcomes, replace(single, family="one-hot")], few)
    if rule in ("plain", "greedy", *TREE_RULES):
        for group in boundary_groups(rule):
            yield SuiteGroup.of(group, draws)
    if rule in TREE_RULES:
        covered = [Recipe("dyadic", shape=shape, covered=True) for shape in ("chain", "star", "ternary", "wide-random")]
        yield _group(f"{rule}/covered", replace(frame, nodes=9, depth_limit=4), covered, draws)
        if scale.extent is LARGE:
            shapes = ("chain", "comb", "random-recursive", "wide-random")
            large = [Recipe("zipf", "top-p", shape=shape, by="top", shuffled=True) for shape in shapes]
            yield _group(f"{rule}/large-tree", replace(frame, nodes=68, depth_limit=8), large, draws)
    if rule in ("greedy", *TREE_RULES):
        yield from _drafter_groups(rule, scale)
    if rule in REDRAWN_RULES:
        for group in mixup_groups(rule):
            yield SuiteGroup.of(group, draws)


def _drafter_groups(rule: str, scale: Scale) -> Iterator[SuiteGroup]:
    """Yield the groups whose trees come from drafters; in smoke, those of SGLang's own rules, and small trees alone."""
    if scale.extent is not LARGE and rule not in ("greedy", "target-only"):
        return
    frame, recipes = _frame(rule, "small", 0), drafter_cases(rule)
    yield _group(f"{rule}/drafters", frame, recipes["few"], scale.draws["small"])
    if scale.extent is LARGE:
        many = replace(frame, vocab=64, nodes=32, depth_limit=8)
        yield _group(f"{rule}/drafters-many-nodes", many, recipes["many"], scale.draws["small"])
        wide = replace(frame, vocab=4098, nodes=24)
        yield _group(f"{rule}/drafters-wide", wide, recipes["few"], scale.draws["wide"])
