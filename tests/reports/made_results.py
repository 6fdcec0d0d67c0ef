"""Results for the reports to show, made by hand and by the gate's own functions.

This folder is no package: its name would hide that of the reports themselves.
"""

from __future__ import annotations

from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from harness.case import Case
from harness.counts import SequenceCounts, count_sequences
from harness.law import Law
from harness.picture import picture
from harness.results import CaseResult, MinDetectable, Results, SamplerResult, TreePicture, Where, worst
from harness.rules import rule
from harness.stats.verdict import judge
from harness.tree import Tree
from reports import html

NASTY = "<script>alert(1)</script>|`*_@all [x](y) &amp;\"'\x00\x1b[31m\n# http://evil.example/ \udcff\u202e.py:Ä"


def case(name: str = "g/one", verdict: str = "pass", **fields: Any) -> CaseResult:
    drawn = verdict not in ("broken", "skipped")
    values: dict[str, Any] = {
        "group": name.rpartition("/")[0],
        "rule": "target-only",
        "n": 8192 if drawn else 0,
        "alpha": 2e-8,
        "reason": None if drawn else f"it was {verdict}",
        "p_value": {"pass": 0.4, "biased": 3e-12, "known": 1e-20}.get(verdict),
        "evidence": [{"test": "cells", "p_value": 0.3, "decides": True, "share": 0.4, "cells": 12, "prefix": []}],
        "certified_tv": 0.0512 if drawn else None,
        "min_detectable": MinDetectable(0.0321, 0.00028, 0.105) if drawn else MinDetectable(None, None, None),
        "seconds": 0.5,
        "where": [Where([1, 2], 3, 7, 0.1, 0.25, 1e-12)] if verdict == "biased" else [],
        "reproduce": f"chitree gate --sampler x.py:Y --case '{name}' --shrink 0",
    }
    return CaseResult(case=name, verdict=verdict, **{**values, **fields})  # type: ignore[arg-type]


def sampler(name: str, *cases: CaseResult, **fields: Any) -> SamplerResult:
    values: dict[str, Any] = {
        "runs_on": "cpu",
        "versions": {"numpy": "2.0"},
        "verdict": worst([entry.verdict for entry in cases]),
    }
    return SamplerResult(name=name, cases=list(cases), **{**values, **fields})


def results(*samplers: SamplerResult, **fields: Any) -> Results:
    values: dict[str, Any] = {
        "chitree": "0.1.0",
        "created": "2020-01-01T00:00:00+00:00",
        "seed": 0,
        "alpha": 1e-6,
        "suite": "smoke",
        "verdict": worst([entry.verdict for entry in samplers]),
    }
    return Results(samplers=list(samplers), **{**values, **fields})


@cache
def small_case() -> Case:
    """Return a root with children 1 and 2, a child 3 of the first, and a draft 4 of probability 0; V = 6."""
    rng = np.random.default_rng(7)
    logits = rng.normal(0.0, 1.0, (5, 6)).astype(np.float32)
    logits[0, 4] = -np.inf
    tree = Tree(np.array([0, 1, 2, 3, 4]), np.array([-1, 0, 0, 1, 0]))
    return Case(name="g/small", rule="target-only", tree=tree, logits=logits)


def law_of(case: Case) -> Law:
    return rule(case.rule).law(case)


def draws(law: Law, n: int, fault: bool = False) -> SequenceCounts:
    """Draw ``n`` steps of a rule where a token that leads to a node goes on; a fault moves mass after prefix (1,)."""
    rng = np.random.default_rng(3)
    rows = law.rows.copy()
    if fault:
        m = law.find([1])
        rows[m] = np.roll(rows[m], 1)
    tokens = np.full((n, law.depth_limit), -1, np.int64)
    for i in range(n):
        m, step = 0, 0
        while m >= 0:
            tokens[i, step] = rng.choice(law.vocab, p=rows[m])
            m = int(law.children(np.array([m]), tokens[i, step : step + 1])[0])
            step += 1
    return count_sequences(tokens)


@cache
def pictured(fault: bool) -> tuple[TreePicture, CaseResult]:
    """Return the picture of 2,000 draws, and the case with it."""
    law, a_case = law_of(small_case()), small_case()
    counts = draws(law, 2000, fault)
    judgement = judge(law, counts, 1e-6, np.random.default_rng(0))
    assert judgement.biased == fault
    drawn = picture(a_case, law, counts, judgement.where, full=fault)
    rows = [Where(**vars(row)) for row in judgement.where]
    verdict = "biased" if fault else "pass"
    return drawn, case("g/small", verdict, n=2000, where=rows, tree=drawn)


def page(run: Results, folder: Path) -> str:
    """Return the HTML of a run."""
    html(run, folder / "report.html")
    return (folder / "report.html").read_text()


class Elements(HTMLParser):
    """Collects tags with their attributes, and checks that they are closed in order."""

    EMPTY = ("meta", "link", "br", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.EMPTY and tag not in ("path", "circle", "rect"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())
