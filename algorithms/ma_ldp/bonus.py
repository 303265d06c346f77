"""Radius beta_{k,h} of each noise mechanism, as printed in [TH23]."""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.base import Float64Array

EXPONENT = 0.25
"""beta grows like k^(1/4)."""


POWERS = {
    "raw": (0.0, 0.0),
    "gram_gaussian": (0.5, 0.25),
    "gram_laplace": (0.5, 0.0),
    "gram_bounded_laplace": (0.5, 0.0),
    "gram_uniform": (0.0, 0.25),
}
"""Factor of beta by mechanism: the powers of 1/epsilon and of ln((H-h+1)/delta)."""


def beta_rates(
    mechanism: str, budget: tuple[float, float] | None, sizes: tuple[int, int, int], alpha: float
) -> Float64Array:
    """Return beta_{k,h} / (c k^(1/4)), float64[H]: (nd)^(3/4) (H-h+1)^(3/2) ln(ndT/alpha) times the mechanism's factor.

    budget: the requested epsilon and delta, None without noise. sizes: D = n d, H and K; T = K H.

    Paper: [TH23] Theorems 2, 4, 6 and 8.
    """
    dimension, horizon, episodes = sizes
    of_epsilon, of_delta = POWERS[mechanism]
    ahead = np.arange(horizon, 0, -1)
    rates = dimension**0.75 * math.log(dimension * episodes * horizon / alpha) * ahead**1.5
    if budget is None:
        return np.asarray(rates)
    epsilon, delta = budget
    logarithms = np.log(ahead / delta) ** of_delta if of_delta else 1.0
    return np.asarray(rates * logarithms / epsilon**of_epsilon)
