"""PTX as data: a module, its kernels, their basic blocks and instructions.

Everything here is immutable or built once by :mod:`harness.simt.parse`; the passes after it only read.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

__all__ = [
    "SIZE",
    "Address",
    "Block",
    "Entry",
    "Immediate",
    "Instruction",
    "Kernel",
    "Module",
    "Operand",
    "Pair",
    "Parameter",
    "Predicate",
    "Register",
    "Sink",
    "Special",
    "Symbol",
    "Terminator",
    "Variable",
    "Vector",
]

#: Bytes of each PTX type that registers, parameters and memory may have.
SIZE = {
    "pred": 4, "b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4,
    "b64": 8, "u64": 8, "s64": 8, "f64": 8,
}  # fmt: skip


@dataclass(frozen=True)
class Register:
    """A virtual register."""

    name: str


@dataclass(frozen=True)
class Predicate:
    """A predicate register, perhaps negated: ``%p1`` or ``!%p1``."""

    register: Register
    negated: bool = False


@dataclass(frozen=True)
class Immediate:
    """A constant.

    Parameters
    ----------
    bits
        The integer, or the bit pattern of a float written as ``0f…`` or ``0d…``.
    kind
        ``int``, ``f32`` or ``f64``: how it was written.
    """

    bits: int
    kind: str = "int"


@dataclass(frozen=True)
class Special:
    """A special register, such as ``%tid.x``."""

    name: str


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or parameter, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Sink:
    """``_``: the result is dropped."""


@dataclass(frozen=True)
class Address:
    """``[base + offset]``, the offset in bytes."""

    base: Register | Symbol
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    """``{a, b, c, d}``."""

    items: tuple[Register | Immediate | Sink, ...]


@dataclass(frozen=True)
class Pair:
    """``d|p``: a result and a predicate written by the same instruction."""

    first: Register | Sink
    second: Register | Sink


Operand = Register | Predicate | Immediate | Special | Symbol | Sink | Address | Vector | Pair


@dataclass(frozen=True)
class Instruction:
    """One instruction.

    Parameters
    ----------
    opcode
        First word, such as ``add``.
    modifiers
        The rest, such as ``("rn", "f32")``.
    operands
        In the order of the text.
    guard
        Predicate under which it runs, if any.
    line
        1-based line of the PTX text.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Predicate | None = None
    line: int = 0

    @property
    def spelling(self) -> str:
        """Opcode and modifiers, as in the text."""
        return ".".join((self.opcode, *self.modifiers))

    @property
    def type(self) -> str:
        """The last modifier: the type of the operation."""
        return self.modifiers[-1] if self.modifiers else ""


@dataclass(frozen=True)
class Terminator:
    """How a block ends.

    Parameters
    ----------
    kind
        ``fall`` (into the next block), ``jump``, ``exit`` or ``trap``.
    guard
        Predicate under which it jumps or exits; the other threads fall through.
    target
        Index of the block jumped to.
    """

    kind: str = "fall"
    guard: Predicate | None = None
    target: int = -1


@dataclass(frozen=True)
class Block:
    """A basic block. A warp-wide instruction (barrier, shuffle, vote, …) is always alone in its block."""

    label: str
    instructions: tuple[Instruction, ...]
    terminator: Terminator
    warp_wide: bool = False


@dataclass(frozen=True)
class Parameter:
    """A kernel parameter: its type, and where it lies in the parameter block (bytes)."""

    name: str
    type: str
    offset: int
    size: int


@dataclass(frozen=True)
class Variable:
    """A variable of a state space.

    Parameters
    ----------
    size, align
        Bytes; the size of an ``extern`` array without bounds is 0.
    values
        Initial values of the elements, None where there are none.
    """

    name: str
    type: str
    size: int
    align: int
    values: tuple[int, ...] | None = None
    dynamic: bool = False


@dataclass(frozen=True)
class Kernel:
    """A decoded kernel.

    Parameters
    ----------
    registers
        Declared type of each register.
    shared, local, constants
        Variables by name: per block, per thread, and of the module (``.global`` and ``.const``).
    max_threads
        Threads a block may have, by ``.maxntid`` or ``.reqntid``; None where nothing is said.
    """

    name: str
    parameters: tuple[Parameter, ...]
    registers: dict[str, str]
    blocks: tuple[Block, ...]
    shared: dict[str, Variable]
    local: dict[str, Variable]
    constants: dict[str, Variable]
    max_threads: int | None = None

    def instructions(self) -> Iterator[Instruction]:
        """All instructions, in order."""
        for block in self.blocks:
            yield from block.instructions

    def successors(self, index: int) -> tuple[int, ...]:
        """Return the indices of the blocks that may follow a block."""
        end = self.blocks[index].terminator
        following = (index + 1,) if index + 1 < len(self.blocks) else ()
        if end.kind == "fall":
            return following
        taken = (end.target,) if end.kind == "jump" else ()
        return taken + (following if end.guard else ())


@dataclass(frozen=True)
class Entry:
    """A kernel whose body is not decoded yet."""

    name: str
    parameters: tuple[Parameter, ...]
    body: str
    body_line: int
    max_threads: int | None


@dataclass(frozen=True)
class Module:
    """The top level of a PTX text."""

    entries: dict[str, Entry]
    shared: dict[str, Variable]
    constants: dict[str, Variable] = field(repr=False)
