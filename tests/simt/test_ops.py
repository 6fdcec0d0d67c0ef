"""Every one-lane instruction on integers and predicates against an oracle in Python integers."""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np
import pytest

from .operands import Case, check, signed

pytestmark = pytest.mark.usefixtures("compiler")


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
