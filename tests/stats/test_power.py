"""min_detectable: against brute force, and by simulation of the bias it declares."""

import itertools
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.counts import prefix_counts
from harness.law import Law, LawBuilder
from harness.stats.alpha import WITHIN_CASE
from harness.stats.cells import cell_counts, cells
from harness.stats.chisquare import chi_square
from harness.stats.power import least_leak, min_detectable, unseen, worst_move
from harness.stats.support import support
from harness.stats.tilt import least_temperature_error, tilted

from .laws import biased, null, random_law, sampler, stream

SURE = 1e-6


def one_step(row):
    builder = LawBuilder(1)
    builder.add(-1, -1, 0, 1.0, np.asarray(row, float))
    return builder.build()


def loop_miss(n, p_a, p_b, mass, level):
    """P(neither cell of a trinomial is rejected), by summing over the donor's count."""
    every = np.arange(n + 1)
    low = max(every[stats.binom.cdf(every, n, p_a) <= level], default=-1)
    high = min(every[stats.binom.sf(every - 1, n, p_b) <= level], default=n + 1)
    a, b = max(p_a - mass, 0.0), min(p_b + mass, 1.0)
    k = np.arange(low + 1, n + 1)
    given_k = stats.binom.cdf(high - 1, n - k, min(1.0, b / (1 - a)) if a < 1 else 0.0)
    return float(np.sum(stats.binom.pmf(k, n, a) * given_k))


def loop_worst_move(law, n, alpha):
    """Largest unseen feasible move over all pairs of sibling cells; None if nothing larger is feasible."""
    per_depth = cell_counts(law)
    unseen, feasible = [], []
    for m in range(law.size):
        level = WITHIN_CASE["cells"] * alpha / (2 * len(per_depth) * per_depth[law.depth[m]])
        p = law.reach[m] * law.rows[m]
        for a, b in itertools.permutations(np.flatnonzero(p), 2):
            feasible.append(p[a])
            if loop_miss(n, p[a], p[b], p[a], level) > 0.1:
                unseen.append(p[a])
                continue
            lower, upper = 0.0, p[a]
            for _ in range(14):
                middle = 0.5 * (lower + upper)
                lower, upper = (lower, middle) if loop_miss(n, p[a], p[b], middle, level) <= 0.1 else (middle, upper)
            unseen.append(upper)
    if not feasible or max(unseen) >= max(feasible):
        return None
    return max(unseen)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n", [60, 400])
def test_worst_move_agrees_with_brute_force(seed, n):
    law = random_law(stream(f"brute {seed}"), vocab=4, depth=2)
    got, want = worst_move(law, n, 1e-4), loop_worst_move(law, n, 1e-4)
    if want is None:
        assert got is None
    else:
        assert got is not None
        assert got.mass == pytest.approx(want, rel=0.03)


def power(wrong, law, n, alpha, runs, name, conditional=False):
    """Share of runs that L0-L2 reject, each at its own share of alpha."""
    sample, rng = sampler(wrong), stream(name)
    seen = 0
    for _ in range(runs):
        counts = prefix_counts(law, sample(n, rng))
        layers = (support(counts), cells(law, counts, conditional=conditional), chi_square(law, counts, rng))
        seen += any(layer.p_value <= alpha * layer.share for layer in layers if layer.share < 1) or bool(counts.strays)
    return seen / runs


def at_least(share, runs, claimed):
    """Whether a share of runs is compatible, at 1e-6, with a power of at least what is claimed."""
    return share * runs >= stats.binom.ppf(SURE, runs, claimed)


def moved(law: Law, move, factor=1.0):
    rows = law.rows.copy()
    mass = min(factor * move.mass / law.reach[move.prefix], rows[move.prefix, move.donor])
    rows[move.prefix, move.donor] -= mass
    rows[move.prefix, move.recipient] += mass
    return law.with_rows(rows)


@pytest.mark.parametrize(("name", "n", "alpha"), [("A", 2000, 1e-3), ("A", 100_000, 1e-9), ("B", 20_000, 1e-8)])
def test_declared_move_is_seen(name, n, alpha):
    """Power 90 % at the declared move (88 % asked for: within 7 % of n of simulation), and not at 4/5 of it."""
    law = null(name)
    move = worst_move(law, n, alpha)
    runs = 400
    assert at_least(power(moved(law, move), law, n, alpha, runs, f"move {name}"), runs, 0.88)
    less = power(moved(law, move, 0.8), law, n, alpha, runs, f"less {name}")
    assert less * runs <= stats.binom.isf(SURE, runs, 0.8)


def test_declared_bias_is_seen_given_the_prefix():
    """Rule None: cells are tested given how often their prefix occurred."""
    law, n, alpha, runs = null("B"), 20_000, 1e-8, 250
    move = worst_move(law, n, alpha, conditional=True)
    assert at_least(power(moved(law, move), law, n, alpha, runs, "given move", True), runs, 0.88)
    error = least_temperature_error(law, n, alpha, 0.9, conditional=True)
    assert at_least(power(tilted(law, error), law, n, alpha, runs, "given temperature", True), runs, 0.87)


