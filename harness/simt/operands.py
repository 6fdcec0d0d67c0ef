"""How operands are written in C: a lane's registers, the block's uniform values, constants and addresses.

A register is in one of three places. *Slots* are arrays over the 32 lanes, ``R[3].f[l]`` (32-bit) and ``X[1].u[l]``
(64-bit). *Locals* are C variables inside a lane loop, for values that do not outlive it. *Uniform* values are C
variables that were worked out once for the block.
"""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass, field

from harness.simt.errors import UnknownInstruction
from harness.simt.isa import SPECIAL
from harness.simt.liveness import Slots
from harness.simt.ptx import (
    SIZE,
    Address,
    Immediate,
    Kernel,
    Operand,
    Predicate,
    Register,
    Sink,
    Special,
    Symbol,
)

__all__ = ["CTYPE", "Layout", "Operands", "unsigned", "variable"]

#: C type of each PTX type, by the runtime's typedefs.
CTYPE = {
    "pred": "u32", "b8": "u8", "u8": "u8", "s8": "i8", "b16": "u16", "u16": "u16", "s16": "i16", "b32": "u32",
    "u32": "u32", "s32": "i32", "f32": "f32", "b64": "u64", "u64": "u64", "s64": "i64", "f64": "f64",
}  # fmt: skip


def unsigned(kind: str) -> str:
    """Return the unsigned type of the same size: ``s32`` to ``u32``."""
    return kind.replace("s", "u")


def variable(name: str) -> str:
    """C variable for a register that is kept outside the slots."""
    return "v_" + re.sub(r"\W", "_", name.lstrip("%"))


@dataclass(frozen=True)
class Layout:
    """Where memory is.

    Parameters
    ----------
    parameters
        Byte offset of each kernel parameter.
    shared, local
        Byte offset of each variable in the block's shared and the thread's local memory.
    static_bytes
        Shared memory that the kernel declares; dynamic shared memory starts there.
    local_bytes
        Local memory of a thread.
    """

    parameters: dict[str, int]
    shared: dict[str, int]
    local: dict[str, int]
    static_bytes: int
    local_bytes: int

    @staticmethod
    def of(kernel: Kernel) -> Layout:
        """Lay out a kernel's memory; shared variables that it never names take no room."""
        named = {
            place.name
            for instruction in kernel.instructions()
            for operand in instruction.operands
            for place in [operand.base if isinstance(operand, Address) else operand]
            if isinstance(place, Symbol)
        }
        shared: dict[str, int] = {}
        end = 0
        for item in kernel.shared.values():
            if item.name in named and not item.dynamic:
                end = _align(end, item.align)
                shared[item.name] = end
                end += item.size
        static_bytes = _align(end, 16)
        shared |= {item.name: static_bytes for item in kernel.shared.values() if item.dynamic}
        local: dict[str, int] = {}
        end = 0
        for item in kernel.local.values():
            end = _align(end, item.align)
            local[item.name] = end
            end += item.size
        parameters = {parameter.name: parameter.offset for parameter in kernel.parameters}
        return Layout(parameters, shared, local, static_bytes, _align(end, 16))


def _align(offset: int, to: int) -> int:
    return (offset + to - 1) // to * to


