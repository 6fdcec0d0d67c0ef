"""Case files: a case as JSON, read and written. Reading executes nothing, sizes are bounded, errors name the field.

One object with the fields of :class:`.casefields.CaseFile`. Numbers are read as float32, in which a sampler gets them,
and written in so many digits that they come back bit for bit.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from .case import Case
from .casefields import (
    MOST_BYTES,
    MOST_ENTRIES,
    MOST_NODES,
    MOST_VOCAB,
    CaseFile,
    Number,
    ParamsFields,
    TreeFields,
    Wrong,
    decode,
    schema,
    shown,
)
from .errors import UsageError
from .filters import SamplingParams, softmax
from .rules import RULES
from .tree import Tree

__all__ = ["SUFFIX", "dump", "load", "parse", "schema"]

Singles = NDArray[np.float32]

SUFFIX = ".json"
"""Ending of the names by which case files are told from case names."""


def load(path: str | Path) -> Case:
    """Read the case file at ``path``; a UsageError names the file and the field that is wrong."""
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode):
            raise UsageError(f"{path}: a case file is expected to be a regular file")
        with open(path, "rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"{path}: the case file cannot be read: {reason}") from None
    return parse(data, str(path))


def parse(data: bytes, source: str) -> Case:
    """Return the case of the bytes of a case file; ``source`` names it in errors."""
    try:
        return _case(decode(data))
    except Wrong as wrong:
        raise UsageError(f"{source}: {wrong}") from None


def _case(fields: CaseFile) -> Case:
    """Return the case of these fields, or say what does not fit."""
    name = fields.name
    if not name.isprintable() or name != name.strip() or not name:
        raise Wrong(f"name: expected printable text without blanks at its ends, got {shown(name)}")
    if fields.rule not in RULES:
        raise Wrong(f"rule: expected one of {', '.join(RULES)}, got {shown(fields.rule)}")
    tree = _tree(fields.tree)
    logits, probs = _laws(fields, len(tree))
    draft = None if fields.draft is None else _probabilities("draft", fields.draft, *logits.shape)
    entries = max(fields.nodes or 1, *logits.shape[:1], len(tree)) * logits.shape[1]
    if entries > MOST_ENTRIES:
        raise Wrong(f"nodes: expected nodes times V of at most {MOST_ENTRIES}, got {entries}")
    outside = np.flatnonzero(tree.tokens >= logits.shape[1])
    if len(outside):
        at, token = int(outside[0]), int(tree.tokens[outside[0]])
        raise Wrong(f"tree.tokens[{at}]: expected a token below V = {logits.shape[1]}, got {token}")
    try:
        params = SamplingParams(**msgspec.structs.asdict(fields.params))
    except ValueError as error:
        raise Wrong(f"params.{error}") from None
    known = RULES[fields.rule]
    try:
        case = Case(
            name=name,
            rule=fields.rule,
            tree=tree,
            logits=logits,
            probs=probs,
            draft=draft,
            replacement=known.drafts != "no-replacement",
            params=params,
            depth_limit=fields.depth_limit or 0,
            nodes=fields.nodes or 0,
            threshold_single=fields.threshold_single,
            threshold_acc=fields.threshold_acc,
        )
        known.check(case)
    except ValueError as error:
        raise Wrong(str(error)) from None
    return case


def _tree(fields: TreeFields) -> Tree:
    size, parents = len(fields.tokens), fields.parents
    if len(parents) != size:
        raise Wrong(f"tree.parents: expected a list of length {size}, as tokens has, got {len(parents)}")
    if parents[0] != -1:
        raise Wrong(f"tree.parents[0]: expected -1, node 0 being the root, got {parents[0]}")
    below: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents[1:], 1):
        if not 0 <= parent < size:
            raise Wrong(f"tree.parents[{node}]: expected a node in [0, {size}), got {parent}")
        below[parent].append(node)
    reached = [0]
    for node in reached:
        reached += below[node]
    if len(reached) < size:
        stray = min(set(range(size)) - set(reached))
        raise Wrong(f"tree.parents[{stray}]: expected a way to the root, got a cycle")
    children = below if fields.children is None else fields.children
    if len(children) != size:
        raise Wrong(f"tree.children: expected a list of length {size}, as tokens has, got {len(children)}")
    for node, listed in enumerate(children):
        if sorted(listed) != below[node]:
            raise Wrong(
                f"tree.children[{node}]: expected the nodes whose parent is {node}, {shown(below[node])}, "
                f"got {shown(listed)}"
            )
    return Tree(np.array(fields.tokens, np.int64), np.array(parents, np.int64), tuple(map(tuple, children)))


def _laws(fields: CaseFile, nodes: int) -> tuple[Singles, Singles | None]:
    """Return target logits and, where the file has them, probabilities."""
    field = "logits" if fields.logits is not None else "probs"
    given: Sequence[Sequence[Number]] | None = fields.logits if fields.logits is not None else fields.probs
    if given is None:
        raise Wrong("logits: expected, or else probs, but both are missing")
    if fields.draft is not None:
        nodes = len(fields.draft)
    if len(given) != nodes:
        of = "state, as draft has" if fields.draft is not None else "node"
        raise Wrong(f"{field}: expected {nodes} rows, one for each {of}, got {len(given)}")
    if not 1 <= nodes <= MOST_NODES:
        raise Wrong(f"draft: expected 1 to {MOST_NODES} rows, got {nodes}")
    vocab = len(given[0])
    if not 1 <= vocab <= MOST_VOCAB:
        raise Wrong(f"{field}[0]: expected 1 to {MOST_VOCAB} tokens, got {vocab}")
    if nodes * vocab > MOST_ENTRIES:
        raise Wrong(f"{field}: expected at most {MOST_ENTRIES} numbers, got {nodes * vocab}")
    probs = None if fields.probs is None else _probabilities("probs", fields.probs, nodes, vocab)
    if fields.logits is None:
        assert probs is not None
        return _log(probs), probs
    plain = [[-np.inf if x is None or isinstance(x, str) else x for x in row] for row in fields.logits]
    logits = _numbers("logits", plain, nodes, vocab)
    if np.isneginf(logits).sum() > sum(x is None or isinstance(x, str) for row in fields.logits for x in row):
        places = ((i, j, x) for i, row in enumerate(fields.logits) for j, x in enumerate(row))
        i, j, x = next(place for place in places if place[2] == -np.inf)
        raise Wrong(f'logits[{i}][{j}]: expected a float32, "-inf" or null, got {x}')
    impossible = np.flatnonzero(np.isneginf(logits).all(axis=1))
    if len(impossible):
        raise Wrong(f"logits[{impossible[0]}]: expected one finite number at least, got none")
    if probs is not None:
        off = np.abs(softmax(logits) - probs).max(axis=1)
        if off.max() > 1e-4:
            raise Wrong(f"probs[{off.argmax()}]: expected the softmax of logits, got a law {off.max():.2g} off")
    return logits, probs


def _probabilities(field: str, rows: Sequence[Sequence[float]], count: int, vocab: int) -> Singles:
    table = _numbers(field, rows, count, vocab)
    below = np.argwhere(~(table >= 0))
    if len(below):
        i, j = below[0]
        raise Wrong(f"{field}[{i}][{j}]: expected a probability, got {rows[i][j]!r}")
    sums = table.sum(axis=1, dtype=np.float64)
    off = np.flatnonzero(~(np.abs(sums - 1.0) <= 1e-5))
    if len(off):
        raise Wrong(f"{field}[{off[0]}]: expected probabilities that sum to 1, got {sums[off[0]]:.9g}")
    return table


def _numbers(field: str, rows: Sequence[Sequence[float]], count: int, vocab: int) -> Singles:
    """Return rows as float32 [count, vocab]; entries may be -inf where given so, other numbers must fit."""
    if len(rows) != count:
        raise Wrong(f"{field}: expected {count} rows, got {len(rows)}")
    for i, row in enumerate(rows):
        if len(row) != vocab:
            raise Wrong(f"{field}[{i}]: expected {vocab} numbers, one for each token, got {len(row)}")
    wide = np.array(rows, np.float64)
    with np.errstate(over="ignore"):
        table = wide.astype(np.float32)
    beyond = np.argwhere(~np.isfinite(table) & ~(np.isneginf(wide)))
    if len(beyond):
        i, j = beyond[0]
        raise Wrong(f"{field}[{i}][{j}]: expected a float32, got {rows[i][j]!r}")
    return table


def _log(probs: Singles) -> Singles:
    with np.errstate(divide="ignore"):
        return np.log(probs)


# ---- from the case to bytes


def dump(case: Case) -> bytes:
    """Return ``case`` as a case file, from which :func:`load` makes an equal case.

    Raises
    ------
    UsageError
        Where a file cannot hold the case, which may be too large, or none of its rule.
    """
    tree: dict[str, Any] = {"tokens": case.tree.tokens.tolist(), "parents": case.tree.parents.tolist()}
    if any(list(listed) != sorted(listed) for listed in case.tree.children):
        tree["children"] = case.tree.children
    given = ((name, getattr(case.params, name)) for name in ParamsFields.__struct_fields__)
    params = {name: _short(np.array([x], np.float32))[0] if isinstance(x, float) else x for name, x in given}
    tables: dict[str, Singles] = {}
    if case.probs is None or not np.array_equal(case.logits, _log(case.probs)):
        tables["logits"] = case.logits
    if case.probs is not None:
        tables["probs"] = case.probs
    if case.draft is not None:
        tables["draft"] = case.draft
    fields: dict[str, Any] = {
        "schema": 1,
        "name": case.name,
        "rule": case.rule,
        "tree": tree,
        "params": params,
        "depth_limit": case.depth_limit,
        "nodes": case.nodes,
        "threshold_single": case.threshold_single,
        "threshold_acc": case.threshold_acc,
    }
    lines = [f' "{key}": '.encode() + msgspec.json.encode(value) for key, value in fields.items()]
    lines += [f' "{key}": '.encode() + _encoded(table) for key, table in tables.items()]
    data = b"{\n" + b",\n".join(lines) + b"\n}\n"
    parse(data, f"case {case.name}")
    return data


def _encoded(table: Singles) -> bytes:
    """Return a table as JSON, a row a line."""
    rows = (msgspec.json.encode(["-inf" if x == -np.inf else x for x in _short(row)]) for row in table)
    return b"[\n  " + b",\n  ".join(rows) + b"\n ]"


def _short(row: Singles) -> list[float]:
    """Return the numbers in as few digits as come back as the same float32."""
    wide = row.astype(np.float64)
    short = row.astype(str).astype(np.float64)
    numbers: list[float] = np.where(short.astype(np.float32) == row, short, wide).tolist()
    return numbers
