"""Privacy curves with a closed form: responses, Gaussian noise, zCDP, noise of bounded support, no noise.

A curve gives the delta of a release at every epsilon, and the epsilon at every delta. It is a frozen description, so a
ledger can store, compare and print it. Numbers are upper bounds, rounded up.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt
import scipy

from dprl.privacy.accounting.root_finding import ROUNDING, inside, largest, least_epsilon, smallest
from dprl.privacy.base import Float64Array, Sensitivity, quotient_up

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_SQRT_2 = math.sqrt(2.0)
# Many cells of a sweep, and all seeds of a cell, need the same epsilon; solving for one takes a millisecond.
_REMEMBERED = 4096
# Deltas are multiplied by the first; epsilons are for a delta multiplied by the second.
_UP, _DOWN = 1.0 + ROUNDING, 1.0 - 2.0 * ROUNDING


class PrivacyCurve(ABC):
    """Proved guarantee for one user."""

    if TYPE_CHECKING:  # fields, class variables or properties

        @property
        def pure_epsilon(self) -> float:
            """The epsilon at delta = 0; infinite if there is none."""

        @property
        def method(self) -> str:
            """Method of computation, for the certificate."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 if none is known."""

    @abstractmethod
    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`, rounded up; infinite if none is known."""


def _require(name: str, value: float, most: float = math.inf) -> None:
    if not 0.0 <= value < most:
        limit = "finite" if math.isinf(most) else f"below {most:g}"
        raise ValueError(f"{name} must be at least 0 and {limit}, got {value}")


@dataclass(frozen=True)
class Unbounded(PrivacyCurve):
    """Data are released without noise: no finite epsilon, delta 1."""

    pure_epsilon: float = math.inf
    method: str = "a release without noise has no finite epsilon"

    def epsilon(self, delta: float) -> float:  # noqa: ARG002 - as every curve
        return math.inf

    def delta(self, epsilon: float) -> float:  # noqa: ARG002 - as every curve
        return 1.0


@dataclass(frozen=True)
class RandomizedResponses(PrivacyCurve):
    """n releases, each of them (epsilon_0, lost)-DP, with a total loss of at most `cap`, n * epsilon_0 if left out.

    One release is dominated by this: all is revealed with probability `lost`; otherwise, with probability
    `informative`, a bit is told truthfully with probability e^epsilon_0 / (1 + e^epsilon_0); else nothing is told.

    *Formal guarantee.* Exact for n integers that change by 1 each under discrete Laplace(1/epsilon_0) noise, whose loss
    is +-epsilon_0 only, for n binary randomized responses, and, with their `informative`, for n one-hot reports: only
    the two cells that differ carry information, and their bits differ with probability `informative`, the same for all
    cells. It is an upper bound for any n adaptive (epsilon_0, lost)-DP releases (Lemma D for the cap).

    >>> loss = RandomizedResponses(1, 1.0)
    >>> loss.epsilon(0.0), round(loss.epsilon(0.01), 3), round(loss.delta(0.5), 3)
    (1.0, 0.986, 0.288)

    Args:
        n: number of releases. epsilon_0: of each. cap: of the total loss.
        informative: 1/2 for optimised unary encodings, where one of the two bits is a fair coin in either world.
        lost: probability that all of them together have no guarantee.

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3.
    """

    n: int
    epsilon_0: float
    cap: float = math.inf
    informative: float = 1.0
    lost: float = 0.0

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        _require("epsilon_0", self.epsilon_0)
        _require("lost", self.lost, 1.0)
        object.__setattr__(self, "cap", min(self.cap, self.n * self.epsilon_0))

    @property
    def pure_epsilon(self) -> float:
        return math.inf if self.lost > 0.0 else self.cap

    def epsilon(self, delta: float) -> float:
        """Return the smaller of the composition's epsilon and that of a single loss of the cap."""
        if delta <= self.lost:  # but for rounding
            return self.cap if delta >= self.lost * _DOWN else math.inf
        rest = delta * _DOWN - self.lost  # it may have few correct digits
        together = composed_epsilon(rest, self.n, self.epsilon_0, self.informative)
        return min(together, composed_epsilon(rest, 1, self.cap))

    def delta(self, epsilon: float) -> float:
        """Return what is lost, and the smaller of the composition's delta and that of a single loss of the cap."""
        if epsilon >= self.cap:
            return self.lost
        together = composed_delta(epsilon, self.n, self.epsilon_0, self.informative)
        told = min(together, composed_delta(epsilon, 1, self.cap)) * _UP
        return min(1.0, self.lost + (1.0 - self.lost) * told)

    @property
    def method(self) -> str:
        if self.lost > 0.0:
            return f"({self.cap:.6g}, {self.lost:.6g}) at one point"
        if self.informative < 1.0:
            told = f"each informative with probability {self.informative:.6g}"
            return f"exact composition of {self.n} one-hot reports with epsilon_0 = {self.epsilon_0:.6g}, {told}"
        if self.n == 1:
            return f"pure loss of {self.epsilon_0:.6g}"
        return f"composition of {self.n} randomized responses with epsilon_0 = {self.epsilon_0:.6g}"


@lru_cache(maxsize=64)
def response_losses(n: int, epsilon_0: float, informative: float = 1.0) -> tuple[Float64Array, Float64Array]:
    """Return the total losses of n responses and their probabilities, float64[m] each, rounded up; see the class."""
    if informative == 1.0:
        # The mass beyond 20 sqrt(n) from the mean is below exp(-800).
        mean, reach = n * float(scipy.special.expit(-epsilon_0)), 20.0 * math.sqrt(n)
        i = np.arange(max(0, math.floor(mean - reach)), min(n, math.ceil(mean + reach)) + 1)
        log_q = -math.log1p(math.exp(-epsilon_0))
        log_binomial = scipy.special.gammaln(n + 1) - scipy.special.gammaln(i + 1) - scipy.special.gammaln(n - i + 1)
        # In closed form: a difference of the two log masses would cancel. The room is for binomials of a large n.
        losses = (n - 2 * i) * epsilon_0
        room = 1.0 + 4e-16 * float(scipy.special.gammaln(n + 1))
        mass = np.exp(log_binomial + n * log_q - i * epsilon_0) * room
    else:
        # By squaring, with sums of positive terms only: relative errors are a few units in the last place.
        q = 1.0 / (1.0 + math.exp(epsilon_0)) if epsilon_0 < 700.0 else math.exp(-epsilon_0)
        power, mass, left = np.array([q * informative, 1.0 - informative, (1.0 - q) * informative]), np.ones(1), n
        while left:
            mass = np.convolve(mass, power) if left & 1 else mass
            power = np.convolve(power, power) if left > 1 else power
            left >>= 1
        losses, mass = np.arange(-n, n + 1) * epsilon_0, mass * (1.0 + 4e-16 * (n + 2))
    losses.flags.writeable = mass.flags.writeable = False
    return losses.astype(np.float64, copy=False), mass.astype(np.float64, copy=False)


def composed_delta(epsilon: float, n: int, epsilon_0: float, informative: float = 1.0) -> float:
    """Return delta(epsilon) of n randomized responses with epsilon_0 each, see `RandomizedResponses`."""
    losses, mass = response_losses(n, epsilon_0, informative)
    gap = losses - epsilon
    positive = gap > 0.0
    return min(1.0, float(np.sum(mass[positive] * -np.expm1(-gap[positive]))))


@lru_cache(_REMEMBERED, typed=True)
def composed_epsilon(delta: float, n: int, epsilon_0: float, informative: float = 1.0) -> float:
    """Return the epsilon with composed_delta(epsilon, n, epsilon_0) = delta, rounded up; n * epsilon_0 for 0."""
    pure = n * epsilon_0
    if math.isinf(pure):
        return pure
    # At the pure epsilon, delta is 0, except for rounding errors.
    delta_at = lambda e: composed_delta(e, n, epsilon_0, informative) if e < pure else 0.0  # noqa: E731
    return least_epsilon(delta_at, delta, pure, pure)


def largest_loss(epsilon: float, delta: float, n: int) -> float:
    """Return the largest epsilon_0 for which n adaptive epsilon_0-DP releases are (epsilon, delta)-DP, rounded down.

    *Formal guarantee.* For delta = 0, n epsilon_0 <= epsilon as rational numbers. For delta > 0, the
    randomized-response curve, exact for n randomized responses, meets (epsilon, delta).
    """
    least = -quotient_up(-epsilon, n)
    if delta <= 0.0:
        return least
    epsilon, delta = inside(epsilon, delta)
    scale = n / epsilon
    return max(least, 1.0 / smallest(lambda b: composed_delta(epsilon, n, 1.0 / b) if b < scale else 0.0, delta, scale))


@dataclass(frozen=True)
class GaussianDP(PrivacyCurve):
    """mu-GDP: the loss of a Gaussian release with mu = L2 sensitivity / sigma (Balle, Wang 2018), also adaptively.

    >>> loss = GaussianDP(0.5)
    >>> round(loss.epsilon(1e-6), 3), round(loss.delta(1.0), 6)
    (2.254, 0.00683)
    """

    mu: float

    def __post_init__(self) -> None:
        _require("mu", self.mu)

    @property
    def pure_epsilon(self) -> float:
        return math.inf if self.mu > 0.0 else 0.0

    def epsilon(self, delta: float) -> float:
        delta_at, start = lambda epsilon: gaussian_delta(epsilon, self.mu), self.mu * self.mu / 2 + self.mu
        return least_epsilon(delta_at, delta * _DOWN, start, self.pure_epsilon)

    def delta(self, epsilon: float) -> float:
        return min(1.0, gaussian_delta(epsilon, self.mu) * _UP)

    @property
    def method(self) -> str:
        return f"Gaussian curve with mu = {self.mu:.6g}"


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


@dataclass(frozen=True)
class ZCDP(PrivacyCurve):
    """rho-zCDP: the loss of discrete Gaussian noise with rho = (L2 sensitivity / sigma)^2 / 2, also adaptively.

    Paper: Canonne, Kamath, Steinke 2020, Theorem 4 and Proposition 12.
    """

    rho: float

    def __post_init__(self) -> None:
        _require("rho", self.rho)

    @property
    def pure_epsilon(self) -> float:
        return math.inf if self.rho > 0.0 else 0.0

    def epsilon(self, delta: float) -> float:
        start = self.rho + 2.0 * math.sqrt(self.rho * -math.log(delta)) if 0.0 < delta < 1.0 else 1.0
        return least_epsilon(self.delta, delta, start, self.pure_epsilon)

    def delta(self, epsilon: float) -> float:
        return zcdp_delta(epsilon, self.rho)

    @property
    def method(self) -> str:
        return f"zero-concentrated loss with rho = {self.rho:.6g}"


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


def zcdp_rho(epsilon: float, delta: float) -> float:
    """Return the largest rho with zcdp_delta(epsilon, rho) <= delta, rounded down."""
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must be above 0 and below 1 where noise is calibrated by zCDP, got {delta}")
    if not 0.0 <= epsilon < math.inf:
        raise ValueError(f"epsilon must be at least 0 and finite, got {epsilon}")
    epsilon, delta = inside(epsilon, delta)
    root = math.sqrt(epsilon - math.log(delta)) - math.sqrt(-math.log(delta))
    return largest(lambda rho: zcdp_delta(epsilon, rho), delta, max(root * root, delta * delta))


def bounded_support_curve(outside: float, ratio: float) -> PrivacyCurve:
    """Return the curve of a release with mass `outside` off the common support and log-ratios up to `ratio` on it.

    *Formal guarantee.* (ratio, outside)-DP; no epsilon is finite at a smaller delta, nor any without common support.
    """
    return Unbounded() if outside >= 1.0 else RandomizedResponses(1, ratio, lost=outside)


def worst_outside(sensitivity: Sensitivity, log_common: Callable[[float], float]) -> float:
    """Return the largest mass outside the common support over all shifts with these norms (Lemma E).

    Lemma E. Let a density f on a bounded interval be log-concave, and shift independent draws of it by v_1, ..., v_n.
    The outputs that the shifted draws cannot produce have mass 1 - prod_j o(v_j), where o(v) is the mass of f on the
    common support. If the log-ratio of f and its shift is at most r on the common support, that mass is exactly
    delta(epsilon) for every epsilon >= r. Over all shifts with |v|_1 <= l1 and |v_j| <= linf on at most `cells` numbers
    it is largest for the most concentrated one: as many numbers at linf as fit, one for the rest.
    *Proof.* o(v) is the integral over x of f(x) 1[x - v in the support], a marginal of a log-concave function of
    (x, v), hence log-concave (Prekopa); a sum of one concave function over the coordinates is Schur-concave, and the
    concentrated vector majorises every other one.

    log_common: returns, for v >= 0, ln of the mass of one number's noise on the common support, -inf for none.
    """
    return -math.expm1(sum(number * log_common(change) for number, change in sensitivity.worst_shift))


@dataclass(frozen=True)
class ChosenCurve(PrivacyCurve):
    """The least or the largest of several curves' numbers, at every epsilon and at every delta.

    The least of several bounds on one release: many Laplace draws on a vector of small L2 norm, for instance, have a
    total loss and a zero-concentrated one. The largest of runs with disjoint users.

    *Formal guarantee* of the largest. Two neighbours differ in one user, who is in one run; all other runs have the
    same input in both worlds and independent noise, so they change no probability ratio. Everything together is
    (epsilon, delta)-DP wherever each run is (McSherry 2009, Theorem 4).
    """

    curves: tuple[PrivacyCurve, ...]
    chosen: Literal["least", "largest"] = "least"

    def _choose(self, numbers: list[float]) -> float:
        return min(numbers) if self.chosen == "least" else max(numbers)

    @property
    def pure_epsilon(self) -> float:
        return self._choose([curve.pure_epsilon for curve in self.curves])

    def epsilon(self, delta: float) -> float:
        return self._choose([curve.epsilon(delta) for curve in self.curves])

    def delta(self, epsilon: float) -> float:
        return self._choose([curve.delta(epsilon) for curve in self.curves])

    @property
    def method(self) -> str:
        return f"the {self.chosen} of: " + "; ".join(dict.fromkeys(curve.method for curve in self.curves))