@pytest.mark.parametrize(("name", "n", "alpha"), [("A", 50_000, 1e-8), ("B", 20_000, 1e-8)])
@pytest.mark.parametrize("direction", ["hotter", "colder"])
def test_declared_temperature_is_seen(name, n, alpha, direction):
    law = null(name)
    error = least_temperature_error(law, n, alpha, 0.9)
    runs = 300

    def wrong(e):
        return tilted(law, e if direction == "hotter" else 1 / (1 + e) - 1)

    assert at_least(power(wrong(error), law, n, alpha, runs, f"{direction} {name}"), runs, 0.87)
    less = power(wrong(0.75 * error), law, n, alpha, runs, f"less {direction} {name}")
    assert less * runs <= stats.binom.isf(SURE, runs, 0.8)


def test_temperature_bins_agree_with_token_by_token(monkeypatch):
    rng = stream("bins")
    law = one_step(rng.dirichlet(np.full(2000, 0.1)))
    binned = least_temperature_error(law, 30_000, 1e-8, 0.9)
    monkeypatch.setattr("harness.stats.tilt.BINS", 2000)
    assert binned == pytest.approx(least_temperature_error(law, 30_000, 1e-8, 0.9), rel=0.02)


def test_leak_is_exact():
    law = one_step((0.5, 0.5, 0.0))
    rate = least_leak(law, 5000)
    assert 1 - (1 - rate) ** 5000 == pytest.approx(0.9)
    assert least_leak(one_step((0.5, 0.5)), 5000) is None


def test_nothing_is_declared_for_one_outcome_or_no_draws():
    assert min_detectable(one_step((1.0, 0.0)), 1000, 1e-6)["move"] is None
    assert min_detectable(one_step((1.0, 0.0)), 1000, 1e-6)["temperature"] is None
    assert set(min_detectable(null("A"), 0, 1e-6).values()) == {None}
    assert min_detectable(null("A"), 3, 1e-9)["move"] is None


def test_flat_rows_have_no_temperature():
    assert least_temperature_error(one_step(np.full(8, 1 / 8)), 10**6, 1e-6, 0.9) is None


@given(st.integers(0, 2**32))
@settings(max_examples=12, deadline=None)
def test_more_draws_or_more_alpha_see_less(seed):
    law = random_law(np.random.default_rng(seed))
    base = min_detectable(law, 20_000, 1e-8)
    for other in (min_detectable(law, 80_000, 1e-8), min_detectable(law, 20_000, 1e-4)):
        for key in ("move", "leak", "temperature"):
            if base[key] is not None:
                assert other[key] is not None
                assert other[key] <= base[key] * 1.01


@given(st.integers(0, 2**32), st.sampled_from([1, 10, 1000, 10**6]), st.booleans())
@settings(max_examples=50, deadline=None)
def test_values_are_rates_or_none(seed, n, conditional):
    law = random_law(np.random.default_rng(seed))
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        found = min_detectable(law, n, 1e-7, conditional=conditional)
    for key in ("move", "leak"):
        assert found[key] is None or 0 < found[key] <= 1
    assert found["temperature"] is None or 0 < found["temperature"] < np.inf


def test_quick_enough_for_planning():
    laws = [null("A"), null("B"), random_law(stream("quick"))]
    started = time.process_time()
    for law in laws:
        min_detectable(law, 10**6, 1e-8)
    assert time.process_time() - started < 1.0


# Samples (thousands) for 90 % power at 1e-6, measured for the whole gate. Those for a temperature error rest on the
# layer of known bugs and are no figures for L0-L2, which get what the planner asks for instead.
FIGURES = {
    ("A", "move"): 39,
    ("A", "leak"): 8,
    ("A", "swap"): 22,
    ("B", "move"): 76,
    ("B", "leak"): 21,
    ("B", "swap"): 55,
    ("C", "move"): 21,
    ("C", "leak"): 5,
    ("C", "swap"): 199,
}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "bias"), FIGURES)
def test_samples_for_ninety_percent_power(name, bias):
    runs = 100 if name == "C" else 300
    n = int(1000 * FIGURES[name, bias] * 1.15)
    assert at_least(power(biased(name, bias), null(name), n, 1e-6, runs, f"figure {name} {bias}"), runs, 0.9)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["A", "B", "C"])
def test_planned_samples_see_a_temperature_two_percent_off(name):
    law = null(name)
    least, enough = 1000, 10**7
    while enough > 1.02 * least:
        n = int(np.sqrt(least * enough))
        error = least_temperature_error(law, n, 1e-6, 0.9)
        least, enough = (n, enough) if error is None or error > 0.02 else (least, n)
    runs = 60 if name == "C" else 300
    assert at_least(power(biased(name, "temp"), law, enough, 1e-6, runs, f"planned temperature {name}"), runs, 0.87)


@pytest.mark.parametrize(
    ("rows", "n", "names"),
    [
        ((1.0, 0.0), 1000, []),
        ((0.25,) * 4, 100_000, []),
        ((0.5, 0.3, 0.2), 100_000, []),
        ((0.5, 0.3, 0.2), 3, ["move", "temperature"]),
        ((1 / 4096,) * 4096, 1000, ["move"]),
        ((1.0 - 1e-9, 1e-9), 1000, ["temperature"]),
    ],
)
def test_what_is_not_seen_is_told_from_what_there_is_not(rows: tuple[float, ...], n: int, names: list[str]) -> None:
    law = one_step(rows)
    least = min_detectable(law, n, 1e-6)
    assert [name for name in ("move", "temperature") if name in unseen(law, least)] == names
    assert all(least[name] is None for name in names)
