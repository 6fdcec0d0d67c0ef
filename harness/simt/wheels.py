"""The vendor's wheels that the kernels are read from: which ones, and how their headers get into the cache.

Only headers, the Python files that a pin names, METADATA and licences are unpacked; nothing of a wheel is installed. A
wheel is accepted only with its pinned SHA-256. What was unpacked carries a manifest of its files' hashes, which is
checked at every use: a file that was changed or lost means that the wheel is fetched again.
"""

from __future__ import annotations

import hashlib
import json
import platform
import re
import stat
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.errors import Unavailable
from harness.simt import download
from harness.simt.cache import cache_folder, put_bytes
from harness.simt.errors import HashMismatch

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

__all__ = ["FLASHINFER", "SGLANG", "Pin", "Sources", "Wheel", "fetch"]

MANIFEST = "manifest.json"
LICENCE_FILE = re.compile(r"[^/]+\.dist-info/(METADATA|LICENSE[^/]*|licenses/LICENSE[^/]*)")


@dataclass(frozen=True)
class Wheel:
    """A wheel file.

    Parameters
    ----------
    filename
        Its exact name.
    sha256
        Its SHA-256 in hex.
    platform
        The pip platform tag to ask for it with.
    """

    filename: str
    sha256: str
    platform: str


@dataclass(frozen=True)
class Pin:
    """A pinned distribution.

    Parameters
    ----------
    name, version
        As on the package index.
    headers
        Folder inside the wheel that is unpacked, and that goes on the compiler's include path.
    wheels
        Wheel for each ``platform.machine()``. One fixed tag each, whatever Python runs this: nothing compiled is read.
    modules
        Python files inside the wheel that are unpacked too, on no import path.
    """

    name: str
    version: str
    headers: str
    wheels: Mapping[str, Wheel]
    modules: tuple[str, ...] = ()

    def wheel(self, machine: str | None = None) -> Wheel:
        """Return the wheel of this machine's architecture, or raise Unavailable."""
        machine = machine or platform.machine()
        try:
            return self.wheels[machine]
        except KeyError:
            known = ", ".join(sorted(self.wheels))
            raise Unavailable(
                f"{self.name} {self.version} has no pinned wheel for {machine} (only for {known})"
            ) from None

    @property
    def requirement(self) -> str:
        """The requirement that pip is given."""
        return f"{self.name}=={self.version}"


_FLASHINFER_WHEEL = "flashinfer_python-0.7.2-py3-none-any.whl"
_FLASHINFER_SHA256 = "770550a0aa92b2f10e6c9a1f048dd43713f0f3bb6a12710186fcf8e4e9c99bd8"

SGLANG = Pin(
    "sglang",
    "0.5.23",
    "sglang/kernels/jit/include",
    {
        "x86_64": Wheel(
            "sglang-0.5.23-cp311-cp311-manylinux_2_34_x86_64.whl",
            "00b3cd5b265ac76c64185fbb6b95424f324ddd9f428d0306b77bc9db9d859937",
            "manylinux_2_34_x86_64",
        ),
        "aarch64": Wheel(
            "sglang-0.5.23-cp311-cp311-manylinux_2_34_aarch64.whl",
            "4d23d6abe82435c4b1b5db7b6d89e6f398d0128efbd9b873ac3a1ab6ea17b5ee",
            "manylinux_2_34_aarch64",
        ),
    },
    modules=(
        "sglang/kernels/cake_kernels/sampling.py",
        "sglang/kernels/kernel_api_logging.py",
        "sglang/kernels/ops/sampling/__init__.py",
        "sglang/kernels/ops/sampling/renorm.py",
        "sglang/kernels/ops/speculative/dflash.py",
        "sglang/kernels/ops/speculative/sampling.py",
        "sglang/kernels/ops/speculative/spec_tree.py",
        "sglang/kernels/ops/speculative/tree.py",
        "sglang/kernels/ops/speculative/verify_sampling.py",
        "sglang/kernels/registry.py",
        "sglang/kernels/selector.py",
        "sglang/kernels/spec.py",
        "sglang/srt/environ.py",
        "sglang/srt/layers/sampler.py",
        "sglang/srt/sampling/sampling_batch_info.py",
        "sglang/srt/sampling/sampling_params.py",
        "sglang/srt/speculative/dflash_utils.py",
        "sglang/srt/speculative/eagle_utils.py",
        "sglang/srt/utils/async_probe.py",
    ),
)
FLASHINFER = Pin(
    "flashinfer-python",
    "0.7.2",
    "flashinfer/data/include",
    {
        machine: Wheel(_FLASHINFER_WHEEL, _FLASHINFER_SHA256, f"manylinux_2_34_{machine}")
        for machine in ("x86_64", "aarch64")
    },
)


