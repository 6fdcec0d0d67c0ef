"""A case drawn in a terminal: its draft tree with the law at each node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from rich.console import Group, RenderableType
from rich.text import Text
from rich.tree import Tree as Branch

from .case import Case
from .decode.sequences import SequenceCase
from .law import Law

__all__ = ["drawn", "figure", "heading", "lengths", "next_tokens"]

Floats = NDArray[np.float64]

MOST_DRAWN = 256
MOST_STATES = 16
TOP = 4
"""Tokens of a law that are spelt out."""


def drawn(case: Case, law: Law) -> RenderableType:
    """Return the tree of ``case`` with the exact law at each node; where drafts are redrawn, the laws of the states."""
    parts: list[RenderableType] = [*heading(case), lengths(law)]
    if case.draft is None:
        parts.append(_tree(case, law))
    else:
        parts += [_shape(case), *_states(case)]
    return Group(*parts)


def heading(case: Case | SequenceCase) -> Iterator[Text]:
    """Yield the lines that say what a case is."""
    yield Text.assemble((case.name, "bold"), f"  rule {case.rule}")
    if isinstance(case, SequenceCase):
        yield Text(f"V = {case.vocab}, N = {case.nodes}, S = {case.depth_limit}: a step of many")
        ended = "" if case.eos is None else f", ended by token {case.eos}"
        yield Text(f"prompt {' '.join(map(str, case.prompt))}; up to {case.new_tokens} tokens more{ended}")
        yield _params(case)
        return
    padding = case.nodes - len(case.tree)
    size = f"{len(case.tree)} nodes" + (f" and {padding} of padding" if padding else "")
    yield Text(f"V = {case.vocab}, N = {case.nodes} ({size}), S = {case.depth_limit}")
    text = _params(case)
    if min(case.threshold_single, case.threshold_acc) < 1:
        text.append(
            f"; threshold_single {case.threshold_single:g}, threshold_acc {case.threshold_acc:g}: lossy by design"
        )
    yield text


def _params(case: Case | SequenceCase) -> Text:
    """Return the sampling parameters of a case in a line."""
    params = case.params
    greedy = " (argmax)" if params.greedy else ""
    text = f"temperature {params.temperature:g}{greedy}"
    text += f", top-k {params.top_k}" if 0 < params.top_k < case.vocab else ""
    text += f", top-p {params.top_p:g}" if params.top_p < 1 else ""
    text += f", min-p {params.min_p:g}" if params.min_p > 0 else ""
    return Text(text)


def lengths(law: Law) -> Text:
    """Return the law of the number of emitted tokens in a line."""
    shown = [f"{k}: {figure(p)}" for k, p in enumerate(law.lengths) if p > 0]
    mean = float(np.arange(len(law.lengths)) @ law.lengths)
    return Text(f"tokens emitted: {', '.join(shown)}; mean {mean:.4g}")


def next_tokens(row: Floats) -> str:
    """Return the likeliest tokens of a law [V], how many others are possible with what mass, and its entropy."""
    support = int((row > 0).sum())
    count = min(TOP if support > TOP + 1 else support, len(row))
    top = np.argsort(-row, kind="stable")[:count]
    text = ", ".join(f"{token}: {figure(row[token])}" for token in top)
    if support > count:
        text += f", {support - count} others: {figure(1.0 - row[top].sum())}"
    positive = row[row > 0]
    return f"{text}  ({max(0.0, float(-(positive * np.log2(positive)).sum())):.3g} bits)"


def figure(p: float) -> str:
    """Return a probability in four digits."""
    return f"{p:.4g}"


def _tree(case: Case, law: Law) -> Branch:
    """Return the tree with the law of what follows each node, reached or not."""
    prefix_of = {int(node): m for m, node in enumerate(law.node)}
    targets = case.law_rows
    root = Branch(_node(case, law, prefix_of, targets, 0), guide_style="dim")
    branches = {0: root}
    stack = list(case.tree.children[0][::-1])
    while stack:
        node = stack.pop()
        above = branches[int(case.tree.parents[node])]
        if len(branches) == MOST_DRAWN:
            above.add(Text(f"... {len(case.tree) - MOST_DRAWN} more nodes", "dim"))
            break
        branches[node] = above.add(_node(case, law, prefix_of, targets, node))
        stack += case.tree.children[node][::-1]
    return root


def _node(case: Case, law: Law, prefix_of: dict[int, int], targets: Floats, node: int) -> Text:
    token = int(case.tree.tokens[node])
    text = Text.assemble((f"node {node}", "bold"), f"  token {token}")
    if node:
        text.append(f"  p {figure(targets[case.tree.parents[node], token])}")
    if node in prefix_of:
        m = prefix_of[node]
        text.append(f"  reach {figure(law.reach[m])}")
        text.append(f"  next {next_tokens(law.rows[m])}")
        return text
    beyond = case.tree.depth[node] >= case.depth_limit
    text.append(f"  never accepted{', beyond the depth limit' if beyond else ''}", "yellow")
    text.append(f"  next {next_tokens(targets[node])}", "dim")
    return text


def _shape(case: Case) -> Branch:
    """Return the tree alone: its tokens are drawn from the draft law for every row."""
    how = "independently" if case.replacement else "without replacement"
    root = Branch(Text(f"node 0  token {int(case.tree.tokens[0])}  state 0"), guide_style="dim")
    branches = {0: root}
    for node in case.tree.order[1:MOST_DRAWN]:
        branches[node] = branches[int(case.tree.parents[node])].add(Text(f"node {node}  drawn {how}"))
    if len(case.tree) > MOST_DRAWN:
        root.add(Text(f"... {len(case.tree) - MOST_DRAWN} more nodes", "dim"))
    return root


def _states(case: Case) -> Iterator[Text]:
    yield Text(f"laws of {case.states} states; token t leads from state s to (31 s + 17 t + 1) mod {case.states}")
    pairs = list(zip(case.law_rows, case.draft_rows, strict=True))
    for state, (target, draft) in enumerate(pairs[:MOST_STATES]):
        yield Text(f"state {state}  target {next_tokens(target)}")
        yield Text(f"{' ' * len(f'state {state}')}  draft  {next_tokens(draft)}")
    if len(pairs) > MOST_STATES:
        yield Text(f"... {len(pairs) - MOST_STATES} more states", "dim")
