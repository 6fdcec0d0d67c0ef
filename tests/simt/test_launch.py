"""Arguments, sizes, compilers and caches around a launch."""

from __future__ import annotations

import shutil
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest

from harness.errors import Unavailable
from harness.simt import compile as simt_compile
from harness.simt import headers, kernels
from harness.simt.codegen import translate
from harness.simt.compile import FLAGS, Compiler, compile_c, find_compiler
from harness.simt.errors import CompileError
from harness.simt.kernels import load_kernel
from harness.simt.launch import build
from harness.simt.nvrtc import Program, compile_ptx
from harness.simt.parse import parse_kernel, parse_module

from .snippets import compiled, ptx_text

pytestmark = pytest.mark.usefixtures("compiler")

#: p0[thread] = p1 + p2 (float), and the other parameters' sum as bits behind it
SUM = """
    ld.param.u64 %d1, [p0]; add.s64 %d1, %d1, %d31;
    ld.param.f32 %f1, [p1]; ld.param.s32 %r1, [p2]; cvt.rn.f32.s32 %f2, %r1; add.f32 %f1, %f1, %f2;
    ld.param.f64 %g1, [p3]; cvt.rn.f32.f64 %f3, %g1; add.f32 %f1, %f1, %f3;
    ld.param.u8 %r2, [p4]; cvt.rn.f32.u32 %f4, %r2; add.f32 %f1, %f1, %f4;
    st.global.f32 [%d1], %f1;
"""
TYPES = ("u64", "f32", "s32", "f64", "u8")


def test_arguments_of_every_type() -> None:
    out = np.zeros(40, np.float32)
    compiled(SUM, TYPES).launch(1, 40, 0, [out, 0.5, -7, 1e3, 255])
    assert (out == 0.5 - 7 + 1000 + 255).all()


def test_arguments_that_do_not_fit() -> None:
    kernel = compiled(SUM, TYPES)
    out = np.zeros(40, np.float32)
    with pytest.raises(ValueError, match="k takes 5 arguments, got 2"):
        kernel.launch(1, 32, 0, [out, 1.0])
    with pytest.raises(ValueError, match=r"4294967296 does not fit parameter p2 of type \.s32"):
        kernel.launch(1, 32, 0, [out, 0.5, 1 << 32, 0.0, 0])
    with pytest.raises(ValueError, match=r"parameter p1 is a \.f32, not a pointer"):
        kernel.launch(1, 32, 0, [out, out, 1, 0.0, 0])
    with pytest.raises(ValueError, match="p0 must be C-contiguous"):
        kernel.launch(1, 20, 0, [out[::2], 0.5, 1, 0.0, 0])


@pytest.mark.parametrize(
    ("body", "usual"),
    [
        ("st.global.b32 [%d1], %r5;", 0),
        (".local .align 4 .b8 own[16]; mov.u32 %r1, own; ld.local.u32 %r2, [%r1+4]; st.global.b32 [%d1], %r2;", 0),
        (".shared .align 4 .b8 ours[16]; ld.shared.u32 %r2, [ours+4]; st.global.b32 [%d1], %r2;", 0xA5A5A5A5),
    ],
    ids=["register", "local", "shared"],
)
def test_memory_that_was_never_written(body: str, usual: int) -> None:
    kernel, out = compiled(f"ld.param.u64 %d1, [p0]; add.s64 %d1, %d1, %d31; {body}"), np.ones(40, np.uint32)
    kernel.launch(2, 40, 0, [out], threads=1)
    assert set(out.tolist()) == {usual}
    kernel.launch(2, 40, 0, [out], threads=1, poison=0x5A)
    assert set(out.tolist()) == {0x5A5A5A5A}


def test_sizes_out_of_range() -> None:
    kernel = compiled("", [])
    for block in (0, 1025):
        with pytest.raises(ValueError, match=f"block must have 1 to 1024 threads, got {block}"):
            kernel.launch(1, block, 0, [])
    with pytest.raises(ValueError, match="grid"):
        kernel.launch(-1, 32, 0, [])
    with pytest.raises(ValueError, match="dynamic shared memory"):
        kernel.launch(1, 32, -1, [])
    with pytest.raises(ValueError, match="fill must be a byte or None, got 256"):
        kernel.launch(1, 32, 0, [], fill=256)
    kernel.launch(0, 32, 0, [])


