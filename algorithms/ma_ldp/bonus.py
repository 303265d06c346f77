"""The radius beta_{k,h} of each noise mechanism, as [TH23] prints it."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dprl.algorithms.base import Float64Array

EXPONENT = 0.25
"""beta grows like k^(1/4)."""


def _roots(epsilon: float, delta: float, ahead: int) -> float:  # noqa: ARG001 - all take the same
    return 1.0 / math.sqrt(epsilon)


_FACTORS: dict[str, Callable[[float, float, int], float]] = {
    "raw": lambda epsilon, delta, ahead: 1.0,
    "gram_gaussian": lambda epsilon, delta, ahead: math.log(ahead / delta) ** 0.25 / math.sqrt(epsilon),
    "gram_laplace": _roots,
    "gram_bounded_laplace": _roots,
    "gram_uniform": lambda epsilon, delta, ahead: math.log(ahead / delta) ** 0.25,
}
"""What the mechanism multiplies beta by: of epsilon, delta and H - h + 1."""


def first_radii(mechanism: str, budget: tuple[float, float], sizes: tuple[int, int, int], alpha: float) -> Float64Array:
    """Return beta_{k,h} / (c k^(1/4)), float64[H]: (nd)^(3/4) (H-h+1)^(3/2) ln(ndT/alpha) times the mechanism's factor.

    budget: epsilon and delta as asked for. sizes: D = n d, H and K; T = K H.

    Paper: [TH23] Theorems 2, 4, 6 and 8.
    """
    (epsilon, delta), (dimension, horizon, episodes) = budget, sizes
    ahead = range(horizon, 0, -1)
    common = dimension**0.75 * math.log(dimension * episodes * horizon / alpha)
    return np.array([common * left**1.5 * _FACTORS[mechanism](epsilon, delta, left) for left in ahead])
