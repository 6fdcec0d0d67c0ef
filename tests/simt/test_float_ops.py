"""Every one-lane instruction on floats against NumPy's."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from .operands import Case, run_cases

pytestmark = pytest.mark.usefixtures("compiler")

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
