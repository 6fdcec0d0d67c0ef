"""The plugin in projects that have nothing to do with it."""

from __future__ import annotations

import importlib.metadata
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .project import FEW, SIZE, Project

ROOT = Path(__file__).resolve().parents[2]

THEIRS = """
import sys
import pytest

@pytest.fixture
def sampler():
    return 1

@pytest.fixture
def case():
    return 2

def test(sampler, case):
    assert (sampler, case) == (1, 2)
    assert "numpy" not in sys.modules
    assert "harness.runner" not in sys.modules
"""


def test_start_imports_nothing_heavy() -> None:
    code = "import sys, harness.plugin; print(sorted({name.partition('.')[0] for name in sys.modules}))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for name in ("numpy", "scipy", "rich", "click", "msgspec", "torch", "cases", "reports"):
        assert f"'{name}'" not in shown


def test_other_projects_do_not_notice(project: Project) -> None:
    """Fixtures of our parameters' names, packages of our packages' names, and no section at the end."""
    for package in ("cases", "reports"):
        (project.folder / package).mkdir()
        (project.folder / package / "__init__.py").touch()
    (project.folder / "cases" / "test_theirs.py").write_text(THEIRS)
    for arguments in (("-n", "1"), ("--pyargs", "cases")):
        run = project.pytest(*arguments)
        assert run.outcomes == ["passed"], run.out
        assert "= chitree =" not in run.out
        assert project.left == []


@pytest.mark.parametrize(("options", "claims"), [((), True), (("--chitree-suite", "smoke"), False)])
def test_claims_are_left_out_where_something_is_named(options: tuple[str, ...], claims: bool) -> None:
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "cases", *options]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ("cases/test_claims.py" in run.stdout) == claims
    assert "cases/test_gate.py" in run.stdout


@pytest.mark.slow
def test_wheel(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel holds all that the gate needs, also where a project has packages of our names and imports them."""
    if int(importlib.metadata.version("setuptools").partition(".")[0]) < 77:
        pytest.skip("building needs setuptools >= 77")
    source, installed = project.folder / "source", project.folder / "installed"
    source.mkdir()
    for name in ("distributions", "harness", "cases", "reports"):
        ignored = shutil.ignore_patterns("__pycache__", "out")
        shutil.copytree(ROOT / name, source / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = ("-m", "pip", "--disable-pip-version-check")
    built = project.python(*pip, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", ".", "./source")
    assert built.returncode == 0, built.stderr
    (wheel,) = project.folder.glob("*.whl")
    put = project.python(*pip, "install", "--no-deps", "--no-index", "--target", str(installed), wheel.name)
    assert put.returncode == 0, put.stderr
    shutil.rmtree(source)
    for package in ("cases", "reports"):
        (project.folder / package).mkdir()
        (project.folder / package / "__init__.py").touch()
    lines = ["import cases, harness", f"assert harness.__file__.startswith({str(installed)!r})"]
    (project.folder / "conftest.py").write_text("\n".join(lines) + "\n")
    monkeypatch.setenv("PYTHONPATH", str(installed))
    run = project.pytest("--pyargs", "cases", "--chitree-sampler", "mine:Right", *FEW, "-n", "2")
    assert run.outcomes == ["passed"] * (SIZE + 1), run.out + run.err
