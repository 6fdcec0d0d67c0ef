"""Random kill -9 of the parent or a worker: nothing that was found is lost, and the end is that of an unbroken run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent.parent / "benchmarks" / "kill_and_resume.py"


@pytest.mark.slow
def test_random_kills() -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--kills", "12", "--seed", "1"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal to the unbroken one" in done.stdout
