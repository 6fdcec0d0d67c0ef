"""Layer L0, support: an emission that the law gives probability zero is proof of a fault, at any n."""

from __future__ import annotations

from ..counts import PrefixCounts
from ..law import Law
from .decided import undecided_mass
from .evidence import Evidence

__all__ = ["support"]


def support(counts: PrefixCounts, law: Law | None = None) -> Evidence:
    """Test that nothing impossible was emitted.

    The p-value is 0 if anything was, else 1. A correct sampler never fails, so no share of alpha is spent; a sampler
    that leaks at rate r passes n draws with probability (1 - r)^n. Of a ``law`` with undecided tokens, which are
    possible, their mass is reported.
    """
    kinds: dict[str, int] = {}
    for stray in counts.strays:
        kinds[stray.kind] = kinds.get(stray.kind, 0) + stray.count
    detail: dict[str, object] = {"impossible": sum(kinds.values()), "kinds": kinds, "n": counts.n}
    undecided = None if law is None else undecided_mass(law, counts)
    if undecided is not None:
        detail["undecided"] = undecided
    return Evidence("support", 0.0 if counts.strays else 1.0, decides=True, share=1.0, detail=detail)
