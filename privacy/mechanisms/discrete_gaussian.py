"""The discrete Gaussian mechanism: integer noise, sampled exactly by inversion of a table of its distribution.

A draw is one 64-bit word: a sign and 63 bits U of a uniform number; |Z| is the number of boundaries P(|Z| <= j) that U
has reached. A guide table on U's leading bits says where to start. 192 further bits of both decide ties.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

import numpy as np

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import ZCDP, ChosenCurve, PrivacyCurve, gaussian_mu
from dprl.privacy.accounting.discrete_gaussians import LEAST_JOINED_SQUARE, DiscreteGaussianLoss, RoundedGaussianLoss
from dprl.privacy.accounting.root_finding import ROUNDING, inside, smallest
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.mechanisms.base import GRID_ROW, INTEGER, NODE, Mechanism
from dprl.privacy.mechanisms.gaussian import REACH, Gaussian
from dprl.privacy.mechanisms.sampling import sampler
from dprl.privacy.mechanisms.tails import Complex128Array, Lattice, few_enough, lattice_sum_bound
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.exact import LIMB_BITS, RESERVED, UInt64Array, exp_minus

SMALLEST_SCALE, LARGEST_SCALE = 2.0**-4, 2.0**15
# The support is cut off at a tail mass of 2^-_TAIL_BITS; boundaries are rounded down to a multiple of 2^-255.
_TAIL_BITS = 208
_LEAD_BITS, _LIMBS = 63, 3
_BOUNDARY_BITS = _LEAD_BITS + LIMB_BITS * _LIMBS
# Every step of the recurrence adds at most a few units to the error of a weight: below 2^48 units over 2^20 steps.
_GUARD_BITS = 80
# Guide buckets per unit of scale: about 12 for each likely value, so that few have two boundaries.
_BUCKETS_PER_SCALE, _FEWEST_GUIDE_BITS = 32, 8
# The table: boundaries n, guide shift; the guide; n leading 63-bit parts; their further limbs, _LIMBS each.
_HEADER = 2
_BLOCK = 1024


@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """Additive discrete Gaussian noise, P(z) proportional to exp(-z^2 / (2 scale^2)) on the integers.

    *Formal guarantee.* For a vector of integers with an L2 distance of at most `l2` between any two neighbours, adding
    independent noise to every coordinate is (l2^2 / (2 scale^2))-zCDP. The scale is the exact rational value of the
    float64. Given uniform random bits, the draw is within 2^-200 of this law in total variation; an (epsilon, delta)
    read from the curve holds with delta + cells (1 + e^epsilon) 2^-200.

    Args:
        scale: sigma in [1/16, 2^15], in units of the count. From 1 on, the noise's standard deviation within 1e-7.

    Paper: Canonne, Kamath, Steinke 2020, Theorem 14.
    """

    scale: float
    name: ClassVar[str] = "discrete_gaussian"
    law: ClassVar[int] = 4
    norm: ClassVar[str] = "l2"
    arithmetic: ClassVar[str] = INTEGER
    bound: ClassVar[float] = 0.0
    places: ClassVar[frozenset[str]] = frozenset({NODE, GRID_ROW})
    replaces: ClassVar[str] = Gaussian.name
    least_joined_square: ClassVar[float] = LEAST_JOINED_SQUARE

    def __post_init__(self) -> None:
        if not SMALLEST_SCALE <= self.scale <= LARGEST_SCALE:
            rule = "scale must lie in [1/16, 2^15] for discrete Gaussian noise"
            raise ValueError(f"{rule}, got {self.scale}; use arithmetic: fast, or discrete Laplace noise")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, sensitivity: Sensitivity) -> DiscreteGaussian:
        """Return the least noise, up to the lattice's ripple, that `curve` proves to be (epsilon, delta)-DP.

        Raises ValueError for delta = 0.
        """
        if delta <= 0.0:
            rule = "delta must be above 0 for discrete Gaussian noise"
            raise ValueError(f"{rule}, got {delta}; set one, or use discrete Laplace noise")
        l2 = math.sqrt(sensitivity.cells) if sensitivity.integer else sensitivity.l2
        start = l2 / gaussian_mu(epsilon, delta)
        epsilon, delta = inside(epsilon, delta)
        return cls(smallest(lambda sigma: _curve(sigma, sensitivity).delta(epsilon), delta, start))

    @property
    def variance(self) -> float:
        """Sum of z^2 P(z): a little below scale^2, by less than 1e-15 of it from scale 2 on."""
        if self.scale >= 4.0:
            return self.scale**2
        z = np.arange(-160.0, 161.0)
        weights = np.exp(-0.5 * (z / self.scale) ** 2)
        return float(np.sum(z**2 * weights) / np.sum(weights))

    def curve(self, sensitivity: Sensitivity) -> PrivacyCurve:
        return _curve(self.scale, sensitivity)

    def sampler_table(self) -> UInt64Array:
        return discrete_gaussian_table(self.scale).copy()

    @property
    def envelope(self) -> Gaussian:
        """Gaussian noise of the same scale: sums of draws are close to its sums up to rounding."""
        return Gaussian(self.scale)

    def rounding(self, draws: int) -> float:  # noqa: ARG002 - of the sum, not of each draw
        return 0.5

    def lattice(self, summands: int) -> Lattice | None:
        if not few_enough(self.scale, summands):
            return None
        mass = np.exp(-0.5 * (np.arange(math.ceil(REACH * self.scale) + 2) / self.scale) ** 2)
        return Lattice(mass / (2.0 * mass.sum() - mass[0]), 0.0).summed(summands)

    def log_transform(self, s: Complex128Array) -> Complex128Array:
        """Return ln E e^(s Z), |Im s| <= pi."""
        if self.scale < 1.0:
            z = np.arange(-64, 65)
            weights = -0.5 * (z / self.scale) ** 2
            powers = np.exp(s[:, None] * z + weights).sum(axis=1)
            return np.asarray(np.log(powers / np.exp(weights).sum()))
        # Poisson's summation formula: the next terms are below e^-39 of these.
        j = np.arange(-2, 3)
        variance = self.scale * self.scale
        heights = -2.0 * variance * (np.pi * j) ** 2
        waves = np.exp(heights + 2j * np.pi * variance * s[:, None] * j).sum(axis=1)
        return np.asarray(0.5 * variance * s * s + np.log(waves / np.exp(heights).sum()))

    def sum_bound(self, n_items: int, failure: float) -> float:
        return lattice_sum_bound(n_items, failure, self.variance, self.log_transform, self.scale)

    def log_moment(self, argument: float) -> float:
        """Return (argument scale)^2 / 2, an upper bound also for w Z; Canonne, Kamath, Steinke 2020, Corollary 17."""
        return 0.5 * (argument * self.scale) ** 2


def _curve(scale: float, sensitivity: Sensitivity) -> PrivacyCurve:
    """Return the losses of integers that change by 1 each, else bounds for changes that may also be of joined numbers.

    Given the differences of the noises of h copies, the remainder is a discrete Gaussian of variance scale^2 / h around
    a known number: the same shift h times. Around a non-integer the zCDP bound fails for little noise.
    """
    if sensitivity.integer:
        return DiscreteGaussianLoss(sensitivity.cells, scale)
    each, sigma = sensitivity.of_one_copy, scale / math.sqrt(sensitivity.copies)
    bounds: list[PrivacyCurve] = [RoundedGaussianLoss(each.l2, sigma, each.cells)]
    if sensitivity.copies == 1 or sigma * sigma >= LEAST_JOINED_SQUARE * (1.0 - ROUNDING):
        bounds.insert(0, ZCDP(sensitivity.l2**2 / (2.0 * scale**2)))
    if each.integer:
        bounds.append(RoundedGaussianLoss.of_unit_changes(each.cells, sigma))
    return ChosenCurve(tuple(bounds))


@lru_cache(maxsize=8)
def discrete_gaussian_table(scale: float) -> UInt64Array:
    """Return the table of `fill_discrete_gaussian`, uint64[n]; layout above. At scale 2^15 it takes 1 s and 28 MB."""
    # Weights exp(-j^2 / (2 scale^2)) come from their ratios, the ratios from their common ratio exp(-1 / scale^2).
    precision = _BOUNDARY_BITS + _GUARD_BITS
    inverse = 1 / Fraction(scale) ** 2
    ratio, ratio_of_ratios = exp_minus(inverse / 2, precision), exp_minus(inverse, precision)
    weight, total = 2 * ratio, 1 << precision
    sums = [total]
    # The tail from j on is below weight / (1 - ratio) < weight (2 scale^2 + 1), the whole above 1.
    negligible = (1 << (precision - _TAIL_BITS)) // math.ceil(2.0 * scale**2 + 1.0)
    while weight > negligible:
        total += weight
        sums.append(total)
        ratio = ratio * ratio_of_ratios >> precision
        weight = weight * ratio >> precision
    # P(|Z| <= j) * 2^255, rounded down, for j = 0, 1, ...; the last one is 2^255.
    boundaries = [(partial << _BOUNDARY_BITS) // total for partial in sums]
    count, size = len(boundaries), (LIMB_BITS * (_LIMBS + 1)) // 8
    rows = np.frombuffer(b"".join(c.to_bytes(size, "big") for c in boundaries), dtype=">u8").astype(np.uint64)
    limbs = rows.reshape(count, _LIMBS + 1)
    leads = np.ascontiguousarray(limbs[:, 0])
    guide_bits = max(_FEWEST_GUIDE_BITS, math.ceil(math.log2(_BUCKETS_PER_SCALE * scale)))
    shift = _LEAD_BITS - guide_bits
    starts = np.arange(1 << guide_bits, dtype=np.uint64) << np.uint64(shift)
    guide = np.searchsorted(leads, starts, side="left").astype(np.uint64)
    header = np.array([count, shift], dtype=np.uint64)
    return np.concatenate([header, guide, leads, limbs[:, 1:].ravel()])


@kernel
def _reached(limbs: np.ndarray, further: np.ndarray) -> bool:
    """Return whether the further bits of a number are at least those of a boundary."""
    for j in range(_LIMBS):
        if further[j] != limbs[j]:
            return bool(further[j] > limbs[j])
    return True


@kernel
def _settled(u: np.uint64, leads: np.ndarray, limbs: np.ndarray, key: np.ndarray, number: np.uint64) -> int:
    """Return the number of boundaries reached by a number with leading 63 bits `u`, by bisection and further bits."""
    low, high = 0, leads.shape[0] - 1
    while low < high:
        middle = (low + high) // 2
        if leads[middle] < u:
            low = middle + 1
        else:
            high = middle
    if leads[low] == u:
        further = np.empty(_LIMBS, dtype=np.uint64)
        fill_bits(further, key, RESERVED + number * np.uint64(_LIMBS))
        while leads[low] == u and _reached(limbs[_LIMBS * low : _LIMBS * (low + 1)], further):
            low += 1
    return low


@sampler(DiscreteGaussian.law)
def fill_discrete_gaussian(
    out: Float64Array, scale: float, bound: float, key: np.ndarray, table: np.ndarray, first: np.uint64
) -> None:
    """Fill `out` float64[n] with draws number first, first+1, ... (below 2^53) of the law of `table`.

    *Formal guarantee.* See DiscreteGaussian. Draw i uses word i of the key, and words 3 i .. 3 i + 2 after RESERVED to
    resolve ties.
    """
    count, shift = np.int64(table[0]), table[1]
    end_of_guide = _HEADER + (np.int64(1) << np.int64(np.uint64(_LEAD_BITS) - shift))
    guide, leads = table[_HEADER:end_of_guide], table[end_of_guide : end_of_guide + count]
    limbs = table[end_of_guide + count :]
    words = np.empty(min(_BLOCK, out.shape[0]), dtype=np.uint64)
    for start in range(0, out.shape[0], _BLOCK):
        part = out[start : start + _BLOCK]
        n = part.shape[0]
        fill_bits(words[:n], key, first + np.uint64(start))
        for i in range(n):
            u = words[i] >> np.uint64(1)
            j = np.int64(guide[u >> shift])
            j += np.int64(u > leads[j])
            if u >= leads[j]:
                j = np.int64(_settled(u, leads, limbs, key, first + np.uint64(start + i)))
            negative = np.int64(words[i] & np.uint64(1))
            part[i] = np.float64((j ^ -negative) + negative)
