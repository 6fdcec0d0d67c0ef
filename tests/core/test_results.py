"""results.json leads back to what was written; what is no such file is a UsageError of one line."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UsageError
from harness.results import CaseResult, MinDetectable, Results, SamplerResult, Where, read, worst, write


def case(**changes: Any) -> CaseResult:
    return CaseResult(
        **{
            "case": "tree/chain",
            "group": "tree",
            "rule": "target-only",
            "n": 8192,
            "alpha": 1e-9,
            "verdict": "biased",
            "p_value": 1e-30,
            "evidence": [{"test": "cells", "p_value": 1e-30, "decides": True, "cells": [1, 2.5, None, "x"]}],
            "certified_tv": 0.01,
            "min_detectable": MinDetectable(0.01, None, 0.02),
            "seconds": 1.5,
            "where": [Where([1, 2], 3, 7, 0.1, 0.13, 1e-12, "cell")],
            "reproduce": "chitree gate --sampler 'a b' --case tree/chain",
            **changes,
        }
    )


def results(*cases: CaseResult, **changes: Any) -> Results:
    sampler = SamplerResult(
        name="mine",
        runs_on="cpu",
        versions={"numpy": "2"},
        verdict="biased",
        shrink={"k": 0, "reason": ""},
        not_tried=[{"kind": "gpu", "reason": "no GPU"}],
        cases=list(cases) or [case()],
    )
    return Results(
        **{
            "chitree": "0.1.0",
            "created": "2020-01-01T00:00:00Z",
            "seed": 3,
            "alpha": 1e-6,
            "suite": "smoke",
            "verdict": "biased",
            "samplers": [sampler],
            **changes,
        }
    )


def test_round_trip(tmp_path: Path) -> None:
    made = results(
        case(),
        case(case="other", verdict="pass", p_value=None, where=[], min_detectable=MinDetectable(None, None, None)),
    )
    path = tmp_path / "results.json"
    write(made, path)
    assert read(path) == made
    assert read(path).exit_code == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def test_fields_are_those_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write(results(), path)
    data = json.loads(path.read_text())
    assert set(data) == {"schema", "chitree", "created", "seed", "alpha", "suite", "poison", "verdict", "samplers"}
    assert data["schema"] == 1
    sampler = data["samplers"][0]
    assert {"name", "runs_on", "versions", "verdict", "not_tried", "suite_tests", "cases"} <= set(sampler)
    wanted = "case group rule n alpha verdict p_value evidence certified_tv min_detectable seconds where diagnosis"
    assert {*wanted.split(), "reason", "reproduce"} <= set(sampler["cases"][0])
    assert set(sampler["cases"][0]["min_detectable"]) == {"move", "leak", "temperature"}
    where = {"prefix", "node", "token", "expected", "observed", "p_value"}
    assert where <= set(sampler["cases"][0]["where"][0])


@pytest.mark.parametrize("unknown", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_null(tmp_path: Path, unknown: float) -> None:
    path = tmp_path / "results.json"
    broken = case(
        p_value=unknown,
        certified_tv=unknown,
        min_detectable=MinDetectable(unknown, unknown, unknown),
        evidence=[{"test": "cells", "p_value": unknown, "deep": [unknown, {"x": unknown}]}],
    )
    write(results(broken), path)
    json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f"{name} in results.json"))
    found = read(path).samplers[0].cases[0]
    assert found.p_value is None
    assert found.certified_tv is None
    assert found.min_detectable == MinDetectable(None, None, None)
    assert found.evidence == [{"test": "cells", "p_value": None, "deep": [None, {"x": None}]}]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write(results(seed=1), path)
    write(results(seed=2), path)
    assert read(path).seed == 2
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (b"", "results.json of schema 1"),
        (b"{", "results.json of schema 1"),
        (b"[]", "results.json of schema 1"),
        (b"null", "results.json of schema 1"),
        (b"\xff\xfe", "results.json of schema 1"),
        (b'{"schema": 1, "chitree": "\xff"}', "results.json of schema 1"),
        (b"<html>", "results.json of schema 1"),
        (b'{"schema": 1}', "chitree"),
        (b'{"schema": "one"}', "schema"),
    ],
)
def test_what_is_no_results_file(tmp_path: Path, text: bytes, says: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(text)
    with pytest.raises(UsageError, match=says) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def changed(tmp_path: Path, *keys: str | int, value: Any) -> Path:
    """File of results with one entry changed."""
    path = tmp_path / "results.json"
    write(results(), path)
    data = json.loads(path.read_text())
    at = data
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize(
    ("keys", "value", "says"),
    [
        (("schema",), 2, "expected schema 1, got 2"),
        (("schema",), 0, "expected schema 1, got 0"),
        (("seed",), "x", "seed"),
        (("samplers",), {}, "samplers"),
        (("samplers", 0, "name"), None, "name"),
        (("samplers", 0, "cases", 0, "n"), 1.5, "cases"),
        (("samplers", 0, "cases", 0, "where"), [{}], "where"),
        (("verdict",), "fine", "verdict"),
        (("samplers", 0, "verdict"), "fine", "verdict"),
        (("samplers", 0, "cases", 0, "verdict"), "fine", "verdict"),
    ],
)
def test_a_file_of_another_schema(tmp_path: Path, keys: tuple[str | int, ...], value: Any, says: str) -> None:
    path = changed(tmp_path, *keys, value=value)
    with pytest.raises(UsageError, match=says):
        read(path)


def test_fields_from_a_later_version_do_not_matter(tmp_path: Path) -> None:
    assert read(changed(tmp_path, "later", value=[1])) == results()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.json: cannot be read: No such file"):
        read(tmp_path / "none.json")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("verdicts", "expected"),
    [
        ([], "pass"),
        (["pass", "pass"], "pass"),
        (["pass", "broken", "pass"], "broken"),
        (["broken", "biased"], "biased"),
        (["biased", "pass"], "biased"),
        (["skipped", "known", "fixed"], "pass"),
        (["skipped", "broken"], "broken"),
    ],
)
def test_bias_beats_broken_and_broken_beats_pass(verdicts: list[str], expected: str) -> None:
    assert worst(verdicts) == expected


@pytest.mark.parametrize(("verdict", "code"), [("pass", 0), ("biased", 1), ("broken", 3)])
def test_exit_codes(verdict: str, code: int) -> None:
    assert results(verdict=verdict).exit_code == code
