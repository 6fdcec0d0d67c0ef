"""Tests and the command line find the same: any order, any selection, any number of processes."""

from __future__ import annotations

import re

import pytest

from .project import DRAWS, FEW, GROUP, SIZE, Project, Run, cases

REVERSED = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    items.reverse()
"""
CASE = """{
  "name": "of-mine",
  "rule": "target-only",
  "tree": {"tokens": [0, 1, 2], "parents": [-1, 0, 0]},
  "probs": [[0.25, 0.5, 0.25], [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]
}"""
BIASED = ("--chitree-sampler", "mine:LastFromWhole")
RIGHT = ("--chitree-sampler", "mine:Right")


@pytest.fixture(scope="module")
def biased(shared_project: Project) -> Run:
    """Return a run in two processes, the last test first, of a sampler with a bias."""
    (shared_project.folder / "conftest.py").write_text(REVERSED)
    return shared_project.gate(*BIASED, "--chitree-out", "tests", "-n", "2")


def test_order_and_processes_change_nothing(shared_project: Project, biased: Run) -> None:
    expected = shared_project.command(*BIASED)
    assert shared_project.results("tests") == expected
    verdicts = {f"test_case[mine:LastFromWhole-{name}]": case["verdict"] for name, case in cases(expected).items()}
    (sampler,) = expected["samplers"]
    over_all = any(test["biased"] for test in sampler["suite_tests"])
    verdicts["test_over_all_cases[mine:LastFromWhole]"] = "biased" if over_all else "pass"
    words = {"pass": "passed", "biased": "failure"}
    assert {name: outcome for name, (outcome, _) in biased.tests.items()} == {
        name: words[verdict] for name, verdict in verdicts.items()
    }
    assert biased.code == 1
    assert {path.name for path in (shared_project.folder / "tests").iterdir()} >= {"results.json", "junit.xml"}


def test_bias_is_told_without_a_traceback(shared_project: Project, biased: Run) -> None:
    message = next(text for name, (outcome, text) in biased.tests.items() if GROUP in name and outcome != "passed")
    for pattern in (
        rf"{GROUP}/\S+: biased, p = \S+ at alpha \S+, n = {DRAWS:,}",
        r"(after|at) .*: (token \d+ )?expected \S+, observed .*p = \S+",
        rf"\n  chitree gate --sampler mine:LastFromWhole --case {GROUP}/\S+ --suite smoke --seed 0 .*--shrink 4",
    ):
        assert re.search(pattern, message), message
    assert "Traceback" not in biased.out
    assert not re.search(r"test_gate\.py:\d", biased.out)


def test_summary(shared_project: Project, biased: Run) -> None:
    summary = biased.out.partition("= chitree =")[2]
    for pattern in (
        r"\nBIASED: ",
        rf"\nmine:LastFromWhole: biased, runs on cpu, {DRAWS:,} draws a case\n",
        r"\n  n / 2\^4 draws a case: --shrink\n",
        r"\n  seen with 90% power, at worst: move ",
        rf"\n  {GROUP}/\S+: biased: .*expected .*observed ",
        r"\nresults: tests/results.json\n",
    ):
        assert re.search(pattern, summary), summary


def test_last_failed(shared_project: Project, biased: Run) -> None:
    again = shared_project.gate(*BIASED, "--chitree-out", "again", "--lf")
    assert again.tests == {name: test for name, test in biased.tests.items() if test[0] == "failure"}
    assert shared_project.results("again") == shared_project.results("tests")
    assert shared_project.left == []


def test_selection_changes_no_count(project: Project) -> None:
    every = cases(project.command(*RIGHT))
    name = sorted(every)[1]
    run = project.gate(*RIGHT, "--chitree-out", "tests", "-k", f"{name}]")
    assert run.tests == {f"test_case[mine:Right-{name}]": ("passed", "")}
    assert cases(project.results("tests")) == {name: every[name]}


def test_over_all_cases_is_over_all_that_were_named(project: Project) -> None:
    """Also: a module is found where pytest finds it, and a project may have packages of our packages' names."""
    expected = project.command(*RIGHT)
    for package in ("cases", "reports", "distributions"):
        (project.folder / package).mkdir()
        (project.folder / package / "__init__.py").touch()
    (project.folder / "conftest.py").write_text("import cases, distributions, reports\n")
    (project.folder / "source").mkdir()
    (project.folder / "mine.py").rename(project.folder / "source" / "mine.py")
    (project.folder / "pytest.ini").write_text("[pytest]\npythonpath = source\n")
    run = project.gate(*RIGHT, "--chitree-out", "tests", "-k", "over_all_cases")
    assert run.tests == {"test_over_all_cases[mine:Right]": ("passed", "")}
    assert project.results("tests") == expected


@pytest.mark.slow
def test_samplers_and_case_files(project: Project) -> None:
    """A file and a glob have half of alpha each, whatever is selected; a node id selects."""
    (project.folder / "one.json").write_text(CASE)
    words = (*RIGHT, "--chitree-sampler", "reference", "--chitree-case", "one.json")
    every = project.command(*words)
    listed = project.gate(*words, "--collect-only", "-q")
    ids = [line for line in listed.out.splitlines() if "::test_" in line]
    assert len(ids) == 2 * (SIZE + 2)
    (name,) = (name for name in ids if "reference" in name and "of-mine" in name)
    test = f"cases.test_gate::{name.partition('::')[2]}"
    run = project.pytest("--pyargs", test, *FEW, *words, "--chitree-out", "tests")
    assert run.outcomes == ["passed"]
    (some,) = project.results("tests")["samplers"]
    assert some["name"] == "reference"
    assert some["cases"] == [case for case in every["samplers"][1]["cases"] if case["case"] == "of-mine"]
