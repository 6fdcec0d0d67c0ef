"""The body of a PTX kernel: statements to basic blocks of checked instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from harness.simt import isa
from harness.simt.errors import PtxError, UnknownInstruction
from harness.simt.parse import VARIABLE, read_variable, split_list
from harness.simt.ptx import (
    Address,
    Block,
    Entry,
    Immediate,
    Instruction,
    Kernel,
    Module,
    Operand,
    Pair,
    Predicate,
    Register,
    Sink,
    Special,
    Symbol,
    Terminator,
    Variable,
    Vector,
)

__all__ = ["decode_body"]

LABEL = re.compile(r"([$\w]+)\s*:(?!:)")
GUARD = re.compile(r"@(!?)\s*(%?[$\w]+)\s+")
NUMBERED = re.compile(r"(%?[$\w]+)<(\d+)>")
INTEGER = re.compile(r"(-?)(0[xX][0-9a-fA-F]+|\d+)U?")
FLOAT = re.compile(r"0([fFdD])([0-9a-fA-F]{16}|[0-9a-fA-F]{8})")
ADDRESS = re.compile(r"([%$\w.]+)\s*(?:\+\s*(-?\d+))?")
SYMBOL = re.compile(r"([%$\w]+)\s*(?:\+\s*(\d+))?")
IGNORED = re.compile(r"\.(loc|file)\b[^\n;]*\n|\.pragma\s[^;]*;")
ENDS = {"bra": "jump", "ret": "exit", "exit": "exit", "trap": "trap"}


def decode_body(entry: Entry, module: Module) -> Kernel:
    """Decode one entry of a module.

    Raises
    ------
    UnknownInstruction
        At the first instruction, operand or directive that is not known, with its line.
    """
    return _Body(entry, module).decode()


@dataclass
class _Open:
    """A block under construction."""

    label: str = ""
    instructions: list[Instruction] = field(default_factory=list)

    @property
    def started(self) -> bool:
        return bool(self.label or self.instructions)


class _Body:
    """Decoder state: position, scopes, and the blocks so far."""

    def __init__(self, entry: Entry, module: Module) -> None:
        self.entry = entry
        self.text = entry.body
        self.parameters = {parameter.name for parameter in entry.parameters}
        self.shared = dict(module.shared)
        self.local: dict[str, Variable] = {}
        self.constants = module.constants
        self.registers: dict[str, str] = {}
        self.scopes: list[dict[str, str]] = [{}]
        self.scope_count = 0
        self.block = _Open()
        self.blocks: list[Block] = []
        self.jumps: list[tuple[int, str, int]] = []  # block, label, line
        self.at = 0
        self.line = entry.body_line

    def decode(self) -> Kernel:
        """Read the text to its end and resolve the jumps."""
        while self._next_token():
            self._statement()
        last = self.blocks[-1].terminator if self.blocks else Terminator()
        if self.block.started or last.kind == "fall" or last.guard is not None:
            self._close(Terminator("exit"))
        return Kernel(
            self.entry.name,
            self.entry.parameters,
            self.registers,
            self._resolved(),
            self.shared,
            self.local,
            self.constants,
            self.entry.max_threads,
        )

    # -- text

    def _advance(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def _next_token(self) -> bool:
        """Move to the next statement; False at the end."""
        found = re.compile(r"[\s;]*").match(self.text, self.at)
        assert found is not None  # it matches the empty string
        self._advance(found.end())
        return self.at < len(self.text)

    def _statement(self) -> None:
        char = self.text[self.at]
        if char == "{":
            self.scope_count += 1
            self.scopes.append({})
            self._advance(self.at + 1)
        elif char == "}":
            self.scopes.pop()
            self._advance(self.at + 1)
        elif found := LABEL.match(self.text, self.at):
            self._label(found.group(1))
            self._advance(found.end())
        elif found := IGNORED.match(self.text, self.at):
            self._advance(found.end())
        else:
            end = self.text.find(";", self.at)
            if end < 0:
                raise PtxError("statement without ';'", self.line, self.text[self.at : self.at + 80])
            text = self.text[self.at : end]
            if char == ".":
                self._declaration(text)
            else:
                self._instruction(text)
            self._advance(end + 1)

    # -- declarations and names

    def _declaration(self, text: str) -> None:
        words = text.split(None, 2)
        if words[0] == ".reg" and len(words) == 3:
            for name in split_list(words[2]):
                self._declare(name, words[1].removeprefix("."), text)
            return
        found = VARIABLE.fullmatch(text.strip())
        if found is None or found["space"] not in ("local", "shared"):
            raise UnknownInstruction("directive not known", self.line, text)
        variable = read_variable(found, self.line)
        (self.local if found["space"] == "local" else self.shared)[variable.name] = variable

    def _declare(self, name: str, kind: str, statement: str) -> None:
        if kind not in ("pred", "b16", "b32", "b64", "u16", "u32", "u64", "s16", "s32", "s64", "f32", "f64"):
            raise UnknownInstruction(f"register type .{kind} not known", self.line, statement)
        if found := NUMBERED.fullmatch(name):
            for number in range(int(found.group(2))):
                self.registers[f"{found.group(1)}{number}"] = kind
            return
        unique = name if len(self.scopes) == 1 else f"%scope{self.scope_count}_{name.lstrip('%')}"
        self.scopes[-1][name] = unique
        self.registers[unique] = kind

    def _register(self, name: str) -> Register | None:
        for scope in reversed(self.scopes):
            if name in scope:
                return Register(scope[name])
        return Register(name) if name in self.registers else None

    # -- instructions

    def _instruction(self, text: str) -> None:
        guard, body = None, text.strip()
        if found := GUARD.match(body):
            register = self._register(found.group(2))
            if register is None:
                raise UnknownInstruction("guard not declared", self.line, text)
            guard, body = Predicate(register, bool(found.group(1))), body[found.end() :]
        words = body.split(None, 1)
        opcode, *modifiers = words[0].split(".")
        if modifiers and f"{opcode}.{modifiers[0]}" in isa.INSTRUCTIONS:  # other operands than the opcode alone
            opcode = f"{opcode}.{modifiers.pop(0)}"
        mods = tuple("shared" if word == "shared::cta" else word for word in modifiers)
        operands = split_list(words[1]) if len(words) > 1 else []
        if not isa.matches(opcode, mods, len(operands)):
            raise UnknownInstruction("instruction not known", self.line, text)
        if opcode in ENDS:
            self._end(ENDS[opcode], guard, operands)
            return
        decoded = tuple(self._operand(operand, text) for operand in operands)
        instruction = Instruction(opcode, mods, decoded, guard, self.line)
        if opcode in isa.WARP_WIDE:
            self._alone(instruction, text)
        else:
            self.block.instructions.append(instruction)

    def _operand(self, text: str, statement: str) -> Operand:
        """Decode one operand."""
        if text.startswith("{"):
            items = tuple(self._operand(item, statement) for item in split_list(text.strip("{} ")))
            if not all(isinstance(item, Register | Immediate | Sink) for item in items):
                raise UnknownInstruction("vector operand not known", self.line, statement)
            return Vector(items)  # type: ignore[arg-type]  # checked above
        if text.startswith("["):
            return self._address(text.strip("[] "), statement)
        if "|" in text:
            first, second = (self._operand(part.strip(), statement) for part in text.split("|", 1))
            if isinstance(first, Register | Sink) and isinstance(second, Register | Sink):
                return Pair(first, second)
            raise UnknownInstruction("operand not known", self.line, statement)
        return self._scalar(text, statement)

    def _scalar(self, text: str, statement: str) -> Operand:
        if text == "_":
            return Sink()
        if text.startswith("!") and (register := self._register(text[1:].strip())):
            return Predicate(register, negated=True)
        if register := self._register(text):
            return register
        if found := INTEGER.fullmatch(text):
            return Immediate(int(found.group(1) + found.group(2), 0))
        if found := FLOAT.fullmatch(text):
            return Immediate(int(found.group(2), 16), "f32" if found.group(1) in "fF" else "f64")
        if text in isa.SPECIAL:
            return Special(text)
        found = SYMBOL.fullmatch(text)
        if found and self._is_symbol(found.group(1)):
            return Symbol(found.group(1), int(found.group(2) or 0))
        raise UnknownInstruction(f"operand {text} not known", self.line, statement)

    def _address(self, text: str, statement: str) -> Address:
        found = ADDRESS.fullmatch(text)
        if found:
            name, offset = found.group(1), int(found.group(2) or 0)
            if register := self._register(name):
                return Address(register, offset)
            if self._is_symbol(name) or name in self.parameters:
                return Address(Symbol(name), offset)
        raise UnknownInstruction(f"address [{text}] not known", self.line, statement)

    def _is_symbol(self, name: str) -> bool:
        return name in self.shared or name in self.local or name in self.constants

    # -- blocks

    def _close(self, terminator: Terminator, warp_wide: bool = False) -> None:
        self.blocks.append(Block(self.block.label, tuple(self.block.instructions), terminator, warp_wide))
        self.block = _Open()

    def _label(self, name: str) -> None:
        if self.block.started:
            self._close(Terminator())
        self.block.label = name

    def _alone(self, instruction: Instruction, text: str) -> None:
        """Give a warp-wide instruction a block of its own."""
        if instruction.guard is not None:
            raise UnknownInstruction("a guarded warp-wide instruction is not known", self.line, text)
        if self.block.started:
            self._close(Terminator())
        self.block.instructions.append(instruction)
        self._close(Terminator(), warp_wide=True)

    def _end(self, kind: str, guard: Predicate | None, operands: list[str]) -> None:
        if kind == "jump":
            self.jumps.append((len(self.blocks), operands[0], self.line))
        self._close(Terminator(kind, guard))

    def _resolved(self) -> tuple[Block, ...]:
        """Put block indices in place of labels."""
        index = {block.label: number for number, block in enumerate(self.blocks) if block.label}
        blocks = list(self.blocks)
        for number, label, line in self.jumps:
            if label not in index:
                raise PtxError(f"no label {label}", line)
            block = blocks[number]
            blocks[number] = replace(block, terminator=replace(block.terminator, target=index[label]))
        return tuple(blocks)
