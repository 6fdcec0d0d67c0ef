"""JUnit XML of a run, for CI systems that show tests: one suite a sampler, one test a case."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.results import CaseResult, Results, SamplerResult

from .deviation import describe, places, top
from .unfinished import go_on, progress

__all__ = ["junit"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results, path: Path) -> None:
    """Write ``results`` to ``path``: biased is a failure, broken an error, skipped is skipped."""
    root = ET.Element("testsuites", name="chitree")
    for sampler in results.samplers:
        root.append(_suite(sampler))
    if progress(results):
        root.append(_unfinished(results))
    ET.indent(root)
    ET.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)


def _suite(sampler: SamplerResult) -> ET.Element:
    verdicts = [case.verdict for case in sampler.cases]
    failed = sum(bool(test.get("biased")) for test in sampler.suite_tests)
    suite = ET.Element(
        "testsuite",
        name=_clean(sampler.name),
        tests=str(max(len(verdicts) + len(sampler.suite_tests), 1)),
        failures=str(verdicts.count("biased") + failed),
        errors=str(verdicts.count("broken") if verdicts else int(sampler.verdict == "broken")),
        skipped=str(verdicts.count("skipped")),
    )
    for case in sampler.cases:
        test = ET.SubElement(
            suite, "testcase", classname=_clean(sampler.name), name=_clean(case.case), time=f"{case.seconds:.3f}"
        )
        kind = {"biased": "failure", "broken": "error", "skipped": "skipped"}.get(case.verdict)
        if kind:
            entry = ET.SubElement(test, kind, message=_clean(_message(case)))
            entry.text = _clean(_detail(case))
    for over_all in sampler.suite_tests:
        name = f"all cases: {over_all['test']}"
        test = ET.SubElement(suite, "testcase", classname=_clean(sampler.name), name=_clean(name))
        if over_all.get("biased"):
            ET.SubElement(test, "failure", message=_clean(f"p = {over_all['p_value']}; {over_all.get('says', '')}"))
    if not sampler.cases and sampler.verdict == "broken":
        test = ET.SubElement(suite, "testcase", classname=_clean(sampler.name), name="sampler")
        ET.SubElement(test, "error", message=_clean(sampler.reason or "could not run"))
    return suite


def _unfinished(results: Results) -> ET.Element:
    """Return a suite with one test, an error: the run has not come to its end."""
    suite = ET.Element("testsuite", name="chitree", tests="1", failures="0", errors="1", skipped="0")
    test = ET.SubElement(suite, "testcase", classname="chitree", name="the run came to its end")
    ET.SubElement(test, "error", message=f"unfinished: {progress(results)}").text = go_on(results)
    return suite


def _message(case: CaseResult) -> str:
    if case.verdict != "biased":
        return case.reason or case.verdict
    p_value = "unknown" if case.p_value is None else f"{case.p_value:.3g}"
    message = f"p = {p_value} at alpha {case.alpha:.3g}, n = {case.n}"
    return f"{message}; {top(case)}" if top(case) else message


def _detail(case: CaseResult) -> str:
    return "\n".join([*map(describe, places(case)), case.reproduce])


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("�", text)
