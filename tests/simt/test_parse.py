"""PTX text to data, and the refusal of everything that is not known."""

from __future__ import annotations

import pytest

from harness.simt.codegen import translate
from harness.simt.errors import PtxError, UnknownInstruction
from harness.simt.liveness import assign_slots, live_out, reads, writes
from harness.simt.parse import parse_kernel, parse_module, split_list
from harness.simt.ptx import (
    Address,
    Immediate,
    Instruction,
    Kernel,
    Pair,
    Predicate,
    Register,
    Sink,
    Special,
    Symbol,
    Terminator,
    Vector,
)
from harness.simt.simplify import simplify

from .snippets import HEAD, ptx_text


def kernel_of(body: str, parameters: tuple[str, ...] = ("u64",), module: str = "") -> Kernel:
    return parse_kernel(parse_module(ptx_text(body, parameters, module)))


def instruction_of(text: str) -> Instruction:
    """Decode one statement; the kernel's head and its end are around it."""
    return list(kernel_of(text).instructions())[3]


def test_instruction() -> None:
    got = instruction_of("@!%p3 add.rn.ftz.f32 %f1, %f2, 0f3F800000;")
    assert got.spelling == "add.rn.ftz.f32"
    assert got.type == "f32"
    assert got.guard == Predicate(Register("%p3"), negated=True)
    assert got.operands == (Register("%f1"), Register("%f2"), Immediate(0x3F800000, "f32"))
    assert reads(got) == ["%f2", "%p3", "%f1"]  # a guarded write keeps the old value
    assert writes(got) == ["%f1"]


def test_operands() -> None:
    assert instruction_of("ld.global.v2.f32 {%f1, _}, [%d1+-8];").operands == (
        Vector((Register("%f1"), Sink())),
        Address(Register("%d1"), -8),
    )
    assert instruction_of("shfl.sync.up.b32 %r1|%p1, %r2, 1, 0x1f, -1;").operands == (
        Pair(Register("%r1"), Register("%p1")),
        Register("%r2"),
        Immediate(1),
        Immediate(31),
        Immediate(-1),
    )
    assert instruction_of("mov.u32 %r1, %laneid;").operands[1] == Special("%laneid")
    body = ".shared .align 4 .b32 box[8]; mov.u32 %r1, box+4;"
    assert list(kernel_of(body).instructions())[3].operands[1] == Symbol("box", 4)


def test_parameters_are_laid_out_by_alignment() -> None:
    kernel = kernel_of("", ("u8", "u64", "f32", "u16", "f64"))
    assert [(p.name, p.offset, p.size) for p in kernel.parameters] == [
        ("p0", 0, 1),
        ("p1", 8, 8),
        ("p2", 16, 4),
        ("p3", 20, 2),
        ("p4", 24, 8),
    ]
    text = f"{HEAD}.entry k(.param .align 16 .b8 s[24], .param .u64 .ptr .global .align 16 q, .param .u32 n) {{ ret; }}"
    (entry,) = parse_module(text).entries.values()
    assert [(p.name, p.type, p.offset, p.size) for p in entry.parameters] == [
        ("s", "bytes", 0, 24),
        ("q", "u64", 24, 8),
        ("n", "u32", 32, 4),
    ]


def test_module_variables() -> None:
    module = parse_module(
        HEAD
        + """
        .global .align 4 .u32 one = 1; // comment
        .visible .const .align 8 .b8 bytes[3] = {1, 0x02, 3};
        .global .align 4 .f32 real = 0f3F800000;
        .extern .shared .align 16 .b8 dyn[];
        .weak .shared .align 4 .b32 box[6];
        """
    )
    assert module.constants["one"].values == (1,)
    assert module.constants["bytes"].values == (1, 2, 3)
    assert module.constants["real"].values == (0x3F800000,)
    assert module.shared["dyn"].dynamic
    assert module.shared["box"].size == 24


def test_blocks_and_jumps() -> None:
    kernel = kernel_of("@%p1 bra $end; add.u32 %r1, %r1, 1; bar.sync 0; sub.u32 %r1, %r1, 1; $end:")
    *blocks, last = kernel.blocks
    assert [block.terminator.kind for block in blocks] == ["jump", "fall", "fall", "fall"]
    assert blocks[0].terminator == Terminator("jump", Predicate(Register("%p1")), target=4)
    assert [block.warp_wide for block in blocks] == [False, False, True, False]
    assert (last.label, last.terminator.kind) == ("$end", "exit")
    assert [kernel.successors(n) for n in range(5)] == [(4, 1), (2,), (3,), (4,), ()]


def test_launch_bounds() -> None:
    text = f"{HEAD}.entry k()\n.maxntid 256, 2, 1\n.minnctapersm 2\n{{ ret; }}"
    assert parse_module(text).entries["k"].max_threads == 512


def test_lists_split_outside_brackets() -> None:
    assert split_list("{%f1, %f2}, [%d1+4], -1 ") == ["{%f1, %f2}", "[%d1+4]", "-1"]
    assert split_list("") == []


