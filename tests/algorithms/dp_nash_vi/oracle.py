"""Oracle of DP-Nash-VI: the program of the benchmark with our choice among minimisers of eq. (8) and equilibria."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.naive_dp_nash_vi import NaiveNashVI, equilibrium_by_linprog
from benchmarks.naive_ucb_vi import Floats
from dprl.envs.games.equilibria import tie_weights


def nearest_closed_form(noisy: Floats, totals: Floats, slack: float) -> Floats:
    """The Euclidean projections x [..., S'] of noisy [..., S'] onto {x >= 0, |sum x - total| <= slack}, by sorting.

    They are minimisers of eq. (8). totals: [...].
    """
    positive = np.maximum(noisy, 0.0)
    sums = positive.sum(axis=-1)
    target = np.clip(sums, totals - slack, np.maximum(totals + slack, 0.0))
    falling = -np.sort(-noisy, axis=-1)
    shifts = (target[..., None] - np.cumsum(falling, axis=-1)) / np.arange(1, noisy.shape[-1] + 1)
    n_active = np.maximum((falling + shifts > 0.0).sum(axis=-1, keepdims=True), 1)
    shifted = np.maximum(noisy + np.take_along_axis(shifts, n_active - 1, axis=-1), 0.0)
    projected: Floats = np.where((target == sums)[..., None], positive, shifted)
    return projected


def pure_equilibrium(upper: Floats, lower: Floats) -> Floats | None:
    """The pure equilibrium [A,B] with the smallest Qup - Qlo, ties to the lowest joint action; None without one."""
    stable = (upper == upper.max(axis=0, keepdims=True)) & (lower == lower.min(axis=1, keepdims=True))
    if not stable.any():
        return None
    policy = np.zeros(upper.shape)
    policy.flat[np.where(stable, upper - lower, np.inf).argmin()] = 1.0
    return policy


class OurChoiceNashVI(NaiveNashVI):
    """NaiveNashVI with the Euclidean projection for eq. (8), pure equilibria first, and ties by fixed weights."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.ties = 1e-7 * tie_weights(self.n_max * self.n_min).reshape(self.n_max, self.n_min)

    def nearest_counts(self, transitions: Floats, visits: Floats) -> Floats:
        if self.trust_model == "none":
            return transitions
        return nearest_closed_form(transitions, visits, self.error / 4.0)

    def equilibrium(self, upper_q: Floats, lower_q: Floats) -> Floats:
        pure = pure_equilibrium(upper_q, lower_q)
        return equilibrium_by_linprog(upper_q, lower_q, self.ties) if pure is None else pure
