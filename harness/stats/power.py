"""Power: the smallest biases that a case sees with 90 % power, by inverting the exact tests.

What a pass means rests on these: a bias at least this large would have been seen with a probability of 90 %.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from ..law import Law
from .critical import both_missed, critical_counts, tail_levels
from .tilt import least_temperature_error

__all__ = ["POWER", "Move", "least_leak", "min_detectable", "unseen", "worst_move"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POWER = 0.9
"""Probability of seeing the declared biases."""
COIN = 2.0**-24
SLOPE = 1e-9
"""Probabilities that differ by less, relatively, are taken for equal: no temperature changes such a row."""

CELLS_PER_PREFIX = 5
PAIRS = 96
BISECTIONS = 20


@dataclass(frozen=True)
class Move:
    """A move of unconditional ``mass`` from one cell to another of the same prefix."""

    mass: float
    prefix: int
    donor: int
    recipient: int


def min_detectable(law: Law, n: int, alpha: float, *, conditional: bool = False) -> dict[str, float | None]:
    """Smallest move, leak and temperature error seen with 90 % power in n draws at a case's alpha.

    Parameters
    ----------
    law : Law
        M prefixes, V tokens.
    n : int
        Planned draws.
    alpha : float
        The case's share of the run's alpha; each layer spends its own share of it.
    conditional : bool
        As for :func:`.cells.cells`: True where reach is unknown (rule None); ``law.reach`` is then the planned one.

    Returns
    -------
    dict
        "move", "leak", "temperature"; None where there is no such bias (one outcome only, no impossible token at the
        root, flat rows) or where not even the largest one is seen.
    """
    conditional = conditional or law.undecided is not None
    move = worst_move(law.decided, n, alpha, conditional=conditional)
    temperature = least_temperature_error(law.decided, n, alpha, POWER, conditional=conditional)
    return {"move": None if move is None else move.mass, "leak": least_leak(law, n), "temperature": temperature}


def unseen(law: Law, least: Mapping[str, float | None]) -> list[str]:
    """Name the biases that a law has room for and of which ``least`` says that they are not seen, of whatever size.

    ``least`` is that of :func:`min_detectable`. A leak is always seen where a token is impossible at the root. What
    does not happen once in 2^24 steps, the resolution of a coin, is no room.
    """
    law = law.decided if law.undecided is not None else law
    several = np.count_nonzero(law.rows, axis=1) > 1
    largest = float(np.max(law.reach[:, None] * law.rows * several[:, None], initial=0.0))
    lowest = np.min(law.rows, axis=1, initial=1.0, where=law.rows > 0.0)
    sloped = np.where(lowest < law.rows.max(axis=1) * (1.0 - SLOPE), law.reach, 0.0)
    room = {"move": largest, "temperature": float(np.max(sloped, initial=0.0))}
    return [name for name, size in room.items() if least[name] is None and size >= COIN]


def least_leak(law: Law, n: int) -> float | None:
    """Rate of an impossible root token of which one at least comes in n draws with 90 % power (layer L0).

    n = ln(1/miss)/rate, exactly: (1 - rate)^n = miss. None where every token is possible at the root or n is 0.
    """
    if n < 1 or np.all(law.rows[0] > 0.0):
        return None
    return float(-np.expm1(np.log1p(-POWER) / n))


def worst_move(law: Law, n: int, alpha: float, *, conditional: bool = False) -> Move | None:
    """Return the largest move between two prefix cells that is not yet seen: any larger one is, by the cell tests.

    Moves range over pairs of cells and over masses up to the donor's own; one is seen if the donor's count comes out
    too low or the recipient's too high. Only pairs under one prefix need looking at: a move between cells of different
    prefixes is at the same time one of equal mass between the two branches where they part. Cells further down move
    too and could only add power. A donor that is too small to be missed counts with its whole mass.

    Returns None if no prefix has two possible tokens or if even the largest possible move is not seen.

    Notes
    -----
    The hardest cells to watch are the likeliest of a prefix, short of 1/2; pairs of each prefix's five likeliest cells
    are ranked by a normal approximation and the first 96 of them inverted exactly.
    """
    cells = min(CELLS_PER_PREFIX, law.vocab)
    if n < 1 or cells < 2:
        return None
    top = np.argpartition(law.rows, law.vocab - cells, axis=1)[:, law.vocab - cells :]
    rows = np.take_along_axis(law.rows, top, axis=1)
    trials = np.rint(n * law.reach).astype(np.int64) if conditional else np.full(law.size, n)
    scale = np.where(law.reach > 0.0, law.reach, 0.0) if conditional else np.ones(law.size)
    p = np.minimum(1.0, rows if conditional else law.reach[:, None] * rows)
    level = tail_levels(law, alpha)[law.depth]

    prefix, donor, recipient = _hardest_pairs(p, trials, scale, level)
    if not len(prefix):
        return None
    many, strict = trials[prefix], level[prefix]
    giving, taking = p[prefix, donor], p[prefix, recipient]
    too_low, _ = critical_counts(many, giving, strict)
    _, too_high = critical_counts(many, taking, strict)

    def missed(mass: Floats) -> Floats:
        left, grown = np.maximum(giving - mass, 0.0), np.minimum(taking + mass, 1.0)
        return both_missed(many, left, grown, too_low, too_high)

    seen, unseen = giving.copy(), np.zeros(len(giving))
    ever = missed(giving) <= 1.0 - POWER
    for _ in range(BISECTIONS):
        middle = 0.5 * (seen + unseen)
        enough = missed(middle) <= 1.0 - POWER
        seen, unseen = np.where(enough, middle, seen), np.where(enough, unseen, middle)
    mass = scale[prefix] * np.where(ever, seen, giving)
    worst = int(np.argmax(mass))
    if not ever[worst] and mass[worst] >= float(np.max(scale[:, None] * np.where(_can_give(p), p, 0.0))):
        return None
    m = int(prefix[worst])
    return Move(float(mass[worst]), m, int(top[m, donor[worst]]), int(top[m, recipient[worst]]))


def _can_give(p: Floats) -> NDArray[np.bool_]:
    """Cells, [M, C], with a possible sibling to give mass to."""
    several: NDArray[np.bool_] = (np.count_nonzero(p, axis=1) > 1)[:, None] & (p > 0.0)
    return several


def _hardest_pairs(p: Floats, trials: Ints, scale: Floats, level: Floats) -> tuple[Ints, Ints, Ints]:
    """Prefix, donor and recipient column of the pairs whose moves are hardest to see, hardest first."""
    z = special.ndtri(POWER) - special.ndtri(level)
    per_trial = 1.0 / np.maximum(trials, 1)[:, None]
    need = z[:, None] * np.sqrt(p * (1.0 - p) * per_trial) + z[:, None] ** 2 * per_trial / 3.0
    value = scale[:, None, None] * np.minimum(np.minimum(p, need)[:, :, None], need[:, None, :])
    value[~(_can_give(p)[:, :, None] & (p > 0.0)[:, None, :])] = 0.0
    value[:, np.arange(p.shape[1]), np.arange(p.shape[1])] = 0.0
    order = np.argsort(-value, axis=None, kind="stable")[:PAIRS]
    order = order[value.ravel()[order] > 0.0]
    prefix, donor, recipient = np.unravel_index(order, value.shape)
    return prefix, donor, recipient
