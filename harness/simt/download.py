"""Downloading one wheel with pip, from whatever package index pip is configured with."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from harness.errors import Unavailable
from harness.simt.errors import HashMismatch

__all__ = ["mismatch_message", "wheel"]

# The wheels' own tag, not that of the running Python: only their headers are read.
TAG = ("--python-version", "3.11", "--implementation", "cp", "--abi", "cp311")


def wheel(requirement: str, filename: str, sha256: str, platform: str, folder: Path) -> Path:
    """Download one wheel and return its path.

    Parameters
    ----------
    requirement
        ``name==version``.
    filename, sha256
        The wheel wanted.
    platform
        Platform tag to ask for.
    folder
        Where it goes.

    Raises
    ------
    HashMismatch
        The index offers another file under that version.
    Unavailable
        pip is missing, or the download failed.
    """
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{requirement} --hash=sha256:{sha256}\n", encoding="utf-8")
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"),
        *("--no-deps", "--only-binary", ":all:", "--platform", platform, *TAG),
        *("--require-hashes", "--requirement", str(requirements), "--dest", str(folder)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        _raise(done.stderr + done.stdout, requirement, filename, sha256)
    path = folder / filename
    if not path.is_file():
        raise Unavailable(f"pip brought another file than {filename} for {requirement}")
    return path


def mismatch_message(filename: str, expected: str, got: str) -> str:
    """Return the one line for a wheel with a wrong hash."""
    return (
        f"{filename}: expected sha256 {expected}, got {got}; the file is damaged or not the released one: "
        "check the package index or the folder it came from, and fetch again"
    )


def _raise(output: str, requirement: str, filename: str, sha256: str) -> None:
    """Turn pip's output into one clear line, without the addresses in it."""
    if "No module named pip" in output:
        raise Unavailable(f"pip is missing in {sys.executable}; mend it with: {sys.executable} -m ensurepip")
    got = re.search(r"\bGot\s+([0-9a-f]{64})", output)
    if got:
        raise HashMismatch(mismatch_message(filename, sha256, got.group(1)))
    if re.search(r"connection|timed out|name resolution|unreachable", output, re.I):
        raise Unavailable(f"{requirement} could not be downloaded: the package index cannot be reached")
    lines = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()[-1:]
    reason = re.sub(r"\S+://\S+|host='[^']*'", "<index>", lines[0] if lines else "no message")
    raise Unavailable(f"{requirement} could not be downloaded: {reason.removeprefix('ERROR: ')[:300]}")
