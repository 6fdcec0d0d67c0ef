"""``chitree report``, and what a gate leaves beside its results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_results import NASTY, case, pictured, results, sampler

from harness import cli
from harness.commands.report import write_reports
from harness.results import read, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(results(sampler("x", pictured(True)[1], case("g/two"))), tmp_path / "results.json")
    return tmp_path


def test_round_trip(folder: Path) -> None:
    found = read(folder / "results.json")
    assert found.samplers[0].cases[0].tree == pictured(True)[0]
    lines = (folder / "results.json").read_text().splitlines()
    assert [json.loads(line.rstrip(","))["case"] for line in lines if line.startswith('{"case"')] == [
        "g/small",
        "g/two",
    ]


@pytest.mark.parametrize("whole", [False, True])
def test_by_default_html_is_written_beside_the_results(
    folder: Path, whole: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["report", str(folder / "results.json" if whole else folder)]) == 0
    assert "BIASED" in (folder / "report.html").read_text()
    assert capsys.readouterr().out == f"html: {folder / 'report.html'}\n"
    assert sorted(entry.name for entry in folder.iterdir()) == ["report.html", "results.json"]


def test_every_form(folder: Path) -> None:
    names = {"--html": "a.html", "--markdown": "a.md", "--junit": "a.xml"}
    arguments = [word for option, name in names.items() for word in (option, str(folder / name))]
    assert cli.run(["report", str(folder), *arguments]) == 0
    assert (folder / "a.html").read_text().startswith("<!doctype html>")
    assert (folder / "a.md").read_text().startswith("## ❌ BIASED")
    assert (folder / "a.xml").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read"),
        ("{", "schema 1"),
        ("[" * 100_000, "results.json"),
        ('{"schema": 2}', "schema 1"),
    ],
)
def test_what_is_no_results_file(
    content: str | None, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    assert cli.run(["report", str(tmp_path / "results.json")]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


def test_another_schema(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads((folder / "results.json").read_text())
    (folder / "results.json").write_text(json.dumps({**data, "schema": 7}))
    assert cli.run(["report", str(folder)]) == 2
    assert "expected schema 1, got 7" in capsys.readouterr().err


def test_a_file_that_cannot_be_written(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["report", str(folder), "--html", str(folder / "none" / "a.html")]) == 2
    assert "--html" in capsys.readouterr().err
    before = (folder / "results.json").read_bytes()
    assert cli.run(["report", str(folder), "--markdown", str(folder / "results.json")]) == 2
    assert "results file itself" in capsys.readouterr().err
    assert (folder / "results.json").read_bytes() == before


def test_older_results(folder: Path) -> None:
    """Fields that came later, and those that may be missing, are missing."""
    data: dict[str, Any] = json.loads((folder / "results.json").read_text())
    for entry in data["samplers"]:
        for name in ("shrink", "not_tried", "suite_tests", "reason"):
            del entry[name]
        for found in entry["cases"]:
            for name in ("tree", "evidence", "diagnosis", "reason", "certified_tv"):
                del found[name]
            for row in found["where"]:
                del row["kind"]
    (folder / "results.json").write_text(json.dumps(data))
    arguments = ["--html", str(folder / "a.html"), "--markdown", str(folder / "a.md"), "--junit", str(folder / "a.xml")]
    assert cli.run(["report", str(folder), *arguments]) == 0
    assert "g/small" in (folder / "a.html").read_text()


def test_hostile_names_survive_the_file(tmp_path: Path) -> None:
    write(results(sampler(NASTY, case(f"g/{NASTY}", "biased"))), tmp_path / "results.json")
    assert (
        cli.run(["report", str(tmp_path), "--html", str(tmp_path / "a.html"), "--markdown", str(tmp_path / "a.md")])
        == 0
    )


def test_a_job_summary_is_added_to(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = read(folder / "results.json")
    summary = folder / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    lines = write_reports(run, folder)
    assert lines == [f"report: {folder / 'report.html'}", f"junit: {folder / 'junit.xml'}"]
    assert summary.read_text().startswith("before\n## ❌ BIASED")
    assert len(summary.read_bytes()) < 1 << 20
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(folder))
    assert "cannot be written" in write_reports(run, folder)[-1]


def test_a_report_that_fails_does_not_take_the_verdict_with_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("reports.html", fail)
    assert write_reports(read(folder / "results.json"), folder)[0] == "report: not written: ZeroDivisionError: oh"


def test_without_jinja2_the_gate_says_how_to_get_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    lines = write_reports(read(folder / "results.json"), folder)
    assert "pip install 'chitree[report]'" in lines[0]
    assert lines[1] == f"junit: {folder / 'junit.xml'}"
    assert cli.run(["report", str(folder)]) == 3
    assert "pip install" in capsys.readouterr().err
