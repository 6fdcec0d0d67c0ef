"""CUDA C++ to PTX with NVRTC, which needs neither a GPU nor a driver; results are kept in the cache."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import Unavailable
from harness.simt.cache import cache_folder, content_key, put_bytes
from harness.simt.errors import CompileError
from harness.simt.headers import INSTALL, Toolkit, find_toolkit, shim_headers
from harness.simt.wheels import Sources

__all__ = ["OPTIONS", "Program", "Ptx", "compile_ptx", "program_key"]

#: No fast math: division, square root and subnormals as IEEE has them. ``-default-device`` gives functions of the
#: vendors' headers that have no CUDA attribute to the device.
OPTIONS = ("-std=c++20", "--gpu-architecture=compute_80", "-default-device", "-include=host.h")


@dataclass(frozen=True)
class Program:
    """What is to be compiled.

    Parameters
    ----------
    source
        CUDA C++ text.
    expressions
        Template instances to keep, as C++ expressions.
    sources
        Vendor headers, or None for none.
    overrides
        Header texts that stand in front of those on disk, by the name they are included with.
    options
        For NVRTC, beside include folders.
    """

    source: str
    expressions: tuple[str, ...] = ()
    sources: Sources | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = OPTIONS

    def headers(self) -> dict[str, str]:
        """Headers given in memory, by name."""
        return {**shim_headers(), **self.overrides}


@dataclass(frozen=True)
class Ptx:
    """NVRTC's output.

    Parameters
    ----------
    text
        The PTX.
    names
        Mangled name of each expression.
    """

    text: str
    names: dict[str, str]


def program_key(program: Program, toolkit: Toolkit) -> str:
    """Hash of everything that the PTX depends on; known without loading NVRTC."""
    headers = program.headers()
    return content_key(
        [
            json.dumps(toolkit.versions, sort_keys=True),
            program.sources.digest if program.sources else "",
            json.dumps(program.options),
            json.dumps(program.expressions),
            json.dumps(headers, sort_keys=True),
            program.source,
        ]
    )


def compile_ptx(program: Program) -> Ptx:
    """Compile, or take the result of an equal compilation from the cache.

    Raises
    ------
    CompileError
        With NVRTC's log.
    Unavailable
        A package is missing.
    """
    toolkit = find_toolkit()
    path = cache_folder("ptx") / f"{program_key(program, toolkit)}.json"
    if path.exists():
        stored = json.loads(path.read_text(encoding="utf-8"))
        return Ptx(stored["text"], stored["names"])
    folders = (*(program.sources.include_dirs if program.sources else ()), *toolkit.include_dirs)
    ptx = _Compilation(program, folders).run()
    put_bytes(path, json.dumps({"text": ptx.text, "names": ptx.names}).encode())
    return ptx


class _Compilation:
    """One NVRTC program, from creation to destruction."""

    def __init__(self, program: Program, folders: Sequence[Path]) -> None:
        try:
            from cuda.bindings import nvrtc  # 40 ms, and only needed when something is compiled
        except ImportError as error:
            raise Unavailable(f"NVRTC's Python bindings are not installed ({error}); {INSTALL}") from error
        try:
            nvrtc.nvrtcVersion()  # the library itself is loaded at the first call
        except Exception as error:  # of whatever kind: the bindings' loader has its own
            raise Unavailable(f"NVRTC cannot be loaded ({str(error).splitlines()[0]}); {INSTALL}") from error
        self.api: Any = nvrtc
        self.program = program
        self.options = [*program.options, *(f"-I{folder}" for folder in folders)]

    def run(self) -> Ptx:
        headers = self.program.headers()
        texts, names = [t.encode() for t in headers.values()], [n.encode() for n in headers]
        source = self.program.source.encode()
        handle = self._call(self.api.nvrtcCreateProgram, source, b"kernel.cu", len(names), texts, names)
        try:
            for expression in self.program.expressions:
                self._call(self.api.nvrtcAddNameExpression, handle, expression.encode())
            encoded = [option.encode() for option in self.options]
            status = self.api.nvrtcCompileProgram(handle, len(encoded), encoded)[0]
            if status != self.api.nvrtcResult.NVRTC_SUCCESS:
                log = self._text(handle, self.api.nvrtcGetProgramLogSize, self.api.nvrtcGetProgramLog)
                raise CompileError(f"NVRTC refused the source ({status.name}):\n{log[:8000]}")
            lowered = {
                expression: self._call(self.api.nvrtcGetLoweredName, handle, expression.encode()).decode()
                for expression in self.program.expressions
            }
            return Ptx(self._text(handle, self.api.nvrtcGetPTXSize, self.api.nvrtcGetPTX), lowered)
        finally:
            self.api.nvrtcDestroyProgram(handle)

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function of the API; its first result is a status, raised when it is not success."""
        status, *values = function(*args)
        if status != self.api.nvrtcResult.NVRTC_SUCCESS:
            raise CompileError(f"NVRTC: {function.__name__} failed with {status.name}")
        return values[0] if values else None

    def _text(self, handle: Any, size_of: Callable[..., Any], get: Callable[..., Any]) -> str:
        """Fetch a text of the program: the log, or the PTX."""
        size: int = self._call(size_of, handle)
        buffer = b" " * size
        self._call(get, handle, buffer)
        return buffer.rstrip(b"\0").decode(errors="replace")