def test_block_limit_of_the_kernel_itself() -> None:
    text = ptx_text("", []).replace("\n{\n.reg", "\n.maxntid 64\n{\n.reg")
    kernel = build(translate(parse_kernel(parse_module(text))))
    kernel.launch(1, 64, 0, [])
    with pytest.raises(ValueError, match="block must have 1 to 64 threads, got 65"):
        kernel.launch(1, 65, 0, [])


def test_launches_at_the_same_time() -> None:
    kernel = compiled(SUM, TYPES)
    outs = [np.zeros(64, np.float32) for _ in range(8)]

    def run(number: int) -> None:
        for _ in range(50):
            kernel.launch(1, 64, 0, [outs[number], float(number), 0, 0.0, 0])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [out.tolist() for out in outs] == [[number] * 64 for number in range(8)]


def test_compiler_is_found_by_cc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CC", "no-such-compiler-anywhere")
    with pytest.raises(CompileError, match="CC=no-such-compiler-anywhere is not there; unset CC"):
        find_compiler()
    wrapper = tmp_path / "my cc"
    wrapper.write_text(f'#!/bin/sh\nexec {shutil.which("gcc") or shutil.which("cc")} "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CC", f"'{wrapper}' -DMINE")
    assert find_compiler().command == (str(wrapper), "-DMINE")
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CompileError, match="no C compiler: install gcc or clang"):
        find_compiler()


def test_compiler_s_own_words_are_shown(fresh_cache: Path) -> None:
    with pytest.raises(CompileError, match="nonsense"):
        compile_c("int f(void) { return nonsense; }")
    assert not list(fresh_cache.rglob("*.so"))


def test_same_source_is_compiled_once(fresh_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_c("int f(void) { return 1; }")
    real = find_compiler()
    monkeypatch.setattr(simt_compile.subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert compile_c("int f(void) { return 1; }") == first
    for other in ({"flags": (*FLAGS, "-DX")}, {"compiler": Compiler(real.command, real.identity + " newer")}):
        with pytest.raises(pytest.fail.Exception, match="compiled again"):
            compile_c("int f(void) { return 1; }", **other)  # type: ignore[arg-type]


@pytest.fixture
def toolkit() -> headers.Toolkit:
    """NVIDIA's packages, or a skip."""
    try:
        return headers.find_toolkit()
    except Unavailable as error:
        pytest.skip(str(error))


CUDA = """
extern "C" __global__ void k(float* out) { out[threadIdx.x] = threadIdx.x * 2.0f; }
__device__ int size = 42;
"""


@pytest.mark.usefixtures("toolkit", "fresh_cache")
def test_cuda_source_to_launch_and_a_warm_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    program = Program(CUDA, options=())
    loaded = load_kernel(program, constants=("size",))
    assert loaded.constants == {"size": 42}
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    monkeypatch.setattr(kernels, "compile_ptx", lambda _: pytest.fail("NVRTC ran again"))
    again = load_kernel(program, constants=("size",))
    out = np.zeros(64, np.float32)
    again.kernel.launch(1, 64, 0, [out])
    assert out.tolist() == [2.0 * lane for lane in range(64)]


@pytest.mark.usefixtures("toolkit", "fresh_cache")
def test_a_cache_entry_without_its_object_is_made_again(fresh_cache: Path) -> None:
    program = Program(CUDA, options=())
    path = load_kernel(program).kernel.path
    path.unlink()
    assert load_kernel(program).kernel.path == path
    for entry in (fresh_cache / "kernels").iterdir():
        entry.write_text("{")
    assert load_kernel(program).kernel.path == path


@pytest.mark.usefixtures("toolkit", "fresh_cache")
def test_nvrtc_s_log_is_shown() -> None:
    with pytest.raises(CompileError, match=r"(?s)NVRTC refused the source.*undefined_thing"):
        compile_ptx(Program("__global__ void k() { undefined_thing(); }", options=()))


def test_missing_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "PACKAGES", ("no-such-package-for-cuda",))
    with pytest.raises(Unavailable, match=r"no-such-package-for-cuda is not installed; pip install 'chitree\[sim\]'"):
        headers.find_toolkit()
