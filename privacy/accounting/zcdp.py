"""Zero-concentrated differential privacy, and what it says about (epsilon, delta).

With t = alpha - 1 the bound of every order is log delta = t ((t + 1) rho - epsilon) - t log(1 + 1/t) - log(1 + t),
convex in t. Any t proves its bound, so an inexact minimiser costs tightness and never safety.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq

from dprl.privacy.accounting.root_finding import ROUNDING, inside, largest, smallest
from dprl.privacy.base import Float64Array


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return the delta at `epsilon` of whatever is rho-zCDP, rounded up.

    *Formal guarantee.* The least delta that Renyi divergences of at most alpha * rho for all alpha > 1 prove:
    min over alpha of exp((alpha - 1)(alpha rho - epsilon)) (1 - 1/alpha)^alpha / (alpha - 1).

    Paper: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    if rho <= 0.0:
        return 0.0
    if math.isinf(rho):
        return 1.0
    if math.isinf(epsilon):
        return 0.0

    def slope(u: float) -> float:
        return (2.0 * math.exp(u) + 1.0) * rho - float(np.logaddexp(0.0, -u)) - epsilon

    high = math.log(epsilon / (2.0 * rho) + 1.0 / math.sqrt(2.0 * rho)) + 1e-9
    t = math.exp(float(brentq(slope, -3.0 * rho - 1.0, high, xtol=1e-12)))
    if t == 0.0:
        return 1.0
    # Summed by size: t * epsilon is the largest term and cancels most of t * (t + 1) * rho.
    log_delta = t * ((t + 1.0) * rho - epsilon) - t * math.log1p(1.0 / t) - math.log1p(t)
    return min(1.0, math.exp(log_delta) * (1.0 + ROUNDING))


def zcdp_epsilon(delta: float, rho: float) -> float:
    """Return the epsilon at which zcdp_delta(epsilon, rho) = delta, rounded up; infinite for delta = 0.

    Paper: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    if rho <= 0.0 or delta >= 1.0:
        return 0.0
    if delta <= 0.0 or math.isinf(rho):
        return math.inf
    if zcdp_delta(0.0, rho) <= delta:
        return 0.0
    guess = rho + 2.0 * math.sqrt(rho * -math.log(delta))
    return smallest(lambda epsilon: zcdp_delta(epsilon, rho), delta, guess)


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho for which zcdp_delta(epsilon, rho) <= delta, rounded down.

    Paper: Canonne, Kamath, Steinke 2020, Proposition 12.
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be above 0 and below 1 where noise is calibrated by zCDP, got {delta}")
    if not 0.0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be at least 0 and finite, got {epsilon}")
    epsilon, delta = inside(epsilon, delta)
    root = math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta))
    return largest(lambda rho: zcdp_delta(epsilon, rho), delta, max(root * root, delta * delta))


def zcdp_deltas(epsilons: Float64Array, rho: float) -> Float64Array:
    """Return deltas that hold for pairs that are rho-zCDP in both directions, float64[n], also at negative epsilons.

    A little above zcdp_delta: the order is found by bisection in a fixed number of steps. Below zero
    delta(-epsilon) = 1 - exp(-epsilon) + exp(-epsilon) * delta of the pair in the other order at epsilon.
    """
    size = np.abs(epsilons)
    low = np.full(size.shape, -3.0 * rho - 1.0)
    high = np.log(size / (2.0 * rho) + 1.0 / math.sqrt(2.0 * rho)) + 1e-9
    for _ in range(30):
        middle = 0.5 * (low + high)
        rises = (2.0 * np.exp(middle) + 1.0) * rho - np.logaddexp(0.0, -middle) > size
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    t = np.exp(high)
    t = np.maximum(t, 1e-300)
    log_delta = t * ((t + 1.0) * rho - size) - t * np.log1p(1.0 / t) - np.log1p(t)
    delta = np.minimum(1.0, np.exp(log_delta) * (1.0 + ROUNDING))
    below: Float64Array = -np.expm1(-size) + np.exp(-size) * delta
    return np.where(epsilons >= 0.0, delta, below).astype(np.float64)
