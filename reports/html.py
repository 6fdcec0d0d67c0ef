"""A run as one HTML file that needs nothing else: no network, no script to be read, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from harness.errors import Unavailable
from harness.results import CaseResult, Results, SamplerResult, TreePicture

from .deviation import describe, figure, p_figure, p_said, places, printable, top
from .plots import cells_plot, tree_plot
from .sight import least_seen, not_seen, seen_from, sightless, size
from .summary import ORDER, outcome, tally, worst_figures
from .unfinished import go_on, heading, judged, progress

__all__ = ["html"]

MOST_FAILING, MOST_PASSING = 150, 100
"""Cases of a report that are drawn, the least p-values first."""
MOST_TOLD = 2000
"""Cases of a report that say more than their figures, in the same order."""
WHERE_ROWS = 10
WHERE_ROWS_PASSING = 3
OPEN = 2
"""Failing cases of a sampler that stand open."""
FIXED = ("test", "p_value", "decides", "share", "rng", "alpha", "biased", "says")
"""Of a test, what is shown in columns of its own, or for machines only."""


@dataclass(frozen=True)
class _Case:
    """A case as the template shows it; ``members`` are those of its group that share its fate without draws."""

    id: str
    result: CaseResult
    members: tuple[CaseResult, ...] = ()
    tree: str = ""
    cells: tuple[tuple[str, str], ...] = ()
    level: float = 0.0
    left_out: int = 0
    drawn: bool = False
    told: bool = True


@dataclass(frozen=True)
class _Sampler:
    """A sampler as the template shows it."""

    id: str
    result: SamplerResult
    failing: tuple[_Case, ...]
    groups: tuple[tuple[str, tuple[_Case, ...]], ...]

    @property
    def cases(self) -> dict[str, str]:
        """The anchor of every case by its name."""
        return {
            member.case: case.id
            for _, cases in self.groups
            for case in cases
            for member in (case.members or (case.result,))
        }


def html(results: Results, path: Path) -> None:
    """Write ``results`` to ``path`` as one HTML file.

    Raises
    ------
    Unavailable
        Where jinja2 is not installed, saying how to get it.
    """
    try:
        import jinja2
    except ModuleNotFoundError:
        raise Unavailable("the HTML report needs jinja2: pip install 'chitree[report]'") from None
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.filters |= {"figure": figure, "p": p_figure, "p_said": p_said, "detail": _detail}
    environment.globals |= {
        "describe": describe,
        "least_seen": least_seen,
        "not_seen": not_seen,
        "places": places,
        "sightless": sightless,
        "size": size,
        "top": top,
        "seen_from": seen_from,
        "tally": tally,
        "worst_figures": worst_figures,
        "where_rows": lambda case: WHERE_ROWS_PASSING if case.verdict == "pass" else WHERE_ROWS,
        "open_cases": OPEN,
    }
    samplers = sorted(_samplers(results), key=lambda view: ORDER.index(view.result.verdict))
    text = environment.get_template("report.html.jinja").render(
        results=results,
        outcome=outcome(results),
        heading=heading(results),
        progress=progress(results),
        go_on=go_on(results),
        judged=lambda sampler: judged(results, sampler),
        samplers=samplers,
        matrix=list(_matrix([view.result for view in samplers])),
        verdicts=[verdict for verdict, _ in tally(case for s in results.samplers for case in s.cases)],
    )
    path.write_text(text, encoding="utf-8")


def _samplers(results: Results) -> Iterator[_Sampler]:
    """Yield the samplers, those that ask for attention first."""
    drawn, told = _drawn(results)
    for s, sampler in enumerate(results.samplers):
        views = [_case(f"s{s}c{c}", case, (s, c) in drawn, (s, c) in told) for c, case in enumerate(sampler.cases)]
        failing = [view for view in views if view.result.verdict in ("biased", "known", "fixed")]
        failing.sort(key=lambda view: (ORDER.index(view.result.verdict), _rank(view.result)))
        groups = groupby(views, key=lambda view: view.result.group)
        yield _Sampler(f"s{s}", sampler, tuple(failing), tuple((name, tuple(_merged(group))) for name, group in groups))


def _merged(cases: Iterable[_Case]) -> Iterator[_Case]:
    """Yield cases, those without draws that share verdict and reason as one."""
    for _, some in groupby(cases, key=lambda case: (case.result.verdict, case.result.reason, case.result.n)):
        same = tuple(some)
        if same[0].result.verdict in ("broken", "skipped"):
            yield _Case(same[0].id, same[0].result, tuple(case.result for case in same), told=same[0].told)
        else:
            yield from same


def _drawn(results: Results) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return which cases are drawn and which told in full, as (sampler, case): failing ones first, by their p-value."""
    places = [(s, c, case) for s, sampler in enumerate(results.samplers) for c, case in enumerate(sampler.cases)]
    places.sort(key=lambda place: (place[2].verdict == "pass", _rank(place[2])))
    told = {(s, c) for s, c, _ in places[:MOST_TOLD]}
    drawn: set[tuple[int, int]] = set()
    for passing, most in ((False, MOST_FAILING), (True, MOST_PASSING)):
        some = [(s, c) for s, c, case in places if case.tree is not None and (case.verdict == "pass") == passing]
        drawn.update(some[:most])
    return drawn & told, told


