"""What a run shows: the terminal, JUnit, and progress; hostile names and narrow screens included."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console

from harness.display import Display
from harness.results import CaseResult, MinDetectable, Results, SamplerResult, Where
from reports import describe, headline, junit, table

from .running import QUICK, Gate, plugin, stable
from .small import driver

NASTY = "evil <&\"'>\x00\x1b[31m[red]:smile:\udcff.py:Sämpler"
WIDTH = 100


def case(name: str, verdict: str = "pass", **fields: object) -> CaseResult:
    group = name.partition("/")[0]
    drawn = verdict not in ("broken", "skipped")
    values: dict[str, object] = {
        "rule": "target-only",
        "n": 8192 if drawn else 0,
        "alpha": 2e-8,
        "p_value": {"pass": 0.4, "biased": 3e-12}.get(verdict),
        "certified_tv": 0.05 if drawn else None,
        "min_detectable": MinDetectable(0.03, None, 0.1) if drawn else MinDetectable(None, None, None),
        "seconds": 0.5,
        "reproduce": f"chitree gate --sampler 'x.py:Y' --case {name} --suite smoke --seed 0 --alpha 1e-06 --shrink 0",
    }
    return CaseResult(case=name, group=group, verdict=verdict, **{**values, **fields})  # type: ignore[arg-type]


def results(*samplers: SamplerResult, verdict: str = "pass") -> Results:
    return Results(
        chitree="0", created="now", seed=0, alpha=1e-6, suite="smoke", verdict=verdict, samplers=list(samplers)
    )


def sampler(name: str, *cases: CaseResult, **fields: object) -> SamplerResult:
    values: dict[str, object] = {"runs_on": "cpu", "versions": {"numpy": "2.0"}, "verdict": "pass"}
    return SamplerResult(name=name, cases=list(cases), **{**values, **fields})  # type: ignore[arg-type]


def shown(run: Results, width: int = WIDTH, *, verbose: bool = False) -> list[str]:
    stream = io.StringIO()
    table(run, Console(file=stream, width=width, highlight=False, markup=False, emoji=False), verbose=verbose)
    return stream.getvalue().splitlines()


def rows(count: int) -> list[Where]:
    return [Where([1, 2], 3, token, 0.1, 0.2, 1e-12, "cell") for token in range(count)]


def test_a_pass_says_what_it_could_have_missed() -> None:
    run = results(
        sampler(
            "reference",
            case("a/1", min_detectable=MinDetectable(0.03, 0.0003, None), certified_tv=0.05),
            case("a/2", min_detectable=MinDetectable(0.041, None, 0.2), certified_tv=0.28),
        )
    )
    lines = shown(run)
    assert "  at worst over 2 cases: seen with 90% power: move 0.041, leak 0.0003; certified TV <= 0.28" in lines
    assert lines[-1] == "PASS: 2 pass (suite smoke, alpha 1e-06 a sampler, seed 0)"
    assert not any("at worst" in line for line in shown(results(sampler("x", case("a/1", "biased"), verdict="biased"))))


def test_a_biased_case_shows_its_three_worst_tokens_and_how_to_reproduce_it() -> None:
    biased = case("a/1", "biased", where=rows(5))
    lines = shown(results(sampler("x", biased, case("a/2"), verdict="biased"), verdict="biased"))
    at = lines.index("  a/1: biased, p = 3e-12 at alpha 2e-08, n = 8,192")
    assert lines[at + 1 : at + 4] == [
        f"    after 1 2 (node 3): token {token} expected 0.1, observed 0.2, p = 1e-12" for token in range(3)
    ]
    assert lines[at + 4] == f"    {biased.reproduce}"
    assert not any("a/2: pass" in line for line in lines)
    assert lines[-1].startswith("BIASED: 1 pass, 1 biased")


def test_verbose_shows_the_ranking_of_passing_cases_too() -> None:
    run = results(sampler("x", case("a/1", where=rows(1))))
    assert not any("token 0 expected" in line for line in shown(run))
    assert any("token 0 expected" in line for line in shown(run, verbose=True))


def test_a_reason_is_shown_once_a_group() -> None:
    broken = [case(f"a/{i}", "broken", reason="call 0 of group a: verify raised ValueError") for i in range(4)]
    skipped = [case(f"{group}/{i}", "skipped", reason="the sampler was ended") for group in "bc" for i in range(2)]
    lines = shown(results(sampler("x", *broken, *skipped, case("d/0"), verdict="broken"), verdict="broken"))
    text = "\n".join(lines)
    assert text.count("verify raised ValueError") == 1
    assert text.count("the sampler was ended") == 2
    assert "  a (4 cases): broken: call 0 of group a: verify raised ValueError" in lines
    assert "  b (2 cases): skipped: the sampler was ended" in lines
    assert text.count("a (4 cases)") == 2, "one row of the table, one reason"
    assert text.count(broken[0].reproduce) == 1
    assert lines[-1].startswith("BROKEN: 1 pass, 4 broken, 4 skipped")


def test_a_sampler_that_cannot_run() -> None:
    run = results(sampler("x", verdict="broken", reason="no compiler", runs_on=None), verdict="broken")
    lines = shown(run)
    assert "  broken: no compiler" in lines
    assert lines[-1].startswith("BROKEN: 1 sampler without a case that ran")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("cell", "after 1 2 (node 3): token 7 expected 0.1, observed 0.25, p = 1e-09"),
        ("token", "after 1 2 (node 3): token 7 is impossible here, observed 0.25"),
        ("accepted", "after 1 2 (node 3): token 7 was accepted though no draft of the tree continues with it here"),
        ("length", "after 1 2 (node 3): token 7 is followed by more tokens than the depth limit allows"),
    ],
)
def test_every_kind_of_deviation_has_its_words(kind: str, words: str) -> None:
    assert describe(Where([1, 2], 3, 7, 0.1, 0.25, 1e-9, kind)).startswith(words)
    assert describe(Where([], 0, 7, 0.1, 0.25, 1e-9, kind)).startswith("at the root (node 0): token 7")


@pytest.mark.parametrize("width", [60, 100, 200])
def test_lines_fit_but_for_commands(width: int) -> None:
    versions = {f"a-long-package-name-{i}": f"1.{i}.0+cpu" for i in range(12)}
    reason = "speed of its first calls: about 400 s for all draws, against 15 s allowed on a machine of 2 cores or more"
    biased = case("filters-v16/a-rather-long-name-of-a-case", "biased", where=rows(4))
    run = results(
        sampler("x" * 40, biased, versions=versions, shrink={"k": 3, "reason": reason}, verdict="biased"),
        verdict="biased",
    )
    lines = shown(run, width)
    least = max(width, WIDTH)  # the table itself is never squeezed
    assert all(len(line) <= least for line in lines if "chitree gate" not in line)
    assert any("filters-v16/a-rather-long-name-of-a-case" in line and "8,192" in line for line in lines)
    assert biased.reproduce in "\n".join(lines), "a command is not broken, so that it can be copied"
    said = [line for line in lines if "a-long-package-name" in line]
    assert len(said) > 1
    assert all(len(line) <= min(width, WIDTH) for line in said)


def test_hostile_names_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nasty = case(f"a/{NASTY}", "broken", reason=f"raised {NASTY}", reproduce=f"chitree gate --sampler '{NASTY}'")
    run = results(sampler(NASTY, nasty, case("a/[/red]", "biased", where=rows(1)), reason=NASTY))
    Display(verbose=True).verdict(run, tmp_path)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "\x00" not in out
    assert "evil <&\"'>\\x00\\x1b[31m[red]:smile:\\udcff.py:Sämpler" in out
    assert "a/[/red]" in out


def test_hostile_names_in_junit(tmp_path: Path) -> None:
    broken = case(f"a/{NASTY}", "broken", reason=f"raised {NASTY}")
    junit(results(sampler(NASTY, broken)), tmp_path / "junit.xml")
    (suite,) = ET.parse(tmp_path / "junit.xml").getroot()
    clean = re.sub("[\x00\x1b\udcff]", "�", NASTY)
    assert suite.get("name") == clean
    (test,) = suite
    assert test.get("name") == f"a/{clean}"
    (error,) = test
    assert error.get("message") == f"raised {clean}"


def test_junit_of_every_verdict(tmp_path: Path) -> None:
    cases = [
        case("a/1"),
        case("a/2", "biased", where=[Where([1], 2, 3, 0.1, 0.2, 1e-9, "cell")]),
        case("b/1", "broken", reason="killed"),
        case("b/2", "skipped", reason="ended"),
        case("c/1", "known", reason="known finding"),
    ]
    run = results(sampler("one", *cases, verdict="biased"), sampler("two", verdict="broken", reason="no compiler"))
    junit(run, tmp_path / "junit.xml")
    one, two = ET.parse(tmp_path / "junit.xml").getroot()
    assert {key: one.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "5",
        "failures": "1",
        "errors": "1",
        "skipped": "1",
    }
    kinds = {test.get("name"): [child.tag for child in test] for test in one}
    assert kinds == {"a/1": [], "a/2": ["failure"], "b/1": ["error"], "b/2": ["skipped"], "c/1": []}
    failure = one[1][0]
    assert "p = 3e-12 at alpha 2e-08, n = 8192; after 1 (node 2): token 3" in failure.get("message", "")
    assert "chitree gate" in (failure.text or "")
    assert one[2][0].get("message") == "killed"
    assert (two.get("tests"), two.get("errors")) == ("1", "1")
    assert two[0][0].get("message") == "no compiler"


def test_junit_of_a_run(gate: Gate) -> None:
    run = gate("--sampler", plugin("TokenV"), "--sampler", "reference", *QUICK)
    token, reference = ET.parse(run.folder / "junit.xml").getroot()
    assert (token.get("tests"), token.get("errors")) == ("4", "4")
    over_all = len(run.samplers[1]["suite_tests"])
    expected = (str(4 + over_all), "0", "0")
    assert (reference.get("tests"), reference.get("failures"), reference.get("errors")) == expected


def test_hostile_file_name_from_end_to_end(gate: Gate, tmp_path: Path) -> None:
    file = tmp_path / "a<&\"'[b] $(x) ä.py"
    file.write_text(Path(plugin("", "breakers.py")[:-1]).read_text())
    run = gate("--sampler", f"{file}:Walks", *QUICK)
    assert run.code == 0, run.out
    assert run.samplers[0]["name"] == f"{file}:Walks"
    (suite,) = ET.parse(run.folder / "junit.xml").getroot()
    assert suite.get("name") == f"{file}:Walks"
    words = shlex.split(run.cases[0]["reproduce"])
    again = gate(*words[2:], out="again")
    assert stable(again.cases[0]) == stable(run.cases[0])


def test_a_terminal_without_the_letters(tmp_path: Path) -> None:
    file = tmp_path / "ä.py"
    file.write_text(Path(plugin("", "breakers.py")[:-1]).read_text())
    arguments = ["gate", "--sampler", f"{file}:Walks", *QUICK, "--out", str(tmp_path / "out")]
    run = subprocess.run(
        [sys.executable, "-c", driver(), *arguments],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert "\\xe4.py:Walks" in run.stdout


def test_progress_in_plain_lines(gate: Gate) -> None:
    run = gate("--sampler", "reference", *QUICK)
    assert re.search(r"^reference: 1/1 four: \d+\.\d s$", run.out, re.MULTILINE)
    assert str(run.folder / "results.json") in run.out.splitlines()[-1]
    assert "\x1b" not in run.out


def test_quiet_prints_one_line(gate: Gate) -> None:
    run = gate("--sampler", "reference", *QUICK, "--quiet")
    assert run.out == "PASS: 4 pass (suite smoke, alpha 1e-06 a sampler, seed 0)\n"
    assert run.err == ""


def test_no_color(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = results(sampler("x", case("a/1", "biased", where=rows(1)), case("a/2"), verdict="biased"), verdict="biased")
    colour = re.compile(r"\x1b\[(?:\d+;)*3\d")
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    Display().verdict(run, tmp_path)
    assert colour.search(capsys.readouterr().out)
    monkeypatch.setenv("NO_COLOR", "1")
    Display().verdict(run, tmp_path)
    assert not colour.search(capsys.readouterr().out)


def test_headline_is_of_all_samplers() -> None:
    run = results(sampler("x", case("a/1")), sampler("y", case("a/1", "known"), case("a/2", "skipped")))
    assert headline(run).plain.startswith("PASS: 1 pass, 1 skipped, 1 known (")


def test_a_reader_that_leaves_does_not_change_the_verdict(tmp_path: Path) -> None:
    """``| head`` must not turn a pass into exit code 1, which means bias."""
    run = subprocess.Popen(
        [sys.executable, "-c", driver(), "gate", "--sampler", "reference", *QUICK, "--out", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.close()
    err = run.stderr.read().decode()
    assert run.wait(60) == 0, err
    assert err == ""
    assert (tmp_path / "out" / "junit.xml").exists()
