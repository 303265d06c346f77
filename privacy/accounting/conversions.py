"""Conversions of a privacy curve: the trade-off of an attacker's two errors (f-DP), and Renyi divergences."""

from __future__ import annotations

import math
from collections.abc import Hashable
from functools import lru_cache
from typing import cast

import numpy as np
import scipy

from dprl.privacy.accounting.composition import parts_of
from dprl.privacy.accounting.curves import MaximumCurve, MinimumCurve, PrivacyCurve
from dprl.privacy.accounting.pld import RESPONSES, Kind
from dprl.privacy.accounting.poisson_sampling import SampledGaussianLoss
from dprl.privacy.accounting.root_finding import ROUNDING
from dprl.privacy.accounting.shuffling import ShuffledLoss

FALSE_POSITIVE_RATES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, *(round(0.1 * i, 1) for i in range(1, 10)))
GUESSING = 0.05
"""False positive rate for stated detection rates; it is also the true positive rate of random guessing."""
ORDERS = (2, 4, 8, 16, 32, 64)
# Deltas for the largest epsilon in the search for the best attack: the first with a finite epsilon counts.
_SMALLEST_DELTAS = (1e-4, 1e-3, 1e-2, 0.1, 0.5)
_LARGEST_EPSILON, _POINTS = 600.0, 48


def false_negative_rate(curve: PrivacyCurve, false_positive_rate: float) -> float:
    """Return a lower bound on the false negative rate of every test that distinguishes two neighbours, rounded down.

    *Formal guarantee.* A test with error rates alpha and beta has 1 - beta <= e^epsilon alpha + delta(epsilon) for
    every epsilon >= 0, and 1 - alpha <= e^epsilon beta + delta(epsilon), because the curve holds for the two neighbours
    in either order. So beta is at least the supremum over epsilon of both bounds. Every epsilon gives a valid bound, so
    the search for the best one costs tightness, not safety.

    >>> from dprl.privacy.accounting.curves import GaussianDP
    >>> round(false_negative_rate(GaussianDP(1.0), 0.05), 2)  # exact: 1 - Phi(Phi^-1(0.05) + 1) = 0.7405
    0.74

    Paper: Dong, Roth, Su 2022; Wasserman, Zhou 2010, Theorem 2.4.
    """
    alpha = false_positive_rate
    if not 0.0 <= alpha <= 1.0:
        raise ValueError(f"false_positive_rate must lie in [0, 1], got {alpha}; it is a probability")

    def bound(epsilon: float, delta: float) -> float:
        factor = math.exp(epsilon)
        # Rounding error of a difference of numbers up to 1.
        return max(1.0 - delta - factor * alpha, (1.0 - delta - alpha) / factor) - 1e-15

    profile = _profile(cast("Hashable", curve))
    bounds = [bound(epsilon, delta) for epsilon, delta in profile]
    at = int(np.argmax(bounds))
    low, high = profile[max(0, at - 1)][0], profile[min(len(profile) - 1, at + 1)][0]
    if alpha == GUESSING and high > low:
        found = scipy.optimize.minimize_scalar(
            lambda epsilon: -bound(epsilon, curve.delta(epsilon)), bounds=(low, high), method="bounded"
        )
        bounds.append(-float(found.fun))
    return max(0.0, *bounds)


@lru_cache(maxsize=256)
def _profile(described: Hashable) -> list[tuple[float, float]]:
    """Return points (epsilon, delta) of a curve, with epsilon increasing from 0."""
    curve = cast("PrivacyCurve", described)
    pure = min(curve.pure_epsilon, _LARGEST_EPSILON)
    ends = (curve.epsilon(delta) for delta in _SMALLEST_DELTAS)
    end = min(pure, next((epsilon for epsilon in ends if math.isfinite(epsilon)), 0.0))
    grid = np.unique(np.append(np.linspace(0.0, end, _POINTS), pure))
    return [(float(epsilon), curve.delta(float(epsilon))) for epsilon in grid]


