"""Inference over seeds: intervals of means and medians, effects with Welch's test, and bands of whole curves.

Values of a positive metric are compared on logs: the centre is then the geometric mean, and an effect is a ratio.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

import numpy as np
import scipy

Scale = Literal["log", "linear"]
CONFIDENCE = 0.95
LEVEL = 0.05
"""Bound on the probability that a family of tests finds a false difference."""
FEWEST_SEEDS = 3
"""For an interval of a mean: with two values its half width would be 13 standard errors, which says nothing."""
UNBOUNDED = (-math.inf, math.inf)
_SAME = 1e-9  # relative difference that is due to rounding
_RESAMPLES = 1000  # resamples of curves
_MOST_POINTS = 100  # points of a curve that are searched for the largest deviation; between them curves are smooth
_MOST_SEEDS = 64
"""Above this number of seeds the quantile no longer depends on it: multipliers of this many seeds are drawn."""


class Estimate(NamedTuple):
    """The centre of a cell's seeds with its 95 % interval; the ends are NaN below 3 seeds."""

    value: float
    lower: float
    upper: float
    scale: Scale

    @property
    def has_interval(self) -> bool:
        """Whether there are enough seeds for an interval."""
        return not math.isnan(self.lower)


class Effect(NamedTuple):
    """The effect of one cell against another: a ratio on the log scale, a difference on the linear scale.

    lower, upper: the ends of Welch's 95 % interval. p_value: of Welch's two-sided test; adjusted: for a family of
    tests, see `holm`, NaN without one. All are NaN if a cell has fewer than 3 seeds or a value that is not finite.
    """

    value: float
    lower: float
    upper: float
    p_value: float
    scale: Scale
    adjusted: float = math.nan

    @property
    def tested(self) -> bool:
        """Whether it was tested in a family."""
        return not math.isnan(self.adjusted)

    @property
    def significant(self) -> bool:
        """Whether the difference is significant in its family."""
        return self.adjusted <= LEVEL


def scale_of(*samples: np.ndarray) -> Scale:
    """Return 'log' if all values of all samples are positive and finite, else 'linear'; nothing is ever dropped."""
    positive = all(bool(np.all((values > 0.0) & np.isfinite(values))) for values in samples)
    return "log" if positive else "linear"


def estimate(values: np.ndarray, scale: Scale = "linear", bounds: tuple[float, float] = UNBOUNDED) -> Estimate:
    """Return the mean of `values` float64[n_seeds] and Student's 95 % interval, cut at `bounds`, the metric's range.

    On the log scale both are of the logs, transformed back.
    """
    mean, half = bands((np.log(values) if scale == "log" else values)[np.newaxis, :])
    numbers = [float(mean[0]), float(mean[0] - half[0]), float(mean[0] + half[0])]
    value, *ends = (float(np.exp(x)) for x in numbers) if scale == "log" else numbers
    lower, upper = (end if math.isnan(end) else min(max(end, bounds[0]), bounds[1]) for end in ends)
    return Estimate(value, lower, upper, scale)


