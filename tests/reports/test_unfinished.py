"""Runs that have not come to their end: every report says so, and how to go on."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from made_results import case, page, results, sampler

from harness import cli
from harness.results import Results, SamplerResult, Unfinished, read, write
from reports import brief, headline, junit, markdown

SAID = "UNFINISHED: 2 of 95 cases judged, 1 sampler not begun"


def begun(verdict: str = "pass", *, resumable: bool = True) -> SamplerResult | Results:
    asked = Unfinished(cases={"x": 95, "y": None}, resumable=resumable)
    return results(sampler("x", case("g/one"), case("g/two", verdict)), unfinished=asked)


def test_the_headline_does_not_say_pass() -> None:
    assert headline(begun()).plain == f"{SAID}, 2 pass (suite smoke, alpha 1e-06 a sampler, seed 0)"
    assert headline(begun("biased")).plain.startswith("BIASED, UNFINISHED: 2 of 95 cases judged")
    nothing = results(unfinished=Unfinished(cases={"x": None}, resumable=True))
    assert headline(nothing).plain.startswith("UNFINISHED: no case judged, 1 sampler not begun (")


def test_the_reports_say_so(tmp_path: Path) -> None:
    run = begun()
    go_on = "chitree gate --resume DIR"
    lines = brief(run)
    assert lines[0].startswith(SAID)
    assert go_on in lines[1]
    assert lines[2].startswith("x: unfinished, 2 of 95 cases judged")
    text = markdown(run)
    assert text.startswith("## ⚠️ UNFINISHED: the run has not come to its end, 2 of 95 cases judged")
    assert go_on in text
    assert "⚠️ unfinished | 2 of 95 cases judged: 2 pass" in text
    shown = page(run, tmp_path)
    assert "<h1>UNFINISHED</h1>" in shown
    assert "<title>unfinished: chitree" in shown
    assert go_on in shown
    assert '<span class="badge broken">unfinished</span>' in shown
    assert "PASS" not in text + shown
    junit(run, tmp_path / "junit.xml")
    *_, suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("errors")) == ("1", "1")
    error = suite[0][0]
    assert (error.tag, error.get("message")) == ("error", f"unfinished: {SAID.partition(': ')[2]}")
    assert go_on in (error.text or "")


def test_the_command_says_so_and_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(begun(), tmp_path / "results.json")
    assert cli.run(["report", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"html: {tmp_path / 'report.html'}", SAID, f"go on with: chitree gate --resume {tmp_path}"]


def test_a_run_of_which_nothing_is_kept_has_no_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(begun(resumable=False), tmp_path / "results.json")
    assert cli.run(["report", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == [SAID]
    assert "--resume" not in "\n".join(brief(begun(resumable=False)))


def test_a_finished_run_has_no_such_field(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write(begun(), path)
    assert json.loads(path.read_text())["unfinished"] == {"cases": {"x": 95, "y": None}, "resumable": True}
    assert read(path) == begun()
    write(results(sampler("x", case("g/one"))), path)
    assert "unfinished" not in json.loads(path.read_text())


@pytest.mark.parametrize("option", ["--markdown", "--html", "--junit"])
def test_a_dash_is_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    write(begun(), tmp_path / "results.json")
    assert cli.run(["report", str(tmp_path), option, "-"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith({"--markdown": "## ⚠️ UNF", "--html": "<!doctype html>", "--junit": "<?xml"}[option])
    assert said.err.startswith(SAID)
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]
