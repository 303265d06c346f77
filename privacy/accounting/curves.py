"""Privacy curves: the delta of a release at every epsilon, and the epsilon at every delta.

A curve is a frozen description, so a ledger can store, compare and print it. Numbers are upper bounds, rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Protocol

import numpy as np

from dprl.privacy.accounting.closed_forms import (
    composed_delta,
    composed_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    zcdp_delta,
    zcdp_epsilon,
)
from dprl.privacy.accounting.root_finding import ROUNDING, least_epsilon
from dprl.privacy.base import Float64Array


def _require(name: str, value: float, most: float = math.inf) -> None:
    if not 0.0 <= value < most:
        limit = "finite" if math.isinf(most) else f"below {most:g}"
        raise ValueError(f"{name} must be at least 0 and {limit}, got {value}")


# Deltas are multiplied by the first; epsilons are for a delta multiplied by the second.
_UP, _DOWN = 1.0 + ROUNDING, 1.0 - 2.0 * ROUNDING


class PrivacyCurve(Protocol):
    """Proved guarantee for one user."""

    @property
    def pure_epsilon(self) -> float:
        """The epsilon at delta = 0; infinite if there is none."""

    def epsilon(self, delta: float) -> float:
        """Return an epsilon that holds at `delta`; infinite if none is known."""

    def delta(self, epsilon: float) -> float:
        """Return a delta that holds at `epsilon`; 1 if none is known."""

    @property
    def method(self) -> str:
        """Method of computation, for the certificate."""


@dataclass(frozen=True)
class Unbounded:
    """Data are released without noise: no finite epsilon, delta 1."""

    pure_epsilon: float = math.inf
    method: str = "a release without noise has no finite epsilon"

    def epsilon(self, delta: float) -> float:  # noqa: ARG002 - as every curve
        """Return infinity."""
        return math.inf

    def delta(self, epsilon: float) -> float:  # noqa: ARG002 - as every curve
        """Return 1."""
        return 1.0


@dataclass(frozen=True)
class PureDP:
    """epsilon-DP, with the smaller epsilons of one randomized response at a delta above 0.

    >>> loss = PureDP(1.0)
    >>> loss.epsilon(0.0), round(loss.epsilon(0.01), 3), round(loss.delta(0.5), 3)
    (1.0, 0.986, 0.288)

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3 with one release.
    """

    epsilon_0: float

    def __post_init__(self) -> None:
        _require("epsilon_0", self.epsilon_0)

    @property
    def pure_epsilon(self) -> float:
        """The loss."""
        return self.epsilon_0

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of a randomized response."""
        return composed_epsilon(delta * _DOWN, 1, self.epsilon_0)

    def delta(self, epsilon: float) -> float:
        """Return the delta of a randomized response."""
        return 0.0 if epsilon >= self.epsilon_0 else min(1.0, composed_delta(epsilon, 1, self.epsilon_0) * _UP)

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"pure loss of {self.epsilon_0:.6g}"


@dataclass(frozen=True)
class ApproximateLoss:
    """(epsilon_0, delta_0)-DP at one point: with probability delta_0 all is lost, else a randomized response.

    Paper: Kairouz, Oh, Viswanath 2015, Theorem 3.3 with one release.
    """

    epsilon_0: float
    delta_0: float

    def __post_init__(self) -> None:
        _require("epsilon_0", self.epsilon_0)
        _require("delta_0", self.delta_0, 1.0)

    @property
    def pure_epsilon(self) -> float:
        """Infinite, unless delta_0 is 0."""
        return math.inf if self.delta_0 > 0.0 else self.epsilon_0

    def epsilon(self, delta: float) -> float:
        """Return epsilon_0 at delta_0, less at larger deltas, and infinity at smaller ones."""
        if delta < self.delta_0:
            return math.inf
        # The difference may have few correct digits.
        rest = delta * _DOWN - self.delta_0
        return composed_epsilon(rest, 1, self.epsilon_0)

    def delta(self, epsilon: float) -> float:
        """Return delta_0, plus that of a randomized response below epsilon_0."""
        rest = 0.0 if epsilon >= self.epsilon_0 else composed_delta(epsilon, 1, self.epsilon_0)
        return min(1.0, self.delta_0 + (1.0 - self.delta_0) * rest * _UP)

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"({self.epsilon_0:.6g}, {self.delta_0:.6g}) at one point"


