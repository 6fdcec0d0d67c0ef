"""What is wrong with a file is said in one line that names file and field, what was expected and what came."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from harness.casefile import load, parse
from harness.errors import UsageError

from .build import DRAWN, THREE, changed, text

PLAIN = {"name": "p", "rule": "plain", "tree": {"tokens": [0], "parents": [-1]}, "probs": [[0.5, 0.5]]}


def error(data: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        parse(data, "case.json")
    line = str(caught.value)
    assert line.startswith("case.json: ")
    assert "\n" not in line
    assert line.isprintable()
    assert len(line) < 600
    return line.removeprefix("case.json: ")


@pytest.mark.parametrize(
    ("fields", "path", "value", "says"),
    [
        (THREE, "name", ..., "name: expected, but missing"),
        (THREE, "name", "", "name: expected str of length >= 1, got ''"),
        (THREE, "name", 3, "name: expected str, got 3"),
        (THREE, "name", " x", "name: expected printable text"),
        (THREE, "name", "a\x1b[2J", "name: expected printable text"),
        (THREE, "name", "\ud800", "name: expected printable text"),
        (THREE, "name", "x" * 201, "name: expected str of length <= 200"),
        (THREE, "rule", "guess", "rule: expected one of plain, greedy, target-only"),
        (THREE, "rule", None, "rule: expected str, got null"),
        (THREE, "schema", 2, "schema: expected 1, got 2"),
        (THREE, "tree", ..., "tree: expected, but missing"),
        (THREE, "tree", [], "tree: expected object, got []"),
        (THREE, "tree.tokens", ..., "tree.tokens: expected, but missing"),
        (THREE, "tree.tokens", [], "tree.tokens: expected list of length >= 1"),
        (THREE, "tree.tokens.1", -1, "tree.tokens[1]: expected int >= 0, got -1"),
        (THREE, "tree.tokens.1", 4, "tree.tokens[1]: expected a token below V = 4, got 4"),
        (THREE, "tree.tokens.1", 1.0, "tree.tokens[1]: expected int, got 1.0"),
        (THREE, "tree.tokens.1", True, "tree.tokens[1]: expected int, got true"),
        (THREE, "tree.tokens.1", "1", "tree.tokens[1]: expected int, got '1'"),
        (THREE, "tree.tokens.1", 10**400, "tree.tokens[1]: expected int <= 1048575, got an integer of more than 128"),
        (THREE, "tree.tokens.2", 0, "tree must have different tokens at siblings under rule target-only: nodes 1 and"),
        (THREE, "tree.tokens", [0] * 5000, "tree.tokens: expected list of length <= 4096, got "),
        (THREE, "tree.parents", [-1, 0], "tree.parents: expected a list of length 3, as tokens has, got 2"),
        (THREE, "tree.parents.0", 0, "tree.parents[0]: expected -1, node 0 being the root, got 0"),
        (THREE, "tree.parents.2", 3, "tree.parents[2]: expected a node in [0, 3), got 3"),
        (THREE, "tree.parents.2", -1, "tree.parents[2]: expected a node in [0, 3), got -1"),
        (THREE, "tree.parents.2", 2, "tree.parents[2]: expected a way to the root, got a cycle"),
        (THREE, "tree.children", [[1, 2]], "tree.children: expected a list of length 3, as tokens has, got 1"),
        (THREE, "tree.children", [[1], [], []], "tree.children[0]: expected the nodes whose parent is 0, [1, 2], got"),
        (THREE, "tree.children", [[1, 1, 2], [], []], "tree.children[0]: expected the nodes whose parent is 0"),
        (THREE, "tree.children", [[1, 2], [2], []], "tree.children[1]: expected the nodes whose parent is 1, []"),
        (THREE, "tree.links", [], "tree.links: no such field; expected one of tokens, parents, children"),
        (THREE, "weights", [], "weights: no such field; expected one of schema, name, rule, tree, logits"),
        (THREE, "a`b - at `$", 1, "a`b - at `$: no such field"),
        (THREE, "\ud800", 1, "'\\ud800': no such field"),
        (THREE, "", 1, "'': no such field"),
        (THREE, "logits", ..., "logits: expected, or else probs, but both are missing"),
        (THREE, "logits", [], "logits: expected 3 rows, one for each node, got 0"),
        (THREE, "logits.2", ..., "logits: expected 3 rows, one for each node, got 2"),
        (THREE, "logits.1", 7, "logits[1]: expected list, got 7"),
        (THREE, "logits.0", [], "logits[0]: expected 1 to 1048576 tokens, got 0"),
        (THREE, "logits.1", [1, 2], "logits[1]: expected 4 numbers, one for each token, got 2"),
        (THREE, "logits.1", [None] * 4, "logits[1]: expected one finite number at least, got none"),
        (THREE, "logits.1.3", "inf", "logits[1][3]: expected a number, \"-inf\" or null, got 'inf'"),
        (THREE, "logits.1.3", "\ud800", "logits[1][3]: expected whole characters, got '\\ud800'"),
        (THREE, "logits.1.3", False, 'logits[1][3]: expected a number, "-inf" or null, got false'),
        (THREE, "logits.1.3", [[]], 'logits[1][3]: expected a number, "-inf" or null, got a list of length 1'),
        (THREE, "logits.1.3", float("nan"), 'logits[1][3]: expected a number, "-inf" or null, got NaN'),
        (THREE, "logits.1.3", float("inf"), 'logits[1][3]: expected a number, "-inf" or null, got Infinity'),
        (THREE, "logits.1.3", float("-inf"), 'logits[1][3]: expected a number, "-inf" or null, got -Infinity'),
        (THREE, "logits.1.3", 1e39, "logits[1][3]: expected a float32, got 1e+39"),
        (THREE, "logits.1.3", -1e39, "logits[1][3]: expected a float32, got -1e+39"),
        (THREE, "logits.1.3", 10**400, "logits[1][3]: expected a smaller number, got an integer of more than 128"),
        (PLAIN, "probs.0", [0.5, 0.4], "probs[0]: expected probabilities that sum to 1, got 0.9"),
        (PLAIN, "probs.0.1", -0.5, "probs[0][1]: expected a probability, got -0.5"),
        (PLAIN, "probs.0.1", None, "probs[0][1]: expected float, got null"),
        (PLAIN, "probs", [], "probs: expected 1 rows, one for each node, got 0"),
        (PLAIN, "logits", [[0, 1]], "probs[0]: expected the softmax of logits, got a law 0.23 off"),
        (PLAIN, "logits", [[0, 0, 0]], "probs[0]: expected 3 numbers, one for each token, got 2"),
        (PLAIN, "tree", {"tokens": [0, 1], "parents": [-1, 0]}, "probs: expected 2 rows"),
        (PLAIN, "draft", [[0.5, 0.5]], "draft must be left out under rule plain"),
        (PLAIN, "rule", "block", "draft must be given under rule block"),
        (PLAIN, "rule", "greedy", "params.temperature must be 0 under rule greedy, got 1"),
        (PLAIN, "threshold_acc", 0.5, "threshold_acc must be 1 under rule plain, got 0.5"),
        (PLAIN, "nodes", 4096, ""),
        (DRAWN, "draft", [], "probs: expected 0 rows, one for each state, as draft has, got 2"),
        (DRAWN, "draft.1", ..., "probs: expected 1 rows, one for each state, as draft has, got 2"),
        (DRAWN, "draft.1", [1, 0], "draft[1]: expected 3 numbers, one for each token, got 2"),
        (DRAWN, "draft.1.0", 0.5, "draft[1]: expected probabilities that sum to 1, got 0.5"),
        (DRAWN, "draft.1.0", "-inf", "draft[1][0]: expected float, got '-inf'"),
        (DRAWN, "draft", ..., "probs: expected 3 rows, one for each node, got 2"),
        (DRAWN, "tree.parents", [-1, 0, 0], "tree must be a chain under rule rejection, but node 0 has 2 children"),
        (THREE, "params", 1, "params: expected object, got 1"),
        (THREE, "params", {"temperature": -1}, "params.temperature: expected float >= 0.0, got -1"),
        (THREE, "params", {"temperature": 1e39}, "params.temperature must be a finite float32 >= 0, got 1e+39"),
        (THREE, "params", {"top_k": 1.5}, "params.top_k: expected int, got 1.5"),
        (THREE, "params", {"top_k": 1 << 40}, "params.top_k: expected int <= "),
        (THREE, "params", {"top_p": 0}, "params.top_p: expected float > 0.0, got 0"),
        (THREE, "params", {"top_p": 1e-60}, "params.top_p must lie in (0, 1], got 1e-60"),
        (THREE, "params", {"min_p": 1.5}, "params.min_p: expected float <= 1.0, got 1.5"),
        (
            THREE,
            "params",
            {"top-k": 1},
            "params.top-k: no such field; expected one of temperature, top_k, top_p, min_p",
        ),
        (THREE, "depth_limit", 0, "depth_limit: expected int >= 1, got 0"),
        (THREE, "depth_limit", 5000, "depth_limit: expected int <= 4096, got 5000"),
        (THREE, "nodes", 2, "nodes must be at least the tree's 3, got 2"),
        (THREE, "nodes", 10**30, "nodes: expected int <= 4096, got 1000"),
        (THREE, "threshold_single", 1.5, "threshold_single: expected float <= 1.0, got 1.5"),
        (THREE, "threshold_acc", -0.5, "threshold_acc: expected float >= 0.0, got -0.5"),
        (THREE, "threshold_acc", "1", "threshold_acc: expected float, got '1'"),
    ],
)
def test_field(fields: dict[str, Any], path: str, value: Any, says: str) -> None:
    data = text(changed(fields, path, value))
    if says:
        assert error(data).startswith(says)
    else:
        parse(data, "case.json")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file: expected JSON, got none: Expecting value: line 1 column 1"),
        (b"[]", "the file: expected object, got []"),
        (b"{", "the file: expected JSON, got none"),
        (b'{"name": "x",}', "the file: expected JSON, got none"),
        (b"NaN", "the file: expected object, got NaN"),
        (b'"\xff"', "the file: expected UTF-8, got byte 0xff at offset 1"),
        (text(THREE).replace(b"three", b"\xe4"), "the file: expected UTF-8, got byte 0xe4"),
        (b'{"name": "a", "name": "b"}', "name: expected once, got it twice"),
        (text(THREE).replace(b'"tokens"', b'"parents": [], "tokens"'), "parents: expected once, got it twice"),
        (b"[" * 100_000, "the file: expected at most 17408 lists, got 100000"),
        (b'{"name": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "the file: expected lists of lists at most"),
        (b'{"a":' * 100_000, "the file: expected lists of lists at most"),
        (b'{"name": ' + b"9" * 5000 + b"}", "the file: expected numbers of at most 4000 digits"),
        (text(THREE).replace(b"0.25", b"-1e999"), 'logits[1][3]: expected a float32, "-inf" or null, got -inf'),
        (text(THREE).replace(b"0.25", b"1e999"), "logits[1][3]: expected a float32, got inf"),
        (b" " * ((1 << 26) + 1), "the file: expected at most 67108864 bytes, got 67108865"),
        (b"[" + b"0," * (1 << 24) + b"0]", "the file: expected at most 12648448 commas"),
    ],
    ids=range(17),
)
def test_what_is_no_case_file(data: bytes, says: str) -> None:
    assert error(data).startswith(says)


def test_sizes_are_bounded() -> None:
    wide = [0.0] * 2048
    fields = {**PLAIN, "probs": None, "logits": [wide], "nodes": 4096}
    assert error(text(fields)).startswith("nodes: expected nodes times V of at most 4194304, got 8388608")
    chain = {"tokens": [0] * 4096, "parents": list(range(-1, 4095))}
    many = {**PLAIN, "rule": "target-only", "tree": chain, "probs": None, "logits": [[0.0] * 1025] * 4096}
    assert error(text(many)).startswith("logits: expected at most 4194304 numbers, got 4198400")
    assert parse(text({**many, "logits": [[0.0] * 64] * 4096}), "x").nodes == 4096


def test_no_file(tmp_path: Path) -> None:
    for path, says in ((tmp_path / "none.json", "No such file"), (tmp_path, "a regular file"), ("x\0.json", "null")):
        with pytest.raises(UsageError, match=says) as caught:
            load(path)
        assert str(path) in str(caught.value)


def test_a_pipe_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(UsageError, match="regular file"):
        load(tmp_path / "pipe.json")


def test_changed_leaves_the_original_alone() -> None:
    before = json.dumps(THREE)
    changed(THREE, "logits.0.0", 1)
    assert json.dumps(THREE) == before
