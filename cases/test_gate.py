"""The gate as tests: one for each sampler and case, and one for each sampler over all its cases.

``pytest cases --chitree-sampler MODULE:ATTR --chitree-suite standard``; elsewhere ``pytest --pyargs cases``.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.plugin import case_parameters, sampler_parameters

Verdict = Callable[[str, str | None], None]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make the tests of the samplers and cases that the options name."""
    if "case" in metafunc.fixturenames:
        metafunc.parametrize("sampler, case", case_parameters(metafunc.config))
    else:
        metafunc.parametrize("sampler", sampler_parameters(metafunc.config))


def test_case(chitree_verdict: Verdict, sampler: str, case: str) -> None:
    """The sampler's draws can come from the exact law of the case."""
    chitree_verdict(sampler, case)


def test_over_all_cases(chitree_verdict: Verdict, sampler: str) -> None:
    """Draws of different rows, calls and cases are independent, and come again where they must."""
    chitree_verdict(sampler, None)
