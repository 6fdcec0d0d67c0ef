"""Reports: results.json as a terminal table and as JUnit XML. Reads results only."""

from __future__ import annotations

from .deviation import describe, printable
from .junit import junit
from .terminal import headline, table

__all__ = ["describe", "headline", "junit", "printable", "table"]
