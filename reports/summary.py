"""A run in few figures: how many cases came out how, and what a pass could have missed at worst."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from harness.results import CaseResult, Results, SamplerResult

from .unfinished import progress

__all__ = ["ORDER", "draws", "outcome", "tally", "worst_figures"]

ORDER = ("biased", "broken", "known", "fixed", "skipped", "pass")
"""Verdicts, what asks for attention first."""


def tally(cases: Iterable[CaseResult]) -> list[tuple[str, int]]:
    """Return how many cases came out how, without zeros."""
    verdicts = [case.verdict for case in cases]
    return [(verdict, verdicts.count(verdict)) for verdict in ORDER if verdict in verdicts]


def outcome(results: Results) -> str:
    """Say in a sentence what the run found."""
    done = progress(results)
    return f"the run has not come to its end, {done}; so far {_outcome(results)}" if done else _outcome(results)


def _outcome(results: Results) -> str:
    samplers = results.samplers
    biased = sum(sampler.verdict == "biased" for sampler in samplers)
    broken = sum(sampler.verdict == "broken" for sampler in samplers)
    all_of = f"{len(samplers)} sampler{'s' * (len(samplers) > 1)}"
    unjudged = f"{broken} could not be judged in full"
    if biased:
        text = f"{biased} of {all_of} {'does' if biased == 1 else 'do'} not follow the exact law"
        return f"{text}; {unjudged}" if broken else text
    if broken:
        return f"no bias found, but of {all_of} {unjudged}"
    if not any(sampler.cases for sampler in samplers):
        return "no case ran"
    return f"no deviation from the exact law was found in {'the sampler' if len(samplers) == 1 else f'any of {all_of}'}"


def worst_figures(sampler: SamplerResult) -> dict[str, float | None]:
    """Return the largest certified TV, move, leak and temperature error over the cases with draws; None for unknown."""
    drawn = [case for case in sampler.cases if case.random]

    def largest(value: Callable[[CaseResult], float | None]) -> float | None:
        return max((figure for figure in map(value, drawn) if figure is not None), default=None)

    return {
        "certified_tv": largest(lambda case: case.certified_tv),
        "move": largest(lambda case: case.min_detectable.move),
        "leak": largest(lambda case: case.min_detectable.leak),
        "temperature": largest(lambda case: case.min_detectable.temperature),
    }


def draws(sampler: SamplerResult) -> str:
    """Return the draws of a case, or the range of them."""
    counts = {case.n for case in sampler.cases if case.random}
    if not counts:
        return "-"
    return f"{min(counts):,}" if len(counts) == 1 else f"{min(counts):,} to {max(counts):,}"
