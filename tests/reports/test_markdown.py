"""Markdown: literal names, and never longer than a comment takes."""

from __future__ import annotations

import re

import pytest
from made_results import NASTY, case, results, sampler

from reports import markdown
from reports.markdown import LONGEST


def test_a_pass() -> None:
    text = markdown(results(sampler("mine", case("g/1"), case("g/2", n=4096, certified_tv=0.1))))
    lines = text.splitlines()
    assert lines[0] == "## ✅ PASS: no deviation from the exact law was found in the sampler"
    row = "| <code>mine</code>, cpu | ✅ pass | 2 pass | 4,096 to 8,192 | 0.1 | 3.21% | 0.028% | 10.5% |"
    assert row in lines
    assert "g/1" not in text


def test_a_bias() -> None:
    biased = case("g/1", "biased", diagnosis=[{"bug": "one coin", "fits": True}, {"bug": "two coins", "fits": False}])
    text = markdown(results(sampler("mine", case("g/2"), biased)))
    assert text.startswith("## ❌ BIASED: 1 of 1 sampler does not follow the exact law\n")
    assert "- ❌ <code>g/1</code> biased: p = 3e-12 at alpha 2e-08, n = 8,192" in text
    assert "  after 1 2 (node 3): token 7 expected 0.1, observed 0.25, p = 1e-12" in text
    assert f"  ```\n  {biased.reproduce}\n  ```\n" in text
    assert "bug one coin" in text
    assert "two coins" not in text
    assert text.count("<details>") == text.count("</details>") == 1


def test_cases_without_draws_and_notes() -> None:
    broken = [case(f"g/{i}", "broken", reason="killed by signal 9") for i in range(3)]
    entry = sampler(
        "mine",
        *broken,
        case("h/1", "skipped"),
        not_tried=[{"kind": "gpu", "reason": "no GPU"}],
        shrink={"k": 2, "reason": "slow"},
    )
    text = markdown(results(entry, sampler("absent", verdict="broken", reason="no compiler", runs_on=None)))
    assert "<code>mine</code> 3 cases broken (<code>g/0</code>, ...): killed by signal 9" in text
    assert "<code>mine</code> 1 case skipped (<code>h/1</code>): it was skipped" in text
    assert "not tried with gpu: no GPU" in text
    assert "took n / 2&#94;2 draws" in text or "took n / 2^2 draws" in text
    assert "<code>absent</code> broken: no compiler" in text


def test_hostile_names_are_literal() -> None:
    nasty = [case(f"g/{NASTY}", verdict, reason=NASTY, reproduce=f"x ``` {NASTY}") for verdict in ("biased", "broken")]
    text = markdown(
        results(sampler(NASTY, *nasty, runs_on=NASTY, reason=NASTY), suite=NASTY, created=NASTY, chitree=NASTY)
    )
    fenced = re.findall(r"^  (`{3,})\n  .*\n  \1$", text, flags=re.M)
    assert fenced == ["````", "````"], "a block that the name cannot close"
    outside = re.sub(r"^  (`{3,})\n  .*\n  \1$", "", text, flags=re.M)
    assert not re.search(r"<(?!/?(?:code|details|summary)>)|`|@|://|\[|\*|\x1b|\x00", outside)
    for line in outside.splitlines():
        if line.startswith("|"):
            assert line.count("|") == 9, line
    assert "&#60;script&#62;" in outside


@pytest.mark.parametrize("count", [0, 5, 400])
def test_never_too_long(count: int) -> None:
    biased = [case(f"g/{i}-{'x' * 200}", "biased") for i in range(count)]
    text = markdown(results(sampler("mine", *biased)))
    assert len(text) <= LONGEST < 65_536
    shown = text.count("- ❌ <code>g/")
    said = re.search(r"\.\.\. and (\d+) more cases that did not pass", text)
    assert shown + int(said[1] if said else 0) == count
    assert (said is None) == (count < 100)


def test_even_absurd_names_fit() -> None:
    run = results(*(sampler("s" * 5000, verdict="broken", reason="r" * 5000) for _ in range(300)))
    assert len(markdown(run)) <= LONGEST
    assert "250 more samplers" in markdown(run)
    assert len(markdown(run, 1000)) <= 1000
