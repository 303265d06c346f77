"""PrivUnit2: a random unit vector that leans towards the direction of a gradient, under pure local privacy.

With probability p the message lies in the cap {x: <x, v> >= gamma} around the user's direction v, else outside it,
uniformly within each. No epsilon-LDP unbiased estimate of a direction with less noise is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.closed_forms import RandomizedResponses
from dprl.privacy.mechanisms.base import IDEALISED
from dprl.privacy.mechanisms.privunit_kernels import privunit_workspace
from dprl.privacy.mechanisms.sampling import silent
from dprl.privacy.mechanisms.vectors import CAP, VectorMechanism, VectorNoise

# Relative; error of the incomplete beta function, with a margin (tests compare it with rationals and
# with 40 digits), and for every dimension the rounding of 1 - gamma^2.
_MASS_ERROR, _MASS_ERROR_PER_DIMENSION = 1e-9, 2.0**-50
# The square of a smaller threshold loses digits.
_LEAST_THRESHOLD = 1e-150
_LEAST_MASS = 1e-300
_LARGEST_COIN_EPSILON = 30.0
# Number of draws reserved for a message, because rejection has no bound.
_DRAWS, _MOST_SUBMISSIONS = 1 << 32, 2**31


@dataclass(frozen=True)
class PrivUnit(VectorMechanism):
    """A unit vector from the cap around the input's direction with probability p, from its complement otherwise.

    *Formal guarantee.* For any two vectors of the user, of any norms, one message is epsilon-LDP with epsilon = ln(p /
    (1 - p)) + ln((1 - q) / q), where q is the mass of the cap: the density of a message relative to the uniform one is
    p/q within the cap and (1 - p)/(1 - q) outside, and antipodal inputs attain the ratio. `epsilon` is computed from
    the p and gamma that the sampler uses, with bounds of the rounding errors added.

    The coin is exact: p is a multiple of 2^-53 and is compared with 53 bits. The sampler draws <x, v> from its
    conditional law by rejection and adds a uniform direction orthogonal to v. The last bits of the message depend on v:
    'float64-idealised'. The running time reveals the coin: rejection takes longer on one side of the cap's edge.

    A vector without direction (zero, or without a finite coordinate) is treated like a uniformly random one: the
    density of its message is 1, between the two above, and its estimate has mean zero.

    Args:
        dimension: d >= 2, of the vector.
        probability: p in [1/2, 1), of the cap; a multiple of 2^-53, like every float64 in this range.
        threshold: gamma in [0, 1), the least <x, v> of the cap.

    Paper: Bhowmick, Duchi, Freudiger, Kapoor, Rogers 2018, Algorithm 1; Asi, Feldman, Talwar 2022, sec. 4.
    """

    dimension: int
    probability: float
    threshold: float
    name: ClassVar[str] = "privunit"
    arithmetic: ClassVar[str] = IDEALISED
    NAMED: ClassVar[dict[str, object]] = {"exact": False}

    def __post_init__(self) -> None:
        _check_dimension(self.dimension)
        if not 0.5 <= self.probability < 1.0:
            raise ValueError(f"probability must lie in [0.5, 1), got {self.probability}; ask for a smaller epsilon")
        if not 0.0 <= self.threshold < 1.0:
            raise ValueError(f"threshold must lie in [0, 1), got {self.threshold}; ask for a smaller epsilon")
        if cap_mass(self.dimension, self.threshold) < _LEAST_MASS:
            raise ValueError(f"threshold {self.threshold} leaves a cap of mass below {_LEAST_MASS:.3g}; lower it")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, dimension: int) -> PrivUnit:  # noqa: ARG003
        """Return the (p, gamma) of least noise with a certified loss of at most `epsilon`; `delta` is not used."""
        _check_dimension(dimension)
        if not (math.isfinite(epsilon) and epsilon > 1e-6):
            raise ValueError(f"epsilon must be finite and above 1e-6, got {epsilon}; choose one in that range")
        lowest = max(1e-3 * epsilon, epsilon - 500.0)
        highest = min(epsilon * (1.0 - 1e-6), _LARGEST_COIN_EPSILON)
        if lowest >= highest:
            raise ValueError(f"epsilon must be below about {_LARGEST_COIN_EPSILON + 9:.0f}, got {epsilon}; lower it")

        def minus_gain(coin: float) -> float:
            gamma = _threshold_of_log_odds(dimension, epsilon - coin)
            return -_gain(dimension, 1.0 / (1.0 + math.exp(-coin)), gamma)

        ends, options = (lowest, highest), {"xatol": 1e-9}
        coin = scipy.optimize.minimize_scalar(minus_gain, bounds=ends, method="bounded", options=options).x
        gamma = _threshold_of_log_odds(dimension, epsilon - float(coin))
        # The largest multiple of 2^-53 with log odds slightly below what the cap leaves, by a fraction of epsilon.
        p, step = 1.0 / (1.0 + math.exp(-(epsilon - _cap_loss(dimension, gamma) - 1e-11 * epsilon))), 2.0**-53
        p = max(0.5, math.floor(p * 2.0**53) * step - step)
        found = cls(dimension, p, gamma)
        while found.epsilon > epsilon:
            if p == 0.5:
                rule = f"epsilon must be above what rounding costs in {dimension} dimensions, {found.epsilon:.3g}"
                raise ValueError(f"{rule}, got {epsilon}; raise it")
            p, step = max(0.5, p - step), 2.0 * step
            found = cls(dimension, p, gamma)
        return found

    @property
    def epsilon(self) -> float:
        """The certified loss of one message, rounded up."""
        # p / (1 - p) - 1: its numerator and its denominator are exact.
        coin = math.log1p((2.0 * self.probability - 1.0) / (1.0 - self.probability))
        return (coin + _cap_loss(self.dimension, self.threshold)) * (1.0 + 1e-12)

    @property
    def gain(self) -> float:
        """E<x, v>: a message's mean is this number m times the unit input."""
        return _gain(self.dimension, self.probability, self.threshold)

    @property
    def noise_norm(self) -> float:
        """The root mean squared norm of the estimate's error for a unit vector: sqrt(1/m^2 - 1)."""
        return math.sqrt(1.0 / self.gain**2 - 1.0)

    def curve(self) -> RandomizedResponses:
        return RandomizedResponses(1, self.epsilon)

    def explain(self) -> str:
        p, q = self.probability, cap_mass(self.dimension, self.threshold)
        return (
            f"epsilon = ln(p / (1 - p)) + ln((1 - q) / q) = ln({p:.9g} / (1 - {p:.9g})) + ln((1 - {q:.9g}) / {q:.9g}) "
            f"= {self.epsilon:.6g}: with probability p the message is in the cap of mass q around the user's direction"
        )

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        noise = self._for_kernels(CAP, self.threshold, silent(key), privunit_workspace(self.dimension), _DRAWS)
        return noise._replace(probability=self.probability, factor=self.gain, submissions=_MOST_SUBMISSIONS)


