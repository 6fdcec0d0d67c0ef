"""A run as Markdown, for a pull request or a job summary: verdict first, never longer than such places take."""

from __future__ import annotations

import re
from collections.abc import Iterator

from harness.results import CaseResult, Results, SamplerResult

from .deviation import describe, figure, p_said, places, printable
from .sight import not_seen, seen_from, sightless, size
from .summary import ORDER, draws, outcome, tally, worst_figures
from .unfinished import go_on, heading, judged, progress

__all__ = ["LONGEST", "markdown"]

LONGEST = 65_000
"""Characters; a comment on GitHub takes 65,536, a job summary 1 MiB."""

MARKS = {"pass": "✅", "biased": "❌", "broken": "⚠️", "skipped": "➖", "known": "ℹ️", "fixed": "ℹ️"}
WHERE_ROWS = 5
LONGEST_TEXT = 600
"""Characters of one name or reason."""

_SPECIAL = re.compile(r"[\\`*_{}\[\]<>&#|~@$^!]|:(?=\S)")
Pieces = Iterator[tuple[int, str]]
"""Texts, each with the number of cases that it tells of."""


def markdown(results: Results, longest: int = LONGEST) -> str:
    """Return ``results`` as Markdown of at most ``longest`` characters; what is left out is counted."""
    head = "\n".join(_head(results)) + "\n"
    foot = f"\n{_said(f'chitree {results.chitree}, {results.created}')}\n"
    room = longest - len(head) - len(foot) - 200
    parts, left_out, full = [], 0, False
    for cases, text in _pieces(results):
        full = full or len(text) > room
        if full:
            left_out += cases
            continue
        room -= len(text)
        parts.append(text)
    if left_out:
        parts.append(
            f"\n... and {left_out} more case{'s' * (left_out > 1)} that did not pass; results.json has them all.\n"
        )
    text = head + "".join(parts) + foot
    return text if len(text) <= longest else text[: max(0, longest - 30)] + "\n\n... cut here\n"


def _head(results: Results) -> Iterator[str]:
    done, more = progress(results), go_on(results)
    mark = MARKS["broken" if done and results.verdict == "pass" else results.verdict]
    yield f"## {mark} {heading(results)}: {outcome(results)}\n"
    if more:
        yield f"{more}\n"
    run = f"suite {_said(results.suite)}, alpha {results.alpha:g} a sampler, seed {results.seed}"
    run += ", fresh memory poisoned" * results.poison
    yield f"chitree, {run}. Figures are the worst over the cases; move, leak and temperature: seen with 90% power"
    yield "(unseen in k: so many cases see none, however large).\n"
    yield "| sampler | verdict | cases | draws a case | certified TV ≤ | move | leak | temperature |"
    yield "|---|---|---|---:|---:|---:|---:|---:|"
    for sampler in results.samplers[:50]:
        worst, unseen = worst_figures(sampler), sightless(sampler)
        cells = (
            f"{_code(sampler.name)}, {_said(sampler.runs_on or 'runs nowhere here')}",
            *_verdict(sampler, judged(results, sampler)),
            draws(sampler),
            figure(worst["certified_tv"]),
            *(_worst(size(name, worst[name]), unseen.get(name, 0)) for name in ("move", "leak", "temperature")),
        )
        yield f"| {' | '.join(cells)} |"
    if len(results.samplers) > 50:
        yield f"\n... and {len(results.samplers) - 50} more samplers; results.json has them all."


def _worst(figure: str, unseen: int) -> str:
    """Return the worst figure of a bias, with how many cases see none of it."""
    return f"{figure}, unseen in {unseen}" if unseen else figure


def _verdict(sampler: SamplerResult, so_far: str) -> tuple[str, str]:
    """Return the verdict of a sampler, and how many of its cases came out how."""
    counts = ", ".join(f"{count} {verdict}" for verdict, count in tally(sampler.cases)) or "none ran"
    if so_far and sampler.verdict == "pass":
        return f"{MARKS['broken']} unfinished", f"{so_far}: {counts}"
    return f"{MARKS[sampler.verdict]} {sampler.verdict}", f"{so_far}: {counts}" if so_far else counts


