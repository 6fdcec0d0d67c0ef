"""Loads of a warp in step: one vector load where its lanes read side by side, one scalar where all read the same.

Both are common, and both are several times faster than 32 loads. Which it is shows at run time only, by the step
between the lanes' addresses; the values are the same either way.
"""

from __future__ import annotations

from harness.simt.operands import CTYPE, Operands
from harness.simt.ops import address_space, load_items, statement
from harness.simt.ptx import SIZE, Address, Instruction, Register

__all__ = ["load_in_step"]

ALL_LANES = "for (u32 l = 0; l < 32; l++)"


def load_in_step(code: Operands, i: Instruction) -> str:
    """Return C that runs a load for all 32 lanes."""
    plain = f"{ALL_LANES} {{ {statement(code, i)} }}"
    address, space = i.operands[1], address_space(i)
    if i.guard is not None or space not in ("global", "shared") or not isinstance(address, Address):
        return plain
    base = address.base
    if not isinstance(base, Register) or base.name in code.uniform:
        return f"{{ const {_width(space)} a = {code.address(address, space, i.line)}; {_broadcast(code, i, space)} }}"
    size = SIZE[i.type] * len(load_items(i))
    lanes, bits = code.slot_array(base.name)
    return (
        f"{{ const {_width(space)} a = ({_width(space)}){lanes}[0] + ({_width(space)}){address.offset}; "
        f"const u64 step = step_{bits}({lanes}); "
        f"if (step == {size}) {_side_by_side(code, i, space)} "
        f"else if (step == 0) {_broadcast(code, i, space)} else {plain} }}"
    )


def _width(space: str) -> str:
    return "u32" if space == "shared" else "u64"


def _side_by_side(code: Operands, i: Instruction, space: str) -> str:
    items, kind = load_items(i), CTYPE[i.type]
    count = len(items)
    writes = " ".join(code.write(item, i.type, f"from[{count} * l + {n}]", i.line) for n, item in enumerate(items))
    pointer = f"const {kind} *const from = POINTER_{space.upper()}(const {kind}, a);"
    return f"{{ {pointer} VECTOR_LOOP {ALL_LANES} {{ {writes} }} }}"


def _broadcast(code: Operands, i: Instruction, space: str) -> str:
    items, kind = load_items(i), CTYPE[i.type]
    values = " ".join(
        f"const {kind} item{n} = LOAD_{space.upper()}({kind}, a + {n * SIZE[i.type]});" for n in range(len(items))
    )
    writes = " ".join(code.write(item, i.type, f"item{n}", i.line) for n, item in enumerate(items))
    return f"{{ {values} VECTOR_LOOP {ALL_LANES} {{ {writes} }} }}"
