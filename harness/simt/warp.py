"""Warp-wide instructions: C for a whole warp in step, and for some of its lanes.

Lanes have program counters of their own. An instruction with a member mask runs once all living lanes of its mask have
come to it; lanes that come early wait. When a warp is in step and the mask names all of it there is nothing to wait
for, which is the *full* form; the *mixed* form runs for the lanes in ``m``.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.simt.errors import UnknownInstruction
from harness.simt.operands import CTYPE, Operands
from harness.simt.ptx import Immediate, Instruction, Operand, Pair, Register, Sink

__all__ = ["WarpCode", "warp_code"]

#: Index of the member mask among the operands.
MASK = {"bar": 0, "shfl": 4, "vote": 2, "redux": 2, "match": 2}
ALL = 0xFFFFFFFF
ALL_LANES = "for (u32 l = 0; l < 32; l++)"
SOME_LANES = "LANES(m)"
#: Source lane ``j`` and whether it is in range, from lane ``l``, operand ``b`` and segment bounds (PTX ISA, shfl.sync).
SHUFFLE = {
    "up": ("(i32)l - (i32)b", "j >= last"),
    "down": ("(i32)l + (i32)b", "j <= last"),
    "bfly": ("(i32)(l ^ b)", "j <= last"),
    "idx": ("(i32)((l & segment) | (b & ~segment))", "j <= last"),
}
FOLD = {
    "add": "acc + x", "min": "x < acc ? x : acc", "max": "x > acc ? x : acc",
    "and": "acc & x", "or": "acc | x", "xor": "acc ^ x",
}  # fmt: skip


@dataclass(frozen=True)
class WarpCode:
    """C of one warp-wide instruction.

    Parameters
    ----------
    full
        For 32 lanes in step, ends in a jump.
    mixed
        For the lanes in ``m``, ends in a jump.
    """

    full: str
    mixed: str


def warp_code(code: Operands, i: Instruction, index: int) -> WarpCode:
    """Translate the warp-wide instruction that is block ``index``."""
    leave = f"{SOME_LANES} W->pc[l] = {index + 1}; goto schedule;"
    if i.opcode in ("bar", "barrier") and "warp" not in i.modifiers:
        return _barrier(i, index)
    if i.opcode == "bar.red":
        return _barrier_vote(code, i, index)
    if i.opcode == "activemask":
        write = code.write(i.operands[0], "u32", "m", i.line)
        return WarpCode(f"m = ~0u; {ALL_LANES} {{ {write} }} goto F{index + 1};", f"{SOME_LANES} {{ {write} }} {leave}")
    if i.opcode == "bar" and len(i.operands) != 1:
        raise UnknownInstruction("bar.warp.sync without a mask", i.line, i.spelling)
    mask = i.operands[MASK[i.opcode]]
    full = f"{_require_full(code, mask, index, i)} {_action(code, i, ALL_LANES)} goto F{index + 1};"
    mixed = f"{_gather(code, mask, index, i)} {_action(code, i, SOME_LANES)} {leave}"
    return WarpCode(full, mixed)


def _barrier(i: Instruction, index: int) -> WarpCode:
    """``bar.sync 0``: park the lanes; the block's scheduler lets them go on when all have come."""
    if i.operands and not (isinstance(i.operands[0], Immediate) and i.operands[0].bits == 0):
        raise UnknownInstruction("only barrier 0 is known", i.line, i.spelling)
    return WarpCode(
        f"W->in_step = {index + 1}; W->at_barrier = ~0u; return;",
        f"{SOME_LANES} W->pc[l] = {index + 1}; W->at_barrier |= m; goto schedule;",
    )


def _barrier_vote(code: Operands, i: Instruction, index: int) -> WarpCode:
    """``bar.red 0``: park the lanes here with their votes; when the block goes on, they write what all have voted."""
    barrier = i.operands[1]
    if not (isinstance(barrier, Immediate) and barrier.bits == 0):
        raise UnknownInstruction("only barrier 0 is known", i.line, i.spelling)
    outcome = {"and": "B->voted == B->voters", "or": "B->voted != 0", "popc": "B->voted"}
    kind = "u32" if i.type == "u32" else "pred"
    write = code.write(i.operands[0], kind, next(outcome[word] for word in i.modifiers if word in outcome), i.line)
    vote = f"B->voting += (u32)({code.read(i.operands[2], 'pred', i.line)}) & 1u;"
    return WarpCode(
        f"m = ~0u; if (W->voted == ~0u) {{ W->voted = 0; {ALL_LANES} {{ {write} }} goto F{index + 1}; }} "
        f"if (W->voted) {{ {ALL_LANES} W->pc[l] = {index}; goto M{index}; }} "
        f"{ALL_LANES} {{ {vote} }} W->voted = ~0u; W->in_step = {index}; W->at_barrier = ~0u; return;",
        f"const u32 back = m & W->voted; if (back) {{ m = back; W->voted &= ~back; {SOME_LANES} {{ {write} "
        f"W->pc[l] = {index + 1}; }} goto schedule; }} "
        f"{SOME_LANES} {{ {vote} W->pc[l] = {index}; }} W->voted |= m; W->at_barrier |= m; goto schedule;",
    )


def _require_full(code: Operands, mask: Operand, index: int, i: Instruction) -> str:
    """Leave the full form unless every lane's mask names all lanes."""
    if isinstance(mask, Immediate) and mask.bits & ALL == ALL:
        return "m = ~0u;"
    return (
        f"m = ~0u; {ALL_LANES} m &= {code.read(mask, 'u32', i.line)}; "
        f"if (m != ~0u) {{ m = ~0u; {ALL_LANES} W->pc[l] = {index}; goto M{index}; }}"
    )


