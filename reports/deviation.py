"""One row of ``where`` in words, and text that is safe to print."""

from __future__ import annotations

from harness.results import Where

__all__ = ["describe", "printable"]


def describe(row: Where) -> str:
    """Say what was seen after which prefix, and what the law says about it."""
    after = f"after {' '.join(map(str, row.prefix))}" if row.prefix else "at the root"
    what = f"{after} (node {row.node}): token {row.token}"
    seen = f"observed {row.observed:.4g}"
    if row.kind == "token":
        return f"{what} is impossible here, {seen}"
    if row.kind == "accepted":
        return f"{what} was accepted though no draft of the tree continues with it here, {seen}"
    if row.kind == "length":
        return f"{what} is followed by more tokens than the depth limit allows, {seen}"
    return f"{what} expected {row.expected:.4g}, {seen}, p = {row.p_value:.2g}"


def printable(text: str) -> str:
    """Return ``text`` with everything that a terminal could obey or cannot show written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)
