"""The part of PTX that is known: each opcode's permitted modifiers and operands, and the special registers.

One row an opcode. A spelling that its pattern does not match in full is an unknown instruction; to teach the translator
a new one, add it here and give it a meaning in :mod:`harness.simt.ops` (one lane at a time) or
:mod:`harness.simt.warp` (the whole warp).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["BLOCK_WIDE", "INSTRUCTIONS", "SPECIAL", "WARP_WIDE", "Form", "matches"]


@dataclass(frozen=True)
class Form:
    """What an opcode may look like.

    Parameters
    ----------
    modifiers
        Regular expression for everything after the opcode, dots included.
    operands
        A letter each: ``d`` destination, ``s`` source, ``a`` address; optional ones in lower-case after ``?``.
    """

    modifiers: str
    operands: str


_INT = r"\.[us](16|32|64)"
_BITS = r"\.b(16|32|64)"
_REAL = r"(\.rn)?(\.ftz)?(\.sat)?\.f32|(\.rn)?\.f64"
_SCALAR = r"\.([bus](16|32|64)|f32|f64)"
_SCOPE = r"(\.(weak|volatile|relaxed\.(cta|gpu|sys)|(acquire|release)\.(cta|gpu|sys)))?"
_HINTS = r"(\.L1::\w+)?(\.L2::\w+)?(\.v[24])?\.([bus](8|16|32|64)|f32|f64)"
_ATOMIC = (
    r"(\.(relaxed|acquire|release|acq_rel))?(\.(cta|gpu|sys))?(\.(global|shared))?"
    r"\.(add\.(u32|s32|u64|f64)|(min|max)\.[us](32|64)|(and|or|xor)\.b(32|64)|(inc|dec)\.u32"
)
_FLOAT_ATOMIC = r"|(\.(relaxed))?(\.(cta|gpu|sys))?\.(global|shared)\.add\.f32"
_COMBINE = r"(\.(and|or|xor))?"
_ORDER = r"\.(eq|ne|lt|le|gt|ge|lo|ls|hi|hs)"
_FLOAT_ORDER = r"\.(eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan)"
_TO_INT = r"\.r[nzmp]i"

INSTRUCTIONS: dict[str, Form] = {
    # arithmetic
    "add": Form(f"{_INT}|{_REAL}", "dss"),
    "sub": Form(f"{_INT}|{_REAL}", "dss"),
    "mul": Form(rf"\.(lo|hi){_INT}|\.wide\.[us](16|32)|{_REAL}", "dss"),
    "mad": Form(rf"\.(lo|hi){_INT}|\.wide\.[us](16|32)|\.rn(\.ftz)?(\.sat)?\.f32|\.rn\.f64", "dsss"),
    "fma": Form(r"\.rn(\.ftz)?(\.sat)?\.f32|\.rn\.f64", "dsss"),
    "div": Form(rf"{_INT}|\.(rn|full|approx)(\.ftz)?\.f32|\.rn\.f64", "dss"),
    "rem": Form(_INT, "dss"),
    "neg": Form(r"\.s(16|32|64)|(\.ftz)?\.f32|\.f64", "ds"),
    "abs": Form(r"\.s(16|32|64)|(\.ftz)?\.f32|\.f64", "ds"),
    "copysign": Form(r"\.f32|\.f64", "dss"),
    "min": Form(rf"{_INT}|(\.ftz)?\.f32|\.f64", "dss"),
    "max": Form(rf"{_INT}|(\.ftz)?\.f32|\.f64", "dss"),
    "rcp": Form(r"\.(rn|approx)(\.ftz)?\.f32|\.rn\.f64", "ds"),
    "sqrt": Form(r"\.(rn|approx)(\.ftz)?\.f32|\.rn\.f64", "ds"),
    "rsqrt": Form(r"\.approx(\.ftz)?\.f32", "ds"),
    "ex2": Form(r"\.approx(\.ftz)?\.f32", "ds"),
    "lg2": Form(r"\.approx(\.ftz)?\.f32", "ds"),
    "sin": Form(r"\.approx(\.ftz)?\.f32", "ds"),
    "cos": Form(r"\.approx(\.ftz)?\.f32", "ds"),
    "tanh": Form(r"\.approx\.f32", "ds"),
    # bits
    "and": Form(rf"{_BITS}|\.pred", "dss"),
    "or": Form(rf"{_BITS}|\.pred", "dss"),
    "xor": Form(rf"{_BITS}|\.pred", "dss"),
    "not": Form(rf"{_BITS}|\.pred", "ds"),
    "shl": Form(_BITS, "dss"),
    "shr": Form(r"\.[bus](16|32|64)", "dss"),
    "shf": Form(r"\.(l|r)\.(clamp|wrap)\.b32", "dsss"),
    "popc": Form(r"\.b(32|64)", "ds"),
    "clz": Form(r"\.b(32|64)", "ds"),
    "brev": Form(r"\.b(32|64)", "ds"),
    "bfe": Form(r"\.u(32|64)", "dsss"),
    "bfi": Form(r"\.b(32|64)", "dssss"),
    "prmt": Form(r"\.b32", "dsss"),
    "lop3": Form(r"\.b32", "dssss"),
    # comparison, selection, conversion, movement
    "setp": Form(rf"({_ORDER}{_COMBINE}\.[us]|\.(eq|ne){_COMBINE}\.b)(16|32|64)|"
                 rf"{_FLOAT_ORDER}{_COMBINE}((\.ftz)?\.f32|\.f64)", "dss?s"),
    "selp": Form(_SCALAR, "dsss"),
    "cvt": Form(r"\.[us](8|16|32|64)\.[us](8|16|32|64)|\.rn\.f(32|64)\.[us](8|16|32|64)|"
                rf"{_TO_INT}(\.ftz)?\.[us](16|32|64)\.f32|{_TO_INT}\.[us](16|32|64)\.f64|"
                rf"\.rn(\.ftz)?(\.sat)?\.f32\.f64|(\.ftz)?\.f64\.f32|"
                rf"({_TO_INT})?(\.ftz)?(\.sat)?\.f32\.f32|({_TO_INT})?\.f64\.f64", "ds"),
    "mov": Form(rf"{_SCALAR}|\.pred", "ds"),
    "cvta": Form(r"(\.to)?\.(global|shared|local|const)\.u64", "ds"),
    # memory
    "ld": Form(rf"{_SCOPE}(\.(global|shared|local|const|param))?(\.(ca|cg|cs|lu|cv|nc))?{_HINTS}", "da"),
    "ldu": Form(rf"\.global{_HINTS}", "da"),
    "st": Form(rf"{_SCOPE}(\.(global|shared|local))?(\.(wb|cg|cs|wt))?{_HINTS}", "as"),
    "atom": Form(rf"{_ATOMIC}|(exch|cas)\.b(32|64)){_FLOAT_ATOMIC}|"
                 r"\.cas(\.(relaxed|acquire|release|acq_rel))(\.(cta|gpu|sys))\.b(32|64)", "das?s"),
    "red": Form(rf"{_ATOMIC}){_FLOAT_ATOMIC}", "as"),
    # without effect here: a block's memory is coherent, and time does not matter
    "membar": Form(r"\.(cta|gl|sys)", ""),
    "fence": Form(r"(\.(sc|acq_rel))?\.(cta|gpu|sys)", ""),
    "griddepcontrol": Form(r"\.(launch_dependents|wait)", ""),
    "nanosleep": Form(r"\.u32", "s"),
    "prefetch": Form(r"(\.(global|local))?\.L[12]", "a"),
    # the whole warp, or the whole block
    "bar": Form(r"\.sync|\.warp\.sync", "?s"),
    "barrier": Form(r"(\.cta)?\.sync(\.aligned)?", "?s"),
    "bar.red": Form(r"\.((and|or)\.pred|popc\.u32)", "dss"),
    "shfl": Form(r"\.sync\.(up|down|bfly|idx)\.b32", "dssss"),
    "vote": Form(r"\.sync\.((any|all|uni)\.pred|ballot\.b32)", "dss"),
    "redux": Form(r"\.sync\.((add|min|max)\.[us]32|(and|or|xor)\.b32)", "dss"),
    "match": Form(r"\.any\.sync\.b(32|64)", "dss"),
    "activemask": Form(r"\.b32", "d"),
    # control flow
    "bra": Form(r"(\.uni)?", "s"),
    "ret": Form(r"(\.uni)?", ""),
    "exit": Form("", ""),
    "trap": Form("", ""),
}  # fmt: skip

#: Opcodes that need other lanes, and so stand alone in their block.
WARP_WIDE = frozenset({"bar", "barrier", "bar.red", "shfl", "vote", "redux", "match", "activemask"})

#: Special registers, as C over the runtime's names: lane ``{l}`` of warp ``W`` in block ``B``.
SPECIAL = {
    "%tid.x": "(W->first_thread + {l})",
    "%tid.y": "0u",
    "%tid.z": "0u",
    "%ntid.x": "B->threads",
    "%ntid.y": "1u",
    "%ntid.z": "1u",
    "%ctaid.x": "B->x",
    "%ctaid.y": "B->y",
    "%ctaid.z": "B->z",
    "%nctaid.x": "B->grid_x",
    "%nctaid.y": "B->grid_y",
    "%nctaid.z": "B->grid_z",
    "%laneid": "{l}",
    "%warpid": "(W->first_thread >> 5)",
    "%lanemask_eq": "(1u << {l})",
    "%lanemask_lt": "((1u << {l}) - 1u)",
    "%lanemask_le": "((2u << {l}) - 1u)",
    "%lanemask_gt": "(~1u << {l})",
    "%lanemask_ge": "(~0u << {l})",
    "WARP_SZ": "32u",
}

#: Special registers that are the same for all threads of a block.
BLOCK_WIDE = frozenset(name for name, code in SPECIAL.items() if "W->" not in code and "{l}" not in code)

_PATTERNS = {opcode: re.compile(form.modifiers) for opcode, form in INSTRUCTIONS.items()}


def matches(opcode: str, modifiers: tuple[str, ...], operands: int) -> bool:
    """Say whether an instruction with so many operands is one of the known forms."""
    form = INSTRUCTIONS.get(opcode)
    if form is None:
        return False
    text = "".join(f".{word}" for word in modifiers)
    required, _, optional = form.operands.partition("?")
    if not len(required) <= operands <= len(required) + len(optional):
        return False
    return _PATTERNS[opcode].fullmatch(text) is not None