def bands(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and half width (NaN below 3 seeds) of Student's interval of each row of float64[n, seeds]."""
    seeds, mean = values.shape[1], values.mean(axis=1)
    if seeds < FEWEST_SEEDS:
        return mean, np.full(len(mean), math.nan)
    quantile = float(scipy.special.stdtrit(seeds - 1, 0.5 + CONFIDENCE / 2))
    return mean, quantile * values.std(axis=1, ddof=1) / math.sqrt(seeds)


def median_interval(values: np.ndarray) -> tuple[float, float, float]:
    """Return the median of `values` float64[n_seeds] and the ends of its 95 % interval, two of the values.

    The interval assumes nothing about the distribution (sign test), so infinity counts like any large value. The ends
    are NaN for up to five values, which are too few.
    """
    interval = scipy.stats.quantile_test(values, p=0.5).confidence_interval(CONFIDENCE)
    return float(np.median(values)), float(interval.low), float(interval.high)


def effect(first: np.ndarray, second: np.ndarray, scale: Scale) -> Effect:
    """Return the effect of `first` float64[n] against `second` float64[m] by Welch's test, on logs for a ratio.

    Welch's test allows for different variances, as they are between levels of noise. It assumes normal values, or
    normal logs for a positive metric, which are closer to normal. A permutation test would not, but its least p-value
    is 0.1 for three seeds per cell, and 0.008 for five, before any adjustment.
    """
    samples = [np.log(values) if scale == "log" else values for values in (first, second)]
    difference = float(samples[0].mean() - samples[1].mean())
    lower, upper, p_value = math.nan, math.nan, math.nan
    if min(map(len, samples)) >= FEWEST_SEEDS and math.isfinite(difference):
        # Exact values differ by rounding errors; for logs, a relative difference is an absolute one.
        rounding = [_SAME * (1.0 if scale == "log" else abs(float(values.mean()))) for values in samples]
        if all(values.std(ddof=1) <= most for values, most in zip(samples, rounding, strict=True)):
            lower, upper, p_value = difference, difference, 1.0 if abs(difference) <= max(rounding) else 0.0
        else:
            with warnings.catch_warnings():  # of one sample that does not vary, which is no problem
                warnings.simplefilter("ignore", RuntimeWarning)
                test = scipy.stats.ttest_ind(*samples, equal_var=False)
            lower, upper = map(float, test.confidence_interval(CONFIDENCE))
            p_value = float(test.pvalue)
    if scale == "log":
        difference, lower, upper = (float(np.exp(x)) for x in (difference, lower, upper))
    return Effect(difference, lower, upper, p_value, scale)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's adjustment, in the same order; NaN is in no test and not in the family."""
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: np.isfinite(p).sum()]  # NaN comes last
    adjusted = np.full(len(p), math.nan)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return adjusted.tolist()


# ---- simultaneous bands of curves ----


def scaled_band(
    curves: np.ndarray, scale: Scale, bounds: tuple[float | np.ndarray, float | np.ndarray]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean, lower and upper end, float64[T] each, of the simultaneous band of `curves` float64[n_seeds, T].

    It is computed on `scale` and cut at `bounds`, the metric's range; the ends are NaN below 3 seeds. On the log scale
    mean and band are those of the log curves, transformed back; all values must be positive, see `scale_of`.
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
    bootstrap is far too narrow. With few seeds it assumes normal curves; docs/statistics.md has the coverage. The half
    width is NaN below 3 seeds. The resamples are always the same.
    """
    seeds, mean = len(curves), curves.mean(axis=0)
    if seeds < FEWEST_SEEDS:
        return mean, np.full(len(mean), math.nan)
    spread = curves.std(axis=0, ddof=1)
    moving, half = np.flatnonzero(spread > _SAME * np.abs(mean)), np.zeros(len(mean))
    if len(moving):
        looked_at = moving[np.unique(np.linspace(0, len(moving) - 1, _MOST_POINTS).astype(np.int64))]
        residuals = (curves[:, looked_at] - mean[looked_at]) / spread[looked_at]
        half[moving] = _critical_value(residuals) * spread[moving] / math.sqrt(seeds)
    return mean, half


def _critical_value(residuals: np.ndarray) -> float:
    """Return the 95 % quantile of the largest absolute t statistic of curves like these float64[n_seeds, T]."""
    # In the basis of the singular vectors, many seeds need fewer random numbers.
    _, sizes, directions = np.linalg.svd(residuals, full_matrices=False)
    kept = sizes > _SAME * sizes[0]
    seeds = min(len(residuals), _MOST_SEEDS)
    drawn = _weights(seeds, int(kept.sum())) @ (sizes[kept, np.newaxis] * directions[kept]).astype(np.float32)
    largest = np.abs(drawn.mean(axis=1) / drawn.std(axis=1, ddof=1)).max(axis=1) * math.sqrt(seeds)
    return float(np.quantile(largest, CONFIDENCE))


@lru_cache(8)
def _weights(seeds: int, rank: int) -> np.ndarray:
    """Return the normal weights float32[resamples, seeds, rank], read-only."""
    weights = np.random.default_rng([seeds, rank]).standard_normal((_RESAMPLES, seeds, rank), dtype=np.float32)
    weights.setflags(write=False)
    return weights
