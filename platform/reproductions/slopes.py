"""Log-log slopes of regret with intervals, beside the exponents of a paper's bound."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.platform.reports.inference.effects import Estimate, estimate

FEWEST_POINTS = 3
_UNKNOWN = Estimate(math.nan, math.nan, math.nan, "linear")

SLOPE_VERDICTS = ("consistent", "below the term", "above the term", "not measurable")


class Fit(NamedTuple):
    """Slope of log y against log x, over the usable points.

    slope: mean of the seeds' least-squares slopes with Student's 95 % interval; NaN below 3 points or 3 seeds.
    points, of: number of points used, and in total. predicted: the exponent of the bound.
    """

    slope: Estimate
    points: int
    of: int
    predicted: float

    @property
    def verdict(self) -> str:
        """Position of the interval, one of SLOPE_VERDICTS. A slope below that of an upper bound agrees with it."""
        if not self.slope.has_interval:
            return "not measurable"
        if self.slope.upper < self.predicted:
            return "below the term"
        return "above the term" if self.slope.lower > self.predicted else "consistent"


def fit(x: Float64Array, y: Float64Array, bent: np.ndarray, predicted: float) -> Fit:
    """Return the fit of y against x.

    x: float64[m], positive. y: float64[n, m], of n seeds; a point is used only if all seeds are positive. bent:
    bool[m], whether a point's curve has bent, so that it says something about the rate.
    """
    enters = bent & np.all(y > 0.0, axis=0)
    points = int(enters.sum())
    if points < FEWEST_POINTS:
        return Fit(_UNKNOWN, points, len(x), predicted)
    logs = np.log(x[enters])
    away = logs - logs.mean()
    slopes = np.log(y[:, enters]) @ away / (away @ away)
    return Fit(estimate(slopes, "linear"), points, len(x), predicted)
