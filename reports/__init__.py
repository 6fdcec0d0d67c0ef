"""Reports: results.json as a terminal table, HTML, Markdown and JUnit XML. Reads results only."""

from __future__ import annotations

from .brief import brief
from .deviation import describe, printable
from .html import html
from .junit import junit
from .markdown import markdown
from .terminal import headline, table

__all__ = ["brief", "describe", "headline", "html", "junit", "markdown", "printable", "table"]
