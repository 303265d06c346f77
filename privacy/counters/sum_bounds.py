"""The largest of the running sums of independent symmetric noises, from the exact distribution of the last one.

Few summands: the recursion of `tree_bounds`, a running sum being a chain of nodes. Many: Levy's inequality
P(max_k |S_k| > x) <= 2 P(|S_n| > x), whose factor of 2 is what a Wiener process has in the limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar
from scipy.special import ndtri

from dprl.privacy.counters.laplace_sums import laplace_sum_tail
from dprl.privacy.counters.solving import smallest_passing, solved
from dprl.privacy.counters.tabulated_bounds import tabulated_sum_bound
from dprl.privacy.counters.tree_bounds import KNOWN_LAWS, tree_bound
from dprl.privacy.mechanisms.base import (
    BOUNDED_LAPLACE,
    DISCRETE_GAUSSIAN,
    DISCRETE_LAPLACE,
    GAUSSIAN,
    LAPLACE,
    TABULATED,
    Mechanism,
)

Complex128Array = npt.NDArray[np.complex128]
LogTransform = Callable[[Complex128Array], Complex128Array]

_CHAIN_ITEMS = 32
# Of log |transform|: what is further down adds nothing.
_NEGLIGIBLE = -50.0
# Length of a period of the inversion in standard deviations of the tilted sum.
_PERIOD_DEVIATIONS = 16.0


def sum_bound(n_items: int, law: Mechanism, failure: float) -> float:
    """Return E with P(some running sum of 1..n_items draws of one cell is off by more than E) <= failure."""
    if law.law == TABULATED:
        return tabulated_sum_bound(n_items, law, failure)
    if n_items <= _CHAIN_ITEMS:
        return tree_bound(2 * n_items + 1, n_items, law, 1, failure)
    if law.law == GAUSSIAN:
        return law.scale * math.sqrt(n_items) * -float(ndtri(failure / 4.0))
    if law.law in (DISCRETE_LAPLACE, DISCRETE_GAUSSIAN):
        transform = discrete_laplace_transform if law.law == DISCRETE_LAPLACE else discrete_gaussian_transform
        guess = math.ceil(math.sqrt(n_items * law.variance) * -float(ndtri(failure / 4.0)))

        def fails(largest: int) -> bool:
            return 4.0 * lattice_sum_tail(largest + 1, n_items, law.scale, transform) > failure

        return float(smallest_passing(fails, guess))
    if law.law not in (LAPLACE, BOUNDED_LAPLACE):
        raise ValueError(f"law must be one of {KNOWN_LAWS}, got {law.name}; no exact bound is known for it")
    # A bounded Laplace is the more peaked of two symmetric unimodal laws: its sums exceed less.
    return law.scale * solved(lambda x: 2.0 * laplace_sum_tail(x, n_items), failure)


def discrete_laplace_transform(s: Complex128Array, scale: float) -> Complex128Array:
    """Return log E e^(s Z), P(z) proportional to exp(-|z| / scale), |Re s| < 1 / scale."""
    ratio = math.exp(-1.0 / scale)
    both_sides: Complex128Array = np.log1p(-ratio * np.exp(s)) + np.log1p(-ratio * np.exp(-s))
    log_transform: Complex128Array = 2.0 * math.log(-math.expm1(-1.0 / scale)) - both_sides
    return log_transform


def discrete_gaussian_transform(s: Complex128Array, scale: float) -> Complex128Array:
    """Return log E e^(s Z), P(z) proportional to exp(-z^2 / (2 scale^2)); |Im s| <= pi."""
    if scale < 1.0:
        z = np.arange(-64, 65)
        mass = np.exp(-0.5 * (z / scale) ** 2)
        powers: Complex128Array = np.exp(s[:, None] * z - 0.5 * (z / scale) ** 2).sum(axis=1)
        log_sum: Complex128Array = np.log(powers / mass.sum())
        return log_sum
    # Poisson's summation formula: the next terms are below e^-39 of these.
    j = np.arange(-2, 3)
    variance = scale * scale
    heights = -2.0 * variance * (np.pi * j) ** 2
    waves: Complex128Array = np.exp(heights + 2j * np.pi * variance * s[:, None] * j).sum(axis=1)
    log_ratio: Complex128Array = np.log(waves / np.exp(heights).sum())
    return 0.5 * variance * s * s + log_ratio


def lattice_sum_tail(
    m: int, n: int, scale: float, transform: Callable[[Complex128Array, float], Complex128Array]
) -> float:
    """Return P(Z_1 + ... + Z_n >= m), m >= 1, from the log of the moment generating function of Z on the integers.

    The sum over a period of M(s)^n e^(-sm) / (1 - e^-s), s = theta + it at equidistant t, is the tail plus tails of
    other m with positive weights: never below the tail, and above it by less than 1e-6 of it with this many points.
    """

    def log_integrand(s: Complex128Array) -> Complex128Array:
        return n * transform(s, scale) - s * m - np.log(-np.expm1(-s))

    def on_axis(theta: float) -> float:
        return float(log_integrand(np.array([theta + 0j]))[0].real)

    limit = 1.0 / scale if transform is discrete_laplace_transform else math.inf
    theta = _lowest(on_axis, 1.0 / (scale * math.sqrt(n)), limit)
    # The modulus falls on (0, pi): either transform is a product of |1 + c e^s|, c > 0, or 1 / |1 - c e^s|.
    lowest, cutoff = on_axis(theta) + _NEGLIGIBLE, 1.0 / (scale * math.sqrt(n))
    while cutoff < math.pi and log_integrand(np.array([complex(theta, cutoff)]))[0].real > lowest:
        cutoff *= 1.3
    return inverted_tail(log_integrand, theta, min(cutoff, math.pi))


def inverted_tail(log_integrand: LogTransform, theta: float, cutoff: float) -> float:
    """Return the integral of exp(log_integrand(s)) / (2 pi i) along Re s = theta, |Im s| <= cutoff.

    By equidistant points, which can only err upwards if the integral is a tail. theta > 0 near the minimum on the real
    axis; what lies beyond the cutoff must be negligible.
    """
    near = 1e-3 * theta
    ends = log_integrand(np.array([theta - near, theta, theta + near], dtype=np.complex128)).real
    deviation = math.sqrt(max(float(ends[0] - 2.0 * ends[1] + ends[2]), 0.0)) / near
    top = float(ends[1])
    # Odd, so that a whole period of a lattice is made of pairs +-t and of 0.
    period = 2 * math.ceil(0.5 * (_PERIOD_DEVIATIONS * deviation + (20.0 - min(top, 0.0)) / theta)) + 1
    t = 2.0 * math.pi / period * np.arange(1, 1 + math.floor(cutoff * period / (2.0 * math.pi)))
    one_side = np.exp(log_integrand(np.asarray(theta + 1j * t, dtype=np.complex128)) - top).real.sum()
    return math.exp(top) * float(1.0 + 2.0 * one_side) / period


def _lowest(function: Callable[[float], float], first: float, limit: float) -> float:
    """Return where a convex function on (0, limit) is lowest, about."""
    high = min(first, 0.5 * limit)
    while 2.0 * high < limit and function(2.0 * high) < function(high):
        high *= 2.0
    found = minimize_scalar(
        function, bounds=(0.0, min(2.0 * high, limit)), method="bounded", options={"xatol": 1e-4 * high}
    )
    return float(found.x)
