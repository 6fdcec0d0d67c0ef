"""The HTML report: verdict first, hostile names harmless, nothing fetched, and of a bearable size."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from made_results import NASTY, Elements, case, page, pictured, results, sampler

from harness.errors import Unavailable
from harness.results import Cells, MinDetectable, TreeNode, TreePicture
from reports import html, markdown

EXTERNAL = re.compile(
    r"""\bsrc\s*=|@import|\burl\(|\bsrcset|<(?:iframe|object|embed|img|base|form)\b|fetch\(|XMLHttp|WebSocket"""
)


def every_verdict() -> list:
    return [
        case("a/pass"),
        case("a/biased", "biased", diagnosis=[{"bug": "last coin twice", "log_likelihood_ratio": 12.5, "fits": True}]),
        case("a/broken", "broken", reason="verify raised ValueError"),
        case("b/skipped", "skipped", reason="ended before"),
        case("b/known", "known", reason="known finding 3"),
        case("b/fixed", "fixed", reason="no longer there"),
    ]


def test_verdict_comes_first(tmp_path: Path) -> None:
    run = results(sampler("good", case()), sampler("bad", *every_verdict()))
    text = Elements(page(run, tmp_path)).text
    body = text[text.index("BIASED") :]
    assert body.startswith("BIASED 1 of 2 samplers does not follow the exact law. suite smoke alpha 1e-06 a sampler")
    assert body.index("bad") < body.index("good"), "what asks for attention comes first"


@pytest.mark.parametrize(
    ("samplers", "says"),
    [
        ([sampler("x", case())], "PASS No deviation from the exact law was found in the sampler."),
        ([sampler("x", case()), sampler("y", case())], "was found in any of 2 samplers."),
        (
            [sampler("x", verdict="broken", reason="no compiler")],
            "BROKEN No bias found, but of 1 sampler 1 could not be",
        ),
        ([], "PASS No case ran."),
    ],
)
def test_what_a_run_found(samplers: list, says: str, tmp_path: Path) -> None:
    assert says in Elements(page(results(*samplers), tmp_path)).text


def test_every_verdict_with_its_reason_and_command(tmp_path: Path) -> None:
    text = Elements(page(results(sampler("x", *every_verdict())), tmp_path)).text
    for entry in every_verdict():
        assert entry.reproduce in text
        assert entry.reason is None or entry.reason in text
    assert "1 biased, 1 broken, 1 known, 1 fixed, 1 skipped, 1 pass" in text
    assert "last coin twice: fits the draws, log likelihood ratio 12.5" in text
    assert "after 1 2 (node 3): token 7 expected 0.1, observed 0.25, p = 1e-12" in text


def test_what_a_pass_could_have_seen(tmp_path: Path) -> None:
    text = Elements(page(results(sampler("x", case())), tmp_path)).text
    assert "8,192 draws; p = 0.4 against this case's alpha of 2e-08" in text
    assert "over whole emitted sequences ≤ 0.0512 (wrong with a probability of 1e-6)" in text
    assert "3.21% of all steps moved from one outcome to another" in text
    assert "0.028% of all steps emitting an impossible token at the root" in text
    assert "10.5% off in temperature, at every node" in text
    nothing = case(min_detectable=MinDetectable(None, None, None))
    assert "No move of mass, leak or temperature error can be stated" in page(results(sampler("x", nothing)), tmp_path)


def test_facts_of_a_sampler(tmp_path: Path) -> None:
    entry = sampler(
        "x",
        case(),
        shrink={"k": 3, "reason": "speed of its first calls"},
        not_tried=[{"kind": "gpu", "reason": "no GPU here"}],
        suite_tests=[{"test": "temperature", "p_value": 0.25, "z": 1.15}],
        versions={"sglang": "0.5.2"},
    )
    text = Elements(page(results(entry), tmp_path)).text
    for said in (
        "n / 2^3 draws a case: speed of its first calls",
        "gpu : no GPU here",
        "temperature pass 0.25 - z 1.15",
        "sglang 0.5.2",
    ):
        assert said in text


def test_a_bias_of_all_cases_together(tmp_path: Path) -> None:
    test = {"test": "temperature", "p_value": 1e-9, "alpha": 1e-8, "biased": True, "says": "too hot", "z": 6.1}
    run = results(sampler("x", case(), suite_tests=[test], verdict="biased"), verdict="biased")
    assert "temperature biased 1e-09 1e-08 too hot ; z 6.1" in Elements(page(run, tmp_path)).text
    assert "- ❌ all cases together, temperature: p = 1e-09; too hot" in markdown(run)


def test_cases_without_draws_of_one_reason_are_told_once(tmp_path: Path) -> None:
    broken = [case(f"a/{i}", "broken", reason="killed by signal 9") for i in range(5)]
    text = Elements(page(results(sampler("x", *broken)), tmp_path)).text
    assert text.count("killed by signal 9") == 1
    assert "5 cases of this group: a/0, a/1, a/2, a/3, a/4" in text


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    nasty = [
        case(f"g/{NASTY}", verdict, reason=NASTY, rule=NASTY, reproduce=NASTY, diagnosis=[{"bug": NASTY}])
        for verdict in ("pass", "biased", "broken", "known")
    ]
    nasty[0].evidence = [{"test": NASTY, NASTY: {NASTY: [NASTY]}, "decides": False}]
    entry = sampler(
        NASTY,
        *nasty,
        reason=NASTY,
        runs_on=NASTY,
        versions={NASTY: NASTY},
        shrink={"k": NASTY, "reason": NASTY},
        not_tried=[{"kind": NASTY, "reason": NASTY}],
        suite_tests=[{"test": NASTY, "p_value": None}],
    )
    text = page(results(entry, suite=NASTY, created=NASTY, chitree=NASTY), tmp_path)
    elements = Elements(text)
    tags = [tag for tag, _ in elements.tags]
    assert tags.count("script") == 1, "the report's own"
    allowed = {"class", "id", "href", "title", "data-name", "data-verdict", "data-of", "open", "hidden", "type"}
    for tag, attributes in elements.tags:
        if tag not in ("html", "meta", "link", "input", "svg", "text", "path", "circle", "rect", "g", "tspan"):
            assert set(attributes) <= allowed, (tag, attributes)
        if tag == "a" and attributes.get("href") is not None:
            assert re.fullmatch(r"#s\d+(c\d+)?", attributes["href"] or "")
    assert not set("\x00\x1b\u202e") & set(text)
    assert "\\x00\\x1b[31m\\n# http://evil.example/ \\udcff\\u202e.py:Ä" in elements.text


@pytest.mark.parametrize("fault", [False, True])
def test_nothing_is_fetched(fault: bool, tmp_path: Path) -> None:
    text = page(results(sampler("x", pictured(fault)[1], *every_verdict()[2:])), tmp_path)
    assert not EXTERNAL.search(text)
    assert not re.search(r"https?://|//\w+\.\w", text)
    links = [attributes.get("href") for tag, attributes in Elements(text).tags if "href" in attributes]
    assert all(link == "data:," or str(link).startswith("#") for link in links)
    assert "default-src 'none'" in text, "a browser is told so too"


def test_every_link_leads_to_one_place(tmp_path: Path) -> None:
    cases = [*every_verdict(), *(case(f"c/{i}", "skipped") for i in range(3))]
    tags = Elements(page(results(sampler("x", *cases), sampler("y", *cases)), tmp_path)).tags
    places = [attributes["id"] for _, attributes in tags if "id" in attributes]
    assert len(places) == len(set(places))
    links = {str(attributes["href"])[1:] for tag, attributes in tags if tag == "a" and "href" in attributes}
    assert links <= set(places)
    assert len(links) == 2 + 2 * 7, "samplers, and their cases; three skipped ones share a place"


def test_the_deviating_node_is_marked(tmp_path: Path) -> None:
    drawn, biased = pictured(True)
    text = page(results(sampler("x", biased)), tmp_path)
    (row,) = re.findall(r'<g class="m">(.*?)</g>', text)
    assert ">token 1 <tspan" in row
    assert text.count('<g class="m">') == 1
    assert "Next token after 1 (node 1)" in text
    assert text.index("Next token after 1 (node 1)") < text.index("Next token at the root")
    assert len(re.findall("token \\d+ <tspan[^>]*>node", text)) == len(drawn.nodes) - 1
    assert '<g class="m">' not in page(results(sampler("x", pictured(False)[1])), tmp_path)


def test_older_results_without_a_tree(tmp_path: Path) -> None:
    text = page(
        results(sampler("x", case("a/b", "biased", evidence=[{}], diagnosis=[{}], where=[]), shrink={})), tmp_path
    )
    assert 'class="drawings"' not in text
    assert "a/b" in text


def test_a_tree_that_makes_no_sense_is_drawn_somehow(tmp_path: Path) -> None:
    node = TreeNode(node=0, parent=5, token=0, reached=0, low=0.0, high=1.0, reach=0.0)
    cells = Cells(trials=0, possible=0, token=[1, 2], expected=[0.0], count=[3], low=[0.0], high=[0.0])
    odd = [
        TreePicture(level=0.99, redrawn=False, left_out=0, nodes=[]),
        TreePicture(level=0.99, redrawn=True, left_out=3, nodes=[node, node]),
        TreePicture(
            level=0.5,
            redrawn=False,
            left_out=0,
            nodes=[TreeNode(node=1, parent=-1, token=1, reached=9, low=0.9, high=0.1, reach=1e-300, cells=cells)],
        ),
    ]
    for i, tree in enumerate(odd):
        for verdict in ("pass", "biased"):
            text = page(results(sampler("x", case(f"a/{i}", verdict, tree=tree, n=i))), tmp_path)
            assert "nan" not in re.sub(r"<(style|script)>.*?</\1>", "", text, flags=re.S).lower()
            Elements(text)


def test_a_large_run_stays_small(tmp_path: Path) -> None:
    drawn = {fault: pictured(fault)[1] for fault in (False, True)}
    cases = [
        case(
            f"g{i // 5}/{i}",
            "biased" if i % 10 == 0 else "pass",
            n=2000,
            where=drawn[i % 10 == 0].where,
            tree=drawn[i % 10 == 0].tree,
        )
        for i in range(600)
    ]
    text = page(results(*(sampler(f"s{k}", *cases) for k in range(4))), tmp_path)
    assert len(text.encode()) < 8e6
    assert text.count('class="drawings"') == 250
    assert "Not drawn" in text
    for i in (0, 1, 599):
        assert text.count(f"g{i // 5}/{i}:") >= 4, "every case is there for each sampler"


def test_without_jinja2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(Unavailable, match=r"pip install 'chitree\[report\]'"):
        html(results(sampler("x", case())), tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()
