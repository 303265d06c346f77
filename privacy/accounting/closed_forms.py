"""What releases add up to: pure epsilon, and the (epsilon, delta) curve of many small Laplace releases.

Discrete Laplace noise on a count that changes by 1 has a privacy loss of +-1/b only, so it *is* randomised response
with epsilon_0 = 1/b; its n-fold composition has a closed form. The same curve bounds continuous Laplace noise, smaller
changes and adaptive composition from above.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln, log_ndtr

# Relative; what a root may be off by, with room to spare. Epsilons and scales are rounded up by it.
_ROUNDING = 1e-9


def composed_delta(epsilon: float, n: int, epsilon_0: float) -> float:
    """Return delta(epsilon) of n randomised responses with epsilon_0 each.

    *Formal guarantee.* Exact for n cells with discrete Laplace(1/epsilon_0) noise, each changed by one; an upper bound
    for any n-fold adaptive composition of epsilon_0-DP releases.

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """
    i = np.arange(n + 1)
    log_q = -math.log1p(math.exp(-epsilon_0))
    log_binomial = gammaln(n + 1) - gammaln(i + 1) - gammaln(n - i + 1)
    log_p = log_binomial + n * log_q - i * epsilon_0
    # The loss of outcome i less epsilon, in closed form: a difference of the two log masses would cancel.
    gap = (n - 2 * i) * epsilon_0 - epsilon
    positive = gap > 0.0
    return float(np.sum(np.exp(log_p[positive]) * -np.expm1(-gap[positive])))


def composed_epsilon(delta: float, n: int, epsilon_0: float) -> float:
    """Return the epsilon at which composed_delta(epsilon, n, epsilon_0) = delta, rounded up; n * epsilon_0 for 0."""
    pure = n * epsilon_0
    if delta <= 0.0:
        return pure
    if composed_delta(0.0, n, epsilon_0) <= delta:
        return 0.0
    # At the pure epsilon delta is 0; rounding may leave a trace of it there.
    root = brentq(
        lambda e: (composed_delta(e, n, epsilon_0) if e < pure else 0.0) - delta, 0.0, pure, xtol=1e-13 * pure
    )
    return min(pure, float(root) * (1.0 + _ROUNDING))


def laplace_scale(epsilon: float, delta: float, n: int) -> float:
    """Return the smallest Laplace scale for which n changes of at most 1 are (epsilon, delta)-DP.

    *Formal guarantee.* For delta = 0 exactly n / epsilon. For delta > 0 the scale at which the randomised-response
    curve, which dominates the Laplace composition, meets (epsilon, delta); rounded up.
    """
    pure = n / epsilon
    if delta <= 0.0:
        return pure

    def excess(scale: float) -> float:
        return (composed_delta(epsilon, n, 1.0 / scale) if scale < pure else 0.0) - delta

    low = pure / 2.0
    while excess(low) <= 0.0:
        low /= 2.0
    scale = brentq(excess, low, 2.0 * low, xtol=1e-12 * low)
    return min(pure, float(scale) * (1.0 + _ROUNDING))


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact delta(epsilon) of a Gaussian release with mu = L2 sensitivity / sigma, for any epsilon >= 0.

    Paper: Balle, Wang 2018, Theorem 8.
    """
    first = log_ndtr(-epsilon / mu + mu / 2)
    second = epsilon + log_ndtr(-epsilon / mu - mu / 2)
    return max(0.0, math.exp(first) - math.exp(second))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest mu that is (epsilon, delta)-DP: noise sigma = L2 sensitivity / mu."""
    high = 1.0
    while gaussian_delta(epsilon, high) < delta:
        high *= 2.0
    return float(brentq(lambda mu: gaussian_delta(epsilon, mu) - delta, 1e-9, high, xtol=1e-14))


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Return the epsilon at which gaussian_delta(epsilon, mu) = delta."""
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2.0
    return float(brentq(lambda e: gaussian_delta(e, mu) - delta, 0.0, high, xtol=1e-12))
