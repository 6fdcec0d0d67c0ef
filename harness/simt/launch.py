"""A compiled kernel, callable from Python on NumPy arrays."""

from __future__ import annotations

import ctypes
import itertools
import os
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.poison import BYTE, poisoned
from harness.simt.codegen import Translation
from harness.simt.compile import Compiler, compile_c, find_compiler
from harness.simt.errors import CompileError, Deadlock, KernelTrap
from harness.simt.ptx import Parameter

__all__ = ["Argument", "CompiledKernel", "Signature", "build"]

Argument = np.ndarray | int | float | None
UINT32_MAX = 0xFFFFFFFF
FLOAT_FORMAT = {"f32": "<f", "f64": "<d"}
INTEGER_BYTES = {kind + bits: int(bits) // 8 for kind in "bus" for bits in ("8", "16", "32", "64")}


class _Launch(ctypes.Structure):
    """The C runtime's Launch."""

    _fields_ = (
        ("first", ctypes.c_uint32),
        ("last", ctypes.c_uint32),
        ("grid_x", ctypes.c_uint32),
        ("grid_y", ctypes.c_uint32),
        ("grid_z", ctypes.c_uint32),
        ("threads", ctypes.c_uint32),
        ("dynamic_bytes", ctypes.c_uint32),
        ("fill", ctypes.c_uint32),
        ("poison", ctypes.c_uint32),
        ("parameters", ctypes.c_void_p),
        ("block", ctypes.c_uint32),
        ("at_barrier", ctypes.c_uint32),
        ("waiting", ctypes.c_uint32),
    )


DONE, DEADLOCK, TRAPPED, NO_MEMORY = range(4)


@dataclass(frozen=True)
class Signature:
    """What a launcher must know of a kernel; plain data, kept beside the shared object.

    Parameters
    ----------
    name
        Kernel name in the PTX.
    parameters
        In order.
    max_threads
        Threads a block may have; None where the kernel does not say.
    serial
        Blocks must run one after another.
    """

    name: str
    parameters: tuple[Parameter, ...]
    max_threads: int | None = None
    serial: bool = False

    @staticmethod
    def of(translation: Translation) -> Signature:
        """Return the signature of a translated kernel."""
        kernel = translation.kernel
        return Signature(kernel.name, kernel.parameters, kernel.max_threads, translation.serial)

    def pack(self, args: Sequence[Argument]) -> bytes:
        """Lay arguments out as the kernel's parameter block.

        Raises
        ------
        ValueError
            For a wrong number of arguments, a value that does not fit its parameter, or an array that is not
            C-contiguous.
        """
        if len(args) != len(self.parameters):
            raise ValueError(f"{self.name} takes {len(self.parameters)} arguments, got {len(args)}")
        end = max((p.offset + p.size for p in self.parameters), default=0)
        block = bytearray(end + 16)
        for parameter, arg in zip(self.parameters, args, strict=True):
            block[parameter.offset : parameter.offset + parameter.size] = _encode(parameter, arg)
        return bytes(block)


def _encode(parameter: Parameter, arg: Argument) -> bytes:
    """One argument in the bytes of its parameter."""
    kind = parameter.type
    if isinstance(arg, np.ndarray) or arg is None:
        if INTEGER_BYTES.get(kind) != 8:
            raise ValueError(f"parameter {parameter.name} is a .{kind}, not a pointer")
        if arg is None:
            return bytes(8)
        if not arg.flags.c_contiguous or not arg.flags.aligned:
            raise ValueError(f"array for {parameter.name} must be C-contiguous and aligned")
        return int(arg.ctypes.data).to_bytes(8, "little")
    if kind in FLOAT_FORMAT:
        return struct.pack(FLOAT_FORMAT[kind], arg)
    if kind not in INTEGER_BYTES:
        raise ValueError(f"parameter {parameter.name} is a structure of {parameter.size} bytes, which is not supported")
    value, bits = int(arg), 8 * INTEGER_BYTES[kind]
    if not -(1 << bits - 1) <= value < 1 << bits:
        raise ValueError(f"{value} does not fit parameter {parameter.name} of type .{kind}")
    return (value % (1 << bits)).to_bytes(bits // 8, "little")


def _usable_cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class CompiledKernel:
    """A kernel that runs on the CPU.

    Safe to launch from several threads at once; every launch has its own memory.

    Parameters
    ----------
    path
        Shared object made from :attr:`Translation.source`.
    signature
        What the kernel takes.
    """

    def __init__(self, path: Path, signature: Signature) -> None:
        self.path = path
        self.signature = signature
        try:
            library = ctypes.CDLL(str(path))
        except OSError as error:
            raise CompileError(f"compiled kernel {path} cannot be loaded: {error}; delete it") from error
        self._run = library.simt_launch  # ctypes drops the interpreter's lock for the time of the call
        self._run.argtypes = [ctypes.POINTER(_Launch)]
        self._run.restype = ctypes.c_int

    def launch(
        self,
        grid: int | tuple[int, ...],
        block: int,
        dynamic_smem: int,
        args: Sequence[Argument],
        *,
        threads: int | None = None,
        fill: int | None = 0xA5,
        poison: int | None = None,
    ) -> None:
        """Run the kernel and wait for it.

        Parameters
        ----------
        grid
            Number of blocks: x, or (x, y) or (x, y, z).
        block
            Threads of a block.
        dynamic_smem
            Bytes of dynamic shared memory.
        args
            The kernel's arguments: arrays for pointers, numbers for the rest. Arrays must reach as far as the kernel
            does: nothing here checks its accesses.
        threads
            CPU threads; default: those this process may use. The result does not depend on it.
        fill
            Byte that each block's shared memory is filled with first, so that reading what was never written shows;
            None leaves what the block before has left.
        poison
            Byte that each block's registers and local memory are filled with too, and shared memory instead of with
            ``fill``; default: :data:`harness.poison.BYTE` in a process whose fresh memory holds garbage, else none.

        Raises
        ------
        ValueError
            For sizes out of range or arguments that do not fit.
        Deadlock, KernelTrap
            As the kernel does.
        """
        extents = (*((grid,) if isinstance(grid, int) else grid), 1, 1)[:3]
        blocks = int(np.prod(extents, dtype=object))
        if poison is None and poisoned():
            poison = BYTE
        fill = fill if poison is None else poison
        self._check_sizes(extents, blocks, block, dynamic_smem, fill)
        if blocks == 0:
            return
        parameters = ctypes.create_string_buffer(self.signature.pack(args))
        wanted = threads or _usable_cores()
        parts = 1 if self.signature.serial else max(1, min(wanted, blocks))
        bounds = [blocks * part // parts for part in range(parts + 1)]
        fills = [256 if byte is None else byte for byte in (fill, poison)]
        launches = [
            _Launch(first, last, *extents, block, dynamic_smem, *fills, ctypes.addressof(parameters))
            for first, last in itertools.pairwise(bounds)
        ]
        outcomes = self._run_all(launches)
        for outcome, state in zip(outcomes, launches, strict=True):
            self._raise_for(outcome, state)

    def _check_sizes(
        self, extents: tuple[int, ...], blocks: int, block: int, dynamic_smem: int, fill: int | None
    ) -> None:
        most = min(1024, self.signature.max_threads or 1024)
        if not 1 <= block <= most:
            raise ValueError(f"block must have 1 to {most} threads, got {block}")
        if min(extents) < 0 or blocks > UINT32_MAX:
            raise ValueError(f"grid {extents} is out of range")
        if not 0 <= dynamic_smem <= 1 << 24:
            raise ValueError(f"dynamic shared memory of {dynamic_smem} bytes is out of range")
        if fill is not None and not 0 <= fill <= 255:
            raise ValueError(f"fill must be a byte or None, got {fill}")

    def _run_all(self, launches: Sequence[_Launch]) -> list[int]:
        """Run the parts at the same time, the first one on this thread."""
        outcomes = [DONE] * len(launches)

        def run(part: int) -> None:
            outcomes[part] = self._run(ctypes.byref(launches[part]))

        others = [threading.Thread(target=run, args=(part,)) for part in range(1, len(launches))]
        for other in others:
            other.start()
        run(0)
        for other in others:
            other.join()
        return outcomes

    def _raise_for(self, outcome: int, state: _Launch) -> None:
        if outcome == DEADLOCK:
            raise Deadlock(self.signature.name, state.block, state.at_barrier, state.waiting)
        if outcome == TRAPPED:
            raise KernelTrap(self.signature.name, state.block)
        if outcome == NO_MEMORY:
            raise MemoryError(f"no memory for a block of {state.threads} threads")


def build(
    translation: Translation, *, flags: tuple[str, ...] | None = None, compiler: Compiler | None = None
) -> CompiledKernel:
    """Compile a translation and load it."""
    compiler = compiler or find_compiler()
    path = compile_c(translation.source, compiler=compiler, **({"flags": flags} if flags is not None else {}))
    return CompiledKernel(path, Signature.of(translation))
