"""What verifiers return, raise and do to their process, seen from the command line."""

from __future__ import annotations

import time

import pytest

from .conftest import GROUPS, Gate, Run
from .plugins import HARM

PASSES = {
    *("GoesElsewhere", "ClearsTheEnvironment", "SetsFloatingErrors", "RaisesInAThread", "RaisesWhenItGoes"),
    *("ForksAndBothGoOn", "ClosesItsOutput", "ReturnsAWideView", "FloodsFromAThread", "EndsAtTheExit"),
    *("EmptiesItsRequest", "ClosesAndRaises"),
}
"""Harm that is none to us."""
BREAKS = {
    "ReadsAddressZero": "the worker was killed by SIGSEGV",
    "SetsAnAlarm": "the worker was killed by SIGALRM",
    "KillsItsGroup": "the worker was killed by SIGKILL",
    "LastWordsInColour": "the worker was killed by SIGABRT; it last said: ?[31m? \ufffd\ufffd the end",
    "ExitsInAThread": "the worker exited with code 0 without a reply",
    "StopsItself": "did not return within",
    "HangsWhenItIsCopied": "did not return within",
    "LeavesItsGroupAndHangs": "did not return within",
}
QUICK = {"ForksAndBothGoOn", "LastWordsInColour", "LeavesItsGroupAndHangs"}


def check_reasons(run: Run) -> None:
    """Hold what is said of broken groups against what may be said: a line about the sampler."""
    for group, found in run.found.items():
        for verdict, reason in found:
            assert verdict in ("pass", "biased", "broken", "skipped")
            if verdict == "broken":
                assert reason is not None
                assert f"of group {group}" in reason
                assert reason.isprintable(), reason
                assert len(reason) < 1000
                assert "Traceback" not in reason or "it last said" in reason


@pytest.mark.slow
def test_what_is_returned_through_a_worker(gate: Gate) -> None:
    """Hundreds of groups in one process, which none of them ends."""
    run = gate("Fuzzed")
    check_reasons(run)
    assert len(run.found) == GROUPS
    verdicts = [verdict for found in run.found.values() for verdict in {verdict for verdict, _ in found}]
    assert verdicts.count("broken") > GROUPS / 2
    assert "skipped" not in verdicts
    assert run.code == (1 if "biased" in verdicts else 3)


@pytest.mark.parametrize(
    "attribute", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in HARM]
)
def test_harm(gate: Gate, attribute: str) -> None:
    started = time.monotonic()
    run = gate(attribute, "--case", "g0/*", "--case", "g1/*")
    assert time.monotonic() - started < 60.0, "no call may take longer than its limit, and none is tried again"
    check_reasons(run)
    (first,) = {verdict for verdict, _ in run.found["g0"]} if attribute != "GoesOnForEver" else {"biased"}
    if attribute in PASSES:
        assert first == "pass"
        assert run.code == 0
    elif attribute in BREAKS:
        ((verdict, reason),) = run.found["g0"]
        assert verdict == "broken"
        assert reason is not None
        assert BREAKS[attribute] in reason
        assert run.code == 3
    elif attribute == "GoesOnForEver":
        assert run.code == 1
    else:
        assert run.code in (0, 1, 3)
