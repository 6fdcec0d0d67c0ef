"""Layer L0, support: an emission that the law gives probability zero is proof of a fault, at any n."""

from __future__ import annotations

from ..counts import PrefixCounts
from .evidence import Evidence

__all__ = ["support"]


def support(counts: PrefixCounts) -> Evidence:
    """Test that nothing impossible was emitted.

    The p-value is 0 if anything was, else 1. A correct sampler never fails, so no share of alpha is spent; a sampler
    that leaks at rate r passes n draws with probability (1 - r)^n.
    """
    kinds: dict[str, int] = {}
    for stray in counts.strays:
        kinds[stray.kind] = kinds.get(stray.kind, 0) + stray.count
    detail = {"impossible": sum(kinds.values()), "kinds": kinds, "n": counts.n}
    return Evidence("support", 0.0 if counts.strays else 1.0, decides=True, share=1.0, detail=detail)
