"""Measured laws: sums over their leaves, comparison with a law by plain loops, and the way between processes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases.probes import probe_groups
from harness.bisect import Stretches
from harness.compared import compared
from harness.law import Law
from harness.measured import Decision, Measured, packed
from harness.protocol import Garbled, PackedProbe, ProbeDone, decode, encode
from harness.reads import COINS
from harness.samplers.base import Claims
from harness.samplers.sglang_tree_port import TreePort

from .asking import measured

VOCAB, NODES, LIMIT = 6, 3, 4
CLAIMS = Claims(("target-only",), coins=True)


@st.composite
def made(draw: st.DrawFn) -> Measured:
    """Draw a measured law: trees of decisions whose leaves are sequences of up to LIMIT tokens."""
    sequences: list[tuple[int, ...]] = []
    decisions: list[Decision] = []

    def label(tokens: tuple[int, ...]) -> int:
        if tokens not in sequences:
            sequences.append(tokens)
        return sequences.index(tokens)

    def grow(parent: int, branch: int, prefix: tuple[int, ...], coins: tuple[int, ...]) -> None:
        if not coins or draw(st.integers(0, 3)) == 0:
            return
        count = draw(st.integers(1, 4))
        cuts = sorted(draw(st.sets(st.integers(1, COINS - 1), min_size=count, max_size=count)))
        ends = [(*prefix, draw(st.integers(0, VOCAB - 1))) for _ in range(count + 1)]
        longer = [draw(st.booleans()) and len(end) < LIMIT for end in ends]
        labels = [label((*end, 0) if more else end) for end, more in zip(ends, longer, strict=True)]
        starts = np.array([0, *cuts])
        number = len(decisions)
        bound = draw(st.sampled_from([0.0, 1.0, 5.5]))
        stretches = Stretches(0, COINS, starts, np.array(labels), starts)
        decisions.append(Decision(parent, branch, coins[0], stretches, bound, len(prefix), draw(st.booleans())))
        for one in dict.fromkeys(labels):
            if len(sequences[one]) > len(prefix) + 1:
                grow(number, one, sequences[one][:-1], coins[1:])

    root = label((draw(st.integers(0, VOCAB - 1)),))
    grow(-1, -1, (), (2, 0, 1, 3)[: draw(st.integers(0, 4))])
    return Measured(NODES, sequences, decisions, root, rows=7, changed=0)


@given(made())
def test_leaves_and_law(found: Measured) -> None:
    leaves = list(found.leaves())
    assert sum(leaf.probability for leaf in leaves) == pytest.approx(1.0, abs=1e-12)
    law = found.law(VOCAB, LIMIT)
    for m in range(law.size):
        prefix = tuple(law.prefix(m))
        through = [leaf for leaf in leaves if leaf.tokens[: len(prefix)] == prefix and len(leaf.tokens) > len(prefix)]
        assert law.reach[m] == pytest.approx(sum(leaf.probability for leaf in through), abs=1e-12)
        for token in range(VOCAB):
            mass = sum(leaf.probability for leaf in through if leaf.tokens[len(prefix)] == token)
            assert law.rows[m, token] * law.reach[m] == pytest.approx(mass, abs=1e-12)


@given(made(), st.booleans())
def test_comparison_with_itself_has_no_difference(found: Measured, accepted: bool) -> None:
    """Against its own law a measured law has the right probabilities, by a plain sum over leaves, and no deviation."""
    law, leaves = found.law(VOCAB, LIMIT), list(found.leaves())
    for difference in compared(law, found, accepted=accepted):
        assert not difference.deviates
        prefix, depth = difference.prefix, len(difference.prefix)
        through = [leaf for leaf in leaves if leaf.tokens[:depth] == prefix and len(leaf.tokens) > depth]
        comes = [leaf for leaf in through if leaf.tokens[depth] == difference.token]
        if accepted:
            goes_on = difference.kind == "accepted-draft"
            comes = [leaf for leaf in comes if (len(leaf.tokens) > depth + 1) == goes_on]
        observed = sum(leaf.probability for leaf in comes) / sum(leaf.probability for leaf in through)
        assert difference.observed == pytest.approx(observed, abs=1e-12)
        assert difference.expected == pytest.approx(observed, abs=1e-9)


@cache
def of_the_port() -> tuple[Law, Measured]:
    """Return the law of a case, and the port's as measured."""
    group = next(group for group in probe_groups("smoke") if group.name == "probe/target-only/dyadic")
    plan, (found, *_) = measured(group, TreePort(), CLAIMS)
    return plan.subjects(CLAIMS)[0].law, found


@settings(deadline=None)
@given(st.integers(0, 7), st.integers(1, 4000))
def test_moved_boundaries_deviate_by_what_was_moved(which: int, coins: int) -> None:
    """A boundary that is moved by more than the bound allows shows, by just so many coins; one within it does not."""
    law, found = of_the_port()
    number = which % len(found.decisions)
    decision = found.decisions[number]
    starts = decision.stretches.starts.copy()
    starts[1] += coins
    if starts[1] >= decision.stretches.stops[1]:
        return
    moved = Stretches(0, COINS, starts, decision.stretches.labels, starts)
    decisions = list(found.decisions)
    args = decision.parent, decision.branch, decision.coin, moved, decision.bound, decision.place
    decisions[number] = Decision(*args)
    changed = Measured(found.nodes, found.sequences, decisions, found.root)
    before = {(d.prefix, d.token, d.kind): d.coins for d in compared(law, found)}
    after = {(d.prefix, d.token, d.kind): d for d in compared(law, changed)}
    most = max(abs(d.coins - before[key]) for key, d in after.items())
    assert most == pytest.approx(coins, rel=1e-6) or decision.bound > 0.0
    if decision.bound == 0.0 or coins > 4:
        assert any(d.deviates for d in after.values())


@given(made())
def test_there_and_back(found: Measured) -> None:
    reply = decode(encode(ProbeDone([PackedProbe.of(found)])))
    assert isinstance(reply, ProbeDone)
    back = reply.cases[0].unpack(NODES, VOCAB)
    assert [part.tolist() for part in packed(back)[2]] == [part.tolist() for part in packed(found)[2]]
    assert packed(back)[:2] == packed(found)[:2]
    assert {leaf.tokens: leaf.probability for leaf in back.leaves()} == {
        leaf.tokens: leaf.probability for leaf in found.leaves()
    }


@given(made(), st.data())
def test_garbled_tables(found: Measured, data: st.DataObject) -> None:
    """A number changed at random makes a law that can be compared, or is refused; nothing else is raised."""
    probe = PackedProbe.of(found)
    table = data.draw(st.sampled_from([grid for grid in probe.tables if grid.data] or [probe.tables[0]]))
    numbers = np.frombuffer(table.data, np.int64).copy()
    if len(numbers):
        place = data.draw(st.integers(0, len(numbers) - 1))
        numbers[place] = data.draw(st.one_of(st.integers(-2, 8), st.integers(-(2**63), 2**63 - 1)))
        table.data = numbers.tobytes()
    try:
        back = probe.unpack(NODES, VOCAB)
    except Garbled:
        return
    assert sum(leaf.probability for leaf in back.leaves()) >= 0.0
