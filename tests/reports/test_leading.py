"""What is shown of a case first is what decided; no place is shown as a deviation that is none by itself."""

from __future__ import annotations

import io
from pathlib import Path
from xml.etree import ElementTree as ET

from made_results import case, page, results, sampler
from rich.console import Console

from harness.results import CaseResult, Results, Where
from harness.runner import _message
from reports import brief, junit, markdown, table

SAID = "at least 4 tokens: expected 2126, observed 1831 of 7168 steps, p = 7.8e-15"
PLACE = "token 7 expected"


def spread() -> CaseResult:
    """Return a case that acceptance decides; of its places none is unlikely enough."""
    return case(verdict="biased", alpha=2e-8, reason=SAID, p_value=7.8e-14, where=[Where([], 0, 7, 0.1, 0.11, 1e-5)])


def texts(run: Results, folder: Path) -> dict[str, str]:
    stream = io.StringIO()
    table(run, Console(file=stream, width=200, highlight=False, markup=False, emoji=False))
    junit(run, folder / "junit.xml")
    message = next(test.get("message", "") for test in ET.parse(folder / "junit.xml").iter("failure"))
    return {
        "terminal": " ".join(stream.getvalue().split()),
        "brief": "\n".join(brief(run)),
        "markdown": markdown(run).replace("&#46;", "."),
        "html": page(run, folder),
        "junit": message,
        "pytest": _message(run.samplers[0].cases[0]),
    }


def test_what_decided_is_said_first_and_no_place_beside_it(tmp_path: Path) -> None:
    for where, text in texts(results(sampler("x", spread())), tmp_path).items():
        assert SAID in text, where
        assert PLACE not in text, where


def test_places_that_deviate_come_after_it(tmp_path: Path) -> None:
    found = spread()
    found.where = [Where([], 0, 7, 0.1, 0.3, 1e-9), Where([], 0, 8, 0.1, 0.11, 1e-3)]
    for where, text in texts(results(sampler("x", found)), tmp_path).items():
        assert SAID in text, where
        assert where in ("brief", "junit") or text.index(SAID) < text.rindex(PLACE), where
        assert "token 8 expected" not in text, where


def test_a_case_without_words_shows_its_place(tmp_path: Path) -> None:
    for where, text in texts(results(sampler("x", case(verdict="biased"))), tmp_path).items():
        assert "after 1 2 (node 3): " + PLACE in text, where


def test_tests_over_all_cases_come_last(tmp_path: Path) -> None:
    over_all = {"test": "shared noise: rows", "p_value": 1e-20, "alpha": 1e-8, "biased": True, "says": "rows share"}
    run = results(sampler("x", case(verdict="biased"), suite_tests=[over_all], verdict="biased"))
    for where, text in texts(run, tmp_path).items():
        if where not in ("junit", "pytest"):
            assert text.index(PLACE) < text.index("rows share"), where
