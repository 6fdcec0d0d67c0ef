"""Lanes that part and meet, and instructions that need the whole warp or the whole block."""

from __future__ import annotations

import numpy as np
import pytest

from harness.simt.errors import Deadlock, KernelTrap

from .snippets import compiled, run_words

pytestmark = pytest.mark.usefixtures("compiler")


def lanes_apart(instruction: str, number: int) -> str:
    """Have odd lanes come to an instruction first and wait there, even lanes by a jump back from below it."""
    return (
        f"and.b32 %r29, %r30, 1; setp.eq.u32 %p9, %r29, 0; @%p9 bra $later{number};"
        f"$here{number}: {instruction} bra $next{number};"
        f"$later{number}: bra $here{number};"
        f"$next{number}:"
    )


def test_branches_by_lane_meet_again() -> None:
    out = run_words(
        """
        mov.u32 %r1, 0;
        and.b32 %r2, %r30, 3; setp.eq.u32 %p1, %r2, 0; @%p1 bra $a;
        setp.eq.u32 %p2, %r2, 1; @%p2 bra $b;
        add.u32 %r1, %r1, 1000; bra $end;
        $a: add.u32 %r1, %r1, 10; bra $end;
        $b: add.u32 %r1, %r1, 200;
        $end: add.u32 %r1, %r1, %r30;
        OUT %r1;
        """,
        threads=77,
    )
    lane = np.arange(77)
    assert out.tolist() == (lane + np.choose(lane % 4, [10, 200, 1000, 1000])).tolist()


def test_loop_with_a_count_of_its_own_per_lane() -> None:
    out = run_words(
        """
        mov.u32 %r1, 0; mov.u32 %r2, 0;
        $loop: setp.ge.u32 %p1, %r1, %r30; @%p1 bra $done;
        add.u32 %r1, %r1, 1; mad.lo.u32 %r2, %r1, %r1, %r2; bra $loop;
        $done: OUT %r2;
        """,
        threads=64,
    )
    assert out.tolist() == [sum(k * k for k in range(lane + 1)) for lane in range(64)]


def test_special_registers_and_addresses_have_the_type_they_are_read_as() -> None:
    """They are unsigned 32-bit in C, which must not spread to signed comparisons or 64-bit shifts."""
    out = run_words(
        """
        .shared .align 16 .b8 box[64]; st.shared.u8 [box], 0;
        mov.u32 %r1, %tid.x; sub.s32 %r2, %r1, 20;
        setp.lt.s32 %p1, %r2, %r1; selp.b32 %r3, 1, 0, %p1;
        max.s32 %r4, %r1, %r2; mul.wide.s32 %d1, %r1, -1; shr.s64 %d1, %d1, 40; cvt.u32.u64 %r5, %d1;
        mov.u64 %d2, box; shl.b64 %d3, %d2, 40; setp.eq.u64 %p2, %d3, 0; selp.b32 %r6, 2, 0, %p2;
        shr.u64 %d4, %d2, 33; cvt.u32.u64 %r7, %d4;
        add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; add.u32 %r3, %r3, %r6; add.u32 %r3, %r3, %r7;
        mov.u32 %r8, %ctaid.x; setp.gt.s32 %p3, %r8, -1; @!%p3 add.u32 %r3, %r3, 1000;
        OUT %r3;
        """,
        threads=40,
    )
    assert out.tolist() == [(1 + lane - (lane > 0) + 2) % (1 << 32) for lane in range(40)]


