"""95 % intervals over the seeds of a cell, for a mean and for a median."""

from __future__ import annotations

import math

import numpy as np
import scipy

CONFIDENCE = 0.95
FEWEST_SEEDS = 3
"""For a band of the mean: with two values its half width would be 13 standard errors, which says nothing."""


def band(values: np.ndarray) -> tuple[float, float, float]:
    """Return mean and ends of the 95 % Student t band of `values` float64[n_seeds]; NaN ends below 3 seeds."""
    mean, half = bands(values[np.newaxis, :])
    return float(mean[0]), float(mean[0] - half[0]), float(mean[0] + half[0])


def bands(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and half width (NaN below 3 seeds) of the t band over the rows of `values` float64[n, n_seeds]."""
    seeds = values.shape[1]
    mean = values.mean(axis=1)
    if seeds < FEWEST_SEEDS:
        return mean, np.full(len(mean), math.nan)
    quantile = float(scipy.special.stdtrit(seeds - 1, 0.5 + CONFIDENCE / 2))
    return mean, quantile * values.std(axis=1, ddof=1) / math.sqrt(seeds)


def median_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the median of `values` float64[n_seeds] and the ends of its 95 % interval, two of the values.

    The interval assumes nothing about the distribution (sign test), so infinity counts like any large value. The ends
    are NaN for up to five values, which are too few.
    """
    ordered = np.sort(values)
    n = len(ordered)
    lowest, highest = ordered[(n - 1) // 2], ordered[n // 2]
    median = float(lowest if lowest == highest else (lowest + highest) / 2)
    # The population's median lies below ordered[k] with probability P(Binomial(n, 1/2) <= k).
    outside = scipy.special.bdtr(np.arange(n), n, 0.5)
    rank = int(np.sum(outside <= (1 - CONFIDENCE) / 2)) - 1
    if rank < 0:
        return median, math.nan, math.nan
    return median, float(ordered[rank]), float(ordered[n - 1 - rank])
