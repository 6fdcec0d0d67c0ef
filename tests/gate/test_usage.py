"""Bad input: exit code 2, one clear line on stderr, no traceback."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from harness import cli

from .running import QUICK, Gate, Run, command, plugin
from .small import catalogue


def check(run: Run, *words: str) -> None:
    """Hold a run against what bad input must give; ``words`` must stand in the line."""
    assert run.code == 2, run.err
    lines = run.err.strip().splitlines()
    assert len(lines) == 1, run.err
    assert lines[0].startswith("chitree")
    for word in words:
        assert word in lines[0]
    assert "Traceback" not in run.err + run.out


@pytest.mark.parametrize(
    ("sampler", "words"),
    [
        ("nope", ["no such sampler", "'nope'", "sglang-tree", "reference"]),
        ("sglang-tree@0.4.9", ["sglang-tree@0.4.9", "not there yet"]),
        ("no_such_module:X", ["no module named 'no_such_module'", "current folder"]),
        ("no_such_package.inner:X", ["no module named 'no_such_package.inner'"]),
        ("missing.py:X", ["no such file", "missing.py"]),
        (plugin("Nope"), ["no attribute 'Nope'"]),
        (plugin("Right.Nope"), ["no attribute 'Right.Nope'"]),
        (plugin("NoVerify", "breakers.py"), ["verify(request)", "NoVerify"]),
        (plugin("number", "breakers.py"), ["verify(request)", "int"]),
        (plugin("UnknownRule", "breakers.py"), ["no such rule", "no-such-rule", "target-only"]),
        (plugin("RuleNoString", "breakers.py"), ["rule must be", "3"]),
        (plugin("UnknownTakes", "breakers.py"), ["takes must be", "'tokens'"]),
        (plugin("CoinsNoFlag", "breakers.py"), ["coins must be", "'yes'"]),
        (plugin("ThresholdsNoFlag", "breakers.py"), ["thresholds must be", "1"]),
        (plugin("NoSize", "breakers.py"), ["max_vocab must be", "0"]),
        (":X", []),
        ("breakers:", []),
        ("x\0y.py:Z", []),
    ],
)
def test_what_is_no_sampler(gate: Gate, sampler: str, words: list[str]) -> None:
    check(gate("--sampler", sampler, *QUICK), *words)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--case", "no-such-case*", ["no-such-case*", "matches no case"]),
        ("--alpha", "0", ["--alpha", "between 0 and 1"]),
        ("--alpha", "1", ["--alpha", "between 0 and 1"]),
        ("--alpha", "-1e-6", ["--alpha", "between 0 and 1"]),
        ("--alpha", "nan", ["--alpha", "between 0 and 1"]),
        ("--alpha", "small", ["--alpha", "small"]),
        ("--shrink", "-1", ["--shrink"]),
        ("--shrink", "17", ["--shrink"]),
        ("--shrink", "x", ["--shrink", "x"]),
        ("--seed", "x", ["--seed", "x"]),
        ("--seed", "-1", ["--seed must be at least 0", "-1"]),
        ("--workers", "0", ["--workers"]),
        ("--workers", "100000", ["--workers must lie in [1, ", "got 100000"]),
        ("--suite", "nope", ["no such suite", "nope", "smoke"]),
        ("--no-such-option", "1", ["--no-such-option"]),
    ],
)
def test_option_out_of_range(gate: Gate, option: str, value: str, words: list[str]) -> None:
    check(gate("--sampler", "reference", *QUICK, option, value), *words)


@pytest.mark.parametrize("below", ["file", "file/x"])
def test_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str], below: str) -> None:
    (tmp_path / "file").write_text("precious")
    code = cli.run(["gate", "--sampler", "reference", *QUICK, "--out", str(tmp_path / below)])
    shown = capsys.readouterr()
    check(Run(code, shown.out, shown.err, tmp_path), "--out")
    assert (tmp_path / "file").read_text() == "precious"


def test_a_folder_without_a_name(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code = cli.run(["gate", "--sampler", "reference", *QUICK, "--out", ""])
    shown = capsys.readouterr()
    check(Run(code, shown.out, shown.err, tmp_path), "--out", "the name of a folder")


@pytest.mark.parametrize("value", ["0", "-2", "two", "", "1.5"])
def test_threads_that_are_none(gate: Gate, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CHITREE_THREADS", value)
    check(gate("--sampler", "reference", *QUICK), "CHITREE_THREADS", repr(value))


def test_help_lists_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["--help"]) == 0
    commands, _, later = capsys.readouterr().out.partition("Commands:")[2].partition("Not there yet:")
    assert [line.split()[0] for line in commands.splitlines() if line[:2] == "  " and line[2:3].strip()] == [
        name for name in sorted(cli.cli.commands) if name not in cli.LATER
    ]
    assert all(name in later for name in cli.LATER)


def test_attributes_of_a_file_are_its_own_and_cut_openly(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "many.py").write_text("import json\nfrom pathlib import Path\nsep = 1\ndef one(): ...\n")
    run = gate("--sampler", f"{tmp_path / 'many.py'}:Nope", *QUICK)
    check(run, "it has one, sep")
    (tmp_path / "more.py").write_text("".join(f"def f{i:02}(): ...\n" for i in range(11)))
    check(gate("--sampler", f"{tmp_path / 'more.py'}:Nope", *QUICK), "f08, f09, ...")


SLIP = """
class Mine:
    rule = "target-only"
    coins = True
    threshold = False
    helpers = ["not a slip"]

    def verify(self, request):
        from harness.rules import RULES
        return RULES["target-only"].walk(request)