UNKNOWN = [
    "frobnicate.u32 %r1, %r2;",  # opcode
    "add.rz.f32 %f1, %f2, %f3;",  # rounding
    "add.cc.u32 %r1, %r2, %r3;",  # carry
    "add.u32 %r1, %r2;",  # too few operands
    "mul.u32 %r1, %r2, %r3;",  # half of the product not named
    "mov.u32 %r1, %clock;",  # special register
    "mov.u32 %r1, nowhere;",  # symbol
    "mov.u32 %r1, %r99;",  # register not declared
    "ld.global.v8.f32 {%f1, %f2}, [%d1];",
    "ld.global.f16 %h1, [%d1];",
    "ld.global.u32 %r1, [nowhere];",
    "cvt.rn.f16.f32 %h1, %f1;",
    "cvt.rn.sat.u32.f32 %r1, %f1;",
    "shfl.up.b32 %r1, %r2, 1, 0;",  # without .sync
    "@%p1 bar.sync 0;",  # guarded and warp-wide
    "bar.red.xor.pred %p1, 0, %p2;",
    "atom.global.add.noftz.f16 %h1, [%d1], %h2;",
    "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r2}, {%f2};",
    "call.uni (%r1), vprintf, (%d1, %d2);",
    "brx.idx %r1, table;",
    "setmaxnreg.inc.sync.aligned.u32 40;",
    ".tex .u32 t;",
    ".reg .f16 %x<3>;",
]


@pytest.mark.parametrize("statement", UNKNOWN)
def test_unknown_is_an_error_with_line_and_text(statement: str) -> None:
    body = f"add.u32 %r1, %r2, %r3;\n\n// a comment\n/* and\nanother */ {statement}"
    text = ptx_text(body)
    with pytest.raises(UnknownInstruction) as error:
        parse_kernel(parse_module(text))
    assert error.value.line == next(n for n, line in enumerate(text.split("\n"), 1) if "another */" in line)
    assert error.value.text == statement.rstrip(";")
    assert f"PTX line {error.value.line}: " in str(error.value)
    assert statement.rstrip(";") in str(error.value)


@pytest.mark.parametrize(
    "statement",
    [
        "bar.sync 1;",
        "bar.sync 0, 64;",
        "ld.global.v4.f32 {%f1, %f2}, [%d1];",
        "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
        "setp.eq.and.u32 %p1, %r1, %r2;",
        "setp.eq.u32 %p1, %r1, %r2, %p2;",
        "atom.shared.cas.b32 %r1, [%r2], %r3;",
    ],
)
def test_operands_that_do_not_fit_are_an_error_with_line(statement: str) -> None:
    with pytest.raises(UnknownInstruction) as error:
        translate(kernel_of(statement + " st.global.u32 [%d1], %r1;"))
    assert error.value.line > 0


def test_errors_outside_bodies() -> None:
    with pytest.raises(PtxError, match=r"PTX line 4: directive not known in `\.alias a, b`"):
        parse_module(HEAD + ".alias a, b;\n")
    with pytest.raises(PtxError, match="no label \\$nowhere"):
        kernel_of("bra $nowhere;")
    with pytest.raises(PtxError, match="no kernel other in the module; it has k"):
        parse_kernel(parse_module(ptx_text("")), "other")
    with pytest.raises(PtxError, match="never closed"):
        parse_module(HEAD + ".entry k() { ret;")


def test_device_functions_are_stepped_over_but_not_called() -> None:
    function = ".func (.param .b32 r) f(.param .b32 a)\n{\n.reg .b32 %r<2>;\nfrobnicate;\nret;\n}\n.extern .func g();\n"
    assert kernel_of("", module=function).name == "k"
    with pytest.raises(UnknownInstruction):
        kernel_of("call.uni f, (%r1);", module=function)


def test_liveness_and_slots() -> None:
    kernel = kernel_of(
        """
        mov.b32 %r1, %r0; mov.b32 %r2, %r0;
        $loop: add.u32 %r1, %r1, %r2; setp.lt.u32 %p1, %r1, 100; @%p1 bra $loop;
        mov.b32 %r3, %r1; st.global.u32 [%d1], %r3;
        """
    )
    loop = next(n for n, block in enumerate(kernel.blocks) if block.label == "$loop")
    assert {"%r1", "%r2", "%d1"} <= live_out(kernel)[loop]
    assert "%r3" not in live_out(kernel)[loop]
    slots = assign_slots(kernel)
    assert slots.of["%r1"] != slots.of["%r2"]
    assert slots.of["%d1"][0] == 8
    assert slots.narrow <= 4  # %r0 ends where %r1 and %r2 begin, %r3 where %r1 ends


def test_what_does_not_depend_on_the_thread_is_hoisted() -> None:
    simple = simplify(
        kernel_of(
            """
            ld.param.u64 %d1, [p0]; cvta.to.global.u64 %d2, %d1;
            mov.u32 %r1, %ctaid.x; mul.wide.u32 %d3, %r1, 4; add.s64 %d4, %d2, %d3;
            mov.u32 %r2, 7; add.u32 %r3, %r2, %r30;
            setp.gt.u32 %p1, %r3, 8; @%p1 mov.u32 %r4, 1; @!%p1 mov.u32 %r4, 2;
            st.global.u32 [%d4], %r3; st.global.u32 [%d4], %r4;
            """
        )
    )
    assert simple.uniform == {"%d1", "%d2", "%d3", "%d4"}
    assert [i.opcode for i in simple.preamble] == ["ld", "cvta", "mul", "add"]
    left = [i.spelling for i in simple.kernel.instructions()]
    assert left.count("mov.u32") == 2  # %r4 has two definitions
    assert Immediate(7) in next(i for i in simple.kernel.instructions() if i.opcode == "add").operands
