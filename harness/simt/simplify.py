"""What does not depend on the thread is worked out once: constants in place, the rest ahead of the block.

A register with a single definition holds the same value wherever that definition ran, and reading it elsewhere is
undefined. So when the definition is a pure function of constants, parameters and block indices, the value may be
computed before the block starts, whatever the control flow around the definition, and when it is a plain move of a
constant or a special register, the source may stand in its place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from harness.simt.isa import BLOCK_WIDE
from harness.simt.liveness import reads, writes
from harness.simt.ops import FUSIBLE
from harness.simt.ptx import (
    SIZE,
    Address,
    Block,
    Immediate,
    Instruction,
    Kernel,
    Operand,
    Predicate,
    Register,
    Special,
    Symbol,
    Vector,
)

__all__ = ["Simplified", "simplify"]

#: Opcodes whose result depends on their operands only, and which cannot fail.
PURE = FUSIBLE - {"cvta"} | {"popc", "clz", "brev", "bfe", "bfi", "prmt"}


@dataclass(frozen=True)
class Simplified:
    """A kernel without what was hoisted.

    Parameters
    ----------
    kernel
        What each thread still does.
    preamble
        Instructions to run once a block, in order.
    uniform
        Registers that they set, and that the kernel still reads.
    """

    kernel: Kernel
    preamble: tuple[Instruction, ...]
    uniform: frozenset[str]


def simplify(kernel: Kernel) -> Simplified:
    """Put constants in place and hoist what is uniform over the block."""
    kernel = _substitute_moves(kernel)
    preamble = _hoistable(kernel)
    hoisted = {id(instruction) for instruction in preamble}
    kernel = _map_blocks(kernel, lambda block: [i for i in block.instructions if id(i) not in hoisted])
    uniform = frozenset(name for instruction in preamble for name in writes(instruction))
    return Simplified(kernel, preamble, uniform)


def _definitions(kernel: Kernel) -> Counter[str]:
    return Counter(name for instruction in kernel.instructions() for name in writes(instruction))


def _map_blocks(kernel: Kernel, instructions: Callable[[Block], Iterable[Instruction]]) -> Kernel:
    """Rebuild every block with other instructions."""
    blocks = tuple(replace(block, instructions=tuple(instructions(block))) for block in kernel.blocks)
    return replace(kernel, blocks=blocks)


def _substitute_moves(kernel: Kernel) -> Kernel:
    """Replace registers that are only ever a constant, an address or a special register."""
    count = _definitions(kernel)
    value: dict[str, Operand] = {}
    for instruction in kernel.instructions():
        if instruction.opcode != "mov" or instruction.guard is not None:
            continue
        target, source = instruction.operands
        if (
            isinstance(target, Register)
            and count[target.name] == 1
            and isinstance(source, Immediate | Special | Symbol)
            and SIZE[kernel.registers[target.name]] == SIZE[instruction.type]
        ):
            value[target.name] = source
    kernel = _map_blocks(kernel, lambda block: [_with_values(i, value) for i in block.instructions])
    read = {name for instruction in kernel.instructions() for name in reads(instruction)}
    read |= {b.terminator.guard.register.name for b in kernel.blocks if b.terminator.guard}
    unread = value.keys() - read

    def needed(block: Block) -> list[Instruction]:
        return [i for i in block.instructions if not (i.opcode == "mov" and unread.issuperset(writes(i)))]

    return _map_blocks(kernel, needed)


def _with_values(instruction: Instruction, value: dict[str, Operand]) -> Instruction:
    """Put known values in place of the registers that an instruction reads."""
    written = instruction.operands[:1] if writes(instruction) else ()
    sources = instruction.operands[len(written) :]
    return replace(instruction, operands=(*written, *(_with_value(operand, value) for operand in sources)))


def _with_value(operand: Operand, value: dict[str, Operand]) -> Operand:
    match operand:
        case Register(name):
            return value.get(name, operand)
        case Address(Register(name), offset) if isinstance(known := value.get(name), Symbol):
            return Address(Symbol(known.name), known.offset + offset)
        case Vector(items):
            known_items = (value.get(item.name) if isinstance(item, Register) else None for item in items)
            pairs = zip(items, known_items, strict=True)
            return Vector(tuple(known if isinstance(known, Immediate) else item for item, known in pairs))
    return operand


def _hoistable(kernel: Kernel) -> tuple[Instruction, ...]:
    """Collect the block-uniform instructions, each after those it reads."""
    count = _definitions(kernel)
    uniform: set[str] = set()
    found: list[Instruction] = []
    seen: set[int] = set()
    grew = True
    while grew:
        grew = False
        for instruction in kernel.instructions():
            if id(instruction) in seen or not _is_uniform(instruction, uniform, count):
                continue
            seen.add(id(instruction))
            found.append(instruction)
            uniform.update(writes(instruction))
            grew = True
    return tuple(found)


def _is_uniform(instruction: Instruction, uniform: set[str], count: Counter[str]) -> bool:
    if instruction.guard is not None or not all(count[name] == 1 for name in writes(instruction)):
        return False
    if instruction.opcode == "ld" and "param" in instruction.modifiers:
        address = instruction.operands[1]
        return isinstance(address, Address) and isinstance(address.base, Symbol)
    pure = instruction.opcode in PURE or (instruction.opcode == "cvta" and "local" not in instruction.modifiers)
    return pure and all(_operand_is_uniform(operand, uniform) for operand in instruction.operands[1:])


def _operand_is_uniform(operand: Operand, uniform: set[str]) -> bool:
    match operand:
        case Immediate() | Symbol():
            return True
        case Special(name):
            return name in BLOCK_WIDE
        case Register(name) | Predicate(Register(name)):
            return name in uniform
    return False
