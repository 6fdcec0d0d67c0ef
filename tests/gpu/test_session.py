"""benchmarks/gpu_session.sh and gpu_compare.py, with a stand-in in the place of the op."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from harness.samplers.sglang_tree import SGLANG_TREE

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


gpu_compare = load(ROOT / "benchmarks" / "gpu_compare.py")


def session(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(ROOT / "benchmarks" / "gpu_session.sh"), *arguments]
    env = {**os.environ, "PYTHON": sys.executable, **environment}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=300, check=False)


@pytest.mark.slow
def test_dry_run(tmp_path: Path) -> None:
    if SGLANG_TREE.unavailable():
        pytest.skip("the simulated kernel cannot run here")
    before = (ROOT / "docs" / "gpu.md").read_text()
    done = session("--device", "cpu", "--out", str(tmp_path))
    assert done.returncode == 0, done.stdout + done.stderr
    assert (ROOT / "docs" / "gpu.md").read_text() == before
    page = (tmp_path / "gpu.md").read_text()
    assert "No figure here is of a GPU" in page
    assert "accept path different in 0" in page
    assert "Gate, suite smoke, 7 cases, 3,584 draws, alpha 1e-06: **pass**." in page
    found = json.loads((tmp_path / "compare.json").read_text())
    assert found["against"] == "sglang-tree"
    assert all(each["last_differs"] == 0 and each["rows"] for each in found["figures"])


def test_without_a_device_nothing_is_installed(tmp_path: Path) -> None:
    done = session("--out", str(tmp_path), CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 3
    assert done.stderr == "gpu_session: no CUDA device, or no NVIDIA driver; nothing was installed\n"


@pytest.mark.parametrize("arguments", [("--frob",), ("--out",), ("--device", "tpu")])
def test_usage(arguments: tuple[str, ...]) -> None:
    done = session(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_crossed_boundaries() -> None:
    law = np.array([0.25, 0.25, 0.0, 0.5])
    assert gpu_compare.crossing(law, 0.25 + 1e-7, 1, 0) == pytest.approx(1e-7)
    assert gpu_compare.crossing(law, 0.5, 1, 3) == 0.0
    assert gpu_compare.crossing(law, 0.5, 0, 3) == 0.25
    assert gpu_compare.crossing(2 * law, 0.5, 0, 3) == 0.25
    assert 2.0**-24 < gpu_compare.rounding(4) < gpu_compare.rounding(151936) < 1e-4


class Tampered:
    """The results of a right sampler with one thing changed in some rows."""

    def __init__(self, change: str) -> None:
        from harness.samplers.sglang_tree_port import TreePort

        self.change, self.port = change, TreePort()

    def verify(self, request: Any) -> Any:
        result = self.port.verify(request)
        rows = np.flatnonzero(result.lengths >= 2)[:3]
        last = result.lengths[rows] - 1
        if self.change == "last":
            result.tokens[rows, last] = (result.tokens[rows, last] + 1) % request.vocab
        if self.change == "path":
            result.tokens[rows, 1:], result.nodes[rows, 1:], result.lengths[rows] = -1, -1, 1
        return result


@pytest.mark.parametrize(
    ("change", "expected"),
    [("none", (0, 0, 0)), ("last", (0, 3, 3)), ("path", (3, 0, 0))],
    ids=["none", "last", "path"],
)
def test_what_differs_is_counted(change: str, expected: tuple[int, int, int]) -> None:
    from cases.catalogue import suite

    entry = next(entry for entry in suite("smoke").groups if entry.name == "target-only/small-2")
    into = gpu_compare.Figures(entry.vocab)
    samplers = [Tampered(change), Tampered("none"), gpu_compare.sampler("reference").make("target-only")]
    counts = gpu_compare.compare(entry, 200, samplers, into)
    assert (into.path_differs, into.last_differs, into.beyond) == expected
    assert into.rows == sum(part.n for part in counts) == 200
    assert len(into.examples) == sum(expected[:2])


def test_the_page_keeps_what_is_around_the_markers(tmp_path: Path) -> None:
    begin, end = gpu_compare.MARKERS
    page = tmp_path / "gpu.md"
    page.write_text(f"before\n{begin}\nold\n{end}\nafter\n")
    gpu_compare.put(page, "new")
    assert page.read_text() == f"before\n{begin}\nnew\n{end}\nafter\n"
    page.write_text("no markers")
    with pytest.raises(SystemExit, match="markers"):
        gpu_compare.put(page, "new")


def test_the_page_of_the_docs_says_what_was_not_measured() -> None:
    begin, end = gpu_compare.MARKERS
    figures = (ROOT / "docs" / "gpu.md").read_text().partition(begin)[2].partition(end)[0]
    assert "Not yet measured" in figures or "gpu " in figures


def test_a_sampler_that_cannot_run_is_exit_3(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    why = SimpleNamespace(unavailable=lambda: "no CUDA device: none")
    monkeypatch.setattr(gpu_compare, "sampler", lambda name: why)
    assert gpu_compare.main([]) == 3
    assert capsys.readouterr().err == "gpu_compare: sglang-tree-gpu cannot run here: no CUDA device: none\n"
