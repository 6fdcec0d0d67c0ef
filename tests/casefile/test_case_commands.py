"""`chitree cases` and `chitree law`."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import numpy as np
import pytest

from harness.casefile import load, parse, schema
from harness.rules import RULES, exact_law
from harness.suite import Suite

from .build import DRAWN, THREE, case_of, changed
from .conftest import Run, Write


def refused(answer: tuple[int, str, str], *words: str) -> None:
    code, out, err = answer
    assert code == 2
    assert not out
    assert err.startswith("chitree")
    assert len(err.strip().splitlines()) == 1
    for word in words:
        assert word in err


def rows(out: str) -> list[list[str]]:
    """Cells of the listed cases, without heading and count."""
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["case", "rule", "V", "N", "S"]
    assert lines[-1] == f"{len(lines) - 2} case{'' if len(lines) == 3 else 's'}"
    return [line.split() for line in lines[1:-1]]


# ---- cases


def test_every_case_is_listed(run: Run) -> None:
    code, out, err = run("cases")
    assert (code, err) == (0, "")
    listed = rows(out)
    assert len(listed) == 12
    assert listed[0] == ["trees/0", "target-only", "5", "5", "3", "1,024", "1", "0.75"]
    assert listed[4] == ["roots/0", "plain", "5", "1", "1", "1,024", "-"]


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (["trees/*"], ["trees/0", "trees/1", "trees/2", "trees/3"]),
        (["*/3"], ["trees/3", "roots/3", "chains/3"]),
        (["*/3", "roots/[01]"], ["trees/3", "roots/0", "roots/1", "roots/3", "chains/3"]),
        (["--rule", "block"], ["chains/0", "chains/1", "chains/2", "chains/3"]),
        (["*/2", "--rule", "plain", "--suite", "smoke"], ["roots/2"]),
    ],
)
def test_some_cases_are_listed(run: Run, arguments: list[str], names: list[str]) -> None:
    code, out, _ = run("cases", *arguments)
    assert code == 0
    assert [row[0] for row in rows(out)] == names


def test_a_file_is_listed(run: Run, write: Write) -> None:
    code, out, _ = run("cases", write("mine.json", vocab=9))
    assert code == 0
    assert rows(out) == [["mine", "target-only", "9", "5", "3", "512", "1", "0.75"]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["treees/*"], ["'treees/*'", "matches no case of suite standard", "chitree cases"]),
        (["tree/0"], ["did you mean trees/0"]),
        (["--rule", "guess"], ["no such rule: 'guess'"]),
        (["--rule", "greedy"], ["--rule greedy matches no case"]),
        (["roots/*", "--rule", "block"], ["--rule block matches no case"]),
        (["--suite", "huge"], ["no such suite: 'huge'"]),
        (["--show", "nothing"], ["'nothing' matches no case"]),
        (["--show", "trees/*"], ["'trees/*' matches 4 cases", "one is expected", "trees/0, trees/1"]),
        (["--show", "none.json"], ["none.json", "cannot be read"]),
        (["--export", "nothing"], ["'nothing' matches no case"]),
        (["--show", "trees/0", "--schema"], ["--show stands alone, got --schema"]),
        (["--schema", "trees/0"], ["--schema stands alone, got trees/0"]),
        (["--schema", "--rule", "plain"], ["--schema stands alone, got --rule"]),
        (["none.json"], ["none.json", "cannot be read"]),
    ],
)
def test_what_cannot_be_listed(run: Run, arguments: list[str], words: list[str]) -> None:
    refused(run("cases", *arguments), *words)


def test_schema_is_printed(run: Run) -> None:
    code, out, _ = run("cases", "--schema")
    assert code == 0
    assert json.loads(out) == schema()


def test_a_case_is_exported(run: Run, small_suite: Suite) -> None:
    code, out, _ = run("cases", "--export", "trees/1")
    assert code == 0
    case = parse(out.encode(), "x")
    assert case.name == "trees/1"
    assert case.logits.tobytes() == small_suite.case("trees/1").logits.tobytes()


def test_a_tree_is_drawn(run: Run, small_suite: Suite) -> None:
    code, out, _ = run("cases", "--show", "trees/0")
    assert code == 0
    lines = out.splitlines()
    case = small_suite.case("trees/0")
    law = exact_law(case, "x")
    assert lines[0] == "trees/0  rule target-only"
    assert lines[1] == "V = 5, N = 5 (4 nodes and 1 of padding), S = 3"
    assert lines[2] == "temperature 1.25; threshold_single 1, threshold_acc 0.75: lossy by design"
    assert lines[3].startswith(f"tokens emitted: 1: {law.lengths[1]:.4g}, 2: ")
    drawn = {int(found[1]): line for line in lines[4:] if (found := re.search(r"node (\d+)", line))}
    assert sorted(drawn) == [0, 1, 2, 3]
    assert drawn[3].startswith("│   └── node 3  token 0")
    assert drawn[2].startswith("└── node 2  token 3")
    for node, line in drawn.items():
        m = law.node.tolist().index(node)
        assert f"reach {law.reach[m]:.4g}" in line
        top = int(law.rows[m].argmax())
        assert f"next {top}: {law.rows[m, top]:.4g}" in line
        if node:
            assert f"p {case.law_rows[case.tree.parents[node], case.tree.tokens[node]]:.4g}" in line
    assert len(lines) == 9
    assert lines[-1] == "of suite standard"


def test_what_is_never_accepted_is_drawn_so(run: Run, write: Write) -> None:
    fields = {**THREE, "tree": {"tokens": [2, 1, 0, 3], "parents": [-1, 0, 0, 2]}, "depth_limit": 2}
    fields["logits"] = [*THREE["logits"], [0, 0, 0, 0]]  # type: ignore[misc]
    _, out, _ = run("cases", "--show", write("three.json", fields=fields))
    assert re.search(r"node 1  token 1  p 0  never accepted  next 3: 0.391", out)
    assert re.search(r"node 3  token 3  p 0.6439  never accepted, beyond the depth limit", out)


def test_drawn_drafts_show_the_states(run: Run, write: Write) -> None:
    _, out, _ = run("cases", "--show", write("drawn.json", fields=DRAWN))
    assert "node 2  drawn independently" in out
    assert "laws of 2 states; token t leads from state s to (31 s + 17 t + 1) mod 2" in out
    assert "state 1  target 1: 0.5, 2: 0.5  (1 bits)" in out
    assert "draft  0: 1  (0 bits)" in out


def test_a_long_chain_is_cut_short(run: Run, write: Write) -> None:
    size = 400
    fields = {**THREE, "tree": {"tokens": [0] * size, "parents": list(range(-1, size - 1))}}
    code, out, _ = run("cases", "--show", write("long.json", fields={**fields, "logits": [[0, 0]] * size}))
    assert code == 0
    assert "... 144 more nodes" in out


# ---- law


def test_law_as_json(run: Run, write: Write) -> None:
    path = write("three.json", fields=THREE)
    code, out, _ = run("law", path, "--json")
    assert code == 0
    found = json.loads(out)
    assert list(found) == ["case", "rule", "vocab", "depth_limit", "lengths", "prefixes"]
    assert (found["case"], found["rule"], found["vocab"], found["depth_limit"]) == ("three", "target-only", 4, 2)
    law = exact_law(load(path), path)
    assert found["lengths"] == law.lengths.tolist()
    assert found["prefixes"][0]["prefix"] == []
    assert [entry["prefix"] for entry in found["prefixes"]] == [law.prefix(m) for m in range(law.size)]
    for m, entry in enumerate(found["prefixes"]):
        assert list(entry) == ["prefix", "node", "reach", "next"]
        assert (entry["node"], entry["reach"]) == (law.node[m], law.reach[m])
        row = np.zeros(4)
        row[[int(token) for token in entry["next"]]] = list(entry["next"].values())
        np.testing.assert_array_equal(row, law.rows[m])
        assert all(p > 0 for p in entry["next"].values())
    assert "1" not in found["prefixes"][0]["next"]


@pytest.mark.parametrize("rule", sorted(RULES))
def test_law_of_every_rule(run: Run, write: Write, rule: str) -> None:
    code, out, _ = run("law", write("made.json", rule), "--json")
    assert code == 0
    found = json.loads(out)
    assert abs(sum(found["lengths"]) - 1) < 1e-9
    assert len(found["prefixes"]) == exact_law(case_of(rule), "x").size
    code, out, _ = run("law", write("made.json", rule))
    assert code == 0
    assert f"rule {rule}" in out


def test_law_as_text(run: Run, small_suite: Suite) -> None:
    code, out, _ = run("law", "trees/0", "--suite", "smoke")
    assert code == 0
    law = exact_law(small_suite.case("trees/0"), "x")
    lines = out.splitlines()
    assert len(lines) == 4 + law.size + 1
    assert lines[-1] == "of suite smoke"
    assert lines[4].startswith("at the root  node 0  reach 1  next ")
    prefix = " ".join(map(str, law.prefix(1)))
    assert lines[5].startswith(f"after {prefix}  node {law.node[1]}  reach {law.reach[1]:.4g}  next ")


def test_law_of_many_prefixes_as_text(run: Run, write: Write) -> None:
    chain = {"tokens": [0] * 6, "parents": [-1, 0, 1, 2, 3, 4]}
    law = {"probs": [[0.5, 0.25, 0.25]], "draft": [[0.5, 0.25, 0.25]]}
    path = write("many.json", fields={**DRAWN, "tree": chain, **law})
    code, out, _ = run("law", path)
    assert code == 0
    assert out.splitlines()[-1] == "... 264 more prefixes; --json has them all"
    _, out, _ = run("law", path, "--json")
    assert len(json.loads(out)["prefixes"]) == 364


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], ["'nothing' matches no case"]),
        (["none.json"], ["none.json", "cannot be read"]),
        ([], ["Missing argument"]),
        (["a", "b"], ["unexpected extra argument"]),
        (["trees/0", "--suite", "huge"], ["no such suite"]),
    ],
)
def test_no_law(run: Run, arguments: list[str], words: list[str]) -> None:
    refused(run("law", *arguments), *words)


def test_a_law_that_is_too_large(run: Run, write: Write) -> None:
    size = 40
    chain = {"tokens": [0] * size, "parents": list(range(-1, size - 1))}
    coin = [[0.5, 0.5]]
    path = write("deep.json", fields={**DRAWN, "tree": chain, "probs": coin, "draft": coin})
    refused(run("law", path), "deep.json: draft: the drafts of case drawn lead to more than", "fewer tokens")
    star = {"tokens": [0] * 300, "parents": [-1] + [0] * 299}
    path = write("broad.json", fields={**DRAWN, "rule": "rejection-replacement", "tree": star})
    refused(run("law", path), "broad.json: tree: 299 siblings in case drawn are more than the 256")
    vocab = 40
    flat = [[1 / vocab] * vocab]
    few = {"tokens": [0] * 7, "parents": [-1] + [0] * 6}
    fields = {**DRAWN, "rule": "rejection-no-replacement", "tree": few, "probs": flat, "draft": flat}
    refused(run("law", write("orders.json", fields=fields)), "orders.json: draft: 6 siblings", "orders")


def test_a_file_is_refused_by_every_command(run: Run, write: Write) -> None:
    path = write("bad.json", fields=changed(THREE, "tree.parents.2", 9))
    for command in (["cases", path], ["cases", "--show", path], ["cases", "--export", path], ["law", path]):
        refused(run(*command), f"{path}: tree.parents[2]: expected a node in [0, 3), got 9")


@pytest.mark.parametrize("arguments", [["cases"], ["cases", "--schema"], ["law", "FILE", "--json"], ["law", "FILE"]])
def test_nobody_reads_to_the_end(write: Write, arguments: list[str]) -> None:
    path = write("made.json", vocab=2000)
    with subprocess.Popen(
        [sys.executable, "-m", "harness", *(path if word == "FILE" else word for word in arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0
