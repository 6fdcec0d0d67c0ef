"""PTX text to :class:`~harness.simt.ptx.Module`, and one of its entries to a :class:`~harness.simt.ptx.Kernel`.

Nothing is skipped silently: a directive, an opcode, a modifier or an operand that is not known raises with its line.
The syntax is that of NVIDIA's "PTX ISA" manual.
"""

from __future__ import annotations

import re

from harness.simt.errors import PtxError
from harness.simt.ptx import SIZE, Entry, Kernel, Module, Parameter, Variable

__all__ = ["parse_kernel", "parse_module", "split_list"]

COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
TO_END_OF_LINE = re.compile(r"\.(version|target|address_size|file|loc|pragma)\b[^\n]*")
LINKAGE = re.compile(r"(?:\.(?:visible|weak|extern|common)\s+)*")
ENTRY = re.compile(r"\.entry\s+([$\w]+)\s*\(([^)]*)\)|\.entry\s+([$\w]+)")
ENTRY_DIRECTIVE = re.compile(r"\s*\.(maxntid|reqntid|minnctapersm|maxnreg|maxnctapersm)\s+([\d,\s]+)")
VARIABLE = re.compile(
    r"\.(?P<space>global|shared|const|local)\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+"
    r"(?P<name>[$%\w]+)(?P<array>\[(?P<count>\d*)\])?\s*(?:=\s*(?P<values>.+))?",
    re.S,
)
PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)\s+(?:\.ptr\b.*?(?:\.align\s+\d+\s+)?)?"
    r"(?P<name>[$%\w]+)(?:\[(?P<count>\d+)\])?",
    re.S,
)


def parse_module(text: str) -> Module:
    """Read the top level of a PTX text; kernel bodies are left for :func:`parse_kernel`.

    Raises
    ------
    PtxError
        At a directive that is not known.
    """
    text = _blank_comments(text)
    entries: dict[str, Entry] = {}
    shared: dict[str, Variable] = {}
    constants: dict[str, Variable] = {}
    at = 0
    while (at := _skip_space(text, at)) < len(text):
        if found := TO_END_OF_LINE.match(text, at):
            at = found.end()
            continue
        start = LINKAGE.match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string
        if found := ENTRY.match(text, start):
            entry, at = _read_entry(text, found)
            entries[entry.name] = entry
        elif text.startswith(".func", start):
            at = _skip_function(text, start)
        else:
            at = _read_module_variable(text, at, start, shared, constants)
    return Module(entries, shared, constants)


def parse_kernel(module: Module, name: str | None = None) -> Kernel:
    """Decode the body of one entry; without a name the module must have just one.

    Raises
    ------
    PtxError
        If there is no such entry.
    UnknownInstruction
        At the first thing in the body that the translator does not know.
    """
    from harness.simt.body import decode_body  # it needs the types of this module

    if name is None and len(module.entries) == 1:
        name = next(iter(module.entries))
    if name not in module.entries:
        raise PtxError(f"no kernel {name} in the module; it has {', '.join(module.entries) or 'none'}")
    return decode_body(module.entries[name], module)


def split_list(text: str) -> list[str]:
    """Split at commas that are outside brackets."""
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        if char in "{[(":
            depth += 1
        elif char in "}])":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _blank_comments(text: str) -> str:
    """Replace comments by spaces, keeping the line breaks so that line numbers stay right."""
    return COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found.group()), text)


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def line_of(text: str, at: int) -> int:
    """1-based line of a position."""
    return text.count("\n", 0, at) + 1


def _closing_brace(text: str, opening: int) -> int:
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            return found.start()
    raise PtxError("a '{' is never closed", line_of(text, opening))


def _read_entry(text: str, found: re.Match[str]) -> tuple[Entry, int]:
    name = found.group(1) or found.group(3)
    parameters = _read_parameters(found.group(2) or "", line_of(text, found.start()))
    at, max_threads = found.end(), None
    while directive := ENTRY_DIRECTIVE.match(text, at):
        at = directive.end()
        if directive.group(1) in ("maxntid", "reqntid"):
            max_threads = 1
            for extent in directive.group(2).split(","):
                max_threads *= int(extent)
    at = _skip_space(text, at)
    if not text.startswith("{", at):
        raise PtxError("directive not known", line_of(text, at), text[at : at + 80].split("\n")[0])
    end = _closing_brace(text, at)
    return Entry(name, parameters, text[at + 1 : end], line_of(text, at), max_threads), end + 1


def _read_parameters(text: str, line: int) -> tuple[Parameter, ...]:
    """Lay the parameters out as the ABI does: each at the next multiple of its alignment."""
    parameters, offset = [], 0
    for part in split_list(text):
        found = PARAMETER.fullmatch(part)
        if found is None or found["type"] not in SIZE:
            raise PtxError("kernel parameter not understood", line, part)
        element = SIZE[found["type"]]
        align = int(found["align"] or element)
        offset = (offset + align - 1) // align * align
        size = element * int(found["count"] or 1)
        kind = found["type"] if found["count"] is None else "bytes"
        parameters.append(Parameter(found["name"], kind, offset, size))
        offset += size
    return tuple(parameters)


def _skip_function(text: str, start: int) -> int:
    """Step over a device function; calling it raises at the call, so that nothing is lost."""
    brace, semicolon = text.find("{", start), text.find(";", start)
    if semicolon >= 0 and (brace < 0 or semicolon < brace):
        return semicolon + 1
    return _closing_brace(text, brace) + 1


def _read_module_variable(
    text: str, at: int, start: int, shared: dict[str, Variable], constants: dict[str, Variable]
) -> int:
    end = text.find(";", start)
    statement = text[start : end if end >= 0 else start + 80]
    found = VARIABLE.fullmatch(statement.strip())
    if end < 0 or found is None or found["space"] == "local":
        raise PtxError("directive not known", line_of(text, at), statement[:120])
    variable = read_variable(found, line_of(text, at))
    (shared if found["space"] == "shared" else constants)[variable.name] = variable
    return end + 1


def read_variable(found: re.Match[str], line: int) -> Variable:
    """Build a Variable from a match of VARIABLE."""
    kind = found["type"]
    if kind not in SIZE:
        raise PtxError(f"variable type .{kind} not known", line, found.group()[:120])
    dynamic = found["array"] is not None and not found["count"]
    values = None
    if found["values"] is not None:
        items = split_list(found["values"].strip().strip("{}"))
        values = tuple(_initial_value(item, line, found.group()[:120]) for item in items)
    size = 0 if dynamic else SIZE[kind] * int(found["count"] or 1)
    return Variable(found["name"], kind, size, int(found["align"] or SIZE[kind]), values, dynamic)


def _initial_value(text: str, line: int, statement: str) -> int:
    """Read an element of an initialiser: an integer, or the bit pattern of a float."""
    if found := re.fullmatch(r"0[fFdD]([0-9a-fA-F]{8}(?:[0-9a-fA-F]{8})?)", text):
        return int(found.group(1), 16)
    if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)U?", text):
        return int(text.rstrip("U"), 0)
    raise PtxError("initial value not understood", line, statement)
