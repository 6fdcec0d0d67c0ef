"""The examples of docs/plugins.md do what the page says."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import pytest

from cases.catalogue import suite
from harness.gate import GateOptions, gate
from harness.samplers.base import Claims

DOCS = Path(__file__).resolve().parents[2] / "docs"
EXAMPLE = DOCS / "examples" / "my_verifier.py"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)


def verify_of(source: str) -> str:
    """Return the body of the only method ``verify``, without its docstring."""
    (found,) = [node for node in ast.walk(ast.parse(source)) if getattr(node, "name", "") == "verify"]
    body = found.body[1:] if ast.get_docstring(found) else found.body
    return "\n".join(map(ast.unparse, body))


def test_the_page_shows_the_example() -> None:
    first = blocks("plugins.md")[0]
    assert verify_of(first) == verify_of(EXAMPLE.read_text())
    assert len(verify_of(first).splitlines()) < 20


def test_the_example_passes() -> None:
    cases = ("sampler-match/tiny-1*", "sampler-match/small-0/*", "sampler-match/one-outcome/*")
    options = GateOptions((f"{EXAMPLE}:MyVerifier",), cases=cases, workers=1, shrink=2)
    results = gate(suite("smoke"), options)
    assert results.exit_code == 0
    assert {case.verdict for case in results.samplers[0].cases} == {"pass"}


def test_the_example_fails_where_it_is_spoilt(tmp_path: Path) -> None:
    """The gate is no rubber stamp: the same file with one noise for all nodes of a row is biased."""
    spoilt = tmp_path / "spoilt.py"
    text = EXAMPLE.read_text()
    changed = text.replace("rng.random(len(live))[:, None]", "noise[live][:, None]")
    changed = changed.replace("        node, live", "        noise = rng.random(B)\n        node, live")
    assert changed.count("noise") == text.count("noise") + 2
    spoilt.write_text(changed)
    options = GateOptions((f"{spoilt}:MyVerifier",), cases=("sampler-match/small-0/*",), workers=1, shrink=2)
    assert gate(suite("smoke"), options).exit_code == 1


@pytest.mark.parametrize("page", ["plugins.md", "ci.md"])
def test_python_on_the_pages_can_be_parsed(page: str) -> None:
    assert blocks(page)
    for block in blocks(page):
        ast.parse(block)


def test_every_attribute_has_the_documented_default() -> None:
    class Bare:
        def verify(self, request: Any) -> Any:
            raise NotImplementedError

    page = (DOCS / "plugins.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)` \| (`[^`]+`|float32) \|", page, re.MULTILINE))
    claims = Claims.of(Bare())
    assert claims.rules == ("none",)
    assert rows.pop("rule") == "`None`"
    assert rows.pop("semantics") == '`"sequential"`'
    assert rows.pop("drafts") == "`False`"
    assert rows.pop("dtype") == claims.dtype
    for name, default in rows.items():
        assert ast.literal_eval(default.strip("`")) == getattr(claims, name), name
    assert set(rows) == {"coins", "takes", "thresholds", "greedy"}