def _check_dimension(dimension: int) -> None:
    if dimension < 2:
        raise ValueError(f"dimension must be at least 2, got {dimension}; a sphere needs two coordinates")


def cap_mass(dimension: int, threshold: float) -> float:
    """Return q = P(<x, v> >= threshold) of a uniform unit vector, for threshold in [0, 1]."""
    outside = _belt_mass(dimension, threshold)
    if outside < 0.5:
        # 1 - gamma^2 loses the digits of a small gamma.
        return 0.5 * (1.0 - outside)
    return 0.5 * float(scipy.special.betainc((dimension - 1) / 2.0, 0.5, (1.0 - threshold) * (1.0 + threshold)))


def _belt_mass(dimension: int, threshold: float) -> float:
    """Return 1 - 2q = P(|<x, v>| < threshold) of a uniform unit vector, accurate relative to itself."""
    return float(scipy.special.betainc(0.5, (dimension - 1) / 2.0, threshold * threshold))


def _cap_loss(dimension: int, gamma: float) -> float:
    """Return an upper bound of ln((1 - q) / q)."""
    edge = max(gamma, _LEAST_THRESHOLD) if gamma > 0.0 else 0.0
    error = _MASS_ERROR + _MASS_ERROR_PER_DIMENSION * dimension
    belt = _belt_mass(dimension, edge) * (1.0 + error)
    if belt < 0.5:
        return math.log1p(belt) - math.log1p(-belt)
    q = cap_mass(dimension, edge) * (1.0 - error)
    return math.log1p(-q) - math.log(q)


def _threshold_of_log_odds(dimension: int, log_odds: float) -> float:
    """Return the gamma >= 0 of the cap with the mass q, ln((1 - q) / q) = log_odds >= 0."""
    a = (dimension - 1) / 2.0
    if log_odds < 1.0:
        return math.sqrt(float(scipy.special.betaincinv(0.5, a, math.tanh(log_odds / 2.0))))
    q = 1.0 / (1.0 + math.exp(log_odds))
    return math.sqrt(1.0 - float(scipy.special.betaincinv(a, 0.5, 2.0 * q)))


def _gain(dimension: int, p: float, gamma: float) -> float:
    """Return E<x, v> = I (p/q - (1-p)/(1-q)) with I the integral of t over the cap under the uniform law."""
    a = (dimension - 1) / 2.0
    q = cap_mass(dimension, gamma)
    log_power = a * (math.log1p(-gamma) + math.log1p(gamma))
    over_cap = math.exp(log_power - math.log(2.0 * a) - float(scipy.special.betaln(0.5, a)))
    # p - q: the sum of two distances from 1/2, without cancellation.
    return over_cap * 0.5 * (2.0 * p - 1.0 + _belt_mass(dimension, gamma)) / (q * (1.0 - q))
