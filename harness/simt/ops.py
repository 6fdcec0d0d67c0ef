"""What each one-lane instruction means: a C statement for lane ``l``.

One small function for a family of opcodes, one table from opcode to function. The forms that can arrive here are those
of :mod:`harness.simt.isa`. Approximate instructions (``ex2.approx`` and the like) are computed by the C library to
within half an ulp or so; a GPU's own may differ in the last places.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.simt.errors import UnknownInstruction
from harness.simt.operands import CTYPE, Operands, unsigned
from harness.simt.ptx import SIZE, Address, Instruction, Operand, Pair, Register, Sink, Symbol, Vector

__all__ = ["FUSIBLE", "address_space", "load_items", "statement"]

Emit = Callable[[Operands, Instruction], str]

#: Opcodes that compilers turn into vector code, so that runs of them share one lane loop.
FUSIBLE = frozenset(
    {
        *("add", "sub", "mul", "mad", "fma", "neg", "abs", "min", "max"),
        *("and", "or", "xor", "not", "shl", "shr", "lop3", "setp", "selp", "cvt", "mov", "cvta"),
    }
)

WIDER = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
FLOATS = ("f32", "f64")
ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
ORDER = {
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">", "hs": ">=",
}  # fmt: skip
#: Float comparisons; an unordered one (…u) is true where an operand is NaN, an ordered one false.
FLOAT_ORDER = {
    "eq": "({x} == {y})", "lt": "({x} < {y})", "le": "({x} <= {y})", "gt": "({x} > {y})", "ge": "({x} >= {y})",
    "ne": "({x} < {y} || {x} > {y})", "neu": "({x} != {y})", "equ": "!({x} < {y} || {x} > {y})",
    "ltu": "!({x} >= {y})", "leu": "!({x} > {y})", "gtu": "!({x} <= {y})", "geu": "!({x} < {y})",
    "num": "({x} == {x} && {y} == {y})", "nan": "({x} != {x} || {y} != {y})",
}  # fmt: skip
LIBRARY = {
    "ex2": "exp2f({})", "lg2": "log2f({})", "sin": "sinf({})", "cos": "cosf({})", "tanh": "tanhf({})",
    "rcp": "1.0f / {}", "rsqrt": "1.0f / sqrtf({})", "sqrt": "sqrtf({})",
}  # fmt: skip
LIBRARY_F64 = {"rcp": "1.0 / {}", "sqrt": "sqrt({})"}
ROUNDING = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}
COMBINE = {"and": "&", "or": "|", "xor": "^"}
ATOMIC = {
    "add": "old + val", "min": "val < old ? val : old", "max": "val > old ? val : old", "exch": "val",
    "and": "old & val", "or": "old | val", "xor": "old ^ val", "cas": "old == val ? swap : old",
    "inc": "old >= val ? 0 : old + 1", "dec": "old == 0 || old > val ? val : old - 1",
}  # fmt: skip


def statement(code: Operands, instruction: Instruction) -> str:
    """Return the C statement of one instruction for lane ``l``, its guard included."""
    emit = TABLE.get(instruction.opcode)
    if emit is None:
        raise UnknownInstruction("instruction has no meaning yet", instruction.line, instruction.spelling)
    text = emit(code, instruction)
    if instruction.guard is None:
        return text
    return f"if ({code.read(instruction.guard, 'pred', instruction.line)}) {{ {text} }}"


def _sources(code: Operands, i: Instruction, kind: str | None = None) -> list[str]:
    return [code.read(operand, kind or i.type, i.line) for operand in i.operands[1:]]


def _result(code: Operands, i: Instruction, expression: str, kind: str | None = None) -> str:
    """Write the first operand, after saturation and flushing as the modifiers say."""
    if "sat" in i.modifiers:
        expression = f"saturate({expression})"
    if "ftz" in i.modifiers and (kind or i.type) == "f32":
        expression = f"flush({expression})"
    return code.write(i.operands[0], kind or i.type, expression, i.line)


def _floats(code: Operands, i: Instruction) -> list[str]:
    """Float sources, subnormals flushed where ``.ftz`` says so."""
    sources = _sources(code, i)
    return [f"flush({source})" for source in sources] if "ftz" in i.modifiers else sources


def _add_sub(code: Operands, i: Instruction) -> str:
    sign = ARITHMETIC[i.opcode]
    if i.type in FLOATS:
        x, y = _floats(code, i)
        return _result(code, i, f"{x} {sign} {y}")
    x, y = _sources(code, i, unsigned(i.type))
    return code.write(i.operands[0], unsigned(i.type), f"{x} {sign} {y}", i.line)


def _mul_mad(code: Operands, i: Instruction) -> str:
    if i.type in FLOATS:
        if i.opcode == "mad":
            return _fma(code, i)
        x, y = _floats(code, i)
        return _result(code, i, f"{x} * {y}")
    a, b = i.operands[1:3]
    kind = i.type
    if "wide" in i.modifiers:
        wide = WIDER[kind]
        product = f"({CTYPE[wide]}){code.read(a, kind, i.line)} * ({CTYPE[wide]}){code.read(b, kind, i.line)}"
        kind = wide
    elif "hi" in i.modifiers:
        product = f"mul_hi_{kind}({code.read(a, kind, i.line)}, {code.read(b, kind, i.line)})"
    else:
        kind = unsigned(kind)
        widen = "(u32)" if SIZE[kind] == 2 else ""  # C would multiply u16 as int, which overflows
        product = f"{widen}{code.read(a, kind, i.line)} * {code.read(b, kind, i.line)}"
    if i.opcode == "mul":
        return code.write(i.operands[0], kind, product, i.line)
    kind = unsigned(kind)
    total = f"({CTYPE[kind]})({product}) + {code.read(i.operands[3], kind, i.line)}"
    return code.write(i.operands[0], kind, total, i.line)


def _fma(code: Operands, i: Instruction) -> str:
    x, y, z = _floats(code, i)
    return _result(code, i, f"{'fmaf' if i.type == 'f32' else 'fma'}({x}, {y}, {z})")


def _div_rem(code: Operands, i: Instruction) -> str:
    if i.type in FLOATS:
        x, y = _floats(code, i)
        return _result(code, i, f"{x} / {y}")
    x, y = _sources(code, i)
    return _result(code, i, f"{i.opcode}_{i.type}({x}, {y})")


def _neg(code: Operands, i: Instruction) -> str:
    if i.type in FLOATS:
        return _result(code, i, f"-{_floats(code, i)[0]}")
    (x,) = _sources(code, i, unsigned(i.type))
    return code.write(i.operands[0], unsigned(i.type), f"0u - {x}", i.line)


def _abs(code: Operands, i: Instruction) -> str:
    if i.type in FLOATS:
        return _result(code, i, f"abs_{i.type}({_floats(code, i)[0]})")
    (x,) = _sources(code, i)
    (bits,) = _sources(code, i, unsigned(i.type))
    return code.write(i.operands[0], unsigned(i.type), f"{x} < 0 ? 0u - {bits} : {bits}", i.line)


def _copysign(code: Operands, i: Instruction) -> str:
    sign, magnitude = _sources(code, i)  # PTX names the sign first
    return _result(code, i, f"copysign_{i.type}({magnitude}, {sign})")


def _min_max(code: Operands, i: Instruction) -> str:
    if i.type in FLOATS:
        x, y = _floats(code, i)
        return _result(code, i, f"{i.opcode}_{i.type}({x}, {y})")
    x, y = _sources(code, i)
    return _result(code, i, f"{x} {'<' if i.opcode == 'min' else '>'} {y} ? {x} : {y}")


def _library(code: Operands, i: Instruction) -> str:
    table = LIBRARY if i.type == "f32" else LIBRARY_F64
    return _result(code, i, table[i.opcode].format(_floats(code, i)[0]))


def _logic(code: Operands, i: Instruction) -> str:
    x, y = _sources(code, i)
    return _result(code, i, f"{x} {ARITHMETIC[i.opcode]} {y}")


def _not(code: Operands, i: Instruction) -> str:
    (x,) = _sources(code, i)
    return _result(code, i, f"{x} ^ 1u" if i.type == "pred" else f"~{x}")


def _shift(code: Operands, i: Instruction) -> str:
    """Shift by more than the width: zeros, or the sign for a signed right shift; never undefined C."""
    bits = SIZE[i.type] * 8
    x = code.read(i.operands[1], i.type, i.line)
    count = code.read(i.operands[2], "u32", i.line)
    sign = "<<" if i.opcode == "shl" else ">>"
    if i.opcode == "shr" and i.type[0] == "s":
        return _result(code, i, f"{x} >> ({count} >= {bits}u ? {bits - 1}u : {count})")
    zero = f"({CTYPE[i.type]})0"
    return _result(code, i, f"{count} >= {bits}u ? {zero} : ({CTYPE[i.type]})({x} {sign} ({count} & {bits - 1}u))")


def _funnel_shift(code: Operands, i: Instruction) -> str:
    low, high, count = _sources(code, i, "u32")
    count = f"({count} & 31u)" if "wrap" in i.modifiers else f"({count} > 32u ? 32u : {count})"
    both = f"((u64){high} << 32 | {low})"
    return _result(code, i, f"(u32)({both} << {count} >> 32)" if "l" in i.modifiers else f"(u32)({both} >> {count})")


def _runtime_function(code: Operands, i: Instruction) -> str:
    """Instructions that are functions of the runtime, named after their opcode and type."""
    kinds = {"bfe": (i.type, "u32", "u32"), "bfi": (i.type, i.type, "u32", "u32")}.get(i.opcode)
    operands = i.operands[1:]
    sources = [code.read(o, k, i.line) for o, k in zip(operands, kinds or (i.type,) * len(operands), strict=True)]
    kind = "u32" if i.opcode in ("popc", "clz") else i.type
    return code.write(i.operands[0], kind, f"{i.opcode}_{i.type}({', '.join(sources)})", i.line)


def _lop3(code: Operands, i: Instruction) -> str:
    """Any function of three bits, from its truth table."""
    a, b, c, _ = _sources(code, i, "u32")
    table = _literal(i.operands[4], i)
    terms = [
        " & ".join(f"{'' if row >> shift & 1 else '~'}{x}" for shift, x in ((2, a), (1, b), (0, c)))
        for row in range(8)
        if table >> row & 1
    ]
    return _result(code, i, " | ".join(f"({term})" for term in terms) or "0u")


def _literal(operand: Operand, i: Instruction) -> int:
    bits = getattr(operand, "bits", None)
    if not isinstance(bits, int):
        raise UnknownInstruction("operand must be a constant", i.line, i.spelling)
    return bits


def _setp(code: Operands, i: Instruction) -> str:
    order = i.modifiers[0]
    if i.type in FLOATS:
        x, y = (code.read(operand, i.type, i.line) for operand in i.operands[1:3])
        if "ftz" in i.modifiers:
            x, y = f"flush({x})", f"flush({y})"
        test = FLOAT_ORDER[order].format(x=x, y=y)
    else:
        x, y = (code.read(operand, i.type, i.line) for operand in i.operands[1:3])
        test = f"({x} {ORDER[order]} {y})"
    combine = next((COMBINE[word] for word in i.modifiers[1:-1] if word in COMBINE), None)
    if (combine is None) != (len(i.operands) == 3):
        raise UnknownInstruction("operands do not fit the instruction", i.line, i.spelling)
    read = code.read(i.operands[3], "pred", i.line) if combine else ""
    target = i.operands[0]
    if not isinstance(target, Pair):
        return code.write(target, "pred", f"{test} {combine} {read}" if combine else test, i.line)
    # everything is read before anything is written: the third operand may be one of the targets
    saved = f"const u32 t = {test};" + (f" const u32 c = {read};" if combine else "")
    also = f" {combine} c" if combine else ""
    first, second = code.write(target.first, "pred", f"t{also}"), code.write(target.second, "pred", f"!t{also}")
    return f"{{ {saved} {first} {second} }}"


def _selp(code: Operands, i: Instruction) -> str:
    x, y = (code.read(operand, i.type, i.line) for operand in i.operands[1:3])
    return _result(code, i, f"{code.read(i.operands[3], 'pred', i.line)} ? {x} : {y}")


def _cvt(code: Operands, i: Instruction) -> str:
    target, source = i.modifiers[-2:]
    x = code.read(i.operands[1], source, i.line)
    if "ftz" in i.modifiers and source == "f32":
        x = f"flush({x})"
    rounding = next((ROUNDING[word] for word in i.modifiers if word in ROUNDING), None)
    if source in FLOATS and target not in FLOATS:
        # NaN gives 0, unless a 64-bit type is involved: then the highest bit alone
        nan = 1 << 8 * SIZE[target] - 1 if 8 in (SIZE[source], SIZE[target]) else 0
        converted = f"cvt_{target}({rounding}((f64){x}), {nan:#x}{'ull' if SIZE[target] == 8 else 'u'})"
        return code.write(i.operands[0], target, converted, i.line)
    if rounding:
        x = f"{rounding}{'f' if source == 'f32' else ''}({x})"
    if "sat" in i.modifiers:
        x = f"saturate(({CTYPE[target]}){x})"
    converted = f"({CTYPE[target]}){x}"
    if "ftz" in i.modifiers and target == "f32":
        converted = f"flush({converted})"
    return code.write(i.operands[0], target, converted, i.line)


def _mov(code: Operands, i: Instruction) -> str:
    target, source = i.operands
    if isinstance(target, Register | Sink) and not isinstance(source, Vector):
        return code.write(target, i.type, code.read(source, i.type, i.line), i.line)
    vector = source if isinstance(source, Vector) else target
    if not isinstance(vector, Vector):
        raise UnknownInstruction("operands do not fit the instruction", i.line, i.spelling)
    width = SIZE[i.type] * 8 // len(vector.items)
    whole, part = CTYPE[i.type], f"u{width}"
    if vector is source:
        read = (
            f"({whole})({whole}){code.read(item, part, i.line)} << {width * n}" for n, item in enumerate(vector.items)
        )
        return code.write(target, i.type, " | ".join(f"({item})" for item in read), i.line)
    writes = (
        code.write(item, part, f"({CTYPE[part]})(t >> {width * n})", i.line) for n, item in enumerate(vector.items)
    )
    return f"{{ const {whole} t = {code.read(source, i.type, i.line)}; {' '.join(writes)} }}"


def _cvta(code: Operands, i: Instruction) -> str:
    """Convert addresses: a generic one is the real one, shared and local ones are offsets from where these begin."""
    (x,) = _sources(code, i)
    base = "(u64)(uintptr)S" if "shared" in i.modifiers else "(u64)(uintptr)LOCAL(l)"
    if not {"shared", "local"} & set(i.modifiers):
        return _result(code, i, x)
    return _result(code, i, f"{x} {'-' if 'to' in i.modifiers else '+'} {base}")


def address_space(i: Instruction) -> str:
    """Return where a memory instruction reads or writes; generic and constant addresses are global ones."""
    return next((word for word in i.modifiers if word in ("shared", "local", "param")), "global")


def load_items(i: Instruction) -> tuple[Operand, ...]:
    """Return the targets of a load, one for each element."""
    return _items(i.operands[0])


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _check_width(i: Instruction, items: tuple[Operand, ...]) -> None:
    width = next((int(word[1]) for word in i.modifiers if word in ("v2", "v4")), 1)
    if width != len(items):
        raise UnknownInstruction(f"{len(items)} registers for a vector of {width}", i.line, i.spelling)


def _load(code: Operands, i: Instruction) -> str:
    target, address = i.operands
    items, space = _items(target), address_space(i)
    _check_width(i, items)
    size, kind = SIZE[i.type], CTYPE[i.type]
    if space == "param":
        if not (isinstance(address, Address) and isinstance(address.base, Symbol)):
            raise UnknownInstruction("parameter address must be a name", i.line, i.spelling)
        at = code.layout.parameters[address.base.name] + address.offset
        loads = [f"*(const {kind} *)(P + {at + n * size})" for n in range(len(items))]
        return " ".join(code.write(item, i.type, load, i.line) for item, load in zip(items, loads, strict=True))
    place = code.address(address, space, i.line)
    if len(items) == 1:
        return code.write(items[0], i.type, f"LOAD_{space.upper()}({kind}, {place})", i.line)
    # the address is saved: one of the targets may be its register
    width = "u64" if space == "global" else "u32"
    loads = [f"LOAD_{space.upper()}({kind}, a + {n * size})" for n in range(len(items))]
    writes = (code.write(item, i.type, load, i.line) for item, load in zip(items, loads, strict=True))
    return f"{{ const {width} a = {place}; {' '.join(writes)} }}"


def _store(code: Operands, i: Instruction) -> str:
    address, source = i.operands
    items, space = _items(source), address_space(i)
    _check_width(i, items)
    place = code.address(address, space, i.line)
    size, kind, macro = SIZE[i.type], CTYPE[i.type], f"STORE_{space.upper()}"
    values = [code.read(item, i.type, i.line) for item in items]
    if len(items) == 1:
        return f"{macro}({kind}, {place}, {values[0]});"
    width = "u64" if space == "global" else "u32"
    stores = (f"{macro}({kind}, a + {n * size}, {value});" for n, value in enumerate(values))
    return f"{{ const {width} a = {place}; {' '.join(stores)} }}"


def _atomic(code: Operands, i: Instruction) -> str:
    """Lanes of a block never run at the same time, so a plain read and write is atomic within the block."""
    first: Operand = i.operands[0] if i.opcode == "atom" else Sink()
    address, *values = i.operands[1:] if i.opcode == "atom" else i.operands
    space, kind = address_space(i), CTYPE[i.type]
    operation = next(word for word in i.modifiers if word in ATOMIC)
    if len(values) != 1 + (operation == "cas"):
        raise UnknownInstruction("operands do not fit the instruction", i.line, i.spelling)
    names = ("val", "swap")[: len(values)]
    saved = " ".join(
        f"const {kind} {name} = {code.read(value, i.type, i.line)};" for name, value in zip(names, values, strict=True)
    )
    result = ATOMIC[operation]
    if i.type == "f32" and space == "global":  # in global memory subnormals are flushed, in shared memory they are not
        result = "flush(flush(old) + flush(val))"
    target = f"{kind} *const at = POINTER_{space.upper()}({kind}, {code.address(address, space, i.line)});"
    return f"{{ {target} {saved} const {kind} old = *at; *at = {result}; {code.write(first, i.type, 'old', i.line)} }}"


def _nothing(code: Operands, i: Instruction) -> str:
    """Fences and hints: a block's lanes run one after another on one coherent memory."""
    return ";"


TABLE: dict[str, Emit] = {
    "add": _add_sub, "sub": _add_sub, "mul": _mul_mad, "mad": _mul_mad, "fma": _fma, "div": _div_rem, "rem": _div_rem,
    "neg": _neg, "abs": _abs, "copysign": _copysign, "min": _min_max, "max": _min_max,
    "rcp": _library, "sqrt": _library, "rsqrt": _library, "ex2": _library, "lg2": _library, "sin": _library,
    "cos": _library, "tanh": _library,
    "and": _logic, "or": _logic, "xor": _logic, "not": _not, "shl": _shift, "shr": _shift, "shf": _funnel_shift,
    "popc": _runtime_function, "clz": _runtime_function, "brev": _runtime_function, "bfe": _runtime_function,
    "bfi": _runtime_function, "prmt": _runtime_function, "lop3": _lop3,
    "setp": _setp, "selp": _selp, "cvt": _cvt, "mov": _mov, "cvta": _cvta,
    "ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic,
    "membar": _nothing, "fence": _nothing, "griddepcontrol": _nothing, "nanosleep": _nothing, "prefetch": _nothing,
}  # fmt: skip
