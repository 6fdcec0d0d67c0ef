"""chitree: chi-square tests for tree verification, a correctness harness for speculative-decoding samplers."""

from __future__ import annotations

from .filters import SamplingParams, Semantics
from .request import Request, Result

__all__ = ["Request", "Result", "SamplingParams", "Semantics", "__version__"]

__version__ = "0.1.0"
