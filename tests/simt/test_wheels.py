"""Fetching wheels, with small wheel files of this test's own and no network."""

from __future__ import annotations

import hashlib
import multiprocessing
import platform
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness.errors import Unavailable
from harness.simt import download, wheels
from harness.simt.errors import HashMismatch
from harness.simt.wheels import FLASHINFER, SGLANG, Pin, Wheel, fetch

pytestmark = pytest.mark.usefixtures("fresh_cache")

FIRST = {
    "first/include/a.h": "int a;",
    "first/include/deep/b.h": "int b;",
    "first/code.py": "raise SystemExit",
    "first-1.0.dist-info/METADATA": "Name: first\nRequires-Dist: second[x]==2.0\nRequires-Dist: second-else==9\n",
    "first-1.0.dist-info/licenses/LICENSE": "free",
    "first-1.0.dist-info/RECORD": "",
}
SECOND = {"second/include/c.h": "int c;", "second-2.0.dist-info/METADATA": "Name: second\n"}


def make_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Pin:
    """Write a wheel and return its pin."""
    filename = f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(folder / filename, "w") as archive:
        for member, text in files.items():
            archive.writestr(member, text)
    sha256 = hashlib.sha256((folder / filename).read_bytes()).hexdigest()
    return Pin(name, version, f"{name}/include", {platform.machine(): Wheel(filename, sha256, "any")})


@pytest.fixture
def pins(tmp_path: Path) -> tuple[Pin, Pin]:
    return make_wheel(tmp_path, "first", "1.0", FIRST), make_wheel(tmp_path, "second", "2.0", SECOND)


