"""`chitree gate --case FILE.json`: cases of files among decoys, their share of alpha, and what reproduces them."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.errors import UsageError
from harness.rules import RULES
from harness.selection import find, select
from harness.stats.alpha import RUN
from harness.suite import Suite

from .build import DRAWN, THREE, case_of, changed
from .conftest import Run, Write, small

CASES = RUN["cases"]


def gated(run: Run, tmp_path: Path, *arguments: str, sampler: str = "reference") -> tuple[int, dict[str, Any], str]:
    """Run the gate on suite smoke and return exit code, the only sampler's results, and stderr."""
    out = tmp_path / "out"
    code, _, err = run(
        "gate", "--sampler", sampler, "--suite", "smoke", "--workers", "1", *arguments, "--out", str(out)
    )
    if code == 2:
        return code, {}, err
    results = json.loads((out / "results.json").read_text())
    assert results["suite"] == "smoke"
    return code, results["samplers"][0], err


def stable(cases: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in case.items() if key not in ("seconds", "reproduce")} for case in cases]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_right_sampler_passes_on_a_file(run: Run, write: Write, tmp_path: Path, rule: str) -> None:
    path = write("made.json", rule)
    code, found, err = gated(run, tmp_path, "--case", path)
    assert code == 0, err
    (case,) = found["cases"]
    assert (case["case"], case["group"], case["rule"], case["n"]) == ("made", "file/made", rule, 1 << 10)
    assert case["verdict"] == "pass"
    assert case["alpha"] == pytest.approx(1e-6 * CASES)


def test_equal_runs_are_equal_and_one_of_several_is_as_it_was(run: Run, write: Write, tmp_path: Path) -> None:
    paths = [write("one.json"), write("two.json", "block", seed=3), write("three.json", vocab=8)]
    options = [part for path in paths for part in ("--case", path)]
    _, first, _ = gated(run, tmp_path, *options)
    _, again, _ = gated(run, tmp_path, *options)
    assert [case["case"] for case in first["cases"]] == ["one", "two", "three"]
    assert stable(first["cases"]) == stable(again["cases"])
    for path, case in zip(paths, first["cases"], strict=True):
        assert case["alpha"] == pytest.approx(1e-6 * CASES / 3)
        words = shlex.split(case["reproduce"])
        assert words[:2] == ["chitree", "gate"]
        assert words[words.index("--case") + 1] == path
        code, alone, _ = gated(run, tmp_path, *words[2:])
        assert code == 0
        assert stable(alone["cases"]) == stable([case])


def test_globs_and_files_together_have_half_of_alpha_each(run: Run, write: Write, tmp_path: Path) -> None:
    code, found, _ = gated(run, tmp_path, "--case", "trees/*", "--case", write("mine.json"), "--case", "roots/0")
    assert code == 0
    shares = {case["case"]: case["alpha"] for case in found["cases"]}
    assert list(shares) == ["trees/0", "trees/1", "trees/2", "trees/3", "roots/0", "mine"]
    assert shares["mine"] == pytest.approx(0.5e-6 * CASES)
    assert shares["trees/0"] == pytest.approx(0.5e-6 * CASES / 12)
    for name in ("mine", "trees/2"):
        case = next(case for case in found["cases"] if case["case"] == name)
        _, alone, _ = gated(run, tmp_path, *shlex.split(case["reproduce"])[2:])
        assert stable(alone["cases"]) == stable([case])


def test_a_file_may_have_the_name_of_a_case_of_the_suite(run: Run, write: Write, tmp_path: Path) -> None:
    path = write("export.json", name="trees/1")
    code, found, _ = gated(run, tmp_path, "--case", path)
    assert code == 0
    assert [case["group"] for case in found["cases"]] == ["file/trees/1"]
    code, _, err = gated(run, tmp_path, "--case", path, "--case", "roots/*")
    assert code == 2
    assert "suite smoke has a case of the name 'trees/1' too" in err


BIASED = """
import numpy as np
from harness.rules import RULES

class Biased:
    rule = "target-only"
    coins = True

    def verify(self, request):
        rows = request.target_probs
        rows[...] = np.roll(rows, 1, axis=0){also}
        return RULES["target-only"].walk(request)
"""


def test_rows_of_a_neighbour_are_seen_among_decoys(run: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "biased.py").write_text(BIASED.format(also=""))
    path = write("mine.json")
    code, found, _ = gated(run, tmp_path, "--case", path, sampler=f"{tmp_path / 'biased.py'}:Biased")
    assert code == 1
    assert [case["verdict"] for case in found["cases"]] == ["biased"]


