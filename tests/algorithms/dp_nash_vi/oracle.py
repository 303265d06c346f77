"""Oracle of DP-Nash-VI: linear programs for everything, with our choice among minimisers and equilibria."""

from __future__ import annotations

import numpy as np

from benchmarks.naive_dp_nash_vi import NaiveNashVI, nearest_by_linprog
from benchmarks.naive_ucb_vi import Floats


def nearest_by_bisection(noisy: Floats, total: float, slack: float) -> Floats:
    """The Euclidean projection x [S'] of `noisy` onto {x >= 0, |sum x - total| <= slack}: one of eq. (8)'s minimisers.

    It is max(noisy + shift, 0) with the shift nearest to 0 that brings the sum into the band.
    """
    target = np.clip(np.maximum(noisy, 0.0).sum(), total - slack, max(total + slack, 0.0))
    low, high = -np.abs(noisy).max() - 1.0, np.abs(noisy).max() + abs(target) + 1.0
    if np.maximum(noisy, 0.0).sum() == target:
        low = high = 0.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if np.maximum(noisy + middle, 0.0).sum() >= target else (middle, high)
    projected: Floats = np.maximum(noisy + 0.5 * (low + high), 0.0)
    return projected


class CheckedNashVI(NaiveNashVI):
    """Plans by linprog for eq. (8) and for equilibria, with our choice among several solutions.

    Eq. (8) has many minimisers. Ours is the Euclidean projection: here it comes from bisection, and must be as near as
    linprog's.
    """

    by_our_rule = True

    def nearest_row(self, noisy: Floats, total: float, slack: float) -> Floats:
        _, least = nearest_by_linprog(noisy, total, slack)
        row = nearest_by_bisection(noisy, total, slack)
        if np.abs(row - noisy).max() > least + 1e-6 * (1.0 + np.abs(noisy).max()):
            raise ArithmeticError(f"the projection of {noisy} onto total {total} +- {slack} is no minimiser of eq. (8)")
        return row
