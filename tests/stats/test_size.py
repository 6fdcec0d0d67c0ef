"""False alarms: every deciding layer and the verdict, by simulation under the law itself.

Each test allows the most rejections that a rate of exactly the level would exceed with probability 1e-9.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from harness.counts import prefix_counts
from harness.stats.alpha import WITHIN_CASE
from harness.stats.cells import cells
from harness.stats.chisquare import chi_square
from harness.stats.evidence import combine
from harness.stats.support import support

from .laws import SPECS, null, random_law, sampler, stream

SURE = 1e-9


@cache
def p_values(source, n, runs, conditional=False):
    """Return p-values of cells, chi-square and both, float64 [runs, 3], of a named law or a random one by its seed."""
    law = null(source) if source in SPECS else random_law(stream(f"size law {source}"), vocab=6)
    sample, rng = sampler(law), stream(f"size {source} {n} {conditional}")
    found = np.empty((runs, 3))
    for run in range(runs):
        counts = prefix_counts(law, sample(n, rng))
        layers = [support(counts), cells(law, counts, conditional=conditional), chi_square(law, counts, rng)]
        found[run] = layers[1].p_value, layers[2].p_value, combine(layers)
    return found


def check(found, levels):
    runs = len(found)
    for level in levels:
        alarms = np.count_nonzero(found <= level, axis=0)
        allowed = stats.binom.isf(SURE, runs, level)
        assert np.all(alarms <= allowed), f"at {level}: {alarms} alarms in {runs} runs, {allowed:.0f} allowed"


@pytest.mark.parametrize(("n", "runs"), [(3, 2000), (2000, 4000)])
def test_one_step_law(n, runs):
    check(p_values("A", n, runs), [0.1, 1e-2, 1e-3])


@pytest.mark.parametrize("conditional", [False, True])
@pytest.mark.parametrize("seed", [1, 2])
def test_irregular_tree(seed, conditional):
    check(p_values(seed, 400, 800, conditional), [0.1, 1e-2])


def test_chi_square_uses_its_level_in_full():
    """Its two halves are exact, so at 0.1 the layer rejects in between half and all of 0.1."""
    found = p_values("A", 2000, 4000)[:, 1]
    assert np.count_nonzero(found <= 0.1) >= stats.binom.ppf(SURE, 4000, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "runs"), [("A", 50_000), ("B", 30_000)])
def test_verdict_size_on_the_laws(name, runs):
    """L0-L2 with their shares, at 1e-2, 1e-3 and 1e-4; 2.4-fold conservative at the shares .5/.25/.25 with L3."""
    assert sum(WITHIN_CASE[layer] for layer in ("cells", "chi-square")) == pytest.approx(0.6)
    check(p_values(name, 20_000, runs), [1e-2, 1e-3, 1e-4])