def test_only_headers_and_licences_are_unpacked(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    sources = fetch(wheels=tmp_path, pins=pins)
    assert sources.versions == {"first": "1.0", "second": "2.0"}
    assert sources.read_header("deep/b.h") == "int b;"
    assert sources.read_header("c.h") == "int c;"
    root = sources.include_dirs[0].parents[1]
    assert {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()} == {
        "manifest.json",
        "first/include/a.h",
        "first/include/deep/b.h",
        "first-1.0.dist-info/METADATA",
        "first-1.0.dist-info/licenses/LICENSE",
    }
    with pytest.raises(Unavailable, match=r"no header z\.h"):
        sources.read_header("z.h")


def test_verified_sources_are_not_fetched_again(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    before = fetch(wheels=tmp_path, pins=pins)
    assert fetch(wheels=tmp_path / "no such folder", pins=pins) == before


@pytest.mark.parametrize("damage", ["changed", "deleted", "added", "manifest"])
def test_damaged_sources_are_fetched_again(tmp_path: Path, pins: tuple[Pin, Pin], damage: str) -> None:
    sources = fetch(wheels=tmp_path, pins=pins)
    header = sources.include_dirs[0] / "a.h"
    match damage:
        case "changed":
            header.write_text("int aa;")
        case "deleted":
            header.unlink()
        case "added":
            (header.parent / "c.h").write_text("int shadow;")
        case "manifest":
            (sources.include_dirs[0].parents[1] / "manifest.json").write_text("[]")
    with pytest.raises(Unavailable, match=r"no first-1\.0"):
        fetch(wheels=tmp_path / "no such folder", pins=pins)
    assert fetch(wheels=tmp_path, pins=pins) == sources
    assert header.read_text() == "int a;"
    assert not (header.parent / "c.h").exists()


def test_wrong_wheel_is_named_with_both_hashes(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    wheel = pins[0].wheel()
    (tmp_path / wheel.filename).write_bytes(b"not it")
    got = hashlib.sha256(b"not it").hexdigest()
    with pytest.raises(HashMismatch, match=f"{wheel.filename}: expected sha256 {wheel.sha256}, got {got}.*fetch again"):
        fetch(wheels=tmp_path, pins=pins)


@pytest.mark.parametrize("member", ["/etc/x.h", "first/include/../../../x.h", "..", "first/include\\x.h", "c:/x.h"])
def test_unsafe_members_are_refused(tmp_path: Path, fresh_cache: Path, member: str) -> None:
    pin = make_wheel(tmp_path, "first", "1.0", {**FIRST, member: "int x;"})
    with pytest.raises(Unavailable, match="unsafe member"):
        fetch(wheels=tmp_path, pins=(pin,))
    assert not list(fresh_cache.rglob("*.h"))


def test_links_are_refused(tmp_path: Path) -> None:
    filename = "first-1.0-py3-none-any.whl"
    link = zipfile.ZipInfo("first/include/link.h")
    link.external_attr = 0o120777 << 16
    with zipfile.ZipFile(tmp_path / filename, "w") as archive:
        archive.writestr(link, "/etc/passwd")
    sha256 = hashlib.sha256((tmp_path / filename).read_bytes()).hexdigest()
    pin = Pin("first", "1.0", "first/include", {platform.machine(): Wheel(filename, sha256, "any")})
    with pytest.raises(Unavailable, match="unsafe member"):
        fetch(wheels=tmp_path, pins=(pin,))


def test_pins_must_agree_with_the_metadata(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    other = make_wheel(tmp_path, "second", "2.1", SECOND)
    with pytest.raises(Unavailable, match=r"first==1\.0 requires 2\.0 of second, but 2\.1 is pinned"):
        fetch(wheels=tmp_path, pins=(pins[0], other))


def test_unknown_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(Unavailable, match=r"no pinned wheel for riscv64 \(only for aarch64, x86_64\)"):
        fetch()


def test_the_released_pins_are_for_one_python_tag() -> None:
    assert {wheel.filename.split("-")[2] for wheel in SGLANG.wheels.values()} == {"cp311"}
    assert {machine in wheel.platform for machine, wheel in SGLANG.wheels.items()} == {True}
    assert len({wheel.sha256 for wheel in FLASHINFER.wheels.values()}) == 1


def _fetch_in_child(folder: Path, pins: tuple[Pin, Pin], queue: multiprocessing.Queue[str]) -> None:
    queue.put(fetch(wheels=folder, pins=pins).digest)


def test_processes_at_the_same_time(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    children = [context.Process(target=_fetch_in_child, args=(tmp_path, pins, queue)) for _ in range(4)]
    for child in children:
        child.start()
    digests = {queue.get(timeout=50) for _ in children}
    for child in children:
        child.join()
    assert digests == {fetch(wheels=tmp_path, pins=pins).digest}


class FakePip:
    """Stands for subprocess.run, with pip's words."""

    def __init__(self, code: int, output: str) -> None:
        self.code, self.output, self.command = code, output, []

    def __call__(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.command = command
        return subprocess.CompletedProcess(command, self.code, "", self.output)


def download_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, output: str) -> FakePip:
    pip = FakePip(code, output)
    monkeypatch.setattr(download.subprocess, "run", pip)
    download.wheel("first==1.0", "first.whl", "0" * 64, "linux_x86_64", tmp_path)
    return pip


def test_pip_is_asked_for_one_wheel_by_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "first.whl").touch()
    pip = download_with(monkeypatch, tmp_path, 0, "")
    assert pip.command[:3] == [sys.executable, "-m", "pip"]
    for option in ("--no-deps", "--only-binary", "--require-hashes", "--platform", "--python-version"):
        assert option in pip.command
    assert (tmp_path / "requirements.txt").read_text() == f"first==1.0 --hash=sha256:{'0' * 64}\n"


@pytest.mark.parametrize(
    ("output", "error", "message"),
    [
        ("/usr/bin/python: No module named pip", Unavailable, "pip is missing in .* -m ensurepip"),
        (f"ERROR: THESE PACKAGES DO NOT MATCH\n  Expected sha256 {'0' * 64}\n       Got        {'1' * 64}\n",
         HashMismatch, f"first.whl: expected sha256 {'0' * 64}, got {'1' * 64}"),
        ("WARNING: x\nERROR: cannot reach https://user:pass@index.example/simple/first/\nERROR: No match",
         Unavailable, "first==1.0 could not be downloaded: cannot reach <index>"),
        ("WARNING: Retrying after NewConnectionError('http://index.example')\nERROR: No matching distribution",
         Unavailable, "first==1.0 could not be downloaded: the package index cannot be reached"),
        ("", Unavailable, "could not be downloaded: no message"),
    ],
)  # fmt: skip
def test_pip_s_failures_in_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, output: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        download_with(monkeypatch, tmp_path, 1, output)
    assert "example" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_manifest_of_another_wheel_does_not_count(tmp_path: Path, pins: tuple[Pin, Pin]) -> None:
    folder = fetch(wheels=tmp_path, pins=pins).include_dirs[0].parents[1]
    assert wheels._verified(folder, pins[0].wheel())
    assert not wheels._verified(folder, replace(pins[0].wheel(), sha256="0" * 64))
