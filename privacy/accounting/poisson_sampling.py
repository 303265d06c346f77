"""Amplification by Poisson sampling: the privacy curve of Gaussian sums over users who join rounds at random."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import scipy

from dprl.privacy.accounting.pld import Losses, SummedLosses
from dprl.privacy.accounting.root_finding import inside, smallest
from dprl.privacy.base import Float64Array

_PIECES = 6000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(4)
# Probability cut off each tail of the noise, for all rounds together.
_LOST = 1e-20
LEAST_MULTIPLIER = 0.1
"""Smallest noise multiplier; with less noise, sampling has no effect."""


@dataclass(frozen=True)
class SampledGaussianLoss:
    """The loss of a user who secretly joins each of n rounds with probability q, for sums with Gaussian noise.

    *Formal guarantee.* An upper bound under *addition or removal* of one user, for adaptive rounds. In one round the
    user is in the sum or not, so the two worlds are dominated by P = (1 - q) N(0, z^2) + q N(1, z^2) and Q = N(0, z^2):
    (P, Q) if the user is removed, (Q, P) if one is added. Dominating pairs compose, separately for each direction. The
    curve is the larger of the two, with every loss rounded up to a grid. The bound does not cover replacement.

    Papers: Zhu, Dong, Wang 2022, *Optimal Accounting of Differential Privacy via Characteristic Function* (dominating
    pairs under Poisson sampling); Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022 (connect the dots).

    Args:
        multiplier: z, the noise's standard deviation over the largest norm of one user's part in a sum.
        rate: q in (0, 1]. n: number of rounds.
    """

    multiplier: float
    rate: float
    n: int = 1
    pure_epsilon: ClassVar[float] = math.inf

    def __post_init__(self) -> None:
        if not (LEAST_MULTIPLIER <= self.multiplier < math.inf and 0.0 < self.rate <= 1.0 and self.n >= 1):
            raise ValueError(
                f"multiplier must be at least {LEAST_MULTIPLIER}, rate in (0, 1] and n at least 1, got {self}"
            )

    def delta(self, epsilon: float) -> float:
        """Return the larger delta of both directions, rounded up."""
        return max(self._delta(epsilon, added) for added in (False, True))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon with `delta`, rounded up; infinite for 0."""
        return _epsilon(self, delta)

    def _delta(self, epsilon: float, added: bool) -> float:
        return 0.0 if math.isinf(epsilon) else _losses(self.multiplier, self.rate, self.n, added).delta(epsilon)

    @property
    def method(self) -> str:
        """Method of computation."""
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

    def of(multiplier: float) -> SampledGaussianLoss:
        return SampledGaussianLoss(max(multiplier, LEAST_MULTIPLIER), rate, rounds)

    if of(LEAST_MULTIPLIER).delta(epsilon) <= delta:
        return LEAST_MULTIPLIER
    removed = smallest(lambda z: 1.0 if z < LEAST_MULTIPLIER else of(z)._delta(epsilon, added=False), delta, 1.0)
    if of(removed).delta(epsilon) <= delta:
        return removed
    return smallest(lambda z: 1.0 if z < LEAST_MULTIPLIER else of(z).delta(epsilon), delta, removed)


@lru_cache(maxsize=256)
def _epsilon(curve: SampledGaussianLoss, delta: float) -> float:
    if delta <= 0.0:
        return math.inf
    if curve.delta(0.0) <= delta:
        return 0.0
    removed = smallest(lambda epsilon: curve._delta(epsilon, added=False), delta, 1.0)
    return removed if curve.delta(removed) <= delta else smallest(curve.delta, delta, removed)


@lru_cache(maxsize=16)
def _losses(multiplier: float, rate: float, n: int, added: bool) -> SummedLosses:
    """Return the loss of n rounds in one direction, from narrow pieces of one round's noise u, in its deviations."""
    tail = _LOST / n
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
