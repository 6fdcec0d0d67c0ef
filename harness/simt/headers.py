"""Headers for device code beside the vendors' own: NVIDIA's, from installed packages, and small shims for the rest.

NVRTC has no host compiler's headers. Those that the vendors' headers include are given to it in memory: most only
forward to ``std.h``, which takes the names of ``std::`` from libcu++; the others are files of ``shims/``.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata, resources
from importlib.resources.abc import Traversable
from pathlib import Path

from harness.errors import Unavailable

__all__ = ["INSTALL", "Toolkit", "find_toolkit", "shim_headers"]

INSTALL = "pip install 'chitree[sim]'"
PACKAGES = ("nvidia-cuda-nvrtc", "nvidia-cuda-runtime", "nvidia-cuda-crt", "nvidia-cuda-cccl")
#: A file that must be there for each include folder to be the right one.
WITNESS = {"cuda_runtime.h": ("include",), "cuda/std/limits": ("include/cccl", "cccl/include", "cccl")}

FORWARD_TO_STD = (
    *("algorithm", "array", "atomic", "climits", "cmath", "cstddef", "cstdint", "cstdio", "cstdlib", "cstring"),
    *("functional", "iostream", "limits", "memory", "numeric", "sstream", "string", "tuple", "type_traits"),
    *("utility", "vector"),
)
FORWARD_TO_STDINT = ("limits.h", "math.h", "stddef.h", "stdio.h", "stdlib.h", "string.h")
EMPTY = ("assert.h", "curand.h", "curand_philox4x32_x.h", "exception")


@dataclass(frozen=True)
class Toolkit:
    """NVIDIA's compiler packages.

    Parameters
    ----------
    include_dirs
        Folders of the CUDA runtime's and CCCL's headers.
    versions
        Installed version of each package.
    """

    include_dirs: tuple[Path, ...]
    versions: dict[str, str]


def find_toolkit() -> Toolkit:
    """Find the installed NVIDIA packages, without loading them.

    Raises
    ------
    Unavailable
        Naming what is missing and how to install it.
    """
    versions = {name: _version(name) for name in PACKAGES}
    return Toolkit(tuple(_folder_with(witness) for witness in WITNESS), versions)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        raise Unavailable(f"package {name} is not installed; {INSTALL}") from None


def _folder_with(witness: str) -> Path:
    """Return the include folder that holds a header, among the files that the packages list."""
    for package in PACKAGES:
        root = Path(str(metadata.distribution(package).locate_file("nvidia")))
        for toolkit in sorted(root.glob("cu1*"), reverse=True):
            for sub in WITNESS[witness]:
                if (toolkit / sub / witness).is_file():
                    return toolkit / sub
    raise Unavailable(f"header {witness} is not in the installed NVIDIA packages; {INSTALL}")


def shim_headers() -> dict[str, str]:
    """Text of every shim, by the name it is included with."""
    headers = dict.fromkeys(FORWARD_TO_STD, '#pragma once\n#include "std.h"\n')
    headers |= dict.fromkeys(FORWARD_TO_STDINT, '#pragma once\n#include "stdint.h"\n')
    headers |= dict.fromkeys(EMPTY, "#pragma once\n")
    headers |= dict(_files(resources.files("harness.simt") / "shims", ""))
    return headers


def _files(folder: Traversable, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        if item.is_dir():
            found += _files(item, f"{prefix}{item.name}/")
        else:
            found.append((prefix + item.name, item.read_text(encoding="utf-8")))
    return found