@dataclass(frozen=True)
class Operands:
    """C text of operands in one lane loop.

    Parameters
    ----------
    kernel, layout, slots
        What is translated, and where things are.
    uniform
        Registers worked out once for the block.
    local
        Registers that are C variables of this loop.
    """

    kernel: Kernel
    layout: Layout
    slots: Slots
    uniform: Set[str] = field(default_factory=frozenset)
    local: Set[str] = field(default_factory=frozenset)

    def read(self, operand: Operand, kind: str, line: int = 0, lane: str = "l") -> str:
        """Return a C expression for an operand read as a PTX type."""
        match operand:
            case Register(name):
                return self._read_register(name, kind, lane)
            case Predicate(Register(name), negated):
                return ("!" if negated else "") + self._read_register(name, "pred", lane)
            case Immediate():
                return _constant(operand, kind)
            case Special(name):
                return f"(({CTYPE[kind]}){SPECIAL[name].format(l=lane)})"
            case Symbol(name, offset):
                return f"(({CTYPE[kind]}){self._symbol(name, offset)})"
        raise UnknownInstruction(f"operand {operand} cannot be read", line)

    def write(self, operand: Operand, kind: str, expression: str, line: int = 0) -> str:
        """Return a C statement that writes a value of a PTX type; a wider register is extended by the type's sign."""
        if isinstance(operand, Sink):
            return f"(void)({expression});"
        if not isinstance(operand, Register):
            raise UnknownInstruction(f"operand {operand} cannot be written", line)
        declared = self.kernel.registers[operand.name]
        if operand.name in self.local or operand.name in self.uniform:
            return f"{variable(operand.name)} = {_convert(kind, declared, expression)};"
        place = self._slot(operand.name)
        if kind in ("f32", "f64"):
            return f"{place}.f[l] = {expression};"
        if kind[0] == "s" and SIZE[kind] == SIZE[declared] >= 4:
            return f"{place}.s[l] = {expression};"
        return f"{place}.u[l] = {_extended(kind, declared, expression)};"

    def address(self, operand: Operand, space: str, line: int) -> str:
        """Return a C expression for an address: 64-bit and absolute, or a 32-bit offset into shared or local memory."""
        if not isinstance(operand, Address):
            raise UnknownInstruction(f"operand {operand} is no address", line)
        width = "u32" if space in ("shared", "local") else "u64"
        if isinstance(operand.base, Symbol):
            return f"({width})({self._symbol(operand.base.name, operand.base.offset + operand.offset)})"
        base = self._read_register(operand.base.name, "b" + width[1:], "l")
        return f"{base} + ({width}){operand.offset}" if operand.offset else base

    def slot_array(self, name: str) -> tuple[str, str]:
        """Return the C array of a register's 32 lanes, and the type of its elements."""
        return f"{self._slot(name)}.u", "u32" if self.slots.of[name][0] == 4 else "u64"

    def declare_locals(self) -> str:
        """Declare this loop's own variables."""
        ordered = sorted(self.local, key=lambda name: (len(name), name))
        return " ".join(f"{CTYPE[self.kernel.registers[name]]} {variable(name)};" for name in ordered)

    def _slot(self, name: str) -> str:
        width, number = self.slots.of[name]
        return f"{'R' if width == 4 else 'X'}[{number}]"

    def _read_register(self, name: str, kind: str, lane: str) -> str:
        declared = self.kernel.registers[name]
        if name in self.local or name in self.uniform:
            return _as_type(kind, declared, variable(name))
        place = self._slot(name)
        if kind in ("f32", "f64"):
            return f"{place}.f[{lane}]"
        if kind[0] == "s" and SIZE[kind] == SIZE[declared] >= 4:
            return f"{place}.s[{lane}]"
        plain = SIZE[kind] == SIZE[declared] >= 4
        return f"{place}.u[{lane}]" if plain else f"({CTYPE[kind]}){place}.u[{lane}]"

    def _symbol(self, name: str, offset: int) -> str:
        for table in (self.layout.shared, self.layout.local):
            if name in table:
                return f"{table[name] + offset}u"
        return f"((u64)(uintptr)&{constant_name(name)} + {offset}u)"


def constant_name(name: str) -> str:
    """C variable of a module constant."""
    return "G_" + re.sub(r"\W", "_", name)


def _is_float(kind: str) -> bool:
    return kind[0] == "f"


def _as_type(kind: str, declared: str, name: str) -> str:
    """Read a C variable of a register's declared type as another type of that size, or a narrower one."""
    if _is_float(declared):
        if _is_float(kind):
            return name
        return f"({CTYPE[kind]})bits_of_{declared}({name})"
    if _is_float(kind):
        return f"{kind}_of_bits({name})"
    return name if CTYPE[kind] == CTYPE[declared] else f"({CTYPE[kind]}){name}"


def _convert(kind: str, declared: str, expression: str) -> str:
    """Make an expression of one type the value of a C variable of a register's declared type."""
    if _is_float(declared):
        return expression if _is_float(kind) else f"{declared}_of_bits({expression})"
    if _is_float(kind):
        return f"bits_of_{kind}({expression})"
    return _extended(kind, declared, expression)


def _extended(kind: str, declared: str, expression: str) -> str:
    """Extend to the register's width: by sign from a signed type, by zeros otherwise."""
    if kind[0] == "s" and SIZE[declared] > SIZE[kind]:
        wide = {2: "i16", 4: "i32", 8: "i64"}[SIZE[declared]]
        return f"(u{wide[1:]})({wide})({CTYPE[kind]})({expression})"
    return f"({CTYPE[unsigned(kind)]})({expression})"


def _constant(value: Immediate, kind: str) -> str:
    if kind == "pred":
        return "1u" if value.bits else "0u"
    mask = (1 << 8 * SIZE[kind]) - 1
    if kind in ("f32", "f64"):
        return f"{kind}_of_bits({value.bits & mask:#x}{'u' if kind == 'f32' else 'ull'})"
    return f"(({CTYPE[kind]}){value.bits & mask:#x}{'ull' if SIZE[kind] == 8 else 'u'})"