@dataclass(frozen=True)
class Sources:
    """Verified vendor sources on disk.

    Parameters
    ----------
    include_dirs
        Folders for the compiler's include path, in order.
    versions
        Version of each vendor package: ``{"sglang": …, "flashinfer": …}``.
    digest
        Hash of every header's path and content: part of the key of whatever is compiled from them.
    folders
        Of each package: where its files lie under their names in the wheel.
    """

    include_dirs: tuple[Path, ...]
    versions: Mapping[str, str]
    digest: str
    folders: tuple[Path, ...] = ()

    def read_header(self, name: str) -> str:
        """Return the text of a header, named as in an ``#include``."""
        for folder in self.include_dirs:
            path = folder / name
            if path.is_file():
                return path.read_text(encoding="utf-8")
        raise Unavailable(f"no header {name} in the sources of {dict(self.versions)}")


def fetch(*, wheels: Path | None = None, pins: tuple[Pin, ...] = (SGLANG, FLASHINFER)) -> Sources:
    """Bring the vendor headers into the cache, verify them, and say where they are.

    What is there and verified is not fetched again, and then no network is needed. Processes may call this at the same
    time.

    Parameters
    ----------
    wheels
        Folder with wheel files to take instead of the package index.
    pins
        The distributions; the first one's METADATA must agree with the versions of the others.

    Raises
    ------
    Unavailable
        No network, no pip, no wheel for this architecture, or the pins contradict each other.
    HashMismatch
        A wheel that is not the pinned one.
    UsageError
        A cache folder that others may write to.
    """
    folders = [_ensure(pin, wheels) for pin in pins]
    _check_agreement(pins, folders[0])
    digest = hashlib.sha256()
    for pin, folder in zip(pins, folders, strict=True):
        files = json.loads((folder / MANIFEST).read_bytes())["files"]
        headers = [[name, sha256] for name, sha256 in files.items() if name.startswith(pin.headers + "/")]
        digest.update(json.dumps(headers).encode())
    return Sources(
        include_dirs=tuple(folder / pin.headers for pin, folder in zip(pins, folders, strict=True)),
        versions={pin.name.removesuffix("-python"): pin.version for pin in pins},
        digest=digest.hexdigest(),
        folders=tuple(folders),
    )


def _ensure(pin: Pin, wheels: Path | None) -> Path:
    """Return the verified folder of one pin, unpacking its wheel where that is needed."""
    wheel = pin.wheel()
    root = cache_folder("sources")
    folder = root / f"{pin.name}-{pin.version}-{wheel.sha256[:12]}"
    if _verified(folder, wheel, pin.modules):
        return folder
    with _lock(root / f"{folder.name}.lock"):
        if _verified(folder, wheel, pin.modules):  # another process was first
            return folder
        with tempfile.TemporaryDirectory(dir=root, prefix=".new-") as scratch:
            path = _obtain(pin, wheel, wheels, Path(scratch))
            fresh = Path(scratch) / "unpacked"
            _unpack(path, pin, wheel, fresh)
            if folder.exists():  # damaged, or left by an older layout
                folder.rename(Path(scratch) / "damaged")
            fresh.rename(folder)
    return folder


