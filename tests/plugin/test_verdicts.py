"""How verdicts become outcomes of tests, and how bad input and interrupted sessions end."""

from __future__ import annotations

import re

import pytest

from cases.catalogue import suite
from harness.plugin import report
from harness.session import Outcome

from .project import DRAWS, FEW, GROUP, Project


def test_broken_skipped_and_samplers_that_do_not_run(project: Project) -> None:
    groups = [entry for entry in suite("smoke").groups if entry.rule == "target-only" and entry.vocab <= 16]
    strict, lossy = (
        next(entry for entry in groups if (entry.thresholds < (1.0, 1.0)) == want) for want in (False, True)
    )
    names = [f"more:{name}" for name in ("Raises", "Lossless", "MadeOnce", "Unmakeable")]
    run = project.pytest(
        *("--pyargs", "cases", *(word for name in names for word in ("--chitree-sampler", name))),
        *("--chitree-case", f"{strict.name}/*", "--chitree-case", f"{lossy.name}/*", "--chitree-shrink", "9"),
        *("--chitree-workers", "1"),
    )

    def found(sampler: str, case: str) -> str:
        outcome, message = run.tests[f"test_case[more:{sampler}-{case}]"]
        return f"{outcome}: {' '.join(message.split())}"

    for case in (*strict.names, *lossy.names):
        assert re.match(
            rf"failure: .*{case}: broken: call 0 of group \S+: verify raised ValueError: no such kernel",
            found("Raises", case),
        )
    for case in lossy.names:
        assert "skipped: the sampler takes no thresholds below 1" in found("Lossless", case)
    first, *others = (name for entry in groups for name in entry.names if entry in (strict, lossy))
    assert "more:MadeOnce: broken: constructor raised RuntimeError: the device is gone" in found("MadeOnce", first)
    assert found("MadeOnce", first).startswith("failure")
    assert all(found("MadeOnce", other).startswith("skipped") for other in others)
    assert found("Unmakeable", "").startswith("failure: Failed: more:Unmakeable: broken: constructor raised")
    assert run.tests["test_over_all_cases[more:MadeOnce]"][0] == "skipped"
    assert "BROKEN: " in run.out.partition("= chitree =")[2]
    assert project.left == []


@pytest.mark.parametrize(
    ("verdict", "raised", "strict_raised"),
    [
        ("pass", None, None),
        ("fixed", None, None),
        ("known", None, "Failed"),
        ("skipped", "Skipped", "Skipped"),
        ("biased", "Failed", "Failed"),
        ("broken", "Failed", "Failed"),
    ],
)
def test_outcomes(verdict: str, raised: str | None, strict_raised: str | None) -> None:
    for strict, expected in ((False, raised), (True, strict_raised)):
        outcome = Outcome("mine", "case", verdict, "why\nmore")
        if expected is None:
            report(outcome, strict=strict)
        else:
            with pytest.raises((pytest.fail.Exception, pytest.skip.Exception), match=r"^why") as raised:
                report(outcome, strict=strict)
            assert raised.typename == expected


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--chitree-sampler", "mine:Nobody", "-n", "2"), "mine has no attribute 'Nobody'"),
        (("--chitree-case", "nothing/*"), "matches no case of suite smoke"),
        pytest.param(("--chitree-sampler", "nobody"), "no such sampler: 'nobody'", marks=pytest.mark.slow),
        pytest.param(("--chitree-sampler", "more:Unclear"), "best-effort", marks=pytest.mark.slow),
        pytest.param(("--chitree-suite", "all", "-n", "2"), "no such suite: 'all'", marks=pytest.mark.slow),
        pytest.param(("--chitree-alpha", "2"), "must lie strictly between 0 and 1", marks=pytest.mark.slow),
    ],
)
def test_bad_input_is_one_line(project: Project, arguments: tuple[str, ...], words: str) -> None:
    done = project.python("-m", "pytest", "--pyargs", "cases", *arguments)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    (line,) = done.stderr.strip().splitlines()
    assert line.startswith("ERROR: chitree: ")
    assert words in line
    assert "Traceback" not in done.stdout
    assert project.left == []


def test_first_failure_ends_the_run(project: Project) -> None:
    """With -x, the run does not go on behind the session: the whole of it would take minutes."""
    run = project.pytest(
        *("--pyargs", "cases", "--chitree-sampler", "mine:LastFromWhole", "--chitree-case", "target-only/*"),
        *("--chitree-shrink", "0", "--chitree-workers", "1", "-x", "-q"),
    )
    assert run.outcomes.count("failure") == 1
    assert re.search(r"\nended before its time: \d+ of \d+ cases judged\n", run.out)
    assert project.left == []


@pytest.mark.slow
def test_figures_are_in_junit(project: Project) -> None:
    project.python("-m", "pytest", "--pyargs", "cases", "--chitree-sampler", "mine:Right", *FEW, "--junit-xml", "j.xml")
    text = (project.folder / "j.xml").read_text()
    assert 'name="verdict" value="pass"' in text
    assert f'name="n" value="{DRAWS}"' in text
    assert f'name="group" value="{GROUP}"' in text
