"""One row of ``where`` in words, and text that is safe to print."""

from __future__ import annotations

from harness.results import CaseResult, Where

__all__ = ["describe", "figure", "p_figure", "p_said", "percent", "places", "printable", "top"]


COINS = 1 << 24
MEASURED = {"accepted-draft": "is accepted", "last": "comes last", "next": "comes"}
"""What is measured of a token, without noise, by the kind of row."""


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
    if row.kind in MEASURED:
        apart = (row.observed - row.expected) * COINS
        how = f"{MEASURED[row.kind]} with probability {row.observed:.9g}, by the law {row.expected:.9g}"
        return f"{what} {how}: {abs(apart):.3g} coins of 2^24 too {'many' if apart > 0 else 'few'}"
    return f"{what} expected {row.expected:.4g}, {seen}, {p_said(row.p_value)}"


def places(case: CaseResult) -> list[Where]:
    """Return the places to show of a case: of one that did not pass those that deviate by themselves, at its alpha."""
    return [row for row in case.where if case.verdict == "pass" or row.p_value <= case.alpha]


def top(case: CaseResult) -> str:
    """Say in a line what weighs most of what was found of a case: what decided, and the first of its places."""
    first = [describe(row) for row in places(case)[:1]]
    return "; ".join(
        [case.reason, *first] if case.reason and case.verdict == "biased" else first or [case.reason or ""]
    )


def printable(text: str) -> str:
    """Return ``text`` with everything that a terminal could obey or cannot show written as an escape."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode() for c in text)


def figure(value: object, digits: int = 2) -> str:
    """Return a number in few digits; "-" for what is unknown or no number."""
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value:.{digits}g}" if known else "-"


def p_figure(value: object, digits: int = 2) -> str:
    """Return a p-value in few digits; what is too small for a float says so."""
    return "< 1e-300" if value == 0 and not isinstance(value, bool) else figure(value, digits)


def p_said(value: object) -> str:
    """Return "p = ..." or "p < ..."."""
    return f"p {p_figure(value)}" if value == 0 else f"p = {p_figure(value)}"


def percent(value: float | None) -> str:
    """Return a probability in per cent, three digits; "-" for what is unknown."""
    return "-" if value is None else f"{100.0 * value:.3g}%"
