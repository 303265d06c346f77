"""Simultaneous 95 % bands of a mean curve, from the curves of a few seeds."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dprl.platform.reports.inference.effects import Scale
from dprl.platform.reports.inference.intervals import CONFIDENCE, FEWEST_SEEDS

_RESAMPLES = 1000
_MOST_POINTS = 100
"""Points of a curve that are searched for the largest deviation; between them curves are smooth."""
_CHUNK = 250
"""Resamples at a time; does not change results."""
_MOST_SEEDS = 64
"""Above this number of seeds the quantile no longer depends on it: multipliers of this many seeds are drawn."""
_STILL = 1e-9
"""Spread over seeds, relative to the mean, that is due to rounding: the band has no width there."""


def scaled_band(
    curves: np.ndarray, scale: Scale, bounds: tuple[float | np.ndarray, float | np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, lower and upper end, float64[T] each, of the simultaneous band of `curves` float64[n_seeds, T].

    It is computed on `scale` and cut at `bounds`; the ends are NaN below 3 seeds. On the log scale the mean is the
    geometric one of the seeds' curves, and the band is that of the mean log curve, transformed back; all values must be
    positive, see `scale_of`. bounds: the range of the metric, a number or float64[T] each.
    """
    mean, half = simultaneous_band(np.log(curves) if scale == "log" else curves)
    ends = (mean, mean - half, mean + half)
    centre, lower, upper = (np.exp(end) for end in ends) if scale == "log" else ends
    return centre, np.clip(lower, *bounds), np.clip(upper, *bounds)


def simultaneous_band(curves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean of `curves` float64[n_seeds, T] and the half width of its band, both float64[T].

    With probability 95 % the band contains the true mean curve at all T points. Its width is a multiple of the
    standard error at every point (sup-t); the multiple is the 95 % quantile of the largest absolute t statistic along
    the curve. That is found by a multiplier bootstrap of whole curves: seeds' deviations from their mean are mixed with
    normal weights, so a resample is as many curves with the covariance that was seen, and each resample is studentised
    by its own spread. For a single point this is Student's interval, whatever the number of seeds, where a percentile
    bootstrap is far too narrow. With few seeds it assumes normal curves; docs/reports.md has the coverage. The half
    width is NaN below 3 seeds. The resamples are always the same.
    """
    seeds = len(curves)
    mean = curves.mean(axis=0)
    if seeds < FEWEST_SEEDS:
        return mean, np.full(len(mean), math.nan)
    spread = curves.std(axis=0, ddof=1)
    moving = np.flatnonzero(spread > _STILL * np.abs(mean))
    half = np.zeros(len(mean))
    if len(moving):
        looked_at = moving[np.unique(np.linspace(0, len(moving) - 1, _MOST_POINTS).astype(np.int64))]
        residuals = (curves[:, looked_at] - mean[looked_at]) / spread[looked_at]
        half[moving] = _critical_value(residuals) * spread[moving] / math.sqrt(seeds)
    return mean, half


def _critical_value(residuals: np.ndarray) -> float:
    """Return the 95 % quantile of the largest absolute t statistic of curves like these float64[n_seeds, T]."""
    # In the basis of the singular vectors, many seeds need fewer random numbers.
    _, sizes, directions = np.linalg.svd(residuals, full_matrices=False)
    kept = sizes > _STILL * sizes[0]
    curves = (sizes[kept, np.newaxis] * directions[kept]).astype(np.float32)
    largest = _largest(curves, min(len(residuals), _MOST_SEEDS))
    return float(np.quantile(largest, CONFIDENCE))


def _largest(curves: np.ndarray, seeds: int) -> np.ndarray:
    """Return, for every resample of `seeds` normal mixtures of `curves` float32[rank, T], its largest t statistic."""
    weights = _weights(seeds, len(curves))
    found = []
    for first in range(0, _RESAMPLES, _CHUNK):
        drawn = weights[first : first + _CHUNK] @ curves
        spread = drawn.std(axis=1, ddof=1)
        found.append((np.abs(drawn.mean(axis=1)) / spread).max(axis=1) * math.sqrt(seeds))
    return np.concatenate(found)


@lru_cache(8)
def _weights(seeds: int, rank: int) -> np.ndarray:
    """Return the normal weights float32[resamples, seeds, rank], read-only."""
    weights = np.random.default_rng([seeds, rank]).standard_normal((_RESAMPLES, seeds, rank), dtype=np.float32)
    weights.setflags(write=False)
    return weights
