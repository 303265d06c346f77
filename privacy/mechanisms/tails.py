"""Tails of sums of noise: laws on a lattice, inverted transforms, and bounds by moment generating functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.root_finding import smallest_passing
from dprl.privacy.base import Float64Array

Complex128Array = npt.NDArray[np.complex128]
LogTransform = Callable[[Complex128Array], Complex128Array]

NEGLIGIBLE = 1e-50
"""Total probability of the values left out of a law of sums."""
LARGEST_LATTICE_SCALE = 64.0
"""Discrete laws of larger scales are treated as continuous."""
# Of log |transform|: values further down add nothing.
_NEGLIGIBLE_LOG = -50.0
# Length of a period of the inversion in standard deviations of the tilted sum.
_PERIOD_DEVIATIONS = 16.0
_MIXTURE_STANDARD_DEVIATIONS = 14.0
# Largest weight of the left-out part of a mixture.
_LEFT_OUT = 1e-40
# Logarithms of the argument on either side of its Gaussian value within which a moment bound is minimised.
_REACH = 8.0
_LARGEST_ARGUMENT = 1e100
LEAST_VARIANCE = 1e-300
"""Replaces variances that underflow."""


class Lattice(NamedTuple):
    """A symmetric law on the integers: `mass` float64[m] of 0..m-1, then mass[-1] * ratio, * ratio^2, ..."""

    mass: Float64Array
    ratio: float

    def spread(self, inside: Float64Array) -> Float64Array:
        """Return the mean of g(x + Z), x = -N..N, for g = `inside` float64[2N+1], symmetric, there and 1 elsewhere."""
        if self.ratio > 0.0:
            # The sum over j >= 1 of ratio^j g(x - j), by doubling the number of terms.
            total = np.concatenate(([1.0 / (1.0 - self.ratio)], inside))
            shift, factor = 1, self.ratio
            while shift < total.shape[0] and factor > 0.0:
                total[shift:] = total[shift:] + factor * total[:-shift]
                shift, factor = 2 * shift, factor * factor
            one_side = self.ratio * total[:-1]
            return float(self.mass[0]) * inside + (float(self.mass[1]) / self.ratio) * (one_side + one_side[::-1])
        reach = self.mass.shape[0] - 1
        inner = np.convolve(inside, np.concatenate((self.mass[:0:-1], self.mass)))[reach : reach + inside.shape[0]]
        beyond, near = np.zeros(inside.shape[0]), min(inside.shape[0], reach)
        beyond[:near] = np.cumsum(self.mass[::-1])[::-1][1 : near + 1]
        return inner + beyond + beyond[::-1]

    def summed(self, summands: int) -> Lattice:
        """Return the law of a sum of `summands` independent draws, without negligible masses."""
        if summands == 1:
            return self
        mass = self.mass
        if self.ratio > 0.0:
            beyond = np.arange(1 + math.ceil(math.log(NEGLIGIBLE) / math.log(self.ratio)))
            mass = np.append(mass[:-1], mass[-1] * self.ratio**beyond)
        one = np.concatenate((mass[:0:-1], mass))
        total = one
        for _ in range(summands - 1):
            total = np.convolve(total, one)
            total = total[np.flatnonzero(total > NEGLIGIBLE)[0] :]
            total = total[: np.flatnonzero(total > NEGLIGIBLE)[-1] + 1]
        return Lattice(total[total.shape[0] // 2 :], 0.0)


def few_enough(scale: float, summands: int) -> bool:
    """Whether a sum of draws of a discrete law of that scale is treated on its lattice."""
    return scale < 1.0 or scale * math.sqrt(summands) <= LARGEST_LATTICE_SCALE


def laplace_sum_tail(x: float, m: int) -> float:
    """Return P(|X_1 + ... + X_m| > x) for independent Laplace(1), up to a relative rounding error below 1e-7.

    With weights w_j = C(m-1+j, j) 2^-(m+j), j < m, the density is the w-mixture of Gamma(m-j) on either side; weights
    of one side sum to 1/2. Those over 14 standard deviations from the top are replaced by a bound on their weight.
    """
    first = max(0, m - 1 - int(_MIXTURE_STANDARD_DEVIATIONS * math.sqrt(2.0 * m)))
    j = np.arange(first, m)
    gammaln = scipy.special.gammaln
    weight = np.exp(gammaln(m + j) - gammaln(j + 1) - gammaln(m) - (m + j) * np.log(2.0))
    # Dividing by their sum removes an error shared by all weights of a large m.
    above = float(np.sum(weight * scipy.special.gammaincc(m - j, x)) / np.sum(weight))
    return above if first == 0 else above + _LEFT_OUT


def lattice_sum_bound(
    n: int, failure: float, variance: float, log_transform: LogTransform, scale: float, limit: float = math.inf
) -> float:
    """Return E with P(some running sum of 1..n draws exceeds E) <= failure, by Levy's inequality."""

    def fails(largest: int) -> bool:
        return 4.0 * lattice_sum_tail(largest + 1, n, log_transform, scale, limit) > failure

    guess = math.sqrt(n * variance) * -float(scipy.special.ndtri(failure / 4.0))
    return float(smallest_passing(fails, math.ceil(guess)))


