"""harness.check(): from tests, scripts and instances; what it raises."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
from gate.plugins import Right

import harness
from harness.errors import UsageError
from harness.results import Results

from .project import GROUP, Project, cases

FEW: dict[str, Any] = {"cases": f"{GROUP}/*", "shrink": 4, "workers": 1}
SCRIPT = """
import harness
from mine import LastFromWhole, Right

class Mine(Right):
    rule = "target-only"

    def __init__(self, excluded=()):
        self.kept = excluded

class Whole(LastFromWhole):
    pass

def run(verifier):
    return harness.check(verifier, cases="{group}/*", shrink=4, workers=1)
"""
GUARDED = """
if __name__ == "__main__":
    from pathlib import Path
    from harness.results import write

    for name, verifier in (("instance", Mine()), ("class", Whole)):
        Path(name).mkdir()
        report = run(verifier)
        write(report.results, Path(name, "results.json"))
    report.raise_for_bias()
"""


def test_right_class_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = dict(os.environ)
    report = harness.check(Right, **FEW)
    assert report.passed
    assert report.verdict == "pass"
    report.raise_for_bias()
    assert str(report).startswith("PASS: ")
    assert repr(report).startswith("Report(lines=['PASS: ")
    assert report.results.samplers[0].name.endswith("plugins:Right")
    assert dict(os.environ) == before


def test_broken_is_no_bias() -> None:
    results = Results(chitree="", created="", seed=0, alpha=1e-6, suite="smoke", verdict="broken")
    report = harness.Report(results, ["BROKEN: why"])
    assert not report.passed
    with pytest.raises(harness.VerifierBroke, match="BROKEN: why"):
        report.raise_for_bias()


def test_script_finds_what_the_command_finds(project: Project) -> None:
    (project.folder / "script.py").write_text(SCRIPT.format(group=GROUP) + GUARDED)
    done = project.python("script.py")
    assert done.returncode == 1
    assert "harness.checked.BiasFound: BIASED: " in done.stderr
    assert re.search(rf"{GROUP}/\S+: biased: .*expected .*observed ", done.stderr), done.stderr
    assert project.results("class") == project.command("--sampler", "script.py:Whole")
    instance = project.results("instance")
    assert instance["samplers"][0]["name"] == "script.py:Mine()"
    right = cases(project.command("--sampler", "script.py:Mine"))
    for name, case in cases(instance).items():
        expected = f"harness.check(verifier, suite='smoke', cases=['{name}'], alpha=1e-06, seed=0, shrink=4)"
        assert case.pop("reproduce") == expected
        assert case == {key: value for key, value in right[name].items() if key != "reproduce"}
    assert project.left == []


def test_script_that_checks_while_it_is_imported(project: Project) -> None:
    (project.folder / "script.py").write_text(SCRIPT.format(group=GROUP) + "run(Mine)\n")
    done = project.python("script.py")
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("harness.errors.UsageError: ")
    assert "under `if __name__ == '__main__':`" in last
    assert project.left == []


def test_verifier_that_no_other_process_can_get() -> None:
    class Local(Right):
        pass

    with pytest.raises(UsageError, match=r"Local cannot be handed to a process of its own .*; define its class"):
        harness.check(Local, **FEW)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"verifier": "nobody"}, "no such sampler: 'nobody'"),
        ({"verifier": 3}, "expected a class, an instance or a zero-argument factory .*, got int"),
        ({"verifier": Right, "alpha": "x"}, "alpha must be a number, got 'x'"),
        ({"verifier": Right, "seed": 1.5}, r"seed must be an integer, got 1\.5"),
        ({"verifier": Right, "workers": True}, "workers must be an integer, got True"),
        ({"verifier": Right, "suite": None}, "suite must be the name of a suite, got None"),
        pytest.param({"verifier": Right, "cases": "nothing/*"}, "matches no case", marks=pytest.mark.slow),
        pytest.param({"verifier": Right, "alpha": 0.0}, "alpha must lie strictly", marks=pytest.mark.slow),
    ],
)
def test_bad_input(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        harness.check(**{**FEW, **arguments})