@dataclass(frozen=True)
class RandomizedResponses:
    """n losses of at most epsilon_0 each with a total of at most `cap` (Lemma D; n * epsilon_0 if cap is left out).

    *Exact* for n integers that change by 1 each under discrete Laplace(1/epsilon_0) noise, and for n binary randomized
    responses; an upper bound for continuous Laplace noise, smaller changes and adaptive composition.
    """

    n: int
    epsilon_0: float
    cap: float = math.inf

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        _require("epsilon_0", self.epsilon_0)

    @property
    def pure_epsilon(self) -> float:
        """The total loss."""
        return min(self.cap, self.n * self.epsilon_0)

    def epsilon(self, delta: float) -> float:
        """Return the smaller of the composition's epsilon and that of a single loss of the total."""
        if delta <= 0.0:
            return self.pure_epsilon
        delta *= _DOWN
        return min(composed_epsilon(delta, self.n, self.epsilon_0), composed_epsilon(delta, 1, self.pure_epsilon))

    def delta(self, epsilon: float) -> float:
        """Return the smaller of the composition's delta and that of a single loss of the total."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        together = composed_delta(epsilon, self.n, self.epsilon_0)
        return min(1.0, min(together, composed_delta(epsilon, 1, self.pure_epsilon)) * _UP)

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"composition of {self.n} randomized responses with epsilon_0 = {self.epsilon_0:.6g}"


@dataclass(frozen=True)
class GaussianDP:
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
        """Infinite, unless mu is 0."""
        return math.inf if self.mu > 0.0 else 0.0

    def epsilon(self, delta: float) -> float:
        """Return the exact epsilon of the Gaussian curve."""
        return gaussian_epsilon(delta * _DOWN, self.mu)

    def delta(self, epsilon: float) -> float:
        """Return the exact delta of the Gaussian curve."""
        return min(1.0, gaussian_delta(epsilon, self.mu) * _UP)

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"Gaussian curve with mu = {self.mu:.6g}"


@dataclass(frozen=True)
class ZCDP:
    """rho-zCDP: the loss of discrete Gaussian noise with rho = (L2 sensitivity / sigma)^2 / 2, also adaptively.

    Paper: Canonne, Kamath, Steinke 2020, Theorem 4 and Proposition 12.
    """

    rho: float

    def __post_init__(self) -> None:
        _require("rho", self.rho)

    @property
    def pure_epsilon(self) -> float:
        """Infinite, unless rho is 0."""
        return math.inf if self.rho > 0.0 else 0.0

    def epsilon(self, delta: float) -> float:
        """Return the epsilon of the best order."""
        return zcdp_epsilon(delta, self.rho)

    def delta(self, epsilon: float) -> float:
        """Return the delta of the best order."""
        return zcdp_delta(epsilon, self.rho)

    @property
    def method(self) -> str:
        """Method of computation."""
        return f"zero-concentrated loss with rho = {self.rho:.6g}"


@dataclass(frozen=True)
class _ChosenCurve:
    """Base class of curves that take one of several curves' numbers at every epsilon and at every delta."""

    curves: tuple[PrivacyCurve, ...]
    _largest: ClassVar[bool]

    def _choose(self, numbers: Iterable[float]) -> float:
        return max(numbers) if self._largest else min(numbers)

    @property
    def pure_epsilon(self) -> float:
        """The chosen pure epsilon."""
        return self._choose(curve.pure_epsilon for curve in self.curves)

    def epsilon(self, delta: float) -> float:
        """Return the chosen epsilon."""
        return self._choose(curve.epsilon(delta) for curve in self.curves)

    def delta(self, epsilon: float) -> float:
        """Return the chosen delta."""
        return self._choose(curve.delta(epsilon) for curve in self.curves)

    @property
    def method(self) -> str:
        """Method of computation."""
        word = "largest" if self._largest else "least"
        return f"the {word} of: " + "; ".join(dict.fromkeys(curve.method for curve in self.curves))


