"""Our own top-level packages, found first: a user's project may have a ``cases`` or a ``reports`` of its own."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

__all__ = ["own_first"]

NAMES = ("distributions", "cases", "reports")


def own_first() -> None:
    """Put the folder that this package lies in first on sys.path, if another package of our names would be found."""
    root = Path(__file__).resolve().parent.parent
    for name in NAMES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None or root not in Path(spec.origin).resolve().parents:
            sys.path.insert(0, str(root))
            importlib.invalidate_caches()
            return
