"""The privacy curve of discrete Gaussian noise on integers that change by at most 1 each.

One such integer has the loss (1 - 2z) / (2 sigma^2) at noise z, so n of them have (n - 2Z) / (2 sigma^2) with Z the sum
of n discrete Gaussians. For sigma >= 3 that sum *is* a discrete Gaussian of variance n sigma^2, up to n * 1e-34 in each
probability: by Poisson summation the characteristic function of one is that of a Gaussian plus copies of it shifted by
multiples of 2 pi, and after n-fold multiplication their relative weight is at most n exp(-pi^2 sigma^2 + 8).

If only the L2 norm of changes is known, the worst direction is unknown: zCDP holds for every direction, and so does a
closer comparison with rounded Gaussian noise, see RoundedGaussianLoss.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.privacy.accounting.closed_forms import PrivacyCurve, gaussian_delta, zcdp_delta
from dprl.privacy.accounting.root_finding import ROUNDING, least_epsilon

SMALLEST_SIGMA = 3.0
LEAST_JOINED_SQUARE = 3.0
"""Least sigma^2 for which the loss of a discrete Gaussian around any number has the same bound as around 0."""
# Standard deviations beyond which the mass is 1e-35, and the error of one probability, for each of n.
_REACH, _OFF = 12.5, 1e-34
# Distances allowed between rounded and discrete Gaussian noise.
_SLACKS = (1e-3, 1e-4, 1e-5, 1e-6, 1e-8, 1e-10, 1e-13, 1e-17, 1e-22)
# Wider sums are bounded by an integral.
WIDEST = 1e4


@dataclass(frozen=True)
class DiscreteGaussianLoss(PrivacyCurve):
    """The loss of n discrete Gaussian releases of integers that change by at most 1 each.

    *Formal guarantee.* It also holds for adaptive releases, because each is dominated by a change of 1. It is exact to
    1e-9 up to sqrt(n) sigma = 1e4, and an upper bound beyond; for n > 1 and sigma < 3 it is the bound of zCDP.

    It needs about 7 % less noise than its zero-concentrated bound at (1, 1e-6).
    Papers: Canonne, Kamath, Steinke 2020, Theorem 7 (n = 1); Zhu, Dong, Wang 2022 (adaptive composition).
    """

    n: int
    sigma: float
    pure_epsilon: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError(f"n must be at least 1, got {self.n}")
        if not 0.0 < self.sigma < math.inf:
            raise ValueError(f"sigma must be above 0 and finite, got {self.sigma}")

    @property
    def rho(self) -> float:
        """The zero-concentrated loss."""
        return self.n / (2.0 * self.sigma * self.sigma)

    def epsilon(self, delta: float) -> float:
        return least_epsilon(self.delta, delta, self.rho + math.sqrt(self.rho), math.inf)

    def delta(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return 0.0
        n, sigma, deviation = self.n, self.sigma, math.sqrt(self.n) * self.sigma
        concentrated = zcdp_delta(epsilon, n / (2.0 * sigma * sigma))
        if n > 1 and sigma < SMALLEST_SIGMA:
            return concentrated
        # Losses above epsilon: Z < n / 2 - epsilon sigma^2.
        highest = min(n / 2.0 - epsilon * sigma * sigma, _REACH * deviation)
        lowest = min(highest, 0.0) - _REACH * deviation
        wide = deviation > WIDEST
        z = np.linspace(lowest, highest, 8001) if wide else np.arange(math.floor(lowest), math.ceil(highest))
        gap = (n - 2.0 * z) / (2.0 * sigma * sigma) - epsilon
        summands = np.exp(-0.5 * z * z / (n * sigma * sigma)) * -np.expm1(-np.maximum(gap, 0.0))
        # The sum of exp(-z^2 / (2 deviation^2)) over the integers.
        norm = deviation * math.sqrt(2.0 * math.pi)
        if deviation < SMALLEST_SIGMA:
            norm = float(np.sum(np.exp(-0.5 * (np.arange(-40.0, 41.0) / deviation) ** 2)))
        if wide:
            # A sum over integers of a function that rises once and falls once exceeds its integral by its maximum.
            total = gaussian_delta(epsilon, math.sqrt(n) / sigma) + 1.01 * float(np.max(summands)) / norm
        else:
            total = float(np.sum(summands)) / norm
        off = n * _OFF * (2.0 * _REACH * deviation + 1.0) if n > 1 else 0.0
        return min(concentrated, total * (1.0 + ROUNDING) + math.exp(-0.5 * _REACH * _REACH) + off)

    @property
    def method(self) -> str:
        return f"composition of {self.n} discrete Gaussian releases with sigma = {self.sigma:.6g}"


@dataclass(frozen=True)
class RoundedGaussianLoss(PrivacyCurve):
    """The loss of discrete Gaussian noise on integers that change by an integer vector of L2 norm up to `l2`.

    *Formal guarantee.* It holds in every direction, also adaptively, and for noise on the integers plus a known number.

    Proof. Let N(0, sigma^2 - t^2) be rounded at random: y becomes the integer z (plus that number) with probability
    exp(-(z - y)^2 / (2 t^2)) / r(y). Rounding commutes with adding an integer, so whatever the change is, rounded
    noise is mu-GDP with mu = l2 / sqrt(sigma^2 - t^2). By Poisson summation r(y) is t sqrt(2 pi) up to a factor in
    1 -+ e, e = 2.1 exp(-2 pi^2 t^2), and the norm of the discrete Gaussian is sigma sqrt(2 pi) up to such a factor. So
    its probabilities are those of the rounded Gaussian up to a factor of exp(-+2.01 e) for e <= 0.1, or of exp(-+k),
    k = 2.01 e cells, for all numbers that can change. Hence delta(epsilon) <= e^k delta_mu(epsilon - 2 k); and as a
    share of e^-k of the noise is rounded Gaussian, delta(epsilon) <= k + delta_mu(epsilon). Every t proves its bounds.
    For noise of several sigma_j on changes v_j, mu^2 is sum_j v_j^2 / (sigma_j^2 - t^2), and every sigma_j has no more
    than the least one's e. Then sigma is the least, and l2 = sigma sqrt(sum_j v_j^2 / sigma_j^2).

    Args:
        l2: L2 norm of the change, in units of sigma as above. sigma: of the noise. cells: number of integers that can
            change. lost: total variation distance of the law from a discrete Gaussian. scales: of several, in order,
            (v_j / sigma_j, sigma_j).

    Paper: Peikert 2010, Theorem 3.1 (rounded Gaussians).
    """

    l2: float
    sigma: float
    cells: int
    lost: float = 0.0
    scales: tuple[tuple[float, float], ...] = ()
    pure_epsilon: ClassVar[float] = math.inf

    @staticmethod
    def of_unit_changes(n: int, sigma: float) -> RoundedGaussianLoss:
        """Return the loss of n integers that change by 1 each; it depends on their sum, nearly a discrete Gaussian.

        This is as for DiscreteGaussianLoss; known numbers change the phases of the copies, not their sizes.
        """
        deviation = math.sqrt(n) * sigma
        if n == 1 or sigma * sigma < LEAST_JOINED_SQUARE:
            return RoundedGaussianLoss(math.sqrt(n), sigma, n)
        off = n * math.exp(8.0 - (math.pi * sigma) ** 2) * (2.0 * _REACH * deviation + 1.0)
        return RoundedGaussianLoss(float(n), deviation, 1, off + 2.0 * math.exp(-0.5 * _REACH * _REACH))

    def repeated(self, times: int) -> RoundedGaussianLoss:
        """Return the loss of `times` adaptive releases."""
        root = math.sqrt(times)
        scales = tuple((mu * root, sigma) for mu, sigma in self.scales)
        return RoundedGaussianLoss(self.l2 * root, self.sigma, self.cells * times, self.lost * times, scales)

    def beside(self, other: RoundedGaussianLoss) -> RoundedGaussianLoss:
        """Return the loss of this release and another one, also adaptively."""
        mus: dict[float, float] = {}
        for mu, sigma in (*self._scales, *other._scales):
            mus[sigma] = math.hypot(mus.get(sigma, 0.0), mu)
        scales = tuple((mus[sigma], sigma) for sigma in sorted(mus))
        least = scales[0][1]
        l2, lost = least * math.hypot(*mus.values()), self.lost + other.lost
        return RoundedGaussianLoss(l2, least, self.cells + other.cells, lost, scales if len(scales) > 1 else ())

    @property
    def _scales(self) -> tuple[tuple[float, float], ...]:
        return self.scales or ((self.mu, self.sigma),)

    def epsilon(self, delta: float) -> float:
        if delta <= self.lost:
            return math.inf
        return least_epsilon(self.delta, delta, self.mu * self.mu / 2.0 + self.mu, math.inf)

    def delta(self, epsilon: float) -> float:
        least = 1.0
        for k in _SLACKS:
            mu = self._mu(k)
            least = min(least, k + gaussian_delta(epsilon, mu))
            if epsilon >= 2.0 * k:
                least = min(least, math.exp(k) * gaussian_delta(epsilon - 2.0 * k, mu))
        return min(1.0, (least + self.lost) * (1.0 + ROUNDING))

    @property
    def mu(self) -> float:
        """The mu of Gaussian noise with this sigma; that of the curve is slightly larger."""
        return self.l2 / self.sigma

    def _mu(self, k: float) -> float:
        if k > 0.2 * self.cells:
            return math.inf
        square = math.log(4.3 * self.cells / k) / (2.0 * math.pi**2)
        if square >= self.sigma**2:
            return math.inf
        return math.hypot(*(mu * sigma / math.sqrt(sigma**2 - square) for mu, sigma in self._scales))

    @property
    def method(self) -> str:
        return f"rounded Gaussian curve with mu = {self.mu:.6g}, sigma = {self.sigma:.6g}"
