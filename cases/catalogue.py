"""The gate's suites: what every sampler of a rule is run on."""

from __future__ import annotations

from functools import cache

from harness.errors import UsageError
from harness.filters import SamplingParams
from harness.groups import Group
from harness.suite import Suite, SuiteGroup

from .recipe import Recipe

__all__ = ["SUITES", "suite"]

SUITES = {"smoke": 15.0, "standard": 90.0}
"""Suites, with the seconds on two cores that a plugin of 500k rows/s stays within."""

SMALL_VOCAB = 64
DRAWS = {"smoke": (1 << 13, 1 << 13), "standard": (3 << 16, 1 << 14)}
"""Draws a case: with V up to SMALL_VOCAB, and above it."""

P = SamplingParams


def suite(name: str) -> Suite:
    """Return the suite of this name; a UsageError lists those there are."""
    if name == "deep":
        raise UsageError("suite 'deep' is not there yet; suites that are: smoke, standard")
    if name not in SUITES:
        raise UsageError(f"no such suite: {name!r}; expected one of {', '.join(SUITES)}")
    small, large = DRAWS[name]
    groups = [SuiteGroup(group, small if group.vocab <= SMALL_VOCAB else large) for group in _groups()]
    return Suite(name, tuple(groups), SUITES[name])


def _group(
    name: str,
    rule: str,
    recipes: dict[str, Recipe],
    *,
    nodes: int,
    depth_limit: int,
    thresholds: tuple[float, float] = (1.0, 1.0),
) -> Group:
    cases = [
        recipe.make(f"{name}/{key}", rule, nodes=nodes, depth_limit=depth_limit, thresholds=thresholds)
        for key, recipe in recipes.items()
    ]
    return Group(name, tuple(cases))


@cache
def _groups() -> tuple[Group, ...]:
    tree = "target-only"
    return (
        _group(
            "tiny-v4",
            tree,
            {
                "chain": Recipe("chain", "flat", 4, 5, by="top"),
                "star-hot": Recipe("star", "peaked", 4, 4, params=P(1.5)),
                "random-cold": Recipe("binary", "zipf", 4, 6, by="uniform", params=P(0.7)),
                "random-top-k": Recipe("binary", "bimodal", 4, 6, params=P(top_k=3)),
            },
            nodes=6,
            depth_limit=5,
        ),
        _group(
            "odd-v5",
            tree,
            {
                "chain-top-p": Recipe("chain", "zipf", 5, 6, params=P(top_p=0.9)),
                "star": Recipe("star", "flat", 5, 5, by="top"),
                "comb-holes": Recipe("comb", "holes", 5, 7),
                "binary-hot": Recipe("binary", "near-ties", 5, 7, params=P(2.0)),
            },
            nodes=7,
            depth_limit=6,
        ),
        _group(
            "even-v6",
            tree,
            {
                "chain-dyadic": Recipe("chain", "dyadic", 6, 5),
                "ternary": Recipe("ternary", "zipf", 6, 8, by="top"),
                "comb-top-k": Recipe("comb", "flat", 6, 8, params=P(0.8, top_k=4)),
                "binary-ties": Recipe("binary", "ties", 6, 7, by="uniform"),
            },
            nodes=8,
            depth_limit=5,
        ),
        _group(
            "filters-v16",
            tree,
            {
                "temperature": Recipe("random-recursive", "zipf", 16, 12, params=P(0.6)),
                "top-k": Recipe("random-recursive", "flat", 16, 12, by="top", params=P(top_k=5)),
                "top-p": Recipe("wide-random", "bimodal", 16, 12, params=P(top_p=0.8)),
                "all": Recipe("wide-random", "zipf", 16, 12, params=P(1.3, top_k=10, top_p=0.95)),
                "min-p": Recipe("random-recursive", "peaked", 16, 12, by="top", params=P(2.0, min_p=0.05)),
            },
            nodes=12,
            depth_limit=6,
        ),
        _group(
            "depth-limited-v16",
            tree,
            {
                "chain": Recipe("chain", "peaked", 16, 8, by="top"),
                "comb": Recipe("comb", "zipf", 16, 10, by="top"),
                "binary": Recipe("binary", "dyadic", 16, 10, by="top"),
                "random": Recipe("random-recursive", "bimodal", 16, 10, by="top", params=P(0.8)),
            },
            nodes=10,
            depth_limit=3,
        ),
        _group(
            "padded-v16",
            tree,
            {
                "root-only": Recipe("chain", "zipf", 16, 1, likely_zero=True),
                "chain": Recipe("chain", "zipf", 16, 4, by="top", likely_zero=True),
                "star": Recipe("star", "flat", 16, 6, likely_zero=True),
                "comb": Recipe("comb", "bimodal", 16, 7, by="sampled", likely_zero=True, params=P(0.9)),
                "full": Recipe("ternary", "zipf", 16, 12, likely_zero=True),
            },
            nodes=12,
            depth_limit=5,
        ),
        _group(
            "covered-v16",
            tree,
            {
                "chain": Recipe("chain", "dyadic", 16, 4, covered=True),
                "star": Recipe("star", "dyadic", 16, 8, covered=True),
                "ternary": Recipe("ternary", "dyadic", 16, 9, covered=True),
                "random": Recipe("wide-random", "dyadic", 16, 9, covered=True),
            },
            nodes=9,
            depth_limit=4,
        ),
        _group(
            "thresholds-v16",
            tree,
            {
                "chain": Recipe("chain", "zipf", 16, 5, by="top"),
                "star": Recipe("star", "zipf", 16, 6),
                "random": Recipe("random-recursive", "peaked", 16, 8, by="top", params=P(1.5)),
                "comb": Recipe("comb", "bimodal", 16, 8, by="top"),
            },
            nodes=8,
            depth_limit=5,
            thresholds=(0.6, 0.8),
        ),
        _group(
            "wide-v4100",
            tree,
            {
                "chain": Recipe("chain", "zipf", 4100, 4, by="top"),
                "star-top-p": Recipe("star", "peaked", 4100, 6, params=P(1.2, top_p=0.95)),
                "random-top-k": Recipe("random-recursive", "llm-like", 4100, 6, by="top", params=P(0.9, top_k=50)),
                "holes": Recipe("wide-random", "holes", 4100, 6, by="top", params=P(0.7)),
            },
            nodes=6,
            depth_limit=4,
        ),
        _group(
            "plain-v16",
            "plain",
            {
                "flat": Recipe("chain", "flat", 16, 1),
                "cold": Recipe("chain", "zipf", 16, 1, params=P(0.5)),
                "top-k": Recipe("chain", "bimodal", 16, 1, params=P(top_k=6)),
                "top-p": Recipe("chain", "holes", 16, 1, params=P(1.4, top_p=0.9)),
            },
            nodes=1,
            depth_limit=1,
        ),
    )
