"""SGLang's kernel as its wheel ships it, against plain loops: equal in every bit it writes."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

from harness.simt import Sources, tree_target_only
from harness.simt.errors import CompileError

from .oracle import empty_outcome, random_batch, run_kernel, run_loops

THRESHOLDS = [(1.0, 1.0), (0.3, 0.7), (1.0, 0.0), (0.0, 1.0)]


@pytest.mark.parametrize("threads", [1024, 32])
@pytest.mark.parametrize("vocab", [4, 5, 6, 16, 100, 4100])
@pytest.mark.parametrize("thresholds", THRESHOLDS, ids=str)
def test_equals_plain_loops(
    sources: Sources, rng: np.random.Generator, threads: int, vocab: int, thresholds: tuple[float, float]
) -> None:
    kernel = tree_target_only(vec=math.gcd(4, vocab), threads=threads, sources=sources)
    batch = random_batch(rng, batch=16 if vocab > 1000 else 64, nodes=6, depth=4, vocab=vocab)
    assert run_kernel(kernel, batch, *thresholds).same_as(run_loops(batch, *thresholds))


@pytest.mark.parametrize("depth", [1, 2, 9])
@pytest.mark.parametrize("nodes", [1, 2, 40])
def test_any_tree_shape(sources: Sources, rng: np.random.Generator, depth: int, nodes: int) -> None:
    kernel = tree_target_only(vec=4, threads=32, sources=sources)
    batch = random_batch(rng, batch=50, nodes=nodes, depth=depth, vocab=12)
    assert run_kernel(kernel, batch, 1.0, 1.0).same_as(run_loops(batch, 1.0, 1.0))


def test_vec_2(sources: Sources, rng: np.random.Generator) -> None:
    kernel = tree_target_only(vec=2, threads=32, sources=sources)
    batch = random_batch(rng, batch=64, nodes=8, depth=4, vocab=150)
    assert run_kernel(kernel, batch, 1.0, 1.0).same_as(run_loops(batch, 1.0, 1.0))


@pytest.mark.parametrize("threads", [1024, 32])
def test_cpu_threads_change_nothing(sources: Sources, rng: np.random.Generator, threads: int) -> None:
    kernel = tree_target_only(vec=4, threads=threads, sources=sources)
    batch = random_batch(rng, batch=101, nodes=6, depth=4, vocab=64)
    batch.target = rng.dirichlet(np.ones(64), (101, 6)).astype(np.float32)  # sums are rounded: order would show
    one = run_kernel(kernel, batch, 1.0, 1.0, threads=1)
    for many in (2, 7):
        assert run_kernel(kernel, batch, 1.0, 1.0, threads=many).same_as(one)


def test_fill_changes_nothing(sources: Sources, rng: np.random.Generator) -> None:
    kernel = tree_target_only(vec=4, threads=32, sources=sources)
    batch = random_batch(rng, batch=40, nodes=6, depth=4, vocab=64)
    outcomes = []
    for fill in (0x00, 0xA5, 0xFF, None):
        out = empty_outcome(batch)
        outcomes.append(out)
        arrays = (batch.candidates, batch.index, batch.child, batch.sibling, batch.coins, batch.final_coins)
        kernel(out.predicts, out.accept_index, out.accept_token_num, *arrays, batch.target, out.draft, fill=fill)
    assert all(out.same_as(outcomes[0]) for out in outcomes[1:])


def test_empty_batch(sources: Sources, rng: np.random.Generator) -> None:
    kernel = tree_target_only(vec=4, threads=32, sources=sources)
    batch = random_batch(rng, batch=0, nodes=6, depth=4, vocab=64)
    assert run_kernel(kernel, batch, 1.0, 1.0).same_as(empty_outcome(batch))


def test_warm_start_loads_no_compiler(sources: Sources) -> None:
    tree_target_only(vec=4, sources=sources)
    code = """
import subprocess, sys
from harness.simt import tree_target_only
def refuse(command, **options):
    assert command[1:] == ["--version"], command
    return real(command, **options)
