"""Reports: results.json as a terminal table, HTML, Markdown and JUnit XML. Reads results only."""

from __future__ import annotations

from .brief import brief
from .deviation import describe, places, printable
from .html import html
from .junit import junit
from .markdown import markdown
from .terminal import headline, table
from .unfinished import unfinished_lines

__all__ = [
    "brief",
    "describe",
    "headline",
    "html",
    "junit",
    "markdown",
    "places",
    "printable",
    "table",
    "unfinished_lines",
]