def test_exit_of_some_lanes() -> None:
    out = run_words("setp.gt.u32 %p1, %r30, 40; @%p1 ret; OUT %r30;", threads=50)
    assert out[:41].tolist() == list(range(41))
    assert (out[41:] == 0xDEADBEEF).all()


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Where shfl.sync takes a value from (PTX ISA, shfl.sync)."""
    segment, bound = c >> 8 & 31, c & 31
    first, last = lane & segment, lane & segment | bound & ~segment & 31
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment & 31}[mode]
    in_range = j >= last if mode == "up" else j <= last
    return (j if in_range else lane), in_range


@pytest.mark.parametrize("apart", [False, True], ids=["in step", "apart"])
@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffle(mode: str, apart: bool) -> None:
    settings = [(b, c) for b in (1, 5, 16, 31) for c in (0, 31, 0x181F, 0x1C03)]
    text, expected = ["mul.lo.u32 %r1, %r30, 3; mov.u32 %r7, 0;"], np.zeros(32, np.uint64)
    for number, (b, c) in enumerate(settings):
        shuffle = f"shfl.sync.{mode}.b32 %r2|%p1, %r1, {b}, {c}, -1;"
        text.append(lanes_apart(shuffle, number) if apart else shuffle)
        text.append("selp.b32 %r3, 7, 0, %p1; add.u32 %r2, %r2, %r3; mad.lo.u32 %r7, %r7, 31, %r2;")
        lanes = [source_lane(mode, lane, b, c) for lane in range(32)]
        expected = (expected * 31 + [3 * j + 7 * ok for j, ok in lanes]) % (1 << 32)
    out = run_words("\n".join(text) + "OUT %r7;", threads=32)
    assert out.tolist() == expected.tolist()


@pytest.mark.parametrize("apart", [False, True], ids=["in step", "apart"])
def test_vote_match_reduce(apart: bool) -> None:
    instructions = [
        "vote.sync.ballot.b32 %r2, %p1, -1;",
        "vote.sync.any.pred %p2, %p1, -1;",
        "vote.sync.all.pred %p3, %p1, -1;",
        "vote.sync.uni.pred %p4, !%p1, -1;",
        "match.any.sync.b32 %r6, %r1, -1;",
        "redux.sync.add.u32 %r8, %r30, -1;",
        "redux.sync.max.s32 %r9, %r30, -1;",
        "redux.sync.min.s32 %r10, %r30, -1;",
        "redux.sync.or.b32 %r11, %r1, -1;",
        "redux.sync.and.b32 %r12, %r1, -1;",
        "redux.sync.xor.b32 %r13, %r30, -1;",
        "bar.warp.sync -1;",
    ]
    text = "and.b32 %r1, %r30, 5; setp.eq.u32 %p1, %r1, 4;"
    text += "".join(lanes_apart(i, n) if apart else i for n, i in enumerate(instructions))
    text += "activemask.b32 %r14; selp.b32 %r3, 1, 0, %p2; selp.b32 %r4, 2, 0, %p3; selp.b32 %r5, 4, 0, %p4;"
    text += "add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5;"
    names = ["%r2", "%r3", "%r6", "%r8", "%r9", "%r10", "%r11", "%r12", "%r13", "%r14"]
    fold = "mov.u32 %r20, 0;" + "".join(f"mad.lo.u32 %r20, %r20, 31, {name};" for name in names)
    ballot = sum(1 << lane for lane in range(32) if lane & 5 == 4)
    for lane, got in enumerate(run_words(text + fold + "OUT %r20;", threads=32).tolist()):
        equal = sum(1 << other for other in range(32) if other & 5 == lane & 5)
        want = 0
        for word in (ballot, 1, equal, 496, 31, 0, 5, 0, 0, 0xFFFFFFFF):
            want = (want * 31 + word) % (1 << 32)
        assert got == want, lane


def test_halves_of_a_warp_with_masks_of_their_own() -> None:
    """Both halves are at the same instruction; each must see its own lanes only."""
    out = run_words(
        """
        setp.lt.u32 %p1, %r30, 16; selp.b32 %r1, 0x0000ffff, 0xffff0000, %p1;
        redux.sync.add.u32 %r2, %r30, %r1;
        vote.sync.ballot.b32 %r3, %p1, %r1;
        add.u32 %r2, %r2, %r3;
        OUT %r2;
        """,
        threads=32,
    )
    assert out.tolist() == [120 + 0xFFFF] * 16 + [376] * 16


def test_barrier_orders_shared_memory() -> None:
    out = run_words(
        """
        .shared .align 4 .b32 box[256];
        mov.u32 %r1, box; shl.b32 %r2, %r30, 2; add.u32 %r3, %r1, %r2;
        mul.lo.u32 %r4, %r30, 7; st.shared.u32 [%r3], %r4;
        bar.sync 0;
        mov.u32 %r5, %ntid.x; sub.u32 %r5, %r5, 1; sub.u32 %r5, %r5, %r30; shl.b32 %r5, %r5, 2; add.u32 %r5, %r1, %r5;
        ld.shared.u32 %r6, [%r5];
        OUT %r6;
        """,
        threads=200,
    )
    assert out.tolist() == [7 * (199 - lane) for lane in range(200)]


@pytest.mark.parametrize("apart", [False, True], ids=["in step", "apart"])
def test_barrier_that_votes(apart: bool) -> None:
    """Over all threads that are left; twice in a row, so that one vote must not run into the next."""
    votes = [
        "bar.red.popc.u32 %r2, 0, %p1;",
        "bar.red.or.pred %p2, 0, %p1;",
        "bar.red.and.pred %p3, 0, %p1;",
        "bar.red.and.pred %p4, 0, !%p2;",
        "bar.red.or.pred %p5, 0, !%p1;",
        "bar.red.and.pred %p6, 0, %p5;",
    ]
    text = "setp.gt.u32 %p7, %r30, 89; @%p7 exit; and.b32 %r1, %r30, 3; setp.eq.u32 %p1, %r1, 1;"
    text += "".join(lanes_apart(vote, number) if apart else vote for number, vote in enumerate(votes))
    for number in range(2, 7):
        text += f"selp.b32 %r{number + 1}, {1 << number}, 0, %p{number}; mad.lo.u32 %r2, %r{number + 1}, 100, %r2;"
    out = run_words(text + "OUT %r2;", threads=100)
    yes = sum(thread % 4 == 1 for thread in range(90))
    assert out[:90].tolist() == [yes + 100 * ((1 << 2) + (1 << 5) + (1 << 6))] * 90
    assert (out[90:] == 0xDEADBEEF).all()


def test_a_vote_s_barrier_parks_with_the_plain_one() -> None:
    """Half of a warp waits at each; both go on together."""
    out = run_words(
        """
        .shared .align 4 .b32 box[2];
        setp.ne.u32 %p1, %r30, 0; @%p1 bra $apart; st.shared.v2.u32 [box], {0, 0};
        $apart: bar.sync 0;
        setp.lt.u32 %p2, %r30, 16; @%p2 bra $vote;
        red.shared.add.u32 [box], 1; bar.sync 0; mov.u32 %r1, 7; bra $end;
        $vote: red.shared.add.u32 [box], 1; bar.red.popc.u32 %r1, 0, %p2;
        $end: ld.shared.u32 %r2, [box]; mad.lo.u32 %r1, %r2, 100, %r1;
        OUT %r1;
        """,
        threads=32,
    )
    assert out.tolist() == [3216] * 16 + [3207] * 16


def test_barrier_after_some_have_left() -> None:
    out = run_words("setp.gt.u32 %p1, %r30, 69; @%p1 exit; barrier.sync 0; OUT %r30;", threads=100)
    assert out[:70].tolist() == list(range(70))


def test_shared_atomics() -> None:
    out = run_words(
        """
        .shared .align 8 .b32 box[8];
        setp.ne.u32 %p1, %r30, 0; @%p1 bra $go;
        st.shared.u32 [box], 0; st.shared.u32 [box+4], 1000; st.shared.u32 [box+8], 0; st.shared.u32 [box+12], 0;
        $go: bar.sync 0; mov.u64 %d4, box; cvta.shared.u64 %d5, %d4; add.s64 %d5, %d5, 12;
        atom.shared.add.u32 %r1, [box], %r30;
        atom.shared.min.s32 %r2, [box+4], %r30;
        red.shared.max.u32 [box+8], %r30;
        atom.cas.relaxed.cta.b32 %r3, [%d5], 0, 77;
        bar.sync 0;
        ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [box];
        add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r7;
        OUT %r4;
        """,
        threads=100,
    )
    assert (out == 4950 + 0 + 99 + 77).all()


def test_dynamic_shared_memory_follows_the_static() -> None:
    module = ".extern .shared .align 16 .b8 dyn[];"
    out = run_words(
        """
        .shared .align 4 .b32 first[3];
        st.shared.u32 [first+8], 5; mov.u32 %r1, dyn; shl.b32 %r2, %r30, 2; add.u32 %r1, %r1, %r2;
        st.shared.u32 [%r1], %r30; ld.shared.u32 %r3, [%r1]; ld.shared.u32 %r4, [first+8]; add.u32 %r3, %r3, %r4;
        cvt.u64.u32 %d1, %r1; cvta.shared.u64 %d2, %d1; ld.u32 %r5, [%d2]; add.u32 %r3, %r3, %r5;
        OUT %r3;
        """,
        threads=64,
        module=module,
        shared=256,
    )
    assert out.tolist() == [2 * lane + 5 for lane in range(64)]


def test_local_memory_is_the_thread_s_own() -> None:
    out = run_words(
        """
        .local .align 8 .b8 mine[16];
        mov.u64 %d1, mine; st.local.u32 [%d1+4], %r30; st.local.v2.u16 [mine], {1, 2};
        cvta.local.u64 %d2, %d1; ld.u32 %r1, [%d2+4]; ld.local.u16 %h1, [%d1+2]; cvt.u32.u16 %r2, %h1;
        add.u32 %r1, %r1, %r2;
        OUT %r1;
        """,
        threads=50,
    )
    assert out.tolist() == [lane + 2 for lane in range(50)]


def test_module_constants_and_extension_of_narrow_loads() -> None:
    module = (
        ".global .align 4 .u32 table[4] = {10, 20, 0xfffffff6, 40};\n.const .align 1 .b8 bytes[4] = {1, 255, 128, 3};"
    )
    out = run_words(
        """
        and.b32 %r1, %r30, 3; mul.wide.u32 %d1, %r1, 4; mov.u64 %d2, table; add.s64 %d2, %d2, %d1;
        ld.global.s32 %d3, [%d2];
        cvt.u64.u32 %d4, %r1; mov.u64 %d5, bytes; add.s64 %d5, %d5, %d4;
        ld.const.s8 %r2, [%d5]; ld.const.u8 %h1, [%d5];
        cvt.u32.u16 %r3, %h1; cvt.u32.u64 %r4, %d3; shr.u64 %d3, %d3, 63; cvt.u32.u64 %r5, %d3;
        mad.lo.u32 %r4, %r2, 1000, %r4; mad.lo.u32 %r4, %r3, 7, %r4; add.u32 %r4, %r4, %r5;
        OUT %r4;
        """,
        threads=40,
        module=module,
    )
    table, signed_bytes, plain = [10, 20, -10, 40], [1, -1, -128, 3], [1, 255, 128, 3]
    want = [
        (signed_bytes[k % 4] * 1000 + table[k % 4] + plain[k % 4] * 7 + (k % 4 == 2)) % (1 << 32) for k in range(40)
    ]
    assert out.tolist() == want


@pytest.mark.parametrize("stride", [0, 4, 8, 16, 32, "mixed"])
@pytest.mark.parametrize("space", ["global", "shared"])
def test_loads_by_the_step_between_lanes(space: str, stride: int | str) -> None:
    """Side by side, all the same, apart, and in no order; the address register is a target too."""
    offset = f"mul.lo.u32 %r1, %r30, {stride};" if stride != "mixed" else "xor.b32 %r1, %r30, 5; shl.b32 %r1, %r1, 4;"
    module = f".global .align 16 .b32 table[400] = {{{', '.join(str(7 * k) for k in range(400))}}};"
    fill = """
        .shared .align 16 .b32 box[400];
        mov.u32 %r2, %r30; mov.u64 %d1, table; mov.u32 %r3, box;
        $copy: mul.wide.u32 %d2, %r2, 4; add.s64 %d3, %d1, %d2; ld.global.u32 %r4, [%d3];
        shl.b32 %r5, %r2, 2; add.u32 %r5, %r3, %r5; st.shared.u32 [%r5], %r4;
        add.u32 %r2, %r2, 45; setp.lt.u32 %p1, %r2, 400; @%p1 bra $copy;
        bar.sync 0;
    """
    if space == "global":
        base, at = f"{offset} cvt.u64.u32 %d4, %r1; add.s64 %d4, %d1, %d4;", "%d4"
    else:
        base, at = f"{offset} add.u32 %r1, %r3, %r1;", "%r1"
    loads, registers = f"ld.{space}.u32 %r10, [{at}]; ld.{space}.s8 %r11, [{at}+64];", [10, 11]
    if stride != 4:
        loads += f"ld.{space}.v2.u32 {{%r12, %r13}}, [{at}+8];"
        registers += [12, 13]
    if stride not in (4, 8):  # aligned for four words
        loads += f"ld.{space}.v4.u32 {{%r14, %r15, _, %r1}}, [{at}+16];"
        registers += [14, 15, 1]
    fold = "mov.u32 %r20, 0;" + "".join(f"mad.lo.u32 %r20, %r20, 31, %r{number};" for number in registers)
    out = run_words(fill + base + loads + fold + "OUT %r20;", threads=45, module=module)
    for lane, got in enumerate(out.tolist()):
        k = (lane ^ 5) * 4 if stride == "mixed" else lane * int(stride) // 4
        low_byte = 7 * (k + 16) % 256
        words = [7 * k, low_byte - 256 * (low_byte > 127), *(7 * (k + n) for n in (2, 3, 4, 5, 7))]
        want = 0
        for word in words[: len(registers)]:
            want = (want * 31 + word) % (1 << 32)
        assert got == want, lane


def test_barrier_that_some_never_reach_is_a_deadlock() -> None:
    kernel = compiled(
        """
        mov.u32 %r1, %ctaid.x; setp.ne.u32 %p1, %r1, 3; @%p1 bra $fine;
        setp.lt.u32 %p2, %r30, 40; @%p2 bra $fine;
        shfl.sync.idx.b32 %r2, %r30, 0, 31, 0xffff00ff;
        $fine: bar.sync 0;
        """,
        [],
    )
    with pytest.raises(Deadlock, match="deadlock in block 3 of k: 40 threads wait at a barrier, 24 at a warp"):
        kernel.launch(7, 64, 0, [], threads=2)


def test_trap_names_the_block() -> None:
    kernel = compiled("mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 5; @%p1 trap;", [])
    with pytest.raises(KernelTrap, match="trap in block 5 of k"):
        kernel.launch(9, 33, 0, [])


def test_grid_in_three_dimensions() -> None:
    body = """
        mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;
        mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y;
        mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1; mul.wide.u32 %d1, %r6, 4;
        ld.param.u64 %d2, [p0]; add.s64 %d1, %d1, %d2;
        mul.lo.u32 %r7, %r3, 100; mad.lo.u32 %r7, %r2, 10, %r7; add.u32 %r7, %r7, %r1; st.global.u32 [%d1], %r7;
    """
    out = np.zeros((2, 3, 4), np.uint32)
    compiled(body).launch((4, 3, 2), 1, 0, [out])
    assert out.tolist() == [[[100 * z + 10 * y + x for x in range(4)] for y in range(3)] for z in range(2)]


def test_global_atomics_over_many_blocks_and_threads() -> None:
    kernel = compiled("ld.param.u64 %d1, [p0]; atom.global.add.u32 %r1, [%d1], 1;")
    count = np.zeros(1, np.uint32)
    kernel.launch(3000, 64, 0, [count], threads=2)
    assert kernel.signature.serial
    assert count[0] == 3000 * 64


def test_fresh_shared_memory_is_poisoned() -> None:
    text = ".shared .align 4 .b32 box[4]; ld.shared.u32 %r1, [box+4]; OUT %r1;"
    assert (run_words(text, threads=32) == 0xA5A5A5A5).all()


def test_inline_scopes_hide_names() -> None:
    out = run_words(
        "{ .reg .b32 t; .reg .pred p; mov.u32 t, 3; setp.gt.u32 p, %r30, 4; @p add.u32 t, t, %r30; mov.u32 %r1, t; }"
        "{ .reg .f32 t; cvt.rn.f32.u32 t, %r1; cvt.rzi.u32.f32 %r2, t; }"
        "OUT %r2;",
        threads=40,
    )
    assert out.tolist() == [3 + (lane if lane > 4 else 0) for lane in range(40)]
