"""Small PTX kernels, written by hand, compiled and run."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from harness.simt.codegen import translate
from harness.simt.compile import FLAGS
from harness.simt.launch import CompiledKernel, build
from harness.simt.parse import parse_kernel, parse_module

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<40>; .reg .f64 %g<40>;"
)
#: Thread's index in its block in %r30, and byte offsets of it: 4 times in %d31, 8 times in %d32.
INDEX = "mov.u32 %r30, %tid.x; mul.wide.u32 %d31, %r30, 4; mul.wide.u32 %d32, %r30, 8;"


def ptx_text(body: str, parameters: Sequence[str] = ("u64",), module: str = "") -> str:
    """Write a module with one kernel ``k``, whose parameters are p0, p1, … of these types."""
    listed = ",\n".join(f".param .{kind} p{number}" for number, kind in enumerate(parameters))
    return f"{HEAD}{module}\n.visible .entry k(\n{listed}\n)\n{{\n{REGISTERS}\n{INDEX}\n{body}\nret;\n}}\n"


def compiled(
    body: str, parameters: Sequence[str] = ("u64",), module: str = "", flags: tuple[str, ...] = FLAGS
) -> CompiledKernel:
    """Compile a kernel body; see :func:`ptx_text`."""
    text = ptx_text(body, parameters, module)
    return build(translate(parse_kernel(parse_module(text))), flags=flags)


def run_words(body: str, threads: int, *, module: str = "", shared: int = 0) -> np.ndarray:
    """Run one block of a kernel whose parameter is an output of one uint32 a thread; return that.

    ``OUT reg;`` in the body stands for storing a register there.
    """
    body = re.sub(
        r"OUT (%\w+);",
        r"ld.param.u64 %d38, [p0]; cvta.to.global.u64 %d38, %d38; add.s64 %d39, %d38, %d31; st.global.b32 [%d39], \1;",
        body,
    )
    out = np.full(threads, 0xDEADBEEF, np.uint32)
    compiled(body, module=module).launch(1, threads, shared, [out])
    return out