def test_default_samplers_are_those_with_a_case(run: Run, write: Write, tmp_path: Path) -> None:
    path, out = write("mine.json", "block"), tmp_path / "out"
    code, _, _ = run("gate", "--suite", "smoke", "--case", path, "--workers", "1", "--out", str(out))
    assert code == 0
    samplers = json.loads((out / "results.json").read_text())["samplers"]
    assert [sampler["name"] for sampler in samplers] == ["reference"]


def test_a_sampler_without_a_case_is_broken(run: Run, write: Write, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(BIASED.format(also="[:]").replace("np.roll(rows, 1, axis=0)", "rows"))
    code, found, _ = gated(run, tmp_path, "--case", write("b.json", "block"), sampler=f"{tmp_path / 'right.py'}:Biased")
    assert code == 3
    assert "no case" in found["reason"]


@pytest.mark.parametrize(
    "fields",
    [
        {**THREE, "logits": [[1], [2], [3]], "tree": {"tokens": [0, 0, 0], "parents": [-1, 0, 1]}},
        {**THREE, "params": {"temperature": 0}},
        {**THREE, "nodes": 40},
        {**THREE, "depth_limit": 40},
        {**THREE, "depth_limit": 1},
        {**THREE, "threshold_acc": 0, "threshold_single": 0},
        {**THREE, "logits": [[0, "-inf", "-inf", "-inf"]] * 3},
    ],
    ids=["one token", "argmax", "padded", "deep", "no drafts", "thresholds 0", "one outcome"],
)
def test_odd_files_pass(run: Run, write: Write, tmp_path: Path, fields: dict[str, Any]) -> None:
    code, found, err = gated(run, tmp_path, "--case", write("odd.json", fields=fields))
    assert code == 0, (found, err)


def test_bad_files_end_before_anything_runs(run: Run, write: Write, tmp_path: Path) -> None:
    good, twin = write("good.json"), write("twin.json", name="good")
    bad = write("bad.json", fields=changed(THREE, "logits.1.0", "x"))
    deep = {"tokens": [0] * 60, "parents": list(range(-1, 59))}
    coin = [[0.5, 0.5]]
    large = write("large.json", fields={**DRAWN, "tree": deep, "probs": coin, "draft": coin})
    for names, words in (
        ([good, good], "good.json: the file is named twice"),
        ([good, str(tmp_path / "." / "x" / ".." / "good.json")], "cannot be read"),
        ([good, twin], f"twin.json: its case has the name 'good', and so has that of {good}"),
        ([bad], "bad.json: logits[1][0]: expected a number"),
        ([str(tmp_path / "none.json")], "none.json: the case file cannot be read"),
        ([good, "nothing*"], "--case 'nothing*' matches no case"),
        ([large], "draft: the drafts of case"),
    ):
        code, _, err = gated(run, tmp_path, *(part for name in names for part in ("--case", name)))
        assert code == 2, names
        assert words in err
        assert len(err.strip().splitlines()) == 1
        assert not (tmp_path / "out" / "results.json").exists()


# ---- selection


def test_draws_are_those_of_the_nearest_vocabulary() -> None:
    suite = small("smoke")
    first, *others = suite.groups
    wide = type(first)("wide", "plain", ("w",), 64, first.make, 4096, 1, 1)
    few = type(first)("few", "plain", ("f",), 16, first.make, 5, 1, 1)
    mixed = Suite("mixed", (few, first, *others, wide), 1.0)
    assert mixed.draws(5, 4) == mixed.draws(60, 4) == 1 << 10
    assert mixed.draws(1 << 17, 1) < mixed.draws(8192, 1) < mixed.draws(4096, 1) == 64
    assert mixed.draws(5, 4000) < 1 << 10
    assert mixed.draws(1 << 20, 4096) >= 1


def test_a_selection_names_its_cases(small_suite: Suite, write: Write) -> None:
    whole = select(small_suite, ())
    assert {name for names in whole.names.values() for name in names} == set(small_suite.names)
    assert whole.rules == {"target-only", "plain", "block"}
    path = write("mine.json", "greedy")
    files = select(small_suite, (path,))
    assert files.rules == {"greedy"}
    assert files.suite.names == ("mine",)
    assert len(files.suite.groups[0].group) == 8
    assert files.argument("mine") == path
    assert files.argument("trees/0") == "trees/0"
    assert find(small_suite, "trees/[0]").name == "trees/0"
    with pytest.raises(UsageError, match="matches no case"):
        find(small_suite, "trees")


def test_decoys_are_between_the_rows_of_the_case(small_suite: Suite, write: Write) -> None:
    selection = select(small_suite, (write("mine.json"),))
    (plan,) = selection.suite.plans(selection.suite.groups, seed=0)
    _, which = plan.call(0)
    counts = np.bincount(which, minlength=8)
    assert (counts == counts[0]).all()
    assert plan.group.cases[0].logits.tobytes() == case_of("target-only", name="mine").logits.tobytes()