def _pieces(results: Results) -> Pieces:
    """Yield what there is to say in the order of its weight: reasons, what failed, what did not run."""
    for sampler in results.samplers:
        yield from _notes(sampler)
    for sampler in results.samplers:
        failed = [case for case in sampler.cases if case.verdict in ("biased", "known", "fixed")]
        failed.sort(key=lambda case: (ORDER.index(case.verdict), 2.0 if case.p_value is None else case.p_value))
        over_all = [test for test in sampler.suite_tests if test.get("biased")]
        if failed or over_all:
            yield 0, f"\n### {_code(sampler.name)}\n"
        for case in failed:
            yield 1, _case(case)
        for test in over_all:
            said = _said(f"{test.get('test')}: {p_said(test.get('p_value'))}; {test.get('says', 'biased')}")
            yield 0, f"\n- {MARKS['biased']} all cases together, {said}\n"
    for sampler in results.samplers:
        yield from _idle(sampler)


def _notes(sampler: SamplerResult) -> Pieces:
    if sampler.reason:
        yield 0, f"\n{_code(sampler.name)} {sampler.verdict}: {_said(sampler.reason)}\n"
    if sampler.shrink.get("k"):
        reason = _said(str(sampler.shrink.get("reason", "")))
        yield 0, f"\n{_code(sampler.name)} took n / 2^{_said(str(sampler.shrink['k']))} draws a case: {reason}\n"
    for entry in sampler.not_tried:
        said = _said(f"{entry.get('kind', '?')}: {entry.get('reason', 'no reason given')}")
        yield 0, f"\n{_code(sampler.name)} not tried with {said}\n"


def _case(case: CaseResult) -> str:
    """Return a case that failed: what, where, and the line that shows it again."""
    head = f"{p_said(case.p_value)} at alpha {case.alpha:.2g}, n = {case.n:,}"
    lines = [f"\n- {MARKS[case.verdict]} {_code(case.case)} {case.verdict}: {head}"]
    if case.reason:
        lines.append(f"  {_said(case.reason)}")
    rows = places(case)
    if rows:
        lines.append(f"  {_said(describe(rows[0]))}")
    lines += ["", *_fenced(case.reproduce, "  ")]
    more = [_said(describe(row)) for row in rows[1:WHERE_ROWS]]
    more += [f"seen with 90% power: {_said(phrase)}" for phrase in seen_from(case)]
    more += filter(None, [not_seen(case)])
    more += [f"{_said(str(part.get('test')))}: {p_said(part.get('p_value'))}" for part in case.evidence]
    more += [f"bug {_said(str(entry.get('bug')))}" for entry in case.diagnosis if entry.get("fits")]
    if more:
        lines += [
            "",
            "  <details><summary>details</summary>",
            "",
            *(f"  - {entry}" for entry in more),
            "",
            "  </details>",
        ]
    return "\n".join(lines) + "\n"


def _idle(sampler: SamplerResult) -> Pieces:
    """Yield the cases without draws, those of a verdict and reason together."""
    groups: dict[tuple[str, str], list[CaseResult]] = {}
    for case in sampler.cases:
        if case.verdict in ("broken", "skipped"):
            groups.setdefault((case.verdict, case.reason or "no reason given"), []).append(case)
    for (verdict, reason), cases in groups.items():
        some = f"{_code(sampler.name)} {len(cases)} case{'s' * (len(cases) > 1)} {verdict} ({_code(cases[0].case)}"
        text = f"\n- {MARKS[verdict]} {some}{', ...' if len(cases) > 1 else ''}): {_said(reason)}\n"
        if verdict == "broken":
            text += "\n" + "\n".join(_fenced(cases[0].reproduce, "  ")) + "\n"
        yield len(cases), text


def _said(text: str) -> str:
    """Return ``text`` as Markdown that shows it literally: no markup, mention, link or line break of its own."""
    text = printable(text)
    text = text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "..."
    return _SPECIAL.sub(lambda found: f"&#{ord(found[0])};", text).replace("www.", "www&#46;")


def _code(text: str) -> str:
    return f"<code>{_said(text)}</code>"


def _fenced(text: str, indent: str) -> list[str]:
    """Return a code block that ``text`` cannot close."""
    text = printable(text)
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return [f"{indent}{fence}", f"{indent}{text}", f"{indent}{fence}"]
