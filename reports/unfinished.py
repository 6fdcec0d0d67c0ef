"""A run that has not come to its end, since it was killed or still goes on: what of it is judged."""

from __future__ import annotations

from msgspec import UNSET

from harness.results import Results, SamplerResult

__all__ = ["go_on", "heading", "judged", "progress", "unfinished_lines"]


def heading(results: Results) -> str:
    """Return the verdict in capitals; of a run that has not come to its end, that it has not."""
    verdict = results.verdict.upper()
    if results.unfinished is UNSET:
        return verdict
    return "UNFINISHED" if verdict == "PASS" else f"{verdict}, UNFINISHED"


def progress(results: Results) -> str:
    """Say how many cases are judged of a run that has not come to its end; nothing where it has."""
    if results.unfinished is UNSET:
        return ""
    done = {sampler.name: len(sampler.cases) for sampler in results.samplers}
    asked = results.unfinished.cases
    planned = sum(max(asked.get(name) or 0, done.get(name, 0)) for name in {**asked, **done})
    waiting = sum(cases is None for name, cases in asked.items() if not done.get(name))
    text = f"{sum(done.values())} of {planned} cases judged" if planned else "no case judged"
    return text + (f", {waiting} sampler{'s' * (waiting > 1)} not begun" if waiting else "")


def judged(results: Results, sampler: SamplerResult) -> str:
    """Say how many cases are judged of a sampler that has some left, where the run has not come to its end."""
    asked = None if results.unfinished is UNSET else results.unfinished.cases.get(sampler.name)
    return "" if asked is None or asked <= len(sampler.cases) else f"{len(sampler.cases)} of {asked} cases judged"


def go_on(results: Results, folder: str = "DIR, the folder of results.json") -> str:
    """Say how to go on with a run that has not come to its end; nothing where it has, or where nothing can."""
    if results.unfinished is UNSET or not results.unfinished.resumable:
        return ""
    return f"go on with: chitree gate --resume {folder}"


def unfinished_lines(results: Results, folder: str) -> list[str]:
    """Say of a run in ``folder`` that it has not come to its end, and how to go on; nothing where it has."""
    done = progress(results)
    return [f"{heading(results)}: {done}", *filter(None, [go_on(results, folder)])] if done else []
