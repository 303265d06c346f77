"""Whether regrets stand in the order that [TH23] says: tests of each inequality, and what chance alone would show."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from dprl.platform.reports.inference.pairs import holm
from dprl.platform.reproductions.ma_ldp.published import FIGURE_EPSILONS, ORDERS, RUNS, Order, Side, printed_bound
from dprl.platform.reproductions.ma_ldp.runs import Key, Levels, Runs
from dprl.platform.reproductions.resampling import (
    Comparison,
    Estimate,
    compared,
    mean,
    permutation_p,
    ratio,
    resampled,
)

LEVEL = 0.05
FIGURE = [Side(mechanism, epsilon) for mechanism, epsilons in FIGURE_EPSILONS.items() for epsilon in epsilons]
"""The cells of Figure 1."""


class Outcome(NamedTuple):
    """An inequality of the paper in our runs.

    difference: of the means, `seen` in so many runs as the paper has. ratio: of the means. p: one-sided, by
    permutations. adjusted, opposite: that p-value and the one for the opposite order, by Holm for all inequalities of
    the group.
    """

    order: Order
    difference: Comparison
    ratio: Estimate
    p: float
    adjusted: float
    opposite: float

    @property
    def shows(self) -> bool:
        """Whether the order is beyond doubt."""
        return self.adjusted < LEVEL

    @property
    def reversed(self) -> bool:
        """Whether the opposite order is beyond doubt."""
        return self.opposite < LEVEL

    @property
    def excluded(self) -> bool:
        """Whether the printed ratio lies above the interval of ours."""
        return self.ratio.upper < self.order.ratio

    @property
    def verdict(self) -> str:
        """The same in a word."""
        return "shows" if self.shows else "reversed" if self.reversed else "does not show"


def outcomes(group: str, runs: Mapping[Key, Runs]) -> list[Outcome]:
    """Return what becomes of each of the paper's orders in the cells of a group; none if cells are missing."""
    pairs = [[runs.get(Key(group, *side)) for side in (order.larger, order.smaller)] for order in ORDERS]
    regrets = [[cell.regret for cell in pair if cell is not None] for pair in pairs]
    if any(len(pair) < 2 for pair in regrets):
        return []
    p_values = [permutation_p(larger, smaller) for larger, smaller in regrets]
    adjusted, opposite = holm(p_values), holm([permutation_p(smaller, larger) for larger, smaller in regrets])
    return [
        Outcome(order, compared(larger, smaller, mean, RUNS), ratio(larger, smaller), *found)
        for order, (larger, smaller), *found in zip(ORDERS, regrets, p_values, adjusted, opposite, strict=True)
    ]


def all_seen(group: str, runs: Mapping[Key, Runs], orders: Sequence[Order] = ORDERS) -> float:
    """Return how often the means of as many runs as the paper has are in all these orders; NaN if cells are missing."""
    sides = list(dict.fromkeys(side for order in orders for side in (order.larger, order.smaller)))
    cells = [runs.get(Key(group, *side)) for side in sides]
    if None in cells:
        return math.nan
    drawn = {
        side: resampled(cell.regret, mean, RUNS, stream)
        for stream, (side, cell) in enumerate(zip(sides, cells, strict=True))
        if cell is not None
    }
    return float(np.mean(np.all([drawn[order.larger] > drawn[order.smaller] for order in orders], axis=0)))


def episodes_needed(mechanism: str, epsilon: float, levels: Levels, episodes: int) -> float:
    """Return from which K on the printed bound, with 1 for what it hides, is below what the worst policy loses.

    levels: of K = `episodes`, from which those of other K follow.
    """

    def excess(logarithm: float) -> float:
        k = math.exp(logarithm)
        return math.log(printed_bound(mechanism, epsilon, k)) - math.log(levels.worst / episodes * k)

    return math.exp(float(brentq(excess, math.log(2.0), math.log(1e60))))
