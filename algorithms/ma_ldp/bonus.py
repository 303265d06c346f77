"""The radius beta_{k,h} of each noise mechanism, as [TH23] prints it."""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.base import Float64Array

EXPONENT = 0.25
"""beta grows like k^(1/4)."""


_POWERS = {
    "raw": (0.0, 0.0),
    "gram_gaussian": (0.5, 0.25),
    "gram_laplace": (0.5, 0.0),
    "gram_bounded_laplace": (0.5, 0.0),
    "gram_uniform": (0.0, 0.25),
}
"""What beta has of the mechanism: the powers of 1/epsilon and of ln((H-h+1)/delta)."""


def first_radii(mechanism: str, budget: tuple[float, float], sizes: tuple[int, int, int], alpha: float) -> Float64Array:
    """Return beta_{k,h} / (c k^(1/4)), float64[H]: (nd)^(3/4) (H-h+1)^(3/2) ln(ndT/alpha) times the mechanism's factor.

    budget: epsilon and delta as asked for. sizes: D = n d, H and K; T = K H.

    Paper: [TH23] Theorems 2, 4, 6 and 8.
    """
    (epsilon, delta), (dimension, horizon, episodes) = budget, sizes
    of_epsilon, of_delta = _POWERS[mechanism]
    common = dimension**0.75 * math.log(dimension * episodes * horizon / alpha) / epsilon**of_epsilon
    ahead = np.arange(horizon, 0, -1)
    logarithms = np.log(ahead / delta) ** of_delta if of_delta else 1.0
    return np.asarray(common * ahead**1.5 * logarithms)
