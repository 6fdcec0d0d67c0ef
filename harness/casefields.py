"""The fields of a case file: their types, their JSON schema, and from bytes to fields; errors name the field."""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from .rules import RULES

__all__ = [
    "MOST_BYTES",
    "MOST_ENTRIES",
    "MOST_NODES",
    "MOST_VOCAB",
    "CaseFile",
    "Number",
    "ParamsFields",
    "TreeFields",
    "Wrong",
    "decode",
    "schema",
    "shown",
]

MOST_BYTES = 1 << 26
MOST_NODES = 4096
MOST_VOCAB = 1 << 20
MOST_ENTRIES = 1 << 22
"""Numbers of a [rows, V] field, padding included."""

MOST_NAME = 200
MOST_LISTS = 4 * MOST_NODES + 1024
"""Rows of logits, probs, draft and children, and what a name may hold of brackets."""

MOST_COMMAS = 3 * MOST_ENTRIES + (1 << 16)
SHOWN = 60
"""Characters of a bad value that an error shows."""

Node = Annotated[int, Meta(ge=0, lt=MOST_NODES)]
Number = float | Literal["-inf"] | None
Rows = list[list[Number]]
DraftRows = list[list[float]]
Unit = Annotated[float, Meta(ge=0, le=1)]


class TreeFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A draft tree; node 0 is the root, the last committed token."""

    tokens: Annotated[
        list[Annotated[int, Meta(ge=0, lt=MOST_VOCAB)]],
        Meta(
            min_length=1,
            max_length=MOST_NODES,
            description="Token of each node. Under a rule that draws its drafts, only the root's counts.",
        ),
    ]
    parents: Annotated[
        list[Annotated[int, Meta(ge=-1, lt=MOST_NODES)]],
        Meta(min_length=1, max_length=MOST_NODES, description="Parent of each node; -1 for the root."),
    ]
    children: Annotated[
        list[list[Node]] | None,
        Meta(description="Children of each node in sibling order. Left out: by ascending node number."),
    ] = None


class ParamsFields(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Sampling parameters, applied to every node's law by the sequential semantics."""

    temperature: Annotated[float, Meta(ge=0, description="Below 1e-6: argmax.")] = 1.0
    top_k: Annotated[int, Meta(ge=-(1 << 31), lt=1 << 31, description="0 or less, or V or more: off.")] = 0
    top_p: Annotated[float, Meta(gt=0, le=1, description="1: off.")] = 1.0
    min_p: Annotated[float, Meta(ge=0, le=1, description="0: off.")] = 0.0