def _rank(case: CaseResult) -> float:
    return 2.0 if case.p_value is None else case.p_value


def _case(name: str, case: CaseResult, drawn: bool, told: bool) -> _Case:
    if not drawn or case.tree is None or not case.tree.nodes:
        return _Case(name, case, told=told)
    tree = case.tree
    failed = case.verdict != "pass"
    marked = _marked(case, tree) if failed else None
    cells = next((part for part in case.evidence if part.get("test") == "cells"), {}).get("cells")
    threshold = case.alpha / max(1, cells if isinstance(cells, int) else 1) if failed else 0.0
    plots = []
    rows = [(i, node.cells) for i, node in enumerate(tree.nodes) if node.cells is not None]
    rows.sort(key=lambda row: (row[0] != marked, _node_rank(tree, row[0])))
    for i, spelt in rows:
        leads = {node.token: node.node for node in tree.nodes[1:] if node.parent == i} if not tree.redrawn else {}
        after = _prefix(tree, i)
        place = f"after {' '.join(map(str, after))}" if after else "at the root"
        place += f" (node {tree.nodes[i].node})" if after and not tree.redrawn else ""
        plots.append((f"{place}: {spelt.trials:,} draws", cells_plot(spelt, leads, flag=failed)))
    return _Case(
        name,
        case,
        tree=tree_plot(tree, case.n, marked, threshold),
        cells=tuple(plots),
        level=tree.level,
        left_out=tree.left_out,
        drawn=True,
    )


def _marked(case: CaseResult, tree: TreePicture) -> int | None:
    """Return the index of the node that deviates: of the first place, or of least p-value; None where none does."""
    rows = places(case)
    if rows:
        for i in range(len(tree.nodes)):
            if _prefix(tree, i) == rows[0].prefix:
                return i
    elif case.where:
        return None
    ranks = [_node_rank(tree, i) for i in range(len(tree.nodes))]
    return ranks.index(min(ranks)) if min(ranks) < 2.0 else None


def _node_rank(tree: TreePicture, i: int) -> float:
    p_value = tree.nodes[i].p_value
    return 2.0 if p_value is None else p_value


def _prefix(tree: TreePicture, i: int) -> list[int]:
    """Return the tokens that lead to node ``i`` of the picture."""
    tokens: list[int] = []
    while 0 <= tree.nodes[i].parent < i:
        tokens.append(tree.nodes[i].token)
        i = tree.nodes[i].parent
    return tokens[::-1]


def _matrix(samplers: list[SamplerResult]) -> Iterator[tuple[str, list[list[CaseResult]]]]:
    """Yield each rule with the cases of every sampler."""
    rules = dict.fromkeys(case.rule for sampler in samplers for case in sampler.cases)
    for rule in rules:
        yield rule, [[case for case in sampler.cases if case.rule == rule] for sampler in samplers]


def _detail(entry: dict[str, Any]) -> str:
    """Return what a test says besides its p-value, in words."""
    said = []
    for key, value in entry.items():
        if key not in FIXED:
            said.append("at the root" if (key, value) == ("prefix", []) else f"{key.replace('_', ' ')} {_value(value)}")
    return "; ".join(said)


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "unknown"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return " ".join(map(_value, value)) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_value(entry)}" for key, entry in value.items()) or "none"
    return str(value)
