"""The largest of the running sums of noises whose law is a table, from their moment generating function."""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.tabulated import TabulatedMechanism


def tabulated_sum_bound(n_items: int, law: Mechanism, failure: float) -> float:
    """Return E with P(some running sum of 1..n_items draws is off by more than E) <= failure, law one of a table.

    By Doob's inequality, as in weighted_bounds: a few per cent above the smallest E. It holds for weights in [-1, 1]
    that are fixed in advance, too: the moment generating function of a symmetric law rises with the weight's size.
    """
    if not isinstance(law, TabulatedMechanism):
        raise ValueError(f"law must be one of a table, got {law.name}; take running_sum_bound")
    log_masses = np.log(law.masses) + np.append(0.0, np.full(law.masses.size - 1, math.log(2.0)))
    sizes, log_odds = np.arange(law.masses.size, dtype=np.float64), math.log(2.0 / failure)

    def crossing(log_argument: float) -> float:
        argument = math.exp(log_argument)
        # ln cosh, in terms that do not overflow
        both = sizes * argument + np.log1p(np.exp(-2.0 * sizes * argument)) - math.log(2.0)
        return (n_items * float(logsumexp(log_masses + both)) + log_odds) / argument

    centre = -0.5 * math.log(n_items * law.variance)
    found = minimize_scalar(crossing, bounds=(centre - 8.0, centre + 8.0), method="bounded", options={"xatol": 1e-6})
    return min(float(found.fun), n_items * law.bound)
