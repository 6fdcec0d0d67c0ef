"""chitree: chi-square tests for tree verification, a correctness harness for speculative-decoding samplers."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checked import BiasFound, Report, VerifierBroke, check
    from .filters import SamplingParams, Semantics
    from .request import Request, Result

__all__ = [
    "BiasFound",
    "Report",
    "Request",
    "Result",
    "SamplingParams",
    "Semantics",
    "VerifierBroke",
    "__version__",
    "check",
]

__version__ = "0.1.0"

_WHERE = {
    "BiasFound": "checked",
    "Report": "checked",
    "Request": "request",
    "Result": "request",
    "SamplingParams": "filters",
    "Semantics": "filters",
    "VerifierBroke": "checked",
    "check": "checked",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first asked for: pytest loads the plugin in every project that has us installed."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_WHERE[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