class CaseFile(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One request whose verification law is known exactly."""

    schema: Literal[1] = 1
    name: Annotated[
        str, Meta(min_length=1, max_length=MOST_NAME, description="Printable, without blanks at either end.")
    ]
    rule: Annotated[
        str, Meta(description="The verification rule that the case is for.", extra_json_schema={"enum": list(RULES)})
    ]
    tree: TreeFields
    logits: Annotated[
        Rows | None,
        Meta(
            description="Raw target logits; row i is the law of what follows node i, or of state i where there is a "
            'draft law. "-inf" or null: impossible. Left out: the logarithms of probs.'
        ),
    ] = None
    probs: Annotated[
        DraftRows | None, Meta(description="The same laws as probabilities, used as they are instead of logits.")
    ] = None
    draft: Annotated[
        DraftRows | None,
        Meta(
            description="Draft law in each of R states, for the rules that draw their drafts; logits or probs then "
            "have R rows too. The root is in state 0, and token t leads from state s to (31 s + 17 t + 1) mod R."
        ),
    ] = None
    params: ParamsFields = msgspec.field(default_factory=ParamsFields)
    depth_limit: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_NODES)] | None,
        Meta(description="S: at most S - 1 drafts are accepted. Left out: the tree's depth + 1."),
    ] = None
    nodes: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_NODES)] | None,
        Meta(description="N, padding included. Left out: no padding."),
    ] = None
    threshold_single: Annotated[Unit, Meta(description="Below 1 under rule target-only alone.")] = 1.0
    threshold_acc: Annotated[Unit, Meta(description="Below 1 under rule target-only alone.")] = 1.0


def schema() -> dict[str, Any]:
    """Return the JSON schema of case files."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(CaseFile)}


class Wrong(Exception):
    """Something is wrong with a case file; the text names the field, not the file."""


class _Constant:
    """NaN, Infinity or -Infinity, which JSON does not have; of a type that no field takes."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def decode(data: bytes) -> CaseFile:
    """Return the fields of a case file, each of its type; raises Wrong."""
    for what, count, most in (
        ("bytes", len(data), MOST_BYTES),
        ("lists", data.count(b"["), MOST_LISTS),
        ("commas", data.count(b","), MOST_COMMAS),
    ):
        if count > most:
            raise Wrong(f"the file: expected at most {most} {what}, got {count}")
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_Constant)
    except UnicodeDecodeError as error:
        raise Wrong(f"the file: expected UTF-8, got byte 0x{data[error.start]:02x} at offset {error.start}") from None
    except json.JSONDecodeError as error:
        raise Wrong(f"the file: expected JSON, got none: {error}") from None
    except RecursionError:
        raise Wrong("the file: expected lists of lists at most, got a deeper nesting") from None
    except ValueError:  # Python's limit on the digits of an integer
        raise Wrong("the file: expected numbers of at most 4000 digits, got an integer of more") from None
    _no_strays(value, CaseFile)
    try:
        return msgspec.convert(value, CaseFile)
    except msgspec.ValidationError as error:
        raise Wrong(_explained(str(error), value)) from None
    except UnicodeEncodeError:
        raise Wrong(_surrogate(value)) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise Wrong(f"{_key(key)}: expected once, got it twice")
        found[key] = value
    return found


def _no_strays(value: Any, kind: type[msgspec.Struct], path: str = "") -> None:
    """Raise Wrong for a field that does not exist; the structs refuse it too, but cannot name every key."""
    if not isinstance(value, dict):
        return
    for key in value:
        if key not in kind.__struct_fields__:
            fields = ", ".join(kind.__struct_fields__)
            raise Wrong(f"{_below(path, _key(key))}: no such field; expected one of {fields}")
    if kind is CaseFile:
        _no_strays(value.get("tree"), TreeFields, "tree")
        _no_strays(value.get("params"), ParamsFields, "params")


_MESSAGE = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>[^`]*)`)?", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")


def _explained(message: str, value: Any) -> str:
    """Turn msgspec's message into one that starts with the field and ends with what came."""
    match = _MESSAGE.fullmatch(message)
    assert match is not None
    what, path = match["what"], match["path"] or ""
    missing = re.fullmatch("Object missing required field `(.*)`", what)
    if missing:
        return f"{_below(path, missing[1])}: expected, but missing"
    for index, key in _STEP.findall(path):
        value = value[int(index)] if index else value[key]
    if what.startswith("Invalid enum value"):
        what = "Expected 1" if path == "schema" else 'Expected a number, "-inf" or null'
    what = what.partition(", got")[0].replace("`", "").replace("Number out of range", "Expected a smaller number")
    what = what.replace("Expected float | str | null", 'Expected a number, "-inf" or null')
    what = what.replace("array", "list").replace("Expected", "expected")
    return f"{path or 'the file'}: {what}, got {shown(value)}"


def _surrogate(value: Any) -> str:
    """Say where the first text stands that is half of a character."""
    left = [("", value)]
    while left:
        path, at = left.pop()
        if isinstance(at, dict):
            left += [(_below(path, key), entry) for key, entry in at.items()]
        elif isinstance(at, list):
            left += [(f"{path}[{i}]", entry) for i, entry in enumerate(at)]
        elif isinstance(at, str) and any("\ud800" <= letter <= "\udfff" for letter in at):
            return f"{path or 'the file'}: expected whole characters, got {shown(at)}"
    raise AssertionError


def _below(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _key(key: str) -> str:
    return key if key.isprintable() and 0 < len(key) <= SHOWN else shown(key)


def shown(value: Any) -> str:
    """Return a value in one short line."""
    if isinstance(value, list) and not all(isinstance(entry, int) for entry in value[:SHOWN]):
        return f"a list of length {len(value)}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int) and value.bit_length() > 128:
        return "an integer of more than 128 bits"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    text = ascii(value[:SHOWN] if isinstance(value, (list, str)) else value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