real, subprocess.run = subprocess.run, refuse
tree_target_only(vec=4)
assert "cuda" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_knows_versions_and_shared_memory(sources: Sources) -> None:
    kernel = tree_target_only(vec=4, sources=sources)
    assert kernel.versions == {"sglang": "0.5.23", "flashinfer": "0.7.2"}
    assert 2048 < kernel.shared_bytes < 4096
    assert kernel.threads == 1024


def test_edit_plants_a_bug(sources: Sources, rng: np.random.Generator) -> None:
    def greedy(text: str) -> str:
        return text.replace("coin < prob_acc / threshold_acc", "coin <= DType(2)")

    wrong = tree_target_only(vec=4, threads=32, sources=sources, edit=greedy)
    batch = random_batch(rng, batch=40, nodes=6, depth=4, vocab=16)
    assert not run_kernel(wrong, batch, 1.0, 1.0).same_as(run_loops(batch, 1.0, 1.0))
    accepts_all_with_mass = run_loops(batch, 0.0, 1.0)  # the same rule: any child that has mass
    assert run_kernel(wrong, batch, 1.0, 1.0).same_as(accepts_all_with_mass)


def test_edit_must_change_something(sources: Sources) -> None:
    with pytest.raises(ValueError, match="edit changes nothing"):
        tree_target_only(vec=4, sources=sources, edit=lambda text: text)


def test_edit_that_does_not_compile_shows_the_log(sources: Sources) -> None:
    with pytest.raises(CompileError, match="no_such_name"):
        tree_target_only(vec=4, sources=sources, edit=lambda text: text.replace("prob_acc = 0.;", "no_such_name = 0;"))


def test_refuses_templates_the_vendor_has_not(sources: Sources) -> None:
    with pytest.raises(ValueError, match="vec must be 1, 2 or 4, got 3"):
        tree_target_only(vec=3, sources=sources)
    with pytest.raises(ValueError, match="multiple of 32 up to 1024, got 33"):
        tree_target_only(vec=4, threads=33, sources=sources)


def test_wrong_arrays_are_named(sources: Sources, rng: np.random.Generator) -> None:
    kernel = tree_target_only(vec=4, threads=32, sources=sources)

    def attempt(vocab: int = 16, single: float = 1.0, **changes: object) -> None:
        batch = random_batch(rng, batch=3, nodes=4, depth=3, vocab=vocab)
        for name, change in changes.items():
            setattr(batch, name, change(getattr(batch, name)))  # type: ignore[operator]
        run_kernel(kernel, batch, single, 1.0)

    with pytest.raises(ValueError, match=r"candidates must be int64, got int32"):
        attempt(candidates=lambda array: array.astype(np.int32))
    with pytest.raises(ValueError, match=r"coins must have shape \(3, 4\), got \(4, 3\)"):
        attempt(coins=lambda array: np.ascontiguousarray(array.T))
    with pytest.raises(ValueError, match="target_probs must be C-contiguous"):
        attempt(target=np.asfortranarray)
    with pytest.raises(ValueError, match=r"candidates must lie in \[0, 16\), got .* to 16"):
        attempt(candidates=lambda array: array * 0 + 16)
    with pytest.raises(ValueError, match=r"retrieve_next_token must lie in \[-1, 4\)"):
        attempt(child=lambda array: array * 0 + 4)
    with pytest.raises(ValueError, match="V=6 is not a multiple of vec=4; take vec=2"):
        attempt(vocab=6)
    with pytest.raises(ValueError, match=r"threshold_single must lie in \[0, 1\], got 1.5"):
        attempt(single=1.5)


def test_read_only_output_is_refused(sources: Sources, rng: np.random.Generator) -> None:
    kernel = tree_target_only(vec=4, threads=32, sources=sources)
    batch = random_batch(rng, batch=3, nodes=4, depth=3, vocab=16)
    out = empty_outcome(batch)
    out.predicts.flags.writeable = False
    arrays = (batch.candidates, batch.index, batch.child, batch.sibling, batch.coins, batch.final_coins)
    with pytest.raises(ValueError, match="predicts is written to, but is read-only"):
        kernel(out.predicts, out.accept_index, out.accept_token_num, *arrays, batch.target, out.draft)
