"""Every one-lane instruction against an oracle in Python integers or NumPy floats.

Kernels have one thread for each triple of operands, edge cases first. The last warp has 13 threads only, so that both
forms of every block run: all lanes in step, and some of them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from .snippets import compiled

pytestmark = pytest.mark.usefixtures("compiler")

COUNT = 1005
PREFIX = {16: "h", 32: "r", 64: "d"}
EDGES = {
    16: [0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 32, 33, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF],
    32: [0, 1, 2, 31, 32, 33, 63, 64, 65, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00800000,
         0x807FFFFF, 0x00000001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x3F800000, 0xBF800000, 0x4F000000, 0x4F800000],
    64: [0, 1, 31, 32, 33, 63, 64, 65, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 63) - 1, (1 << 64) - 1,
         0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8000000000000, 0x3FF0000000000000, 0x41E0000000000000],
}  # fmt: skip

Words = tuple[int, ...]


@dataclass(frozen=True)
class Case:
    """One instruction.

    Parameters
    ----------
    text
        With ``D`` for the destination and ``A``, ``B``, ``C`` for the sources.
    widths
        Bits of destination and sources.
    oracle
        Source words to the destination's word, or None where the result is not defined.
    """

    text: str
    widths: Words
    oracle: Callable[..., int | None]


def signed(word: int, bits: int) -> int:
    """Two's complement value of a word."""
    return word - (1 << bits) if word >> bits - 1 & 1 else word


def inputs(rng: np.random.Generator, bits: int) -> np.ndarray:
    """Edge values, small values, and any words."""
    edges = np.array(EDGES[bits], np.uint64)
    small = rng.integers(0, 70, 100, np.uint64)
    words = rng.integers(0, 1 << 63, COUNT, np.uint64) << 1 | rng.integers(0, 2, COUNT, np.uint64)
    mixed = np.concatenate([np.repeat(edges, 12), small, words & np.uint64((1 << bits) - 1)])[: COUNT - 20]
    tail = np.concatenate([mixed, edges[:20]])[:COUNT]
    filled = np.concatenate([tail, words[: COUNT - len(tail)] & np.uint64((1 << bits) - 1)])
    return np.asarray(rng.permutation(filled).astype(f"u{bits // 8}"))


def run_cases(cases: list[Case], rng: np.random.Generator) -> tuple[list[np.ndarray], dict[int, list[np.ndarray]]]:
    """Run cases in one kernel; return each case's results and the operands by width."""
    operands = {bits: [inputs(rng, bits) for _ in range(3)] for bits in (16, 32, 64)}
    body = []
    for place, bits in enumerate((16, 32, 64)):
        for number in range(3):
            register, at = f"%{PREFIX[bits]}{number}", place * 3 + number
            body.append(f"ld.param.u64 %d10, [p{at}]; mul.wide.u32 %d11, %r30, {bits // 8}; add.s64 %d10, %d10, %d11;")
            body.append(f"ld.global.b{bits} {register}, [%d10];")
    body.append("ld.param.u64 %d12, [p9]; add.s64 %d12, %d12, %d32;")
    for number, case in enumerate(cases):
        target, *sources = case.widths
        text = case.text.replace("D", f"%{PREFIX[target]}9")
        for letter, bits, index in zip("ABC", sources, range(3), strict=False):
            text = text.replace(letter, f"%{PREFIX[bits]}{index}")
        body.append(f"{text} st.global.b{target} [%d12+{number * COUNT * 8}], %{PREFIX[target]}9;")
    kernel = compiled("\n".join(body), ["u64"] * 10)
    out = np.zeros((len(cases), COUNT), np.uint64)
    kernel.launch(1, COUNT, 0, [*operands[16], *operands[32], *operands[64], out])
    return list(out), operands


def check(cases: list[Case], rng: np.random.Generator) -> None:
    """Compare word by word."""
    results, operands = run_cases(cases, rng)
    for case, result in zip(cases, results, strict=True):
        target, *widths = case.widths
        columns = [operands[bits][index].tolist() for index, bits in enumerate(widths)]
        for words, got in zip(zip(*columns, strict=True), result.tolist(), strict=True):
            want = case.oracle(*words)
            if want is not None:
                want %= 1 << target
                assert got == want, f"{case.text} of {[hex(w) for w in words]}: got {got:#x}, expected {want:#x}"


