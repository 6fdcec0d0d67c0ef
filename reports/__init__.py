"""Reports: results.json as a terminal table and as JUnit XML. Reads results only."""

from __future__ import annotations

from .junit import junit
from .terminal import table

__all__ = ["junit", "table"]
