"""Bootstrap intervals and permutation tests of the runs of a cell, also for the smaller number of runs in a paper.

Everything is deterministic: for a given number of values the resamples are always the same. Infinity counts like any
large value, so resampled values are never averaged: ends of intervals are values that occurred.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from dprl.algorithms.base import Float64Array
from dprl.platform.results.inference import CONFIDENCE, FEWEST_SEEDS, Estimate

_RESAMPLES = 4000
_PERMUTATIONS = 9999
_CHUNK = 500
"""Resamples drawn at a time; does not change results."""
_KEPT = 512
_SURE = 1e-12
"""Tolerance for sums of the same numbers in another order, which may differ by rounding."""

Statistic = Callable[[Float64Array], Float64Array]
"""Function of values float64[..., n] of n trials that returns float64[...]."""


class Difference(NamedTuple):
    """Difference of two cells, first minus second, with its 95 % bootstrap interval.

    seen: the share of pairs of resamples, of as many runs as the paper has, in which it is above 0; ties count half.
    """

    difference: float
    lower: float
    upper: float
    seen: float

    @property
    def estimate(self) -> Estimate:
        """The difference with its interval."""
        return Estimate(self.difference, self.lower, self.upper, "linear")


def median(values: Float64Array) -> Float64Array:
    """Return the median, infinite if half of the values are."""
    return np.asarray(np.median(values, axis=-1))


def mean(values: Float64Array) -> Float64Array:
    """Return the mean."""
    return np.asarray(np.mean(values, axis=-1))


def resampled(values: Float64Array, statistic: Statistic, size: int, stream: int = 0) -> Float64Array:
    """Return the statistic of 4000 resamples of `size` of the values float64[n], drawn with replacement.

    stream: cells with different streams have independent resamples.
    """
    return _resampled(np.ascontiguousarray(values, dtype=np.float64).tobytes(), statistic, size, stream)


@lru_cache(_KEPT)
def _resampled(data: bytes, statistic: Statistic, size: int, stream: int) -> Float64Array:
    """Return `resampled` of the float64 numbers in `data`, read-only and cached, because pages repeat requests."""
    values = np.frombuffer(data)
    generator = np.random.default_rng([len(values), size, stream])
    drawn = (values[generator.integers(0, len(values), size=(_CHUNK, size))] for _ in range(0, _RESAMPLES, _CHUNK))
    found = np.concatenate([statistic(each) for each in drawn])
    found.setflags(write=False)
    return found


def central(numbers: Float64Array) -> tuple[float, float]:
    """Return the ends of the central 95 % of `numbers`: two of them."""
    ordered = np.sort(numbers)
    outside = math.floor(len(ordered) * (1.0 - CONFIDENCE) / 2 + _SURE)
    return float(ordered[outside]), float(ordered[len(ordered) - 1 - outside])


def estimate(values: Float64Array, statistic: Statistic) -> Estimate:
    """Return the statistic of the values float64[n] with its bootstrap interval."""
    value = float(statistic(values))
    if len(values) < FEWEST_SEEDS:
        return Estimate(value, math.nan, math.nan, "linear")
    return Estimate(value, *trial_range(values, statistic, len(values)), "linear")


def share(hits: Float64Array) -> Estimate:
    """Return the share of ones among zeros and ones float64[n], with the interval of Clopper and Pearson.

    A bootstrap of all ones would have no width.
    """
    n, k = len(hits), int(np.sum(hits))
    if n < FEWEST_SEEDS:
        return Estimate(k / n, math.nan, math.nan, "linear")
    outside = (1.0 - CONFIDENCE) / 2
    lower = float(scipy.special.betaincinv(k, n - k + 1, outside)) if k else 0.0
    upper = float(scipy.special.betaincinv(k + 1, n - k, 1.0 - outside)) if k < n else 1.0
    return Estimate(k / n, lower, upper, "linear")


def trial_range(values: Float64Array, statistic: Statistic, size: int) -> tuple[float, float]:
    """Return the central 95 % of the statistic of `size` resampled values."""
    return central(resampled(values, statistic, size))


def ratio(values: Float64Array, reference: Float64Array) -> Estimate:
    """Return the mean of values float64[n] divided by the mean of others float64[m]; NaN if that is 0."""
    value = _divided(mean(values), mean(reference))
    if min(len(values), len(reference)) < FEWEST_SEEDS:
        return Estimate(float(value), math.nan, math.nan, "linear")
    return Estimate(float(value), *ratio_range(values, reference, len(values), len(reference)), "linear")


def ratio_range(values: Float64Array, reference: Float64Array, n: int, m: int) -> tuple[float, float]:
    """Return the central 95 % of `ratio` if the cells have n and m trials."""
    drawn = _divided(resampled(values, mean, n, 0), resampled(reference, mean, m, 1))
    # If a resampled reference never succeeds, its mean is 0.
    return (math.nan, math.nan) if np.isnan(drawn).any() else central(drawn)


def compared(one: Float64Array, other: Float64Array, statistic: Statistic, size: int) -> Difference:
    """Return the difference between the statistics of trials float64[n] and of other, independent ones float64[m].

    size: number of trials in the paper. Two infinite values do not differ.
    """
    difference = float(_difference(statistic(one), statistic(other)))
    small = _difference(*(resampled(x, statistic, size, i) for i, x in enumerate((one, other))))
    seen = float(np.mean(small > 0.0) + np.mean(small == 0.0) / 2)
    if min(len(one), len(other)) < FEWEST_SEEDS:
        return Difference(difference, math.nan, math.nan, seen)
    drawn = _difference(*(resampled(x, statistic, len(x), i) for i, x in enumerate((one, other))))
    return Difference(difference, *central(drawn), seen)


def permutation_p(one: Float64Array, other: Float64Array) -> float:
    """Return the one-sided p-value for the mean of float64[n] exceeding that of float64[m], by 9999 permutations.

    It is valid if both have the same distribution, whatever that is. Its least value is 1/10000.
    """
    return _permutation_p(np.concatenate([one, other]).astype(np.float64).tobytes(), len(one))


@lru_cache(_KEPT)
def _permutation_p(data: bytes, count: int) -> float:
    """Return `permutation_p` of the float64 numbers in `data`; the first `count` are of the first sample."""
    pooled = np.frombuffer(data)
    generator = np.random.default_rng([count, len(pooled) - count])
    shuffled = generator.permuted(np.broadcast_to(pooled, (_PERMUTATIONS, len(pooled))), axis=1)
    # The sum of all values is fixed, so the difference of means grows with the sum of the first.
    sums, seen = shuffled[:, :count].sum(axis=1), float(np.sum(pooled[:count]))
    return float((1 + np.sum(sums >= seen - _SURE * abs(seen))) / (_PERMUTATIONS + 1))


def _difference(one: Float64Array, other: Float64Array) -> Float64Array:
    one, other = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    same = one == other  # infinity minus infinity would be NaN
    return np.where(same, 0.0, np.subtract(one, other, where=~same, out=np.zeros_like(one)))


def _divided(one: Float64Array, other: Float64Array) -> Float64Array:
    return np.divide(one, other, where=other > 0.0, out=np.full_like(np.asarray(one, dtype=np.float64), math.nan))