def renyi(curve: PrivacyCurve) -> tuple[dict[int, float], str]:
    """Return upper bounds on the Renyi divergences of two neighbours by ORDERS, rounded up, or {} and the reason.

    *Formal guarantee.* At order a, a randomized response with epsilon has divergence ln(1 + 2 sinh(a epsilon / 2)
    sinh((a-1) epsilon / 2) / cosh(epsilon / 2)) / (a - 1) and dominates every epsilon-DP release; a report of a one-hot
    vector has its informative share of the moment's excess over 1. Gaussian and concentrated losses have a mu^2 / 2 and
    a rho. Divergences of adaptive releases add up. The sum is also at most that of one pure loss of the total. Rounds
    with Poisson sampling have ln(sum_k C(a, k) (1-q)^(a-k) q^k e^((k^2 - k) / (2 z^2))) / (a - 1) each for removal, at
    least that for addition.

    Papers: Mironov 2017, Propositions 1 and 7; Kairouz, Oh, Viswanath 2015; Bun, Steinke 2016; Mironov, Talwar,
    Zhang 2019, Theorem 5 and sec. 3.3.
    """
    if isinstance(curve, MinimumCurve):
        found = [renyi(bound) for bound in curve.curves]
        proved = [at_order for at_order, _ in found if at_order]
        return ({a: min(each[a] for each in proved) for a in ORDERS}, "") if proved else found[0]
    if isinstance(curve, MaximumCurve):
        found = [renyi(run) for run in curve.curves]
        absent = next((why for _, why in found if why), "")
        return {} if absent else {a: max(each[a] for each, _ in found) for a in ORDERS}, absent
    if isinstance(curve, ShuffledLoss):
        return {}, "no bound is proved here for reports that are shuffled"
    if isinstance(curve, SampledGaussianLoss):
        return {a: _sampled(curve, a) * (1.0 + ROUNDING) for a in ORDERS}, ""
    parts = parts_of(curve)
    if parts.curves:
        return {}, "no bound is proved here for curves of this kind: " + ", ".join(each.method for each in parts.curves)
    if parts.lost > 0.0:
        return {}, f"the proof leaves out a part of probability {parts.lost:.3g}, and so bounds no divergence"
    rest, whole = parts.mu * parts.mu / 2.0 + parts.rho, Kind(RESPONSES, parts.pure_epsilon, 1)
    sums = {a: a * rest + math.fsum(_of_kind(kind, a) for kind in parts.kinds) for a in ORDERS}
    return {a: min(total, _of_kind(whole, a)) * (1.0 + ROUNDING) for a, total in sums.items()}, ""


def _of_kind(kind: Kind, order: int) -> float:
    law, epsilon, n, informative = kind
    if law != RESPONSES:
        return order * kind.rho
    if order * epsilon > _LARGEST_EPSILON:  # Divergences rise with the order, up to the pure loss.
        return n * epsilon
    moment = 2.0 * math.sinh(order * epsilon / 2.0) * math.sinh((order - 1) * epsilon / 2.0) / math.cosh(epsilon / 2.0)
    return n * math.log1p(moment * informative) / (order - 1)


def _sampled(curve: SampledGaussianLoss, order: int) -> float:
    k = np.arange(order + 1, dtype=np.float64)
    rates = k * math.log(curve.rate)
    if curve.rate < 1.0:
        rates += (order - k) * math.log1p(-curve.rate)
    else:
        rates[:-1] = -np.inf
    coefficients = (
        scipy.special.gammaln(order + 1) - scipy.special.gammaln(k + 1.0) - scipy.special.gammaln(order - k + 1.0)
    )
    return (
        curve.n
        * float(scipy.special.logsumexp(coefficients + rates + (k * k - k) / (2.0 * curve.multiplier**2)))
        / (order - 1)
    )
