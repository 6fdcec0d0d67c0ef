"""From a CUDA program to a loaded kernel, by way of the cache.

The first time takes seconds: NVRTC, translation, the C compiler. After that a small JSON file, named by the hash of
everything that the result depends on, says which shared object to load and how to call it.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

from harness.simt.cache import cache_folder, content_key, put_bytes
from harness.simt.codegen import translate
from harness.simt.compile import FLAGS, Compiler, compile_c, find_compiler
from harness.simt.errors import PtxError
from harness.simt.headers import find_toolkit
from harness.simt.launch import CompiledKernel, Signature
from harness.simt.nvrtc import Program, compile_ptx, program_key
from harness.simt.parse import parse_kernel, parse_module
from harness.simt.ptx import Parameter

__all__ = ["LoadedKernel", "load_kernel"]


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel and the constants that were asked for.

    Parameters
    ----------
    kernel
        Ready to launch.
    constants
        Initial values of module variables, by name.
    """

    kernel: CompiledKernel
    constants: dict[str, int]


def load_kernel(
    program: Program,
    *,
    constants: Iterable[str] = (),
    flags: tuple[str, ...] = FLAGS,
    compiler: Compiler | None = None,
) -> LoadedKernel:
    """Compile the kernel of a program, or load it from the cache: its one instance, or the only one there is.

    Parameters
    ----------
    program
        What NVRTC is given.
    constants
        Module variables whose initial values are wanted, such as sizes worked out by the compiler.
    flags, compiler
        For the C compiler.

    Raises
    ------
    CompileError, Unavailable
        A tool failed or is missing.
    PtxError
        The kernel uses PTX that is not known.
    """
    compiler = compiler or find_compiler()
    wanted = tuple(constants)
    key = content_key(
        [
            program_key(program, find_toolkit()),
            _translator_hash(),
            compiler.identity,
            *compiler.command,
            *flags,
            *wanted,
        ]
    )
    path = cache_folder("kernels") / f"{key}.json"
    loaded = _from_cache(path)
    if loaded is None:
        _compile(program, wanted, flags, compiler, path)
        loaded = _from_cache(path)
    assert loaded is not None  # it was just written
    return loaded


def _compile(program: Program, wanted: tuple[str, ...], flags: tuple[str, ...], compiler: Compiler, path: Path) -> None:
    """Do all the work, and write the JSON file that remembers it."""
    ptx = compile_ptx(program)
    module = parse_module(ptx.text)
    instances = set(ptx.names.values())  # a header may hold other kernels, which are no templates
    translation = translate(parse_kernel(module, instances.pop() if len(instances) == 1 else None))
    shared_object = compile_c(translation.source, flags=flags, compiler=compiler)
    values = {}
    for name in wanted:
        if name not in module.constants:
            raise PtxError(f"no variable {name} in the module")
        values[name] = (module.constants[name].values or (0,))[0]
    signature = Signature.of(translation)
    stored = {
        "object": shared_object.name,
        "name": signature.name,
        "parameters": [asdict(parameter) for parameter in signature.parameters],
        "max_threads": signature.max_threads,
        "serial": signature.serial,
        "constants": values,
    }
    put_bytes(path, json.dumps(stored, indent=1).encode())


def _from_cache(path: Path) -> LoadedKernel | None:
    """Load what a JSON file names; None where it is not there, or names what is not there any more."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    shared_object = cache_folder("objects") / stored["object"]
    if not shared_object.exists():
        return None
    parameters = tuple(Parameter(**parameter) for parameter in stored["parameters"])
    signature = Signature(stored["name"], parameters, stored["max_threads"], stored["serial"])
    return LoadedKernel(CompiledKernel(shared_object, signature), stored["constants"])


@functools.cache
def _translator_hash() -> str:
    """Hash of this package's own files: another translator, another kernel."""
    root = resources.files("harness.simt")
    parts = [item for folder in (root, root / "runtime") for item in folder.iterdir() if item.is_file()]
    return content_key(item.name.encode() + b"\0" + item.read_bytes() for item in sorted(parts, key=lambda i: i.name))
