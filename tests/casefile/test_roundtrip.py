"""What is written comes back bit for bit, and a file says what a case has."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings

from cases.catalogue import suite
from harness.case import Case
from harness.casefile import dump, load, parse, schema
from harness.filters import softmax
from harness.rules import RULES
from harness.tree import Tree

from .build import DRAWN, THREE, case_of, changed, drawn_cases, text

many = settings(max_examples=120, deadline=None)


def bits(table: np.ndarray | None) -> object:
    return None if table is None else (table.dtype, table.shape, table.tobytes())


def assert_same(one: Case, other: Case) -> None:
    for field in ("name", "rule", "params", "depth_limit", "nodes", "threshold_single", "threshold_acc", "replacement"):
        assert getattr(one, field) == getattr(other, field), field
    for field in ("logits", "probs", "draft", "target_probs"):
        assert bits(getattr(one, field)) == bits(getattr(other, field)), field
    assert one.tree.tokens.tolist() == other.tree.tokens.tolist()
    assert one.tree.parents.tolist() == other.tree.parents.tolist()
    assert one.tree.children == other.tree.children


@many
@given(drawn_cases())
def test_any_case_comes_back(case: Case) -> None:
    data = dump(case)
    back = parse(data, "x.json")
    assert_same(back, case)
    assert dump(back) == data
    assert json.loads(data)["name"] == case.name


@pytest.mark.parametrize("rule", sorted(RULES))
def test_every_rule_comes_back(rule: str) -> None:
    assert_same(parse(dump(case_of(rule)), "x.json"), case_of(rule))


@pytest.mark.parametrize("rule", sorted({entry.rule for entry in suite("smoke").groups}))
def test_cases_of_the_catalogue_come_back(rule: str) -> None:
    entry = next(entry for entry in suite("smoke").groups if entry.rule == rule)
    for case in entry.group.cases:
        assert_same(parse(dump(case), "x.json"), case)


def test_every_float32_comes_back() -> None:
    rng = np.random.default_rng(1)
    patterns = rng.integers(0, 1 << 32, (64, 512), dtype=np.uint64).astype(np.uint32).view(np.float32)
    logits = np.where(np.isfinite(patterns), patterns, np.float32(-np.inf))
    logits[:, :5] = [0.0, -0.0, np.finfo(np.float32).max, np.finfo(np.float32).tiny, 2.0**-149]
    case = Case("bits", "target-only", Tree(np.arange(64), np.arange(-1, 63)), logits)
    assert bits(parse(dump(case), "x").logits) == bits(logits)


def test_what_is_written_is_short() -> None:
    case = Case("short", "plain", Tree([0], [-1]), np.array([[0.1, -2.5, -np.inf]], np.float32))
    assert b'[0.1,-2.5,"-inf"]' in dump(case)


def test_a_vocabulary_of_a_large_model() -> None:
    logits = np.random.default_rng(2).normal(size=(4, 151_936)).astype(np.float32)
    case = Case("large", "target-only", Tree([5, 151_935, 0, 7], [-1, 0, 0, 1]), logits)
    assert_same(parse(dump(case), "x"), case)


def test_the_least_that_a_file_says() -> None:
    case = parse(text(THREE), "x")
    assert (case.name, case.rule, case.vocab, case.nodes, case.depth_limit) == ("three", "target-only", 4, 3, 2)
    assert case.threshold_single == case.threshold_acc == case.params.temperature == case.params.top_p == 1.0
    assert case.logits.tolist() == [[0.5, -np.inf, 1, 2], [0, 0, -np.inf, 0.25], [1, 2, 3, 4]]
    assert case.tree.children == ((1, 2), (), ())
    assert case.probs is case.draft is None


def test_null_is_as_good_as_left_out() -> None:
    fields = {**THREE, "probs": None, "draft": None, "depth_limit": None, "nodes": None}
    assert_same(parse(text(fields), "x"), parse(text(THREE), "x"))


def test_probabilities_and_drafts() -> None:
    case = parse(text(DRAWN), "x")
    assert case.probs is not None
    assert case.probs.tolist() == DRAWN["probs"]
    assert case.draft is not None
    assert case.draft.tolist() == DRAWN["draft"]
    np.testing.assert_allclose(softmax(case.logits), case.probs, atol=1e-7)
    assert case.replacement
    without = {**DRAWN, "rule": "rejection-no-replacement"}
    assert not parse(text(changed(without, "draft.1", [0.5, 0.5, 0])), "x").replacement


def test_sibling_order() -> None:
    case = parse(text(changed(THREE, "tree.children", [[2, 1], [], []])), "x")
    assert case.tree.children[0] == (2, 1)
    assert b'"children":[[2,1],[],[]]' in dump(case)


def test_a_byte_order_mark_is_no_matter(tmp_path: object) -> None:
    assert_same(parse(b"\xef\xbb\xbf" + text(THREE), "x"), parse(text(THREE), "x"))


def test_load_reads_a_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("files") / "three.json"
    path.write_bytes(text(THREE))
    assert_same(load(path), parse(text(THREE), "x"))
    assert_same(load(str(path)), parse(text(THREE), "x"))


def test_schema_has_every_field() -> None:
    whole = schema()
    fields = whole["$defs"]["CaseFile"]
    assert fields["additionalProperties"] is False
    assert set(fields["required"]) == {"name", "rule", "tree"}
    written = json.loads(dump(case_of("rejection"))) | json.loads(dump(case_of("target-only")))
    assert set(written) <= set(fields["properties"])
    assert fields["properties"]["rule"]["enum"] == list(RULES)
    assert whole["$defs"]["TreeFields"]["additionalProperties"] is False
    assert whole["$defs"]["ParamsFields"]["additionalProperties"] is False
