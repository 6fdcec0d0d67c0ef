"""Instructions of one lane, run on many operands at once and held against an oracle.

Kernels have one thread for each triple of operands, edge cases first. The last warp has 13 threads only, so that both
forms of every block run: all lanes in step, and some of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .snippets import compiled

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
