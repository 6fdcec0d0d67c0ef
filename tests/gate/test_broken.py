"""What a broken sampler leaves to read: the line names the user's own file, a file has the whole traceback."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harness.broken import broken_file, place, put_broken, trace

from .running import QUICK, Gate

MINE = """
import sys
import numpy as np


class Deep:
    rule = "target-only"

    def verify(self, request):
        print("on the way")
        print("to the wall", file=sys.stderr)
        return np.linalg.solve(np.zeros((2, 2)), np.zeros(2))  # line 12


class Dies:
    rule = "target-only"

    def verify(self, request):
        print("last words", flush=True)
        import os
        os.abort()


class Unmade:
    rule = "target-only"

    def __init__(self):
        import json
        json.loads("{")  # line 29

    def verify(self, request):
        raise AssertionError
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    return file


def test_the_line_names_the_own_file_and_the_rest_is_in_a_file(gate: Gate, mine: Path) -> None:
    run = gate("--sampler", f"{mine}:Deep", *QUICK)
    assert run.code == 3
    assert "verify raised LinAlgError: Singular matrix (mine.py:12)" in (run.cases[0]["reason"] or "")
    file = broken_file(run.folder, f"{mine}:Deep")
    assert f"broken: {file}" in run.out.splitlines()
    text = file.read_text()
    assert "Traceback (most recent call last)" in text
    assert "linalg" in text
    assert "-- it last printed:" in text
    assert "on the way" in text
    assert "to the wall" in text
    assert "Traceback" not in run.out + run.err
    assert str(run.folder) not in (run.folder / "results.json").read_text().replace(f"{mine}", "")


def test_a_constructor_and_a_crash(gate: Gate, mine: Path) -> None:
    run = gate("--sampler", f"{mine}:Unmade", "--sampler", f"{mine}:Dies", *QUICK)
    assert "(mine.py:29)" in (run.samplers[0]["reason"] or "")
    assert "JSONDecodeError" in broken_file(run.folder, f"{mine}:Unmade").read_text()
    assert "last words" in broken_file(run.folder, f"{mine}:Dies").read_text()


def test_a_file_of_an_earlier_run_goes(gate: Gate, mine: Path) -> None:
    gate("--sampler", f"{mine}:Deep", *QUICK)
    right = "__import__('harness.rules').rules.RULES['target-only'].walk(request)"
    mine.write_text(MINE.replace("return np.linalg", f"return {right} or np.linalg"))
    run = gate("--sampler", f"{mine}:Deep", *QUICK)
    assert "broken" not in run.out
    assert not broken_file(run.folder, f"{mine}:Deep").exists()


def test_names_and_bounds(tmp_path: Path) -> None:
    assert broken_file(tmp_path, "a b/../c.py:D").name == "broken-a-b-..-c.py-D.txt"
    assert broken_file(tmp_path, "/x/" + "y" * 500).parent == tmp_path
    put_broken(tmp_path, "x", [(f"group {i}", "\udcff rest") for i in range(100)])
    text = broken_file(tmp_path, "x").read_text()
    assert text.count("== group") == 20
    put_broken(tmp_path, "x", [])
    assert list(tmp_path.iterdir()) == []
    put_broken(tmp_path / "none", "x", [("a", "b")])  # nothing can be written there, which is no error


def test_an_error_that_no_own_code_raised_has_the_deepest_place() -> None:
    code = (
        "import json\nfrom harness.broken import place\ntry: json.loads('{')\nexcept ValueError as e: print(place(e))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("(decoder.py:")


def test_an_error_that_cannot_be_told() -> None:
    class Silent(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt

    with pytest.raises(Silent) as caught:
        raise Silent
    assert isinstance(trace(caught.value), str)
    assert place(caught.value).startswith("(test_broken.py:")
