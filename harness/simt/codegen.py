"""A PTX kernel to C: one function that runs a warp until it ends or parks at a barrier, and the launcher around it.

Every basic block is written twice. ``F`` blocks are for a warp whose 32 lanes are in step: a loop over lanes for each
run of instructions, which compilers turn into vector code. ``M`` blocks are for any set of lanes: one loop over those
lanes for the whole block. Where lanes part, each gets its own program counter and the warp's scheduler takes the
lowest; they are in step again when they meet.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources

from harness.simt.errors import UnknownInstruction
from harness.simt.liveness import Slots, assign_slots, live_before, live_out, reads, writes
from harness.simt.loads import load_in_step
from harness.simt.operands import CTYPE, Layout, Operands, constant_name, variable
from harness.simt.ops import FUSIBLE, statement
from harness.simt.ptx import SIZE, Block, Instruction, Kernel, Symbol, Terminator
from harness.simt.simplify import Simplified, simplify
from harness.simt.warp import ALL_LANES, SOME_LANES, warp_code

__all__ = ["Translation", "runtime_text", "translate"]

#: Opcodes that write memory or may alias it: their lanes must stay in order.
ORDERED = frozenset({"st", "atom", "red"})


def runtime_text(name: str) -> str:
    """Text of a file of the C runtime."""
    return (resources.files("harness.simt") / "runtime" / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Translation:
    """C source of a kernel, and what its launcher must know.

    Parameters
    ----------
    source
        C11, without includes.
    kernel
        The kernel as parsed.
    layout
        Where its memory is.
    serial
        Blocks must not run at the same time: the kernel has atomics outside shared memory.
    """

    source: str
    kernel: Kernel
    layout: Layout
    serial: bool


@dataclass(frozen=True)
class _Run:
    """Instructions of one block that share a lane loop, and the registers that stay inside it."""

    instructions: tuple[Instruction, ...]
    local: frozenset[str]


def translate(kernel: Kernel) -> Translation:
    """Translate a kernel.

    Raises
    ------
    UnknownInstruction
        At a form that has no meaning here.
    """
    writer = _Writer(kernel, simplify(kernel))
    atomics = (i for i in kernel.instructions() if i.opcode in ("atom", "red"))
    serial = any("shared" not in instruction.modifiers for instruction in atomics)
    return Translation(writer.source(), kernel, writer.layout, serial)


class _Writer:
    """Writes the C of one kernel; its parts are worked out in the order of this class."""

    def __init__(self, original: Kernel, simplified: Simplified) -> None:
        self.kernel = simplified.kernel
        self.preamble = simplified.preamble
        self.uniform = simplified.uniform
        self.layout = Layout.of(original)
        self.ends = live_out(self.kernel)
        self.runs = [self._runs_of(block, end) for block, end in zip(self.kernel.blocks, self.ends, strict=True)]

    @cached_property
    def slots(self) -> Slots:
        """Slots for the registers that outlive some lane loop."""
        kept: set[str] = set()
        for block, runs in zip(self.kernel.blocks, self.runs, strict=True):
            for run in runs:
                named = {name for i in run.instructions for name in (*reads(i), *writes(i))}
                kept |= named - run.local
            if block.terminator.guard:
                kept.add(block.terminator.guard.register.name)
        inside = {name for i in self.kernel.instructions() for name in (*reads(i), *writes(i))} - kept
        return assign_slots(self.kernel, inside | self.uniform)

    @cached_property
    def operands(self) -> Operands:
        """Operand writer without locals."""
        return Operands(self.kernel, self.layout, self.slots, self.uniform)

    def source(self) -> str:
        """Join the parts to the whole C text."""
        slots = self.slots
        return "\n".join(
            [
                f"/* {self.kernel.name} */",
                runtime_text("prelude.h"),
                f"#define NARROW_SLOTS {max(slots.narrow, 1)}",
                f"#define WIDE_SLOTS {max(slots.wide, 1)}",
                f"#define LOCAL_BYTES {self.layout.local_bytes}",
                f"#define STATIC_BYTES {self.layout.static_bytes}",
                self._uniform_type(),
                runtime_text("machine.h"),
                *self._constants(),
                self._set_uniform(),
                "static void run_warp(Warp *W, Block *B) {",
                "  Narrow *const R = W->narrow; Wide *const X = W->wide; u8 *const S = B->shared;",
                "  const u8 *const P = B->parameters; const Uniform *const U = &B->uniform; u32 m; i32 pc;",
                "  (void)R; (void)X; (void)S; (void)P; (void)U;",
                runtime_text("schedule.h"),
                *self._dispatch(),
                *self._blocks(),
                "}",
                runtime_text("launch.h"),
            ]
        )

    # -- what is the same for the whole block

    def _uniform_type(self) -> str:
        fields = " ".join(f"{CTYPE[self.kernel.registers[n]]} {variable(n)};" for n in sorted(self.uniform))
        return f"typedef struct {{ {fields or 'u32 none;'} }} Uniform;"

    def _set_uniform(self) -> str:
        lines = ["static void set_uniform(Block *B) {", "  const u8 *const P = B->parameters; u8 *const S = B->shared;"]
        declared = (f"{CTYPE[self.kernel.registers[n]]} {variable(n)};" for n in sorted(self.uniform))
        lines.append("  " + " ".join(declared))
        lines += [f"  {statement(self.operands, instruction)}" for instruction in self.preamble]
        lines += [f"  B->uniform.{variable(n)} = {variable(n)};" for n in sorted(self.uniform)]
        return "\n".join([*lines, "  (void)P; (void)S;", "}"])

    def _constants(self) -> Iterator[str]:
        """Define the module constants that the kernel names; variables without initial values are zero."""
        named = {
            place.name
            for i in (*self.kernel.instructions(), *self.preamble)
            for operand in i.operands
            for place in (operand, getattr(operand, "base", None))
            if isinstance(place, Symbol)
        }
        for item in self.kernel.constants.values():
            if item.name not in named:
                continue
            if item.dynamic:
                raise UnknownInstruction(f"variable {item.name} has no size")
            size = SIZE[item.type]
            mask = (1 << 8 * size) - 1
            values = ", ".join(f"{value & mask:#x}ull" for value in item.values or (0,))
            align = max(item.align, 8)
            name, count = constant_name(item.name), item.size // size
            yield f"static _Alignas({align}) u{8 * size} {name}[{count}] = {{{values}}};"

    # -- blocks

    def _runs_of(self, block: Block, end: set[str]) -> list[_Run]:
        """Split a block into lane loops and find what each keeps to itself."""
        if block.warp_wide:
            return [_Run(block.instructions, frozenset())]
        groups: list[list[Instruction]] = []
        for instruction in block.instructions:
            fusible = instruction.opcode in FUSIBLE
            if fusible and groups and groups[-1][-1].opcode in FUSIBLE:
                groups[-1].append(instruction)
            else:
                groups.append([instruction])
        runs, after = [], end | ({block.terminator.guard.register.name} if block.terminator.guard else set())
        for group in reversed(groups):
            piece = Block("", tuple(group), Terminator())
            before = live_before(piece, after)
            runs.append(_Run(piece.instructions, self._inside(piece, before | after)))
            after = before
        return runs[::-1]

    def _inside(self, piece: Block, outside: set[str]) -> frozenset[str]:
        """Find the registers that hold nothing needed before or after a piece."""
        named = {name for i in piece.instructions for name in (*reads(i), *writes(i))}
        return frozenset(named - outside - self.uniform)

    def _dispatch(self) -> Iterator[str]:
        count = len(self.kernel.blocks) + 1
        for test, form in (("if (m == ~0u)", "F"), ("else", "M")):
            cases = " ".join(f"case {n}: goto {form}{n};" for n in range(count - 1))
            yield f"  {test} switch (pc) {{ {cases} default: goto {form}{count - 1}; }}"

    def _blocks(self) -> Iterator[str]:
        mixed: list[str] = []
        for index, block in enumerate(self.kernel.blocks):
            yield f"F{index}:; /* {block.label} */"
            mixed.append(f"M{index}:; /* {block.label} */")
            if block.warp_wide:
                both = warp_code(self.operands, block.instructions[0], index)
                preload = self._preload(block.instructions)
                yield f"  {{ {preload}{both.full} }}"
                mixed.append(f"  {{ {preload}{both.mixed} }}")
                continue
            for run in self.runs[index]:
                yield self._full_loop(run)
            mixed.append(self._mixed_loop(block, self.ends[index]))
            full_end, mixed_end = self._ends(block.terminator, index)
            yield f"  {full_end}"
            mixed.append(f"  {mixed_end}")
        end = len(self.kernel.blocks)
        yield f"F{end}:; W->alive = 0; return;"
        yield from mixed
        yield f"M{end}:; W->alive &= ~m; W->waiting = 0; goto schedule;"

    def _full_loop(self, run: _Run) -> str:
        code = replace(self.operands, local=run.local)
        first = run.instructions[0]
        if first.opcode in ("ld", "ldu") and not run.local:
            return f"  {{ {self._preload(run.instructions)}{load_in_step(code, first)} }}"
        body = " ".join(statement(code, instruction) for instruction in run.instructions)
        if body == ";":
            return ""
        pragma = "" if first.opcode in ORDERED else "VECTOR_LOOP "
        return f"  {{ {self._preload(run.instructions)}{pragma}{ALL_LANES} {{ {code.declare_locals()} {body} }} }}"

    def _mixed_loop(self, block: Block, end: set[str]) -> str:
        guard = {block.terminator.guard.register.name} if block.terminator.guard else set()
        outside = live_before(block, end) | end | guard
        code = replace(self.operands, local=self._inside(block, outside))
        body = " ".join(statement(code, instruction) for instruction in block.instructions)
        if not body:
            return ""
        return f"  {{ {self._preload(block.instructions)}{SOME_LANES} {{ {code.declare_locals()} {body} }} }}"

    def _preload(self, instructions: tuple[Instruction, ...]) -> str:
        """C variables for the uniform values that a loop reads."""
        names = sorted({name for i in instructions for name in reads(i)} & self.uniform)
        return "".join(f"const {CTYPE[self.kernel.registers[n]]} {variable(n)} = U->{variable(n)}; " for n in names)

    def _ends(self, end: Terminator, index: int) -> tuple[str, str]:
        """How a block is left, in step and mixed."""
        to = f"{SOME_LANES} W->pc[l] = {{}}; goto schedule;"
        if end.guard is None:
            if end.kind in ("fall", "jump"):
                target = index + 1 if end.kind == "fall" else end.target
                return f"goto F{target};", to.format(target)
            trap = "B->trapped = 1; " if end.kind == "trap" else ""
            return f"{trap}W->alive = 0; return;", f"{trap}W->alive &= ~m; W->waiting = 0; goto schedule;"
        read = self.operands.read(end.guard, "pred")
        take = f"{self._guard_preload(end)}u32 taken = 0; {{}} taken |= ((u32)({read}) & 1u) << l;"
        if end.kind == "jump":
            part = f"W->pc[l] = taken >> l & 1u ? {end.target} : {index + 1}; goto schedule;"
            shortcut = f"if (taken == ~0u) goto F{end.target}; if (!taken) goto F{index + 1};"
            return (
                f"{{ {take.format(ALL_LANES)} {shortcut} {ALL_LANES} {part} }}",
                f"{{ {take.format(SOME_LANES)} {SOME_LANES} {part} }}",
            )
        trap = "if (taken) B->trapped = 1; " if end.kind == "trap" else ""
        gone = f"{trap}W->alive &= ~taken; W->waiting = 0;"
        rest = f"W->pc[l] = {index + 1}; goto schedule;"
        return (
            f"{{ {take.format(ALL_LANES)} if (!taken) goto F{index + 1}; {gone} {ALL_LANES} {rest} }}",
            f"{{ {take.format(SOME_LANES)} {gone} {SOME_LANES} {rest} }}",
        )

    def _guard_preload(self, end: Terminator) -> str:
        assert end.guard is not None  # asked only where there is one
        name = end.guard.register.name
        return f"const u32 {variable(name)} = U->{variable(name)}; " if name in self.uniform else ""
