"""What could not have been seen is said as such: never as a figure, never as "does not apply"."""

from __future__ import annotations

import io
import re
from pathlib import Path

from made_results import Elements, case, page, results, sampler
from rich.console import Console

from harness.results import Cells, MinDetectable, Results, read, write
from reports import brief, markdown, table
from reports.plots import cells_plot

SEES = MinDetectable(0.03, None, 0.1)
BLIND = MinDetectable(None, 0.0004, None, ["move", "temperature"])
WIDE = MinDetectable(0.04, None, 10.9)


def run() -> Results:
    cases = [case(f"g/{i}", min_detectable=least) for i, least in enumerate((SEES, BLIND, BLIND, WIDE))]
    return results(sampler("x", *cases))


def shown(run: Results) -> str:
    stream = io.StringIO()
    table(run, Console(file=stream, width=120, highlight=False, markup=False, emoji=False))
    return stream.getvalue()


def test_terminal() -> None:
    text = shown(run())
    lines = {line.split()[0]: line.split() for line in text.splitlines() if line.startswith("  g/")}
    assert lines["g/0"][-3:] == ["0.03", "-", "0.1"]
    assert lines["g/1"][-3:] == ["unseen", "0.0004", "unseen"]
    said = "move 0.04 (2 cases see none), leak 0.0004, no temperature error in 2 cases; certified TV <= 0.051"
    assert f"at worst over 4 cases: seen with 90% power: {said}" in " ".join(text.split())
    assert "unseen: of no size seen at this n" in " ".join(text.split())


def test_nothing_seen_at_all() -> None:
    blind = results(sampler("x", case(min_detectable=MinDetectable(None, None, None, ["move"]))))
    assert "at worst over 1 case: seen with 90% power: no move; certified" in shown(blind)
    assert "  no bias could have been seen" in brief(blind)


def test_brief_does_not_speak_of_every_case() -> None:
    lines = brief(run())
    assert "  seen with 90% power, at worst: move 0.04, leak 0.0004, temperature 11" in lines
    assert "  not seen, however large: no move in 2, no temperature in 2 of 4 cases" in lines
    assert not any("not seen" in line for line in brief(results(sampler("x", case()))))


def test_markdown_and_html(tmp_path: Path) -> None:
    text = markdown(run())
    assert "| 4%, unseen in 2 | 0.04% | × 11.9, unseen in 2 |" in text
    found = Elements(page(run(), tmp_path)).text
    assert found.count("unseen in 2") == 2
    assert "No move of mass and no error of the temperature is seen at this number of draws" in found
    assert "e+0" not in found


def test_only_coin_cases_have_no_alpha() -> None:
    text = " ".join(shown(results(sampler("x", case("coins/a", n=1, alpha=0.0, p_value=1.0)))).split())
    assert "alpha 0" not in text.replace("alpha 1e-06", "")
    assert "nothing of alpha is spent" in text
    mixed = shown(results(sampler("x", case("coins/a", n=1, alpha=0.0, p_value=1.0), case("g/one"))))
    assert "p against alpha 2e-08" in mixed


def test_the_file_has_the_list_only_where_there_is_one(tmp_path: Path) -> None:
    write(run(), tmp_path / "results.json")
    text = (tmp_path / "results.json").read_text()
    assert text.count('"unseen"') == 2
    assert '"min_detectable":{"move":0.03,"leak":null,"temperature":0.1}' in text
    assert read(tmp_path / "results.json") == run()


def test_long_labels_of_a_plot_push_the_bars_aside() -> None:
    def plot_x(token: int, node: int) -> float:
        cells = Cells(trials=9, possible=2, token=[token], expected=[0.5], count=[4], low=[0.1], high=[0.8])
        svg = cells_plot(cells, {token: node})
        label = f"token {token} → node {node}"
        found = re.search(r'<path d="M([\d.]+) [\d.]+V', svg)
        assert found is not None
        assert float(found[1]) >= 7 * len(label)
        return float(found[1])

    assert plot_x(151_935, 63) > plot_x(7, 1)
