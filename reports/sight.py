"""What a case could have seen: the smallest bias of each kind, or that none of whatever size is seen."""

from __future__ import annotations

from collections.abc import Callable

from harness.results import CaseResult, SamplerResult

from .deviation import percent

__all__ = ["UNSEEN", "least_seen", "not_seen", "seen_from", "sightless", "size"]

UNSEEN = "unseen"
"""What stands for a bias that is not seen, of whatever size."""


def least_seen(case: CaseResult, bias: str, show: Callable[[float | None], str] | None = None) -> str:
    """Return the smallest ``bias`` that a case sees; "-" where there is none, UNSEEN where it sees none of any size."""
    least = case.min_detectable
    value = getattr(least, bias)
    return UNSEEN if bias in least.unseen else size(bias, value) if show is None else show(value)


def size(bias: str, value: float | None) -> str:
    """Return a bias in per cent; an error of the temperature above 100% as a factor."""
    if bias == "temperature" and value is not None and value > 1.0:
        return f"× {1.0 + value:.3g}"
    return percent(value)


def seen_from(case: CaseResult) -> list[str]:
    """Say from which size on each bias would have been seen with 90% power, a phrase each."""
    least = case.min_detectable
    phrases = {
        "move": "of all steps moved from one outcome to another",
        "leak": "of all steps emitting an impossible token at the root",
        "temperature": "off in temperature, at every node",
    }
    found = ((size(bias, getattr(least, bias)), phrase) for bias, phrase in phrases.items())
    return [f"{how} {phrase}" for how, phrase in found if how != "-"]


def not_seen(case: CaseResult) -> str:
    """Say which biases are not seen at all at this number of draws, however large; nothing where all are."""
    kinds = {"move": "move of mass", "temperature": "error of the temperature"}
    named = [kinds.get(name, name) for name in case.min_detectable.unseen]
    return f"no {' and no '.join(named)} is seen at this number of draws, of whatever size" if named else ""


def sightless(sampler: SamplerResult) -> dict[str, int]:
    """Return in how many cases with draws no move, leak or temperature error is seen, of those where there are any."""
    unseen = [bias for case in sampler.cases if case.random for bias in case.min_detectable.unseen]
    return {bias: unseen.count(bias) for bias in ("move", "leak", "temperature") if bias in unseen}