class MinimumCurve(_ChosenCurve):
    """Several bounds on one release: the best one counts at every delta.

    For instance, many Laplace draws on a vector of small L2 norm have a total loss and a zero-concentrated one.
    """

    _largest = False


class MaximumCurve(_ChosenCurve):
    """Curves of runs with disjoint users: the worst one counts at every epsilon and at every delta.

    *Formal guarantee.* Two neighbours differ in one user, who is in one run; all other runs have the same input in both
    worlds and independent noise, so they change no probability ratio. Everything together is (epsilon, delta)-DP
    wherever each run is.

    Paper: McSherry 2009, Theorem 4.
    """

    _largest = True


def maximum(runs: Sequence[PrivacyCurve]) -> PrivacyCurve:
    """Return the curve of runs with disjoint users.

    >>> maximum([PureDP(1.0), PureDP(0.5), PureDP(1.0)]).pure_epsilon
    1.0
    """
    distinct = tuple(dict.fromkeys(runs))
    return distinct[0] if len(distinct) == 1 else MaximumCurve(distinct)


@lru_cache(maxsize=64)
def _total_loss(n: int, epsilon_0: float, informative: float) -> Float64Array:
    """Return the probabilities float64[2n+1] of a total loss of -n, ..., n times epsilon_0.

    It is computed by squaring, with sums of positive terms only, so relative errors are a few units in the last place.
    """
    q = 1.0 / (1.0 + math.exp(epsilon_0)) if epsilon_0 < 700.0 else math.exp(-epsilon_0)
    power, total = np.array([q * informative, 1.0 - informative, (1.0 - q) * informative]), np.ones(1)
    left = n
    while left:
        if left & 1:
            total = np.convolve(total, power)
        power = np.convolve(power, power) if left > 1 else power
        left >>= 1
    total.flags.writeable = False
    return total


@dataclass(frozen=True)
class OneHotResponses:
    """n reports of one-hot vectors that may all change, optimised unary encodings or direct ones.

    *Exact.* Only the two cells that differ carry information. With the probability `informative`, the same for all
    cells, their bits differ and are one randomized response with epsilon_0; otherwise the loss is 0. So delta(epsilon)
    of one is that of randomized response times `informative`, and n of them lose a sum of independent 0, +-epsilon_0.

    Args:
        n: number of reports.
        epsilon_0: pure epsilon of each.
        informative: 1/2 for optimised unary encodings, where one of the two bits is a fair coin in either world.
    """

    n: int
    epsilon_0: float
    informative: float = 0.5

    @property
    def pure_epsilon(self) -> float:
        """The total loss."""
        return self.n * self.epsilon_0

    def delta(self, epsilon: float) -> float:
        """Return the sum over the losses j epsilon_0 > epsilon of P(j) (1 - e^(epsilon - j epsilon_0))."""
        if epsilon >= self.pure_epsilon:
            return 0.0
        gap = np.arange(-self.n, self.n + 1) * self.epsilon_0 - epsilon
        positive, mass = gap > 0.0, _total_loss(self.n, self.epsilon_0, self.informative)
        total = float(np.sum(mass[positive] * -np.expm1(-gap[positive])))
        # Rounding error of n convolutions.
        return min(1.0, total * (1.0 + 4e-16 * (self.n + 2)))

    def epsilon(self, delta: float) -> float:
        """Return the epsilon at `delta`, rounded up; n epsilon_0 for 0."""
        return least_epsilon(self.delta, delta, self.pure_epsilon, self.pure_epsilon)

    @property
    def method(self) -> str:
        """Method of computation."""
        told = f"each informative with probability {self.informative:.6g}"
        return f"exact composition of {self.n} one-hot reports with epsilon_0 = {self.epsilon_0:.6g}, {told}"
