"""A project that is not ours, with verifiers of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from .project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a new project."""
    return Project(tmp_path)


@pytest.fixture(scope="module")
def shared_project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return a project for all tests of a file."""
    return Project(tmp_path_factory.mktemp("project"))
