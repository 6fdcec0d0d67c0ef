"""Drawings of one case as inline SVG: the tree with what came to each node, and next tokens with exact intervals."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.results import Cells, TreeNode, TreePicture

from .deviation import p_figure, percent

__all__ = ["cells_plot", "tree_plot"]

ROW = 24
INDENT, DEEPEST = 18, 144
LABEL = 108
LETTER = 7.2
"""Width of a letter, about."""
NUMBER = 58
PLOT = 150
LEAST_RATIO, MOST_RATIO = 1.05, 4.0
"""Ends of the axis of seen / expected."""
FEW = 30
"""Nodes that fewer draws are expected at do not widen the axis."""


def tree_plot(tree: TreePicture, n: int, marked: int | None = None, threshold: float = 0.0) -> str:
    """Return the tree as SVG, a node a row: expected and seen reach, and their ratio with its exact interval.

    Parameters
    ----------
    n : int
        Draws of the case.
    marked : int, optional
        Index of the node that deviates.
    threshold : float
        Nodes of a lesser p-value are set off too.
    """
    depths = _depths(tree.nodes)
    step = min(INDENT, DEEPEST / max(1, *depths))
    left = 12 + step * max(depths)
    tested = any(node.p_value is not None for node in tree.nodes)
    known = any(node.reach is not None for node in tree.nodes)
    expected_x = left + LABEL + NUMBER
    seen_x = expected_x + NUMBER
    plot_x = seen_x + 16
    p_x = (plot_x + PLOT if known else seen_x) + NUMBER
    width = p_x + 4 if tested else p_x - NUMBER + 10
    height = ROW * (len(tree.nodes) + 1) + 6
    parts = [_head(f"{12 + LABEL / 2:.0f}", ""), _head(expected_x, "expected"), _head(seen_x, "seen")]
    if known:
        parts += _ratio_axis(plot_x, height, _widest(tree.nodes, n))
    if tested:
        parts.append(_head(p_x, "p"))
    ratio = _widest(tree.nodes, n)
    for i, (node, depth) in enumerate(zip(tree.nodes, depths, strict=True)):
        y = ROW * (i + 1) + ROW / 2
        wrong = node.impossible > 0 or (node.p_value is not None and node.p_value <= threshold)
        kind = "m" if i == marked else "w" if wrong else "n" if node.reach == 0 and not node.reached else ""
        row = []
        if i == marked:
            row.append(f'<rect x="0" y="{y - ROW / 2:g}" width="{width:g}" height="{ROW}" rx="4" class="band"/>')
        x = 8 + step * depth
        if 0 <= node.parent < i:
            above = ROW * (node.parent + 1) + ROW / 2 + 5
            x0 = 8 + step * depths[node.parent]
            row.append(f'<path d="M{x0:g} {above:g}V{y:g}H{x - 5:g}" class="link"/>')
        row.append(f'<circle cx="{x:g}" cy="{y:g}" r="5"/>')
        label = "root" if not i else f"token {node.token}"
        node_name = "" if tree.redrawn or not i else f' <tspan class="dim">node {node.node}</tspan>'
        row.append(_text(x + 10, y, label + node_name, "l"))
        row.append(_text(expected_x, y, percent(node.reach), "dim"))
        row.append(_text(seen_x, y, percent(node.reached / n if n else None)))
        if node.reach:
            row += _ratio(node, n, y, plot_x, ratio)
        if node.impossible:
            row.append(_text(p_x, y, "impossible"))
        elif node.p_value is not None:
            row.append(_text(p_x, y, p_figure(node.p_value)))
        parts.append(f'<g class="{kind}">{"".join(row)}</g>' if kind else f"<g>{''.join(row)}</g>")
    return _svg(width, height, parts, "draft tree: expected and seen reach of each node")


def cells_plot(cells: Cells, leads: dict[int, int], *, flag: bool = False) -> str:
    """Return next tokens as SVG, one a row: expected rate, seen rate and its exact interval on one axis.

    ``leads`` names the node that a token leads to; ``flag`` sets off the tokens whose interval misses the law.
    """
    rows = list(zip(cells.token, cells.expected, cells.count, cells.low, cells.high, strict=False))
    trials = max(1, cells.trials)
    largest = max([0.0, *(max(expected, count / trials, high) for _, expected, count, _, high in rows)])
    scale = PLOT * 1.2 / (min(1.0, largest) or 1.0)
    longest = max(
        (len(f"token {token}") + (len(f" → node {leads[token]}") if token in leads else 0) for token, *_ in rows),
        default=0,
    )
    plot_x = max(LABEL, LETTER * longest) + 12
    expected_x = plot_x + PLOT * 1.2 + NUMBER + 6
    seen_x = expected_x + NUMBER
    count_x = seen_x + NUMBER
    rest = cells.possible - sum(expected > 0 for _, expected, *_ in rows)
    height = ROW * (len(rows) + 1 + (rest > 0)) + 20
    parts = [_head(expected_x, "expected"), _head(seen_x, "seen"), _head(count_x, "draws")]
    axis = height - 16
    parts.append(f'<path d="M{plot_x} {ROW - 2}V{axis}H{plot_x + PLOT * 1.2:g}" class="axis"/>')
    parts.append(_text(plot_x, height - 6, "0", "dim c"))
    parts.append(_text(plot_x + PLOT * 1.2, height - 6, percent(min(1.0, largest)), "dim c"))
    for i, (token, expected, count, low, high) in enumerate(rows):
        y = ROW * (i + 1) + ROW / 2
        wrong = flag and not low <= expected <= high
        to = f' <tspan class="dim">→ node {leads[token]}</tspan>' if token in leads else ""
        at, e = plot_x + scale * count / trials, plot_x + scale * min(1.0, expected)
        row = [
            _text(0, y, f"token {token}{to}", "l"),
            f'<path d="M{e:.1f} {y - 8:g}v16" class="law"/>',
            f'<path d="M{plot_x + scale * low:.1f} {y:g}H{plot_x + scale * min(1.0, high):.1f}" class="ci"/>',
            f'<circle cx="{at:.1f}" cy="{y:g}" r="4"/>',
            _text(expected_x, y, "impossible" if expected <= 0 else percent(expected), "dim"),
            _text(seen_x, y, percent(count / trials)),
            _text(count_x, y, f"{count:,}"),
        ]
        parts.append(f"<g{' class=w' if wrong else ''}>{''.join(row)}</g>")
    if rest > 0:
        y = ROW * (len(rows) + 1) + ROW / 2
        law, came = max(0.0, 1.0 - sum(cells.expected)), max(0, cells.trials - sum(cells.count))
        parts += [
            _text(0, y, f"{rest:,} other{'s' * (rest > 1)}", "l dim"),
            _text(expected_x, y, percent(law), "dim"),
            _text(seen_x, y, percent(came / trials), "dim"),
            _text(count_x, y, f"{came:,}", "dim"),
        ]
    return _svg(count_x + 4, height, parts, "next tokens: expected and seen rates with exact intervals")


def _depths(nodes: Sequence[TreeNode]) -> list[int]:
    depths: list[int] = []
    for i, node in enumerate(nodes):
        depths.append(depths[node.parent] + 1 if 0 <= node.parent < i else 0)
    return depths or [0]


def _widest(nodes: Sequence[TreeNode], n: int) -> float:
    """Return the end of the axis of ratios: as far as the intervals of often visited nodes go, within bounds."""
    ends = [LEAST_RATIO]
    for node in nodes:
        if node.reach and node.reach * n >= FEW:
            ends += [node.high / node.reach, node.reach / node.low if node.low > 0 else MOST_RATIO]
    return min(MOST_RATIO, max(ends))


def _ratio_axis(x: float, height: float, widest: float) -> Iterator[str]:
    middle = x + PLOT / 2
    yield f'<path d="M{middle:g} {ROW - 2}V{height - 4:g}" class="one"/>'
    for at, ratio, where in ((x, 1 / widest, "l"), (middle, 1.0, "c"), (x + PLOT, widest, "")):
        yield _text(at, ROW / 2, f"{ratio:.3g}×", f"dim {where}".strip())


def _ratio(node: TreeNode, n: int, y: float, x: float, widest: float) -> Iterator[str]:
    """Yield seen / expected of a node with its interval, on a logarithmic axis; an arrow where it leaves the axis."""
    reach = node.reach or 1.0

    def place(rate: float) -> float:
        ratio = math.log(rate / reach) / math.log(widest) if rate > 0 else -math.inf
        return x + PLOT / 2 * (1 + max(-1.0, min(1.0, ratio)))

    low, at, high = map(place, (node.low, node.reached / n if n else 0.0, node.high))
    yield f'<path d="M{low:.1f} {y:g}H{high:.1f}" class="ci"/>'
    if at <= x:
        yield f'<path d="M{x - 6:g} {y:g}l8 -5v10z" class="far"/>'
    elif at >= x + PLOT:
        yield f'<path d="M{x + PLOT + 6:g} {y:g}l-8 -5v10z" class="far"/>'
    else:
        yield f'<circle cx="{at:.1f}" cy="{y:g}" r="4"/>'


def _head(x: float | str, text: str) -> str:
    return _text(float(x), ROW / 2, text, "dim") if text else ""


def _text(x: float, y: float, text: str, kind: str = "") -> str:
    """Return a text, right-aligned unless ``kind`` holds l (left) or c (centre); ``text`` is markup of our own."""
    of_kind = f' class="{kind}"' if kind else ""
    return f'<text x="{x:g}" y="{y + 4:g}"{of_kind}>{text}</text>'


def _svg(width: float, height: float, parts: Sequence[str], title: str) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return f'<svg {size} role="img" aria-label="{title}">{"".join(parts)}</svg>'
