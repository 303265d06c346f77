"""Closed forms of composition: pure epsilon, (epsilon, delta) of many small Laplace releases, Gaussian noise, zCDP.

Discrete Laplace noise on a count that changes by 1 has a privacy loss of +-1/b only, so it *is* randomized response
with epsilon_0 = 1/b; its n-fold composition has a closed form. The same curve bounds continuous Laplace noise, smaller
changes and adaptive composition from above.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.root_finding import ROUNDING, inside, largest, least_epsilon, quotient_down, smallest
from dprl.privacy.base import Float64Array

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_SQRT_2 = math.sqrt(2.0)
# Many cells of a sweep, and all seeds of a cell, need the same epsilon; solving for one takes a millisecond.
_REMEMBERED = 4096


def composed_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    """Return delta(epsilon) of n randomized responses with epsilon_0 each.

    *Formal guarantee.* Exact for n cells with discrete Laplace(1/epsilon_0) noise, each changed by one; an upper bound
    for any n-fold adaptive composition of epsilon_0-DP releases.

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    # The mass beyond 20 sqrt(n) from the mean is below exp(-800).
    mean = n * float(scipy.special.expit(-epsilon_0))
    reach = 20.0 * math.sqrt(n)
    i = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1)
    log_q = -math.log1p(math.exp(-epsilon_0))
    log_binomial = scipy.special.gammaln(n + 1) - scipy.special.gammaln(i + 1) - scipy.special.gammaln(n - i + 1)
    log_p = log_binomial + n * log_q - i * epsilon_0
    # The loss of outcome i minus epsilon, in closed form: a difference of the two log masses would cancel.
    gap = (n - 2 * i) * epsilon_0 - epsilon
    positive = gap > 0.0
    # Error of the binomial coefficients of a large n.
    room = 1.0 + 4e-16 * float(scipy.special.gammaln(n + 1))
    return min(1.0, float(np.sum(np.exp(log_p[positive]) * -np.expm1(-gap[positive]))) * room)


@lru_cache(_REMEMBERED, typed=True)
def composed_epsilon(delta: float, n: int, epsilon_0: float) -> float:
    """Return the epsilon with composed_delta(epsilon, n, epsilon_0) = delta, rounded up; n * epsilon_0 for 0."""
    pure = n * epsilon_0
    if math.isinf(pure):
        return pure
    # At the pure epsilon, delta is 0, except for rounding errors.
    return least_epsilon(lambda e: composed_delta(e, n, epsilon_0) if e < pure else 0.0, delta, pure, pure)


def largest_loss(epsilon: float, delta: float, n: int) -> float:
    """Return the largest epsilon_0 for which n adaptive epsilon_0-DP releases are (epsilon, delta)-DP, rounded down.

    *Formal guarantee.* For delta = 0, n epsilon_0 <= epsilon as rational numbers. For delta > 0, the
    randomized-response curve, exact for n randomized responses, meets (epsilon, delta).

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    least = quotient_down(epsilon, n)
    if delta <= 0.0:
        return least
    epsilon, delta = inside(epsilon, delta)
    scale = n / epsilon
    return max(least, 1.0 / smallest(lambda b: composed_delta(epsilon, n, 1.0 / b) if b < scale else 0.0, delta, scale))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta(epsilon) of a Gaussian release with mu = L2 sensitivity / sigma, for any epsilon >= 0.

    It is phi(x) (M(x) - M(x + mu)) with x = epsilon / mu - mu / 2 and Mills' ratio M, because the usual difference of
    two normal probabilities has no correct digits below 1e-13.

    Paper: Balle, Wang 2018, Theorem 8.
    """
    if mu <= 0.0 or math.isinf(epsilon):
        return 0.0
    if math.isinf(mu):
        return 1.0
    x = epsilon / mu - mu / 2
    density = math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    if mu < 1.0:
        # M'(s) = s M(s) - 1; as an integral nothing cancels when mu is small.
        s = x + mu * 0.5 * (_NODES + 1.0)
        return density * 0.5 * mu * float(np.sum(_WEIGHTS * (1.0 - s * _mills(s))))
    if x >= 0.0:
        return density * float(_mills(x) - _mills(x + mu))
    return float(scipy.special.ndtr(-x)) - density * float(_mills(x + mu))


def _mills(x: npt.NDArray[np.float64] | float) -> npt.NDArray[np.float64]:
    return np.asarray(math.sqrt(0.5 * math.pi) * scipy.special.erfcx(np.asarray(x) / _SQRT_2))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-DP, rounded down: noise sigma = L2 sensitivity / mu."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be above 0 and below 1 for Gaussian noise, got {delta}")
    epsilon, delta = inside(epsilon, delta)
    return largest(lambda mu: gaussian_delta(epsilon, mu), delta, max(delta, math.sqrt(2.0 * epsilon)))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the epsilon with gaussian_delta(epsilon, mu) = delta, rounded up; infinite for delta = 0."""
    if mu <= 0.0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta <= 0.0 or math.isinf(mu):
        return math.inf
    return smallest(lambda epsilon: gaussian_delta(epsilon, mu), delta, mu * mu / 2 + mu)


# With t = alpha - 1 the bound of every order is log delta = t ((t + 1) rho - epsilon) - t log(1 + 1/t) - log(1 + t),
# convex in t. Every t gives a valid bound, so an inexact minimiser costs tightness, not safety.


def zcdp_delta(epsilon: float, rho: float) -> float:
    """Return the delta at `epsilon` of any rho-zCDP mechanism, rounded up.

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
    t = math.exp(float(scipy.optimize.brentq(slope, -3.0 * rho - 1.0, high, xtol=1e-12)))
    if t < 1e-300:  # 1 / t overflows below 1e-308, and delta would be 0 instead of nearly 1
        return 1.0
    # Summed by size: t * epsilon is the largest term and cancels most of t * (t + 1) * rho.
    log_delta = t * ((t + 1.0) * rho - epsilon) - t * math.log1p(1.0 / t) - math.log1p(t)
    return min(1.0, math.exp(log_delta) * (1.0 + ROUNDING))


def zcdp_epsilon(delta: float, rho: float) -> float:
    """Return the epsilon with zcdp_delta(epsilon, rho) = delta, rounded up; infinite for delta = 0.

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
    """Return the largest rho with zcdp_delta(epsilon, rho) <= delta, rounded down.

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

    They are slightly above zcdp_delta, because the order is found by bisection in a fixed number of steps. Below zero,
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