def lattice_sum_tail(m: int, n: int, log_transform: LogTransform, scale: float, limit: float = math.inf) -> float:
    """Return P(Z_1 + ... + Z_n >= m), m >= 1, from the law's transform.

    The sum over a period of M(s)^n e^(-sm) / (1 - e^-s), s = theta + it at equidistant t, is the tail plus tails of
    other m with positive weights: at least the tail, with a relative excess below 1e-6 for this number of points.

    log_transform: ln E e^(s Z) of a draw Z, |Re s| < limit; its real part falls with |Im s| on (0, pi). scale: of Z.
    """

    def log_integrand(s: Complex128Array) -> Complex128Array:
        return n * log_transform(s) - s * m - np.log(-np.expm1(-s))

    def on_axis(theta: float) -> float:
        return float(log_integrand(np.array([theta + 0j]))[0].real)

    # An approximate minimiser of a convex function on (0, limit).
    start = 1.0 / (scale * math.sqrt(n))
    high = min(start, 0.5 * limit)
    while 2.0 * high < limit and on_axis(2.0 * high) < on_axis(high):
        high *= 2.0
    bounds, accuracy = (0.0, min(2.0 * high, limit)), {"xatol": 1e-4 * high}
    theta = float(scipy.optimize.minimize_scalar(on_axis, bounds=bounds, method="bounded", options=accuracy).x)
    # A transform that is a product of |1 + c e^s|, c > 0, or 1 / |1 - c e^s|, falls on (0, pi).
    lowest, cutoff = on_axis(theta) + _NEGLIGIBLE_LOG, start
    while cutoff < math.pi and log_integrand(np.array([complex(theta, cutoff)]))[0].real > lowest:
        cutoff *= 1.3
    return inverted_tail(log_integrand, theta, min(cutoff, math.pi))


def inverted_tail(log_integrand: LogTransform, theta: float, cutoff: float) -> float:
    """Return the integral of exp(log_integrand(s)) / (2 pi i) along Re s = theta, |Im s| <= cutoff.

    It uses equidistant points, which overestimate the integral if it is a tail. theta > 0 near the minimum on the real
    axis; the part beyond the cutoff must be negligible.
    """
    near = 1e-3 * theta
    ends = log_integrand(np.array([theta - near, theta, theta + near], dtype=np.complex128)).real
    deviation = math.sqrt(max(float(ends[0] - 2.0 * ends[1] + ends[2]), 0.0)) / near
    top = float(ends[1])
    # Odd, so that a whole period of a lattice consists of pairs +-t and of 0.
    period = 2 * math.ceil(0.5 * (_PERIOD_DEVIATIONS * deviation + (20.0 - min(top, 0.0)) / theta)) + 1
    t = 2.0 * math.pi / period * np.arange(1, 1 + math.floor(cutoff * period / (2.0 * math.pi)))
    one_side = np.exp(log_integrand(np.asarray(theta + 1j * t, dtype=np.complex128)) - top).real.sum()
    return math.exp(top) * float(1.0 + 2.0 * one_side) / period


def least_over_arguments(function: Callable[[float], float], guess: float, limit: float = math.inf) -> float:
    """Return the minimum of a function with one minimum over (0, limit), within a factor of about e^8 of a guess.

    Bounds by moment generating functions hold at every argument, so an inexact minimiser costs tightness, not safety.
    """
    centre = math.log(min(guess, 0.5 * limit, _LARGEST_ARGUMENT))
    highest = min(centre + _REACH, math.log(limit * (1.0 - 1e-9)) if limit < math.inf else math.inf)
    found = scipy.optimize.minimize_scalar(
        lambda log_argument: function(math.exp(log_argument)),
        bounds=(centre - _REACH, highest),
        method="bounded",
        options={"xatol": 1e-7},
    )
    return float(found.fun)


def moment_bound(
    log_moment: Callable[[float], float], draws: int, failure: float, variance: float, limit: float = math.inf
) -> float:
    """Return E with P(some running sum of 1..draws draws exceeds E) <= failure, from ln E e^(argument Z) of one draw.

    By Doob's inequality for the submartingale e^(argument S_k), on both sides, it is (draws ln M + ln(2 / failure)) /
    argument at the best argument, a few per cent above the smallest E.
    """
    log_odds = math.log(2.0 / failure)
    guess = math.sqrt(2.0 * log_odds / max(draws * variance, LEAST_VARIANCE))
    return least_over_arguments(lambda a: (draws * log_moment(a) + log_odds) / a, guess, limit)