def _gather(code: Operands, mask: Operand, index: int, i: Instruction) -> str:
    """Keep in ``m`` the lanes that share the first one's mask; wait unless all living lanes of that mask are here."""
    read = code.read(mask, "u32", i.line)
    same = (
        ""
        if isinstance(mask, Immediate)
        else f" {{ const u32 c = m; m = 0; LANES(c) if ({read} == mask) m |= 1u << l; }}"
    )
    return (
        f"u32 mask = 0, need; {SOME_LANES} {{ mask = {read}; break; }} need = mask & W->alive; "
        f"m = lanes_at(W, {index});{same} "
        "if ((m & need) != need) { W->waiting |= m; goto schedule; } W->waiting &= ~m;"
    )


def _action(code: Operands, i: Instruction, lanes: str) -> str:
    actions = {"shfl": _shuffle, "redux": _reduce, "vote": _vote, "match": _match}
    return actions[i.opcode](code, i, lanes) if i.opcode in actions else ""


def _shuffle(code: Operands, i: Instruction, lanes: str) -> str:
    target = i.operands[0]
    result, in_range = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
    mode = next(word for word in i.modifiers if word in SHUFFLE)
    lane, test = SHUFFLE[mode]
    value = code.read(i.operands[1], "b32", i.line, lane="j")
    b, c = (code.read(operand, "u32", i.line) for operand in i.operands[2:4])
    want_flag = isinstance(in_range, Register)
    if lanes == ALL_LANES and isinstance(i.operands[2], Immediate) and isinstance(i.operands[3], Immediate):
        sources = [_source_lane(mode, lane, i.operands[2].bits & 31, i.operands[3].bits) for lane in range(32)]
        return _fixed_shuffle(code, i, result, in_range, sources)
    return (
        f"{{ u32 value[32]; {'u32 flag[32]; ' if want_flag else ''}{lanes} {{ "
        f"const u32 b = {b} & 31u, c = {c}, segment = c >> 8 & 31u; "
        f"const i32 last = (i32)((l & segment) | (c & 31u & ~segment)); i32 j = {lane}; const u32 ok = {test}; "
        f"j = ok ? j : (i32)l; value[l] = {value}; {'flag[l] = ok; ' if want_flag else ''}}} "
        f"{lanes} {{ {code.write(result, 'b32', 'value[l]', i.line)} "
        f"{code.write(in_range, 'pred', 'flag[l]', i.line) if want_flag else ''} }} }}"
    )


def _source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """Return the lane that a lane reads, and whether that is in range."""
    segment = c >> 8 & 31
    bound, first = c & 31 & ~segment, lane & segment
    last = first | bound
    j = {"up": lane - b, "down": lane + b, "bfly": lane ^ b, "idx": first | b & ~segment}[mode]
    in_range = j >= last if mode == "up" else j <= last
    return (j if in_range else lane), in_range


def _fixed_shuffle(
    code: Operands, i: Instruction, result: Operand, in_range: Operand, sources: list[tuple[int, bool]]
) -> str:
    """Shuffle by a pattern that is known now: a copy for each run of lanes that read side by side."""
    copies, start = [], 0
    for lane in range(1, 33):
        offset = sources[start][0] - start
        if lane == 32 or sources[lane][0] - lane != offset:
            value = code.read(i.operands[1], "b32", i.line, lane=f"(l + {offset})" if offset else "l")
            copies.append(f"for (u32 l = {start}; l < {lane}; l++) value[l] = {value};")
            start = lane
    flags = sum(ok << lane for lane, (_, ok) in enumerate(sources))
    flag = code.write(in_range, "pred", f"{flags:#x}u >> l & 1u", i.line) if isinstance(in_range, Register) else ""
    write = code.write(result, "b32", "value[l]", i.line)
    return f"{{ u32 value[32]; {' '.join(copies)} VECTOR_LOOP {ALL_LANES} {{ {write} {flag} }} }}"


def _reduce(code: Operands, i: Instruction, lanes: str) -> str:
    operation = next(word for word in i.modifiers if word in FOLD)
    kind = CTYPE[i.type]
    x = code.read(i.operands[1], i.type, i.line)
    fold = f"({kind})((u32)acc + (u32)x)" if operation == "add" else FOLD[operation]
    return (
        f"{{ {kind} acc = 0; u32 first = 1; {lanes} {{ const {kind} x = {x}; acc = first ? x : ({fold}); first = 0; }} "
        f"{lanes} {{ {code.write(i.operands[0], i.type, 'acc', i.line)} }} }}"
    )


def _vote(code: Operands, i: Instruction, lanes: str) -> str:
    ballot = f"u32 ballot = 0; {lanes} ballot |= ((u32)({code.read(i.operands[1], 'pred', i.line)}) & 1u) << l;"
    if "ballot" in i.modifiers:
        write = code.write(i.operands[0], "u32", "ballot", i.line)
    else:
        test = {"any": "ballot != 0", "all": "ballot == m", "uni": "(ballot == 0 || ballot == m)"}
        mode = next(word for word in i.modifiers if word in test)
        write = code.write(i.operands[0], "pred", test[mode], i.line)
    return f"{{ {ballot} {lanes} {{ {write} }} }}"


def _match(code: Operands, i: Instruction, lanes: str) -> str:
    kind = CTYPE[i.type]
    return (
        f"{{ {kind} value[32]; u32 equal[32]; {lanes} value[l] = {code.read(i.operands[1], i.type, i.line)}; "
        f"{lanes} {{ u32 found = 0; for (u32 k = 0; k < 32; k++) "
        "if (m >> k & 1u && value[k] == value[l]) found |= 1u << k; equal[l] = found; } "
        f"{lanes} {{ {code.write(i.operands[0], 'u32', 'equal[l]', i.line)} }} }}"
    )
