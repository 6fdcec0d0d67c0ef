"""Covering arrays: which values of which factors come together in the cases of a rule.

One array a rule and extent. Every pair of values occurs in some row, and in the larger arrays every triple of family,
size and filter, as far as the constraints allow. covertable found the rows, which are stored beside this file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = [
    "ARRAY_RULES",
    "CHAIN_RULES",
    "FILTERS",
    "LARGE",
    "REDRAWN_RULES",
    "SIZES",
    "SMALL",
    "TREE_RULES",
    "Extent",
    "Row",
    "constraints_of",
    "covering_array",
    "factors",
    "find_array",
]

Row = Mapping[str, str]

FAMILIES = (
    "flat", "zipf", "peaked", "bimodal", "holes", "ties", "near-ties", "rounding-prone", "dyadic", "llm-like",
)  # fmt: skip
SIZES = ("tiny", "small", "wide", "huge")
"""Classes of V: 4 to 6; 16 and 64; about 4,100; 32,768 and above."""
FILTERS = ("none", "temperature", "top-k", "top-p", "min-p", "all")
SHAPES = ("chain", "star", "binary", "ternary", "comb", "random-recursive", "wide-random")
DRAFTS = ("equal", "sharper", "flatter", "noisy", "shifted", "disjoint", "argmax")

BRIEF = {
    "family": ("zipf", "holes", "ties", "dyadic"),
    "shape": ("chain", "ternary", "comb", "random-recursive"),
    "by": ("top", "sampled", "unlikely"),
    "draft": ("equal", "noisy", "shifted", "disjoint"),
}
"""What the smaller arrays are down to, but for rule target-only, whose production kernel every smoke run is about."""

CHAIN_RULES = ("rejection", "block", "none-chain")
REDRAWN_RULES = (*CHAIN_RULES, "rejection-replacement", "rejection-no-replacement")
TREE_RULES = ("target-only", "sampler-match", "none")
ARRAY_RULES = ("plain", "greedy", *TREE_RULES, *REDRAWN_RULES)


@dataclass(frozen=True)
class Extent:
    """How much an array covers: families, sizes, and whether all triples of family, size and filter beside all pairs.

    A ``brief`` one keeps to the values of BRIEF for all rules but target-only.
    """

    name: str
    families: tuple[str, ...]
    sizes: tuple[str, ...]
    triples: bool
    brief: bool = False


SMALL = Extent("small", ("zipf", "bimodal", "holes", "ties", "dyadic"), SIZES[:2], triples=False, brief=True)
LARGE = Extent("large", FAMILIES, SIZES, triples=True)
STORE = Path(__file__).with_name("arrays.json")


def factors(rule: str, extent: Extent) -> dict[str, list[str]]:
    """Return the factors of a rule and their values."""
    columns = _factors(rule, extent)
    if extent.brief and rule != "target-only":
        columns |= {
            name: [value for value in columns[name] if value in BRIEF[name]] for name in BRIEF if name in columns
        }
    return columns


def _factors(rule: str, extent: Extent) -> dict[str, list[str]]:
    shared = {"family": list(extent.families), "size": list(extent.sizes)}
    if rule == "plain":
        return {**shared, "filter": list(FILTERS)}
    shared |= {"depth": ["full", "limited"], "padding": ["none", "padded"], "order": ["listed", "shuffled"]}
    if rule == "greedy":
        return {**shared, "shape": list(SHAPES), "by": ["top", "sampled"]}
    shared["filter"] = list(FILTERS)
    if rule in CHAIN_RULES:
        return {**shared, "draft": list(DRAFTS)}
    if rule in REDRAWN_RULES:
        return {**shared, "draft": list(DRAFTS), "shape": ["star", "binary", "ternary", "comb"]}
    shared |= {"shape": list(SHAPES), "by": ["top", "sampled", "uniform", "unlikely"]}
    return {**shared, "thresholds": ["lossless", "lossy"]} if rule == "target-only" else shared


def constraints_of(rule: str) -> list[tuple[tuple[str, ...], Callable[[Row], bool]]]:
    """Return the constraints: the factors that each reads, and what must hold."""
    constraints: list[tuple[tuple[str, ...], Callable[[Row], bool]]] = [
        # The float32 loss shows where tokens are many; with few it is a peaked law.
        (("family", "size"), lambda row: row["family"] != "rounding-prone" or row["size"] != "tiny"),
        # A heavy tail above a noise floor needs a vocabulary.
        (("family", "size"), lambda row: row["family"] != "llm-like" or row["size"] in ("wide", "huge")),
    ]
    if rule in (*TREE_RULES, "greedy"):
        # Up to five children, more than four tokens can tell apart.
        constraints.append((("shape", "size"), lambda row: row["shape"] != "wide-random" or row["size"] != "tiny"))
    if rule == "rejection-no-replacement":
        # One token cannot be drawn twice.
        constraints.append((("draft",), lambda row: row["draft"] != "argmax"))
    return constraints


@cache
def _stored() -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(STORE.read_text())
    return found


def covering_array(rule: str, extent: Extent) -> tuple[Row, ...]:
    """Return the rows for a rule.

    They are read from arrays.json beside this file, so that a suite does not change with a library's version.
    """
    columns = factors(rule, extent)
    return tuple(
        {name: columns[name][int(digit)] for name, digit in zip(sorted(columns), digits, strict=True)}
        for digits in _stored()[f"{rule}: {extent.name}"]
    )


def find_array(rule: str, extent: Extent) -> list[str]:
    """Let covertable (extra ``test``) find a covering array; a row is one digit a factor, in order of name."""
    from covertable import make

    columns = factors(rule, extent)
    strong = [name for name in ("family", "size", "filter") if name in columns]
    constraints = [
        {"operator": "fn", "requires": list(names), "evaluate": holds}
        for names, holds in constraints_of(rule)
        if set(names) <= set(columns)
    ]
    rows = make(
        columns,
        strength=2,
        sub_models=[{"fields": strong, "strength": 3}] if extent.triples and len(strong) == 3 else None,
        constraints=constraints,
        salt=rule,
    )
    return ["".join(str(columns[name].index(row[name])) for name in sorted(columns)) for row in rows]


def main() -> None:
    """Find every array anew and store them: ``python -m cases.arrays``."""
    arrays = {f"{rule}: {extent.name}": find_array(rule, extent) for rule in ARRAY_RULES for extent in (SMALL, LARGE)}
    STORE.write_text(json.dumps(arrays, indent=0) + "\n")


if __name__ == "__main__":
    main()