"""


def test_a_slip_in_an_attribute_is_told(gate: Gate, tmp_path: Path) -> None:
    (tmp_path / "slip.py").write_text(SLIP)
    run = gate("--sampler", f"{tmp_path / 'slip.py'}:Mine", *QUICK)
    assert run.code == 0
    assert "note: attribute threshold is not looked at; did you mean thresholds?" in run.out
    assert [entry["reason"] for entry in run.samplers[0]["not_tried"] if entry["kind"] == "attribute"] == [
        "threshold is not looked at; did you mean thresholds?"
    ]


@pytest.mark.parametrize("name", sorted(cli.LATER))
def test_command_that_is_not_there_yet(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    for arguments in ([], ["--some", "option", "x"]):
        code = cli.run([name, *arguments])
        shown = capsys.readouterr()
        check(Run(code, shown.out, shown.err, tmp_path), name, "not there yet")


LATER_OPTIONS = [
    option for option in cli.gate.params if isinstance(option, click.Option) and option.callback is cli._later
]


@pytest.mark.parametrize("option", LATER_OPTIONS, ids=lambda option: option.opts[0])
def test_option_that_is_not_there_yet(gate: Gate, option: click.Option) -> None:
    value = [] if option.is_flag else ["1"]
    check(gate("--sampler", "reference", *QUICK, option.opts[0], *value), option.opts[0], "not there yet")


def test_no_command_and_no_such_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([]) == 2
    assert "Usage" in capsys.readouterr().out
    assert cli.run(["gait"]) == 2
    assert "gait" in capsys.readouterr().err


@pytest.mark.parametrize("value", ["soon", "-1", "0", "nan", "inf"])
def test_time_limit_that_is_none(gate: Gate, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("CHITREE_CALL_LIMIT", value)
    check(gate("--sampler", "reference", *QUICK), "CHITREE_CALL_LIMIT", value)


def test_bad_sampler_beside_a_good_one_loses_nothing(gate: Gate) -> None:
    run = gate("--sampler", "reference", "--sampler", plugin("Nope"), *QUICK)
    assert run.code == 2
    assert run.samplers[0]["verdict"] == "pass"
    early = gate("--sampler", "reference", "--sampler", "nope", *QUICK, out="early")
    check(early, "nope")
    assert not (early.folder / "results.json").exists(), "a name that is known to be wrong is said before anything runs"


MINE = """
from harness.rules import RULES

class Mine:
    rule = "target-only"
    coins = True

    def verify(self, request):
        return RULES["target-only"].walk(request)
"""


def quick() -> list[str]:
    """Return the options for one case of the catalogue."""
    name = next(entry.names[0] for entry in catalogue("smoke").groups if entry.rule == "target-only")
    return ["--suite", "smoke", "--case", name, "--shrink", "5", "--workers", "1"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Make a user's folder: its own cases/ and reports/, and a plugin that is both a file and a module."""
    for package in ("cases", "reports", "distributions"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise ImportError('the package of the user')\n")
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path


@pytest.mark.parametrize("path", [None, "."])
@pytest.mark.parametrize("sampler", ["mine:Mine", "mine.py:Mine"])
def test_own_packages_of_a_project_hide_none_of_ours(project: Path, sampler: str, path: str | None) -> None:
    environment = {} if path is None else {"PYTHONPATH": path}
    run = command("gate", "--sampler", sampler, *quick(), "--out", "out", cwd=project, environment=environment)
    assert run.code == 0, run.out + run.err
    assert run.err == ""
    assert {case["verdict"] for case in run.cases} == {"pass"}


def test_default_folder_of_results(project: Path) -> None:
    run = command("gate", "--sampler", "reference", *quick(), cwd=project)
    (folder,) = (project / "reports" / "out").iterdir()
    assert run.code == 0
    assert {path.name for path in folder.iterdir()} >= {"results.json", "junit.xml"}
    assert str(folder.relative_to(project)) in run.out
