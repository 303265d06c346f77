"""Estimates over the seeds of one cell and effects between two cells, on the log scale where values are positive."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy

from dprl.platform.reports.inference.intervals import CONFIDENCE, FEWEST_SEEDS, band

Scale = Literal["log", "linear"]
UNBOUNDED = (-math.inf, math.inf)
_SAME = 1e-9
"""Two values with a smaller relative difference are equal: exact values differ by rounding errors."""


class Estimate(NamedTuple):
    """The centre of a cell's seeds with its 95 % interval; the ends are NaN below 3 seeds.

    On the log scale the centre is the geometric mean and the interval is Student's of the mean log value, transformed
    back. On the linear scale they are the ordinary mean and Student's interval.
    """

    value: float
    lower: float
    upper: float
    scale: Scale

    @classmethod
    def of_row(cls, row: Mapping[str, Any], name: str) -> Estimate:
        """Return a column of a row of summary.csv with the ends of its interval, if it has them."""
        lower, upper = (float(row.get(f"{name}_{end}", math.nan)) for end in ("lower", "upper"))
        return cls(float(row[name]), lower, upper, "linear")

    @property
    def has_interval(self) -> bool:
        """Whether there are enough seeds for an interval."""
        return not math.isnan(self.lower)


class Effect(NamedTuple):
    """The effect of one cell against another: a ratio on the log scale, a difference on the linear scale.

    lower, upper: the ends of Welch's 95 % interval. p_value: of Welch's two-sided test. All three are NaN if a
    cell has fewer than 3 seeds or a value that is not finite.
    """

    value: float
    lower: float
    upper: float
    p_value: float
    scale: Scale


def scale_of(*samples: np.ndarray) -> Scale:
    """Return 'log' if all values of all samples are positive and finite, else 'linear'; nothing is ever dropped."""
    positive = all(bool(np.all((values > 0.0) & np.isfinite(values))) for values in samples)
    return "log" if positive else "linear"


def estimate(values: np.ndarray, scale: Scale, bounds: tuple[float, float] = UNBOUNDED) -> Estimate:
    """Return the centre of `values` float64[n_seeds] and its interval, cut at `bounds`, the range of the metric."""
    value, *ends = band(np.log(values) if scale == "log" else values)
    if scale == "log":
        value, *ends = (float(np.exp(x)) for x in (value, *ends))
    lower, upper = (end if math.isnan(end) else min(max(end, bounds[0]), bounds[1]) for end in ends)
    return Estimate(value, lower, upper, scale)


def effect(first: np.ndarray, second: np.ndarray, scale: Scale) -> Effect:
    """Return the effect of `first` float64[n] against `second` float64[m] by Welch's test, on logs for a ratio.

    Welch's test allows for different variances, as they are between levels of noise. It assumes normal values, or
    normal logs for a positive metric, which are closer to normal. A permutation test would not, but its least p-value
    is 0.1 for three seeds per cell, and 0.008 for five, before any adjustment.
    """
    one, other = (np.log(values) if scale == "log" else values for values in (first, second))
    difference = float(one.mean() - other.mean())
    half, p_value = math.nan, math.nan
    if min(len(one), len(other)) >= FEWEST_SEEDS and math.isfinite(difference):
        half, p_value = _welch(one, other, difference, scale)
    ends = (difference, difference - half, difference + half)
    value, lower, upper = (float(np.exp(x)) for x in ends) if scale == "log" else ends
    return Effect(value, lower, upper, p_value, scale)


def _welch(one: np.ndarray, other: np.ndarray, difference: float, scale: Scale) -> tuple[float, float]:
    """Return the half width of the interval of `difference` and the p-value of two samples on their scale."""
    # For logs, a relative difference is an absolute one.
    sizes = [1.0 if scale == "log" else abs(float(values.mean())) for values in (one, other)]
    variances = [_variance(values, _SAME * size) for values, size in zip((one, other), sizes, strict=True)]
    total = sum(variances)
    if total == 0.0:
        return 0.0, 1.0 if abs(difference) <= _SAME * max(sizes) else 0.0
    shares = [variance / total for variance in variances]
    freedom = 1.0 / sum(share**2 / (len(values) - 1) for share, values in zip(shares, (one, other), strict=True))
    error = math.sqrt(total)
    half = float(scipy.special.stdtrit(freedom, 1.0 - (1.0 - CONFIDENCE) / 2.0)) * error
    return half, min(1.0, 2.0 * float(scipy.special.stdtr(freedom, -abs(difference) / error)))


def _variance(values: np.ndarray, rounding: float) -> float:
    """Return the variance of the mean of `values`, 0 if their spread is at most `rounding`."""
    spread = float(values.std(ddof=1))
    return spread**2 / len(values) if spread > rounding else 0.0
