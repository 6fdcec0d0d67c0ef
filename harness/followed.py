"""Which reading of the filters a sampler that filters for itself has followed, whatever it claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from .case import Case
from .counts import SequenceCounts
from .filters import SEMANTICS, Semantics, target_probs
from .rules import rule
from .stats.outcomes import outcomes_of
from .stats.verdict import judge

__all__ = ["followed", "readings"]

MOST_VOCAB = 1024
"""Beyond this, the readings are not tried: the dedicated cases are small."""


def readings(claimed: Semantics) -> Iterator[tuple[str, Semantics]]:
    """Yield the readings that can be told apart, each with its name: as claimed, other orders, other single fields."""
    yield f"{claimed.name}, as claimed", claimed
    for name, other in SEMANTICS.items():
        if (other.order, other.joint) != (claimed.order, claimed.joint):
            yield name, replace(claimed, name=name, order=other.order, joint=other.joint)
    for name, other in (
        ("top-k ties all kept", replace(claimed, top_k_ties="all")),
        ("exactly top-k kept", replace(claimed, top_k_ties="exact")),
        ("top-p stopping where it is reached", replace(claimed, top_p_boundary="stop")),
        ("top-p keeping one token more", replace(claimed, top_p_boundary="one-more")),
        ("any of equal maxima", replace(claimed, greedy_ties="any")),
        ("the first of equal maxima", replace(claimed, greedy_ties="first")),
        ("min-p applied", replace(claimed, min_p="applied")),
        ("min-p ignored", replace(claimed, min_p="ignored")),
    ):
        if other != claimed:
            yield f"{claimed.name} with {name}", other


def followed(
    case: Case, claimed: Semantics, counts: SequenceCounts, alpha: float, rng: np.random.Generator
) -> list[dict[str, Any]]:
    """Return the readings that ``counts`` can come from and by which laws differ, as entries of a diagnosis.

    Laws are the plain ones, without margins, equal maxima at temperature 0 read as the first. Readings of one law are
    one entry; nothing is returned where all readings have one law. ``log_likelihood_ratio`` is against the claim, None
    where an emission is impossible under it.
    """
    if case.vocab > MOST_VOCAB:
        return []
    laws: dict[bytes, list[str]] = {}
    for name, semantics in readings(claimed):
        rows = target_probs(case.target_logits, case.params, semantics)
        laws.setdefault(np.round(rows, 9).tobytes(), []).append(name)
    if len(laws) < 2:
        return []
    by_name = dict(readings(claimed))
    base = _log_likelihood(case, claimed, counts)
    found = []
    for names in laws.values():
        law = rule(case.rule).law(case, target_probs(case.target_logits, case.params, by_name[names[0]]))
        if judge(law, counts, alpha, rng, conditional=rule(case.rule).lossless_only).biased:
            continue
        own = _log_likelihood(case, by_name[names[0]], counts)
        ratio = own - base if np.isfinite(base) else None
        found.append({"bug": f"filters read as: {' or '.join(names)}", "log_likelihood_ratio": ratio, "fits": True})
    return found


def _log_likelihood(case: Case, semantics: Semantics, counts: SequenceCounts) -> float:
    law = rule(case.rule).law(case, target_probs(case.target_logits, case.params, semantics))
    _, _, probability = outcomes_of(law, counts)
    with np.errstate(divide="ignore"):
        return float(np.dot(counts.counts, np.log(probability)))
