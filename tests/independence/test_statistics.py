"""Size and power of the tests on acceptance and independence, by simulation on laws of the statistics' own bench.

Size: each test allows the most rejections that a rate of exactly the level would exceed with probability 1e-9.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from harness.counts import SequenceCounts, count_sequences, prefix_counts
from harness.law import Law, LawBuilder, Undecided
from harness.matches import BINS, Matches
from harness.stats.acceptance import acceptance
from harness.stats.evidence import Evidence
from harness.stats.independence import RUN_TESTS, SHARED, AcrossCases, independence, pair_table, shared_noise

SURE = 1e-9


def stream(name: str) -> np.random.Generator:
    return np.random.default_rng(list(name.encode()))


def one_step(vocab: int = 32, sigma: float = 2.5) -> Law:
    """Law A: one step, a skewed softmax; probabilities 4e-6 to 0.69."""
    logits = np.random.default_rng(1).normal(0, sigma, (1, vocab))
    row = np.exp(logits - logits.max())[0]
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, row / row.sum())
    return builder.build()


def two_steps(goes_on: float = 0.7) -> Law:
    """Return a law that goes on after token 0 with this probability, and always after token 1."""
    builder = LawBuilder(2)
    root = builder.add(-1, -1, 0, 1.0, np.array([0.5, 0.3, 0.2]))
    builder.add(root, 0, 1, 0.5 * goes_on, np.array([0.2, 0.2, 0.6]))
    builder.add(root, 1, 2, 0.3, np.array([0.1, 0.9, 0.0]))
    return builder.build()


def emit(law: Law, n: int, rng: np.random.Generator, stops: float = 0.0) -> SequenceCounts:
    """Draw from a law of two steps; ``stops`` is the chance to end where the law goes on."""
    first = rng.choice(3, n, p=law.rows[0])
    child = law.children(np.zeros(n, np.int64), first)
    chance = np.where(child >= 0, law.reach[child] / law.emit[child], 0.0)
    goes_on = (rng.random(n) < chance) & (rng.random(n) >= stops)
    second = (np.cumsum(law.rows[child], axis=1) <= rng.random(n)[:, None]).sum(axis=1)
    return count_sequences(np.column_stack([first, np.where(goes_on, second, -1)]))


def accepted(law: Law, sequences: SequenceCounts) -> Evidence:
    found = acceptance(law, sequences, prefix_counts(law, sequences), nodes=3)
    assert found is not None
    return found


def check(p_values: list[float], levels: tuple[float, ...] = (0.1, 0.01)) -> None:
    found = np.array(p_values)
    for level in levels:
        alarms = np.count_nonzero(found <= level)
        assert alarms <= stats.binom.isf(SURE, len(found), level), f"{alarms} alarms in {len(found)} at {level}"


def matches(rows: np.ndarray) -> Matches:
    """Return the matches of all neighbouring rows of a law of one step."""
    twice = count_sequences(rows[1:][rows[1:] == rows[:-1]][:, None])
    return Matches(len(rows) - 1, twice, twice)


def p_shared(law: Law, rows: np.ndarray) -> float:
    logs = shared_noise(law, matches(rows))
    return float(min(1.0, 1.0 / np.exp(logs).mean()))


def share(rows: np.ndarray, part: float, rng: np.random.Generator) -> np.ndarray:
    rows = rows.copy()
    for i in 1 + np.flatnonzero(rng.random(len(rows) - 1) < part):
        rows[i] = rows[i - 1]
    return rows


# ---- acceptance


@pytest.mark.parametrize("n", [5, 300, 3000])
def test_size_of_acceptance(n: int) -> None:
    law, rng = two_steps(), stream(f"acceptance {n}")
    check([accepted(law, emit(law, n, rng)).p_value for _ in range(400)])


def test_power_of_acceptance() -> None:
    """A step in a hundred ends where it must go on; the place is the prefix of which that is never true."""
    law, rng = two_steps(), stream("ends")
    found = accepted(law, emit(law, 10_000, rng, stops=0.01))
    assert found.p_value < 1e-12
    assert found.detail["prefix"] == [1]
    assert found.detail["expected"] == 0.0
    assert f"after 1 (node 2): expected 0, observed {found.detail['observed']} of" in found.says


def test_lengths_see_what_no_single_place_shows() -> None:
    law, rng = two_steps(), stream("lengths")
    found = accepted(law, emit(two_steps(0.66), 40_000, rng))
    assert found.p_value < 1e-9


def test_one_end_that_is_impossible_by_acceptance_alone_is_no_proof() -> None:
    """It is tested at (V + N) 2^-24, the rounding of a coin on the edge; ten of them are proof enough."""
    law, rng = two_steps(), stream("edge")
    drawn = emit(law, 5_000, rng)
    edge = count_sequences(np.array([[1, -1]]))
    assert accepted(law, SequenceCounts.merge([drawn, edge])).p_value > 1e-3
    assert accepted(law, SequenceCounts.merge([drawn, *[edge] * 10])).p_value < 1e-20


# ---- shared noise


def test_e_values_have_mean_one() -> None:
    """Exactly, over all pairs of outcomes, for every part of shared noise."""
    row = np.array([0.6, 0.3, 0.1])
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, row)
    law = builder.build()
    mean = np.zeros((2, len(SHARED)))
    for x in range(3):
        for y in range(3):
            for z in range(3):  # the middle row is in two pairs
                logs = shared_noise(law, matches(np.array([x, y, z])))
                mean += row[x] * row[y] * row[z] * np.exp(logs)
    np.testing.assert_allclose(mean, 1.0, rtol=1e-12)


def test_size_of_shared_noise() -> None:
    law, rng = one_step(), stream("size")
    for n in (40, 2000):
        found = [p_shared(law, rng.choice(law.vocab, n, p=law.rows[0])) for _ in range(1500)]
        check(found, (0.5, 0.1, 0.01))


@pytest.mark.parametrize(("part", "n"), [(0.05, 4_500), (0.01, 49_000)])
def test_power_of_shared_noise(part: float, n: int) -> None:
    """Seen at alpha 1e-6 with 90% power; measured 2.1 thousand pairs for 5%, 33 thousand for 1%."""
    law, rng, runs = one_step(), stream(f"power {part}"), 40
    seen = sum(p_shared(law, share(rng.choice(law.vocab, n, p=law.rows[0]), part, rng)) <= 1e-6 for _ in range(runs))
    assert seen >= 0.9 * runs


def test_undecided_tokens_count_as_different() -> None:
    law = one_step(8)
    tokens = np.zeros((1, 8), bool)
    tokens[0, np.argmax(law.rows[0])] = True
    open_law = replace(law, undecided=Undecided(tokens, True))
    rows = np.full(100, np.argmax(law.rows[0]))
    assert p_shared(law, rows) < 1e-3
    assert p_shared(open_law, rows) == 1.0


# ---- tables and evenness


def table(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    codes = (one * BINS).astype(int) * BINS + (other * BINS).astype(int)
    return np.bincount(codes, minlength=BINS * BINS)


@pytest.mark.parametrize("n", [3, 300, 30_000])
def test_size_of_the_table(n: int) -> None:
    rng = stream(f"table {n}")
    found = [pair_table(table(rng.random(n), rng.random(n)), rng)[0] for _ in range(500)]
    check(found)
    assert np.count_nonzero(np.array(found) <= 0.5) > 175  # exact, so nothing is given away


def test_power_of_the_table() -> None:
    """It sees shared noise, opposite noise and pairs that are too even."""
    rng, n = stream("table power"), 20_000
    one, other = rng.random(n), rng.random(n)
    some = rng.random(n) < 0.1
    assert pair_table(table(one, np.where(some, one, other)), rng)[0] < 1e-9
    assert pair_table(table(one, np.where(some, 1 - one, other)), rng)[0] < 1e-9
    even = rng.permutation(n)
    assert pair_table(table(even % BINS / BINS, even // BINS % BINS / BINS), rng)[0] < 1e-9


def test_evenness_is_the_lower_tail() -> None:
    law = one_step()
    nothing = {kind: matches(np.zeros(1, np.int64)) for kind in ("rows", "calls")}
    rng, found = stream("even"), []
    for _ in range(1500):
        squares = Evidence("chi-square", 0.5, True, 0.2, {"statistic": float(rng.chisquare(12)), "df": 12})
        found.append(independence(law, nothing, squares).p_value)
    check(found)
    even = Evidence("chi-square", 1.0, True, 0.2, {"statistic": 0.1, "df": 12})
    assert independence(law, nothing, even).p_value < 1e-9
    assert independence(law, nothing, Evidence("chi-square", 1.0, True, 0.2, {"df": 0})).p_value == 1.0


# ---- over all cases


def across(repeats: Matches, coins: bool) -> tuple[float, bool]:
    law, nothing = one_step(), matches(np.zeros(1, np.int64))
    tests = AcrossCases()
    assert tests.tests(1e-6, coins, stream("none")) == []
    kinds = {"rows": nothing, "calls": nothing, "instances": nothing, "repeats": repeats}
    squares = Evidence("chi-square", 0.5, True, 0.2, {"statistic": 10.0, "df": 12})
    tests.add_case("one", law, kinds, [squares])
    found = {test.test: test for test in tests.tests(1e-6, coins, stream("uniforms"))}
    assert len(found) == RUN_TESTS
    assert sum(test.alpha for test in found.values()) == pytest.approx(1e-7)
    test = found["reproducibility"]
    assert test.p_value is not None
    return test.p_value, bool(test.detail["judged"])


def test_reproducibility_is_judged_by_what_the_sampler_does() -> None:
    law, rng = one_step(), stream("repeats")
    rows = rng.choice(law.vocab, 500, p=law.rows[0])
    again, anew = rows, rng.choice(law.vocab, 500, p=law.rows[0])
    mixed = np.where(np.arange(500) % 2, again, anew)

    def repeats(other: np.ndarray) -> Matches:
        twice = count_sequences(rows[rows == other][:, None])
        return Matches(500, twice, twice)

    assert across(repeats(again), coins=True) == (1.0, True)
    assert across(repeats(again), coins=False) == (1.0, True)
    assert across(repeats(mixed), coins=True) == (0.0, True)
    p_value, judged = across(repeats(mixed), coins=False)
    assert judged
    assert p_value < 1e-9
    p_value, judged = across(repeats(anew), coins=False)
    assert not judged
    assert p_value > 1e-3
