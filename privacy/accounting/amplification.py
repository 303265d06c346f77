"""Amplification: local reports that are shuffled before they are seen, and Gaussian sums over users drawn at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy

from dprl.privacy.accounting.closed_forms import PrivacyCurve, RandomizedResponses
from dprl.privacy.accounting.losses import Losses, SummedLosses
from dprl.privacy.accounting.root_finding import ROUNDING, inside, largest, least_epsilon, smallest
from dprl.privacy.base import Float64Array

# Shuffling: bins of the number of clones.
_BINS, _FEWER_BINS = 1000, 300
# Steps in the deviation of one shuffle's loss, and points of it.
_STEPS, _MOST_POINTS = 200, 1 << 16
# Numbers of clones further below the mean, in standard deviations, are treated as no clones.
_RARE = 12.0
# A loss with no clone among 10^12 users; e^709 overflows.
_NO_CLONES = 40.0
# Relative allowance for the rounding of a tail probability; larger than the rounding itself.
_TAIL = 1e-8
# Probability of a fair coin's count further than _RARE deviations from its mean, by Hoeffding, with room to spare.
_LOST = 1e-30
# Sampling: pieces of the noise.
_PIECES = 6000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
# Probability cut off each tail of the noise, for all rounds together.
_CUT_OFF = 1e-20
LEAST_MULTIPLIER = 0.1
"""Smallest noise multiplier; with less noise, sampling has no effect."""


@dataclass(frozen=True)
class ShuffledLoss(PrivacyCurve):
    """The loss of one of `users` epsilon_0-LDP reports, all by the same randomizer, in a random order; n times.

    *Formal guarantee.* An upper bound for any pure randomizer and any data of the other users. Let R_0 and R_1 be the
    report's laws in two worlds. Both are mixtures of laws Q_0 and Q_1, R_0 = a Q_0 + (1-a) Q_1 and R_1 = (1-a) Q_0 +
    a Q_1 with a = e^epsilon_0 / (1 + e^epsilon_0), so Q_0 + Q_1 = R_0 + R_1. Every other user's law R has R >=
    e^-epsilon_0 max(R_0, R_1) >= e^-epsilon_0 (Q_0 + Q_1) / 2: with probability e^-epsilon_0 that user is a *clone*,
    who draws from Q_0 or Q_1 by a fair coin. The shuffled reports are a function of the rest and of how many come from
    Q_0 and Q_1: (A + D, C - A + 1 - D) in one world and (A + 1 - D, C - A + D) in the other, with C ~ Binomial(users -
    1, e^-epsilon_0) clones, A ~ Binomial(C, 1/2) and D a coin that is 1 with probability a. Their divergence is summed
    up over C, rounded up.

    The two worlds do not depend on the data, and exchanging them mirrors them. So they dominate every shuffle of a user
    with n reports in n shuffles, one in each, also adaptively: their privacy loss is added n times, rounded up. A pair
    of worlds with fewer clones dominates one with more, because anybody can add more coins, so C is rounded down.
    Papers: Feldman, McMillan, Talwar 2021, *Hiding Among the Clones*, Theorem 3.2; Kairouz, Oh, Viswanath 2015 for a;
    Zhu, Dong, Wang 2022 for n shuffles (adaptive composition of dominating pairs).

    epsilon_0: of one report. users: in one shuffle, at least 1. n: number of shuffles with a report of one user.
    """

    epsilon_0: float
    users: int
    n: int = 1

    def __post_init__(self) -> None:
        if not (0.0 < self.epsilon_0 < math.inf and min(self.users, self.n) >= 1):
            raise ValueError(f"epsilon_0 must be finite and above 0, users and n at least 1, got {self}")

    @property
    def pure_epsilon(self) -> float:
        """That of the reports, which shuffling does not reduce: an improbable outcome may reveal them."""
        return self.n * self.epsilon_0

    def delta(self, epsilon: float) -> float:
        if epsilon >= self.pure_epsilon:
            return 0.0
        alone = RandomizedResponses(self.n, self.epsilon_0).delta(epsilon)
        if self.epsilon_0 > _NO_CLONES:
            return alone
        if self.n == 1:
            clones, chances = _clones(self.users - 1, math.exp(-self.epsilon_0), _BINS)
            found = float(chances @ self._divergences(clones, epsilon)) * (1.0 + ROUNDING)
        else:
            found = _shuffled(self.epsilon_0, self.users, self.n).delta(epsilon)
        return min(found, alone)

    def _divergences(self, clones: Float64Array, epsilon: float) -> Float64Array:
        """Return the divergence at `epsilon` < epsilon_0 of the two worlds, given numbers of clones float64[n]."""
        factor = math.exp(epsilon)
        one, other = (float(scipy.special.expit(sign * self.epsilon_0)) for sign in (1.0, -1.0))
        # The first of c + 1 draws from Q_0 or Q_1, as a share, at which one world is e^epsilon times as probable.
        # (e^(epsilon + epsilon_0) - 1) / ((e^epsilon_0 - 1) (1 + e^epsilon)), without overflow.
        share = (1.0 - math.exp(-epsilon - self.epsilon_0)) / -math.expm1(-self.epsilon_0)
        # The share is below 1, and float64 may round it up.
        first = np.floor(share * float(scipy.special.expit(epsilon)) * (clones + 1.0))
        first = np.minimum(first, clones) + 1.0
        with_one, without = (scipy.stats.binom.sf(first - back, clones, 0.5) for back in (2.0, 1.0))
        found = with_one * (one - factor * other) + without * (other - factor * one)
        return np.asarray(np.maximum(found, 0.0) + _TAIL * with_one)

    def epsilon(self, delta: float) -> float:
        return least_epsilon(self.delta, delta, self.pure_epsilon, self.pure_epsilon)

    @property
    def method(self) -> str:
        return (
            f"clones among {self.users} shuffled reports with a pure loss of {self.epsilon_0:.6g} each (Feldman, "
            "McMillan, Talwar 2021, Theorem 3.2, summed up numerically)" + (f", {self.n} times" if self.n > 1 else "")
        )


@lru_cache(maxsize=256)
def local_epsilon(epsilon: float, delta: float, users: int) -> float:
    """Return the largest epsilon_0 of reports for which a shuffle of `users` is (epsilon, delta)-DP.

    It is at least the epsilon_0 of reports that need no shuffle.

    >>> round(local_epsilon(1.0, 1e-6, 100_000), 2)
    7.07
    """
    epsilon, delta = inside(epsilon, delta)
    return max(epsilon, largest(lambda each: ShuffledLoss(each, users).delta(epsilon), delta, epsilon))


@lru_cache(maxsize=64)
def _shuffled(epsilon_0: float, users: int, n: int) -> SummedLosses:
    """Return the loss of n shuffles: ln of the odds of the two worlds, for every number of clones and of draws."""
    clones, chances = _clones(users - 1, math.exp(-epsilon_0), _FEWER_BINS)
    # Draws from Q_0 among the clones + 1, if they are not too rare.
    reach = np.ceil(_RARE * (np.sqrt(clones + 1.0) / 2.0 + 1.0))
    first = np.maximum(0.0, np.floor((clones + 1.0) / 2.0 - reach))
    number = (np.minimum(clones + 1.0, np.ceil((clones + 1.0) / 2.0 + reach)) - first).astype(np.int64) + 1
    draws = np.repeat(clones + 1.0, number)
    ones = np.repeat(first - np.append(0.0, np.cumsum(number)[:-1]), number) + np.arange(draws.size)
    one, other, share = float(scipy.special.expit(epsilon_0)), float(scipy.special.expit(-epsilon_0)), ones / draws
    odds = one * share + other * (1.0 - share), other * share + one * (1.0 - share)
    mass = np.repeat(chances, number) * 2.0 * scipy.stats.binom.pmf(ones, draws, 0.5) * odds[0]
    shuffle = Losses(np.log(odds[0]) - np.log(odds[1]), mass * (1.0 + _TAIL), _LOST)
    step = max(math.sqrt(shuffle.variance) / _STEPS, float(np.ptp(shuffle.losses)) / _MOST_POINTS)
    return SummedLosses([(shuffle, n)], step)


@lru_cache(maxsize=64)
def _clones(others: int, chance: float, bins: int) -> tuple[Float64Array, Float64Array]:
    """Return bins of the number of clones: the smallest number in each bin, float64[n], and the bin's probability.

    More clones mean less divergence, so every bin is treated as its smallest number, and the lower tail as 0 clones.
    """
    law = scipy.stats.binom(others, chance)
    mean, reach = others * chance, _RARE * math.sqrt(others * chance * (1.0 - chance)) + _RARE
    first, last = max(0.0, math.floor(mean - reach)), min(float(others), math.ceil(mean + reach))
    edges = np.unique(np.floor(np.linspace(first, last, bins)))
    low, high = edges - 1.0, np.append(edges[1:] - 1.0, math.inf)
    # The smaller of the two tails is precise.
    below = law.cdf(high) - law.cdf(low)
    chances = np.where(edges > mean, law.sf(low) - law.sf(high), below)
    return np.append(0.0, edges), np.append(law.cdf(first - 1.0), chances)


@dataclass(frozen=True)
class SampledGaussianLoss(PrivacyCurve):
    """The loss of a user who secretly joins each of n rounds with probability q, for sums with Gaussian noise.

    *Formal guarantee.* An upper bound under *addition or removal* of one user, for adaptive rounds. In one round the
    user is in the sum or not, so the two worlds are dominated by P = (1 - q) N(0, z^2) + q N(1, z^2) and Q = N(0, z^2):
    (P, Q) if the user is removed, (Q, P) if one is added. Dominating pairs compose, separately for each direction. The
    curve is the larger of the two, with every loss rounded up to a grid. The bound does not cover replacement.
    Papers: Zhu, Dong, Wang 2022, *Optimal Accounting of Differential Privacy via Characteristic Function* (dominating
    pairs under Poisson sampling); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).

    multiplier: z, the noise's standard deviation over the largest norm of one user's part in a sum.
    rate: q in (0, 1]. n: number of rounds.
    """

    multiplier: float
    rate: float
    n: int = 1
    pure_epsilon: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if not (LEAST_MULTIPLIER <= self.multiplier < math.inf and 0.0 < self.rate <= 1.0 and self.n >= 1):
            raise ValueError(f"multiplier must be at least {LEAST_MULTIPLIER}, rate in (0, 1], n >= 1, got {self}")

    def delta(self, epsilon: float) -> float:
        if math.isinf(epsilon):
            return 0.0
        return max(_sampled(self.multiplier, self.rate, self.n, added).delta(epsilon) for added in (False, True))

    def epsilon(self, delta: float) -> float:
        return _sampled_epsilon(self, delta)

    @property
    def method(self) -> str:
        return (
            f"privacy loss distribution of {self.n} Gaussian rounds with noise multiplier {self.multiplier:.6g} and "
            f"Poisson sampling at rate {self.rate:.6g}, the larger of adding and removing one user"
        )


@lru_cache(maxsize=256)
def sampled_multiplier(epsilon: float, delta: float, rate: float, rounds: int) -> float:
    """Return the least noise multiplier for which all rounds together are (epsilon, delta)-DP, rounded up.

    *Formal guarantee.* That of `SampledGaussianLoss`, for addition or removal of one user.

    >>> round(sampled_multiplier(2.1245, 1e-6, 0.01, 1000), 3)
    1.0
    """
    if not 0.0 < delta < 1.0:
        raise ValueError(f"delta must lie in (0, 1) for Gaussian noise, got {delta}")
    epsilon, delta = inside(epsilon, delta)

    def delta_at(z: float) -> float:
        return 1.0 if z < LEAST_MULTIPLIER else SampledGaussianLoss(z, rate, rounds).delta(epsilon)

    return LEAST_MULTIPLIER if delta_at(LEAST_MULTIPLIER) <= delta else smallest(delta_at, delta, 1.0)


@lru_cache(maxsize=256)
def _sampled_epsilon(curve: SampledGaussianLoss, delta: float) -> float:
    return least_epsilon(curve.delta, delta, 1.0, math.inf)


@lru_cache(maxsize=16)
def _sampled(multiplier: float, rate: float, n: int, added: bool) -> SummedLosses:
    """Return the loss of n rounds in one direction, from narrow pieces of one round's noise u, in its deviations."""
    tail = _CUT_OFF / n
    reach = -float(scipy.special.ndtri(tail))
    ends = np.linspace(-reach, reach + 1.0 / multiplier, _PIECES + 1)
    width = np.diff(ends)[:, None]
    nodes = ends[:-1, None] + 0.5 * width * (_NODES + 1.0)
    density = _normal(nodes) if added else (1.0 - rate) * _normal(nodes) + rate * _normal(nodes - 1.0 / multiplier)
    sign = -1.0 if added else 1.0
    at_ends, at_nodes = (sign * _log_ratio(u, multiplier, rate) for u in (ends, nodes))
    # Each loss is split between the ends of its piece, so that its mass and its e^-l stay the same.
    low, high = (at_ends[1:], at_ends[:-1]) if added else (at_ends[:-1], at_ends[1:])
    weight = 0.5 * width * _WEIGHTS * density
    gap = np.expm1(low - high)
    share = np.expm1(low[:, None] - at_nodes) / np.where(gap < 0.0, gap, -1.0)[:, None]
    upper = (weight * np.where(gap[:, None] < 0.0, np.clip(share, 0.0, 1.0), 1.0)).sum(axis=1)
    lower = weight.sum(axis=1) - upper
    mass = np.zeros(_PIECES + 1)
    mass[:-1] += upper if added else lower
    mass[1:] += lower if added else upper
    # The tail with small losses is moved up to the smallest of these; the other one counts as lost.
    mass[-1 if added else 0] += tail
    return SummedLosses([(Losses(at_ends, mass, tail), n)])


def _normal(u: Float64Array) -> Float64Array:
    return np.asarray(np.exp(-0.5 * u * u) / math.sqrt(2.0 * math.pi))


def _log_ratio(u: Float64Array, multiplier: float, rate: float) -> Float64Array:
    """Return log(P / Q) at the noise u, in the form that neither cancels nor overflows."""
    exponent = (u - 0.5 / multiplier) / multiplier
    near = np.log1p(rate * np.expm1(np.clip(exponent, -1.0, 1.0)))
    rest = math.log1p(-rate) if rate < 1.0 else -math.inf
    return np.where(np.abs(exponent) < 1.0, near, np.logaddexp(rest, math.log(rate) + exponent))