def on_signed(bits: int, function: Callable[..., int | None]) -> Callable[..., int | None]:
    """Apply a function to words as signed numbers."""
    return lambda *words: function(*(signed(word, bits) for word in words))


def quotient(x: int, y: int) -> int | None:
    return None if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int | None:
    whole = quotient(x, y)
    return None if whole is None else x - whole * y


def integer_cases(bits: int) -> list[Case]:
    two, three, one = (bits,) * 3, (bits,) * 4, (bits,) * 2
    cases = [
        Case(f"add.u{bits} D, A, B;", two, operator.add),
        Case(f"sub.s{bits} D, A, B;", two, operator.sub),
        Case(f"mul.lo.u{bits} D, A, B;", two, operator.mul),
        Case(f"mul.lo.s{bits} D, A, B;", two, operator.mul),
        Case(f"mul.hi.u{bits} D, A, B;", two, lambda x, y: x * y >> bits),
        Case(f"mul.hi.s{bits} D, A, B;", two, on_signed(bits, lambda x, y: x * y >> bits)),
        Case(f"mad.lo.s{bits} D, A, B, C;", three, lambda x, y, z: x * y + z),
        Case(f"mad.hi.u{bits} D, A, B, C;", three, lambda x, y, z: (x * y >> bits) + z),
        Case(f"div.u{bits} D, A, B;", two, lambda x, y: x // y if y else None),
        Case(f"div.s{bits} D, A, B;", two, on_signed(bits, quotient)),
        Case(f"rem.u{bits} D, A, B;", two, lambda x, y: x % y if y else None),
        Case(f"rem.s{bits} D, A, B;", two, on_signed(bits, remainder)),
        Case(f"min.u{bits} D, A, B;", two, min),
        Case(f"max.u{bits} D, A, B;", two, max),
        Case(f"min.s{bits} D, A, B;", two, on_signed(bits, min)),
        Case(f"max.s{bits} D, A, B;", two, on_signed(bits, max)),
        Case(f"neg.s{bits} D, A;", one, operator.neg),
        Case(f"abs.s{bits} D, A;", one, on_signed(bits, abs)),
        Case(f"and.b{bits} D, A, B;", two, operator.and_),
        Case(f"or.b{bits} D, A, B;", two, operator.or_),
        Case(f"xor.b{bits} D, A, B;", two, operator.xor),
        Case(f"not.b{bits} D, A;", one, operator.invert),
        Case(f"add.s{bits} D, A, -3;", one, lambda x: x - 3),
        Case(f"mov.b{bits} D, A;", one, lambda x: x),
    ]
    shifts = (bits, bits, 32)
    cases += [
        Case(f"shl.b{bits} D, A, B;", shifts, lambda x, n: x << n if n < bits else 0),
        Case(f"shr.u{bits} D, A, B;", shifts, lambda x, n: x >> n if n < bits else 0),
        Case(f"shr.b{bits} D, A, B;", shifts, lambda x, n: x >> n if n < bits else 0),
        Case(f"shr.s{bits} D, A, B;", shifts, lambda x, n: signed(x, bits) >> min(n, bits)),
    ]
    if bits < 64:
        wide = (2 * bits, bits, bits)
        cases += [
            Case(f"mul.wide.u{bits} D, A, B;", wide, operator.mul),
            Case(f"mul.wide.s{bits} D, A, B;", wide, on_signed(bits, operator.mul)),
            Case(f"mad.wide.u{bits} D, A, B, C;", (*wide, 2 * bits), lambda x, y, z: x * y + z),
            Case(f"mad.wide.s{bits} D, A, B, C;", (*wide, 2 * bits),
                 lambda x, y, z: signed(x, bits) * signed(y, bits) + z),
        ]  # fmt: skip
    return cases


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integer_arithmetic(bits: int, rng: np.random.Generator) -> None:
    check(integer_cases(bits), rng)


def truth(order: str, x: int, y: int) -> bool:
    return bool({"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[order])


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integer_comparison_and_selection(bits: int, rng: np.random.Generator) -> None:
    cases = []
    for order in ("eq", "ne", "lt", "le", "gt", "ge"):
        select = f" selp.b{bits} D, A, B, %p0;"
        cases += [
            Case(f"setp.{order}.u{bits} %p0, A, B;" + select, (bits,) * 3,
                 lambda x, y, order=order: x if truth(order, x, y) else y),
            Case(f"setp.{order}.s{bits} %p0, A, B;" + select, (bits,) * 3,
                 lambda x, y, order=order: x if truth(order, signed(x, bits), signed(y, bits)) else y),
        ]  # fmt: skip
    for order, plain in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        cases.append(
            Case(f"setp.{order}.u{bits} %p0, A, B; selp.u{bits} D, A, B, %p0;", (bits,) * 3,
                 lambda x, y, order=plain: x if truth(order, x, y) else y)
        )  # fmt: skip
    for combine, function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor)):
        text = (
            f"setp.ne.b{bits} %p1, C, 0; setp.gt.{combine}.u{bits} %p1|%p2, A, B, %p1; "
            f"selp.b{bits} D, 1, 0, %p1; @%p2 add.u{bits} D, D, 2;"
        )
        cases.append(
            Case(text, (bits,) * 4,
                 lambda x, y, z, f=function: int(f(x > y, z != 0)) + 2 * int(f(not x > y, z != 0)))
        )  # fmt: skip
    check(cases, rng)


def test_predicates(rng: np.random.Generator) -> None:
    load = "setp.ne.b32 %p1, A, 0; setp.lt.s32 %p2, B, 0; "
    store = " selp.b32 D, 1, 0, %p3;"
    cases = [
        Case(load + f"{name}.pred %p3, %p1, %p2;" + store, (32, 32, 32),
             lambda x, y, f=function: int(f(x != 0, signed(y, 32) < 0)))
        for name, function in (("and", operator.and_), ("or", operator.or_), ("xor", operator.xor))
    ]  # fmt: skip
    cases += [
        Case(load + "not.pred %p3, %p1;" + store, (32, 32, 32), lambda x, y: int(x == 0)),
        Case(load + "mov.pred %p3, %p2;" + store, (32, 32, 32), lambda x, y: y >> 31),
        Case(load + "mov.b32 D, 5; @%p1 mov.b32 D, B;", (32, 32, 32), lambda x, y: y if x else 5),
        Case(load + "mov.b32 D, 5; @!%p1 add.u32 D, D, B;", (32, 32, 32), lambda x, y: 5 if x else 5 + y),
        Case(load + "setp.eq.and.u32 %p3, A, B, !%p1;" + store, (32, 32, 32), lambda x, y: int(x == y == 0)),
    ]
    check(cases, rng)


def reversed_bits(word: int, bits: int) -> int:
    return int(f"{word:0{bits}b}"[::-1], 2)


def permuted(low: int, high: int, select: int) -> int:
    data = (high << 32 | low).to_bytes(8, "little")
    picked = []
    for nibble in (select >> 4 * n & 15 for n in range(4)):
        byte = data[nibble & 7]
        picked.append((255 if byte & 128 else 0) if nibble & 8 else byte)
    return int.from_bytes(bytes(picked), "little")


def field(at: int, length: int, bits: int) -> int:
    """Mask of a bit field, cut at the word's end."""
    return ((1 << (length & 255)) - 1 << (at & 255)) & ((1 << bits) - 1)


def three_bit_function(table: int, x: int, y: int, z: int) -> int:
    return sum((table >> ((x >> n & 1) * 4 + (y >> n & 1) * 2 + (z >> n & 1)) & 1) << n for n in range(32))


def test_bit_instructions(rng: np.random.Generator) -> None:
    both = lambda high, low: high << 32 | low  # noqa: E731
    cases = [
        Case("shf.l.wrap.b32 D, A, B, C;", (32,) * 4, lambda x, y, n: both(y, x) << (n & 31) >> 32),
        Case("shf.r.wrap.b32 D, A, B, C;", (32,) * 4, lambda x, y, n: both(y, x) >> (n & 31)),
        Case("shf.l.clamp.b32 D, A, B, C;", (32,) * 4, lambda x, y, n: both(y, x) << min(n, 32) >> 32),
        Case("shf.r.clamp.b32 D, A, B, C;", (32,) * 4, lambda x, y, n: both(y, x) >> min(n, 32)),
        Case("prmt.b32 D, A, B, C;", (32,) * 4, permuted),
        Case("prmt.b32 D, A, B, 0x9124;", (32,) * 3, lambda x, y: permuted(x, y, 0x9124)),
    ]
    for bits in (32, 64):
        cases += [
            Case(f"popc.b{bits} D, A;", (32, bits), int.bit_count),
            Case(f"clz.b{bits} D, A;", (32, bits), lambda x, bits=bits: bits - x.bit_length()),
            Case(f"brev.b{bits} D, A;", (bits, bits), lambda x, bits=bits: reversed_bits(x, bits)),
            Case(f"bfe.u{bits} D, A, B, C;", (bits, bits, 32, 32),
                 lambda x, at, n, bits=bits: (x & field(at, n, bits)) >> (at & 255)),
            Case(f"bfi.b{bits} D, A, B, C, 9;", (bits, bits, bits, 32),
                 lambda x, y, at, bits=bits: y & ~field(at, 9, bits) | (x << (at & 255)) & field(at, 9, bits)),
        ]  # fmt: skip
    for table in (0x00, 0x80, 0x96, 0xE8, 0xCA, 0x1B, 0xFF):
        cases.append(
            Case(f"lop3.b32 D, A, B, C, {table};", (32,) * 4, lambda x, y, z, t=table: three_bit_function(t, x, y, z))
        )
    check(cases, rng)


def test_integer_conversion(rng: np.random.Generator) -> None:
    """A source is cut to its type, a result extended to its register by the sign of its type."""
    cases = []
    for target in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
        for source in ("u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"):
            t, s = int(target[1:]), int(source[1:])

            def oracle(word: int, target: str = target, source: str = source, t: int = t, s: int = s) -> int:
                value = word % (1 << s)
                value = signed(value, s) if source[0] == "s" else value
                value %= 1 << t
                return signed(value, t) if target[0] == "s" else value

            cases.append(Case(f"cvt.{target}.{source} D, A;", (max(t, 16), max(s, 16)), oracle))
    check(cases, rng)


def test_packing(rng: np.random.Generator) -> None:
    cases = [
        Case("mov.b64 D, {A, B};", (64, 32, 32), lambda x, y: y << 32 | x),
        Case("mov.b32 D, {A, B};", (32, 16, 16), lambda x, y: y << 16 | x),
        Case("mov.b64 D, {A, B, C, A};", (64, 16, 16, 16), lambda x, y, z: x << 48 | z << 32 | y << 16 | x),
        Case("mov.b64 {%r10, D}, A;", (32, 64), lambda x: x >> 32),
        Case("mov.b64 {D, _}, A;", (32, 64), lambda x: x),
        Case("mov.b32 {%h10, D}, A;", (16, 32), lambda x: x >> 16),
    ]
    check(cases, rng)


# ---- floats

Floats = Callable[..., np.ndarray]


@dataclass(frozen=True)
class FloatCase:
    """One instruction on floats; like :class:`Case`, but the oracle is given and gives arrays."""

    text: str
    kinds: tuple[str, ...]
    oracle: Floats


FLOAT = {"f32": np.float32, "f64": np.float64, "b32": np.uint32, "b64": np.uint64}
BITS_OF = {"f32": 32, "f64": 64, "b32": 32, "b64": 64}


def in_float_registers(case: FloatCase) -> str:
    """Move float operands from the words' registers to float registers, and the result back."""
    text, before, after = case.text, "", ""
    for letter, kind, number in zip("DABC", case.kinds, range(4), strict=False):
        if kind[0] == "f":
            register = f"%{'f' if kind == 'f32' else 'g'}{10 + number}"
            text = text.replace(f" {letter}", f" {register}")
            if letter == "D":
                after = f" mov.b{BITS_OF[kind]} D, {register};"
            else:
                before += f"mov.b{BITS_OF[kind]} {register}, {letter}; "
    return before + text + after


def check_floats(cases: list[FloatCase], rng: np.random.Generator, ulps: int = 0) -> None:
    """Compare bit by bit, any NaN being as good as another; or within some units in the last place."""
    words = [Case(in_float_registers(case), tuple(BITS_OF[k] for k in case.kinds), lambda *_: None) for case in cases]
    results, operands = run_cases(words, rng)
    for case, result in zip(cases, results, strict=True):
        target, *sources = case.kinds
        arrays = [operands[BITS_OF[kind]][index].view(FLOAT[kind]) for index, kind in enumerate(sources)]
        with np.errstate(all="ignore"):
            want = case.oracle(*arrays).astype(FLOAT[target])
        got = result.astype(f"u{BITS_OF[target] // 8}").view(FLOAT[target])
        same = got.view(f"u{BITS_OF[target] // 8}") == want.view(f"u{BITS_OF[target] // 8}")
        if target[0] == "f":
            same |= np.isnan(got) & np.isnan(want)
            if ulps:
                with np.errstate(all="ignore"):
                    same |= np.abs(got - want) <= ulps * np.spacing(np.abs(want)) + np.finfo(FLOAT[target]).tiny
        bad = np.flatnonzero(~same)
        assert not bad.size, f"{case.text} of {[a[bad[0]] for a in arrays]}: got {got[bad[0]]}, want {want[bad[0]]}"


def flush(x: np.ndarray) -> np.ndarray:
    """Subnormal numbers to zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x)


def smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Minimum: a NaN loses, -0 < +0."""
    picked = np.fmin(x, y)
    return np.where((x == 0) & (y == 0) & (np.signbit(x) | np.signbit(y)), -np.zeros_like(x), picked)


def larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return -smaller(-x, -y)


def saturated(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, np.minimum(x, 1), 0)


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_arithmetic(kind: str, rng: np.random.Generator) -> None:
    cases = [
        FloatCase(f"add.{kind} D, A, B;", (kind,) * 3, np.add),
        FloatCase(f"add.rn.{kind} D, A, B;", (kind,) * 3, np.add),
        FloatCase(f"sub.{kind} D, A, B;", (kind,) * 3, np.subtract),
        FloatCase(f"mul.{kind} D, A, B;", (kind,) * 3, np.multiply),
        FloatCase(f"div.rn.{kind} D, A, B;", (kind,) * 3, np.divide),
        FloatCase(f"min.{kind} D, A, B;", (kind,) * 3, smaller),
        FloatCase(f"max.{kind} D, A, B;", (kind,) * 3, larger),
        FloatCase(f"neg.{kind} D, A;", (kind,) * 2, np.negative),
        FloatCase(f"abs.{kind} D, A;", (kind,) * 2, np.abs),
        FloatCase(f"copysign.{kind} D, A, B;", (kind,) * 3, lambda sign, x: np.copysign(x, sign)),
        FloatCase(f"sqrt.rn.{kind} D, A;", (kind,) * 2, np.sqrt),
        FloatCase(f"rcp.rn.{kind} D, A;", (kind,) * 2, lambda x: np.ones_like(x) / x),
        FloatCase(f"mov.{kind} D, A;", (kind,) * 2, lambda x: x),
    ]
    if kind == "f32":
        cases += [
            FloatCase("add.ftz.f32 D, A, B;", (kind,) * 3, lambda x, y: flush(flush(x) + flush(y))),
            FloatCase("mul.rn.ftz.f32 D, A, B;", (kind,) * 3, lambda x, y: flush(flush(x) * flush(y))),
            FloatCase("div.full.f32 D, A, B;", (kind,) * 3, np.divide),
            FloatCase("min.ftz.f32 D, A, B;", (kind,) * 3, lambda x, y: smaller(flush(x), flush(y))),
            FloatCase("add.sat.f32 D, A, B;", (kind,) * 3, lambda x, y: saturated(x + y)),
            FloatCase("mul.f32 D, A, 0f40490fdb;", (kind,) * 2, lambda x: x * np.float32(math.pi)),
        ]
    check_floats(cases, rng)


ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")


def ordered(order: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    unordered = np.isnan(x) | np.isnan(y)
    if order in ("num", "nan"):
        return unordered if order == "nan" else ~unordered
    plain = {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[order[:2]]
    return plain | unordered if order.endswith("u") else plain & ~unordered


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_comparison(kind: str, rng: np.random.Generator) -> None:
    orders = (*ORDERED, *(f"{order}u" for order in ORDERED), "num", "nan")
    cases = [
        FloatCase(f"setp.{order}.{kind} %p0, A, B; selp.{kind} D, A, B, %p0;", (kind,) * 3,
                  lambda x, y, order=order: np.where(ordered(order, x, y), x, y))
        for order in orders
    ]  # fmt: skip
    check_floats(cases, rng)


def to_integer(bits: int, sign: bool, rounding: Floats, nan: int) -> Floats:
    """Round, clamp to the type, NaN to a fixed word; all in Python numbers."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)

    def one(x: float) -> int:
        if math.isnan(x):
            return nan
        whole = (high if x > 0 else low) if math.isinf(x) else min(max(int(x), low), high)
        return whole % (1 << bits)

    return lambda x: np.array([one(float(v)) for v in rounding(x.astype(np.float64))], f"u{max(bits, 32) // 8}")


@pytest.mark.parametrize("source", ["f32", "f64"])
def test_float_to_integer(source: str, rng: np.random.Generator) -> None:
    roundings = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
    cases = []
    for name, rounding in roundings.items():
        for target in ("u32", "s32", "u64", "s64"):
            bits = int(target[1:])
            nan = 1 << bits - 1 if bits == 64 or source == "f64" else 0
            oracle = to_integer(bits, target[0] == "s", rounding, nan)
            cases.append(FloatCase(f"cvt.{name}.{target}.{source} D, A;", (f"b{bits}", source), oracle))
        cases.append(FloatCase(f"cvt.{name}.{source}.{source} D, A;", (source, source), rounding))
    check_floats(cases, rng)


def test_conversion_to_float(rng: np.random.Generator) -> None:
    cases = [
        FloatCase("cvt.rn.f32.f64 D, A;", ("f32", "f64"), lambda x: x.astype(np.float32)),
        FloatCase("cvt.f64.f32 D, A;", ("f64", "f32"), lambda x: x.astype(np.float64)),
        FloatCase("cvt.sat.f32.f32 D, A;", ("f32", "f32"), saturated),
        FloatCase("cvt.ftz.f32.f32 D, A;", ("f32", "f32"), flush),
    ]
    for target in ("f32", "f64"):
        for source in ("u32", "s32", "u64", "s64"):
            bits = int(source[1:])
            view = f"{'i' if source[0] == 's' else 'u'}{bits // 8}"
            cases.append(
                FloatCase(f"cvt.rn.{target}.{source} D, A;", (target, f"b{bits}"),
                          lambda x, view=view, target=target: x.view(view).astype(FLOAT[target]))
            )  # fmt: skip
    check_floats(cases, rng)


def test_approximate_functions_are_close(rng: np.random.Generator) -> None:
    functions = {"ex2": np.exp2, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "rcp": np.reciprocal}
    cases = [
        FloatCase(f"{name}.approx.f32 D, A;", ("f32", "f32"), lambda x, f=function: f(x.astype(np.float64)))
        for name, function in functions.items()
    ]
    cases += [
        FloatCase("lg2.approx.f32 D, A;", ("f32", "f32"), lambda x: np.log2(x.astype(np.float64))),
        FloatCase("sqrt.approx.f32 D, A;", ("f32", "f32"), lambda x: np.sqrt(x.astype(np.float64))),
        FloatCase("rsqrt.approx.f32 D, A;", ("f32", "f32"), lambda x: 1 / np.sqrt(x.astype(np.float64))),
    ]
    check_floats(cases, rng, ulps=2)


def test_fma_rounds_once(rng: np.random.Generator) -> None:
    """With 24-bit factors of equal magnitude the exact result fits a double, which is the oracle."""
    scale = "cvt.rn.f32.s32 %f1, %r1; cvt.rn.f32.s32 %f2, %r2; cvt.rn.f32.s32 %f3, %r0; "
    shift = "shr.s32 %r4, %r0, 8; shr.s32 %r5, %r1, 8; shr.s32 %r6, %r2, 8; "
    scale = shift + scale.replace("%r1;", "%r5;").replace("%r2;", "%r6;").replace("%r0;", "%r4;")
    text = scale + "{}.rn.f32 %f4, %f3, %f1, %f2; mov.b32 D, %f4;"

    def oracle(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
        a, b, c = ((w.view(np.int32) >> 8).astype(np.float64) for w in (x, y, z))
        return (a * b + c).astype(np.float32).view(np.uint32)

    check_floats([FloatCase(text.format(name), ("b32",) * 4, oracle) for name in ("fma", "mad")], rng)
