"""The plugin in projects that have nothing to do with it."""

from __future__ import annotations

import subprocess
import sys

from .project import Project

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
