"""Which registers hold a value that is still needed, and which can share a slot.

Liveness is the textbook backward fixed point over basic blocks; slots come from greedy colouring of the interference
graph, in two classes: 32-bit (predicates and 16-bit registers too) and 64-bit.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from harness.simt.isa import INSTRUCTIONS
from harness.simt.ptx import (
    SIZE,
    Address,
    Block,
    Instruction,
    Kernel,
    Operand,
    Pair,
    Predicate,
    Register,
    Vector,
)

__all__ = ["Slots", "assign_slots", "live_out", "reads", "writes"]


@dataclass(frozen=True)
class Slots:
    """Where registers are kept.

    Parameters
    ----------
    of
        Register name to (4 or 8 bytes, slot number).
    narrow, wide
        Number of 32-bit and of 64-bit slots.
    """

    of: dict[str, tuple[int, int]]
    narrow: int
    wide: int


def _registers(operand: Operand) -> list[str]:
    """Names of the registers in an operand."""
    match operand:
        case Register(name):
            return [name]
        case Predicate(register):
            return [register.name]
        case Address(base):
            return [base.name] if isinstance(base, Register) else []
        case Vector(items):
            return [item.name for item in items if isinstance(item, Register)]
        case Pair(first, second):
            return [item.name for item in (first, second) if isinstance(item, Register)]
    return []


def _has_destination(instruction: Instruction) -> bool:
    return INSTRUCTIONS[instruction.opcode].operands.startswith("d")


def writes(instruction: Instruction) -> list[str]:
    """Names of the registers an instruction writes."""
    return _registers(instruction.operands[0]) if _has_destination(instruction) else []


def reads(instruction: Instruction) -> list[str]:
    """Names of the registers an instruction reads; a guarded one keeps, and so reads, what it may not overwrite."""
    first = 1 if _has_destination(instruction) else 0
    names = [name for operand in instruction.operands[first:] for name in _registers(operand)]
    if instruction.guard is not None:
        names += [instruction.guard.register.name, *writes(instruction)]
    return names


def _guard(block: Block) -> set[str]:
    guard = block.terminator.guard
    return {guard.register.name} if guard else set()


def live_before(block: Block, after: Iterable[str]) -> set[str]:
    """Return the registers live at the start of a block, given those live at its end."""
    live = set(after) | _guard(block)
    for instruction in reversed(block.instructions):
        live.difference_update(writes(instruction))
        live.update(reads(instruction))
    return live


def live_out(kernel: Kernel) -> list[set[str]]:
    """Return the registers live at the end of each block."""
    count = len(kernel.blocks)
    successors = [kernel.successors(index) for index in range(count)]
    starts: list[set[str]] = [set() for _ in range(count)]
    ends: list[set[str]] = [set() for _ in range(count)]
    changed = True
    while changed:
        changed = False
        for index in reversed(range(count)):
            end = set().union(*(starts[successor] for successor in successors[index]))
            start = live_before(kernel.blocks[index], end)
            if start != starts[index] or end != ends[index]:
                starts[index], ends[index], changed = start, end, True
    return ends


def assign_slots(kernel: Kernel, skip: Collection[str] = ()) -> Slots:
    """Give every register a slot, so that registers that are live together never share one.

    Parameters
    ----------
    skip
        Registers that are kept elsewhere.
    """
    neighbours = _interference(kernel, set(skip))
    slots: dict[str, tuple[int, int]] = {}
    counts = {4: 0, 8: 0}
    for name in sorted(neighbours, key=_natural):
        width = 8 if SIZE[kernel.registers[name]] == 8 else 4
        taken = {slots[other][1] for other in neighbours[name] if other in slots and slots[other][0] == width}
        number = next(n for n in range(len(taken) + 1) if n not in taken)
        slots[name] = (width, number)
        counts[width] = max(counts[width], number + 1)
    return Slots(slots, counts[4], counts[8])


def _natural(name: str) -> tuple[int, str]:
    """Order ``%r2`` before ``%r10``, so that slots do not depend on how sets are ordered."""
    return len(name), name


def _interference(kernel: Kernel, skip: set[str]) -> dict[str, set[str]]:
    """For each register, those that hold a value at one of its definitions."""
    graph: dict[str, set[str]] = {}
    for block, after in zip(kernel.blocks, live_out(kernel), strict=True):
        live = (after | _guard(block)) - skip
        for instruction in reversed(block.instructions):
            written = [name for name in writes(instruction) if name not in skip]
            for name in written:
                graph.setdefault(name, set())
                for other in (live | set(written)) - {name}:
                    graph[name].add(other)
                    graph.setdefault(other, set()).add(name)
            live.difference_update(written)
            live.update(name for name in reads(instruction) if name not in skip)
        for name in live:
            graph.setdefault(name, set())
    return graph
