"""The known findings of released software, in ``known_findings.json`` beside this file."""

from __future__ import annotations

from pathlib import Path

from harness.known import Known, load

__all__ = ["PATH", "known_findings"]

PATH = Path(__file__).with_name("known_findings.json")


def known_findings() -> Known:
    """Read the known findings that suites are run with; a UsageError says what is wrong with the file."""
    return load(PATH)
