"""JUnit XML of a run, for CI systems that show tests: one suite a sampler, one test a case."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from harness.results import CaseResult, Results, SamplerResult

from .deviation import describe

__all__ = ["junit"]

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(results: Results, path: Path) -> None:
    """Write ``results`` to ``path``: biased is a failure, broken an error, skipped is skipped."""
    root = ET.Element("testsuites", name="chitree")
    for sampler in results.samplers:
        root.append(_suite(sampler))
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


def _message(case: CaseResult) -> str:
    if case.verdict != "biased":
        return case.reason or case.verdict
    p_value = "unknown" if case.p_value is None else f"{case.p_value:.3g}"
    message = f"p = {p_value} at alpha {case.alpha:.3g}, n = {case.n}"
    return f"{message}; {describe(case.where[0])}" if case.where else message


def _detail(case: CaseResult) -> str:
    return "\n".join([*map(describe, case.where), case.reproduce])


def _clean(text: str) -> str:
    """Replace the characters that XML 1.0 cannot hold."""
    return _NO_XML.sub("�", text)
