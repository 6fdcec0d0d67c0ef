"""C source to a shared object, with gcc or clang, kept in the cache."""

from __future__ import annotations

import functools
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from harness.simt.cache import cache_folder, content_key
from harness.simt.errors import CompileError

__all__ = ["FLAGS", "Compiler", "compile_c", "find_compiler"]

#: No contraction and no reassociation: the kernel's float operations, each rounded, in the kernel's order.
#: -O1 with vectorisation runs as fast as -O3 here and compiles in a fraction of the time.
FLAGS = (
    "-std=c11", "-O1", "-ftree-vectorize", "-march=native", "-ffp-contract=off", "-fno-strict-aliasing",
    "-fno-math-errno", "-w",
)  # fmt: skip


@dataclass(frozen=True)
class Compiler:
    """A C compiler.

    Parameters
    ----------
    command
        Words to start it with.
    identity
        Its path, version and the processor it tunes for: what its output depends on beside source and flags.
    """

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Compiler:
    """Return ``$CC``, else gcc, else clang, else cc.

    Raises
    ------
    CompileError
        If there is none, or ``$CC`` does not start.
    """
    named = os.environ.get("CC", "")
    for command in [named] if named.strip() else ["gcc", "clang", "cc"]:
        words = shlex.split(command)
        path = shutil.which(words[0])
        if path:
            return Compiler((path, *words[1:]), _identity(path))
    if named.strip():
        raise CompileError(f"the C compiler CC={named} is not there; unset CC or name one that is")
    raise CompileError("no C compiler: install gcc or clang (or set CC) to run CUDA kernels on the CPU")


@functools.cache
def _identity(path: str) -> str:
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    version = done.stdout.partition("\n")[0]
    return f"{path} {version} {platform.machine()} {cpu_features()}"


def cpu_features() -> str:
    """Instruction sets of the processor: -march=native code runs only where these are the same."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    lines = (line.partition(":") for line in text.splitlines())
    wanted = ("flags", "Features", "model name", "CPU part")
    found = {name.strip(): value.strip() for name, _, value in lines if name.strip() in wanted}
    return " ".join(found[name] for name in sorted(found))


def compile_c(source: str, *, flags: tuple[str, ...] = FLAGS, compiler: Compiler | None = None) -> Path:
    """Compile C to a shared object in the cache and return its path.

    Raises
    ------
    CompileError
        With the compiler's own words.
    """
    compiler = compiler or find_compiler()
    key = content_key([compiler.identity, *compiler.command, *flags, source])
    folder = cache_folder("objects")
    target = folder / f"{key}.so"
    if target.exists():
        return target
    with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as scratch:
        text, built = Path(scratch) / "kernel.c", Path(scratch) / "kernel.so"
        text.write_text(source, encoding="utf-8")
        command = [*compiler.command, *flags, "-shared", "-fPIC", str(text), "-o", str(built), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not built.exists():
            raise CompileError(f"{compiler.command[0]} failed ({done.returncode}):\n{done.stderr[:4000]}")
        os.rename(built, target)
    return target