def _obtain(pin: Pin, wheel: Wheel, wheels: Path | None, scratch: Path) -> Path:
    """Return a wheel file with the pinned hash."""
    if wheels is None:
        path = download.wheel(pin.requirement, wheel.filename, wheel.sha256, wheel.platform, scratch)
    else:
        path = wheels / wheel.filename
        if not path.is_file():
            raise Unavailable(f"no {wheel.filename} in {wheels}")
    with path.open("rb") as file:
        got = hashlib.file_digest(file, "sha256").hexdigest()
    if got != wheel.sha256:
        raise HashMismatch(download.mismatch_message(wheel.filename, wheel.sha256, got))
    return path


def _unpack(path: Path, pin: Pin, wheel: Wheel, target: Path) -> None:
    """Unpack the wanted members and write their manifest."""
    hashes: dict[str, str] = {}
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            _refuse_unsafe(member, path.name)
            if member.is_dir() or not _wanted(member.filename, pin):
                continue
            data = archive.read(member)
            out = target / member.filename
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(data)
            hashes[member.filename] = hashlib.sha256(data).hexdigest()
    if not any(name.startswith(pin.headers + "/") for name in hashes):
        raise Unavailable(f"{path.name} holds no {pin.headers}/")
    missing = sorted(set(pin.modules) - hashes.keys())
    if missing:
        raise Unavailable(f"{path.name} holds no {missing[0]}")
    manifest = {"wheel": wheel.filename, "sha256": wheel.sha256, "files": dict(sorted(hashes.items()))}
    put_bytes(target / MANIFEST, json.dumps(manifest, indent=1).encode())


def _wanted(name: str, pin: Pin) -> bool:
    return name.startswith(pin.headers + "/") or name in pin.modules or LICENCE_FILE.fullmatch(name) is not None


def _refuse_unsafe(member: zipfile.ZipInfo, wheel: str) -> None:
    """Refuse a wheel with any member that could land outside its folder."""
    name = member.filename
    parts = PurePosixPath(name).parts
    unsafe = name.startswith(("/", "\\")) or ".." in parts or "\\" in name or ":" in name or "\0" in name
    if unsafe or stat.S_ISLNK(member.external_attr >> 16):
        raise Unavailable(f"{wheel} has the unsafe member {name!r} (absolute path, '..' or link); nothing was unpacked")


def _verified(folder: Path, wheel: Wheel, modules: tuple[str, ...] = ()) -> bool:
    """Say whether a folder holds exactly the files of its manifest, and the manifest is of this wheel and has these."""
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        if manifest["sha256"] != wheel.sha256:
            return False
        files: dict[str, str] = manifest["files"]
        if not files.keys() >= set(modules):  # unpacked when fewer were named
            return False
        present = {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}
        if present != {*files, MANIFEST}:  # an extra header could shadow another
            return False
        return all(hashlib.sha256((folder / name).read_bytes()).hexdigest() == want for name, want in files.items())
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def _check_agreement(pins: tuple[Pin, ...], folder: Path) -> None:
    """Check the pins of the other distributions against the first one's METADATA."""
    first = pins[0]
    metadata = next(folder.glob("*.dist-info/METADATA"), None)
    if metadata is None:
        raise Unavailable(f"the wheel of {first.requirement} has no METADATA")
    text = metadata.read_text(encoding="utf-8")
    for pin in pins[1:]:
        name = re.sub(r"[-_.]+", "[-_.]+", pin.name)
        found = re.search(rf"^Requires-Dist: {name}(?:\[[^\]]*\])?\s*\(?==\s*([\w.+]+)", text, re.M | re.I)
        if found is None or found.group(1) != pin.version:
            says = found.group(1) if found else "no version"
            raise Unavailable(
                f"{first.requirement} requires {says} of {pin.name}, but {pin.version} is pinned; change the pin"
            )


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an advisory lock, so that two processes do not download the same wheel."""
    with path.open("w") as file:
        if fcntl is not None:  # without it the last rename wins, which is right too
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
