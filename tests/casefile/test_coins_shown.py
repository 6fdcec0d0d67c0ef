"""Of a coin case its coins are shown, and what is right there."""

from __future__ import annotations

import pytest

from cases.catalogue import suite
from harness import cli


@pytest.mark.parametrize("which", ["law", "right", "outside"])
def test_coins_are_shown(which: str, capsys: pytest.CaptureFixture[str]) -> None:
    members = [member for entry in suite("smoke").coins for member in entry.members]
    wanted = {
        "law": lambda member: member.right is None and any(member.coins),
        "right": lambda member: member.right is not None,
        "outside": lambda member: member.outside is not None,
    }[which]
    member = next(filter(wanted, members))
    assert cli.run(["cases", "--show", member.name, "--suite", "smoke"]) == 0
    out = capsys.readouterr().out
    assert "one step with fixed coins: of node 0: " in out
    if which == "law":
        assert "right is what the law allows" in out
        assert "1 - 1 * 2^-24" in out
    elif which == "right":
        assert f"right is a step whose first token is {member.right[0]}" in out
    else:
        assert f"verifiers need not take it: {member.outside}" in out


def test_random_coins_are_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    name = suite("smoke").groups[0].names[0]
    assert cli.run(["cases", "--show", name, "--suite", "smoke"]) == 0
    assert "fixed coins" not in capsys.readouterr().out
