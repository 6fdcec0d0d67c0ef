"""chitree: chi-square tests for tree verification, a correctness harness for speculative-decoding samplers."""

from __future__ import annotations

from .request import Request, Result

__all__ = ["Request", "Result", "__version__"]

__version__ = "0.1.0"
