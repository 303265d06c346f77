"""The largest noise of a Gaussian counter, from its standard deviations and those of its steps.

With A_t the event that prefix t is off by more than E, Hunter's inequality along the chain of prefixes is
P(some A_t) <= P(A_1) + sum over t > 1 of P(A_t without A_(t-1)); the terms are integrals over a half line.

Paper: Hunter 1976, equation (4).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from dprl.privacy.base import Float64Array, Int64Array
from dprl.privacy.counters.solving import solved

# Relative: standard deviations and distances 1 - correlation are rounded up to powers of one plus these, so that alike
# prefixes are counted together. The first enlarges E by that much at most.
_DEVIATION_STEP = 2e-4
_DISTANCE_STEP = 0.02
_SMALLEST_DISTANCE = 1e-12
# Relative to the largest: standard deviations that are none.
_NO_NOISE = 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# What an integrand may have fallen by where its integral ends, as twice a logarithm.
_FALL = 80.0
# Prefixes that make up less of the failures take part with P(A_t).
_NEGLIGIBLE = 1e-7


class _Prefixes(NamedTuple):
    """Groups of prefixes t > 1: how many, standard deviations of t and t - 1, 1 - correlation; float64[groups] each."""

    number: Float64Array
    std: Float64Array
    std_before: Float64Array
    distance: Float64Array


def gaussian_bound(std: Float64Array, step_std: Float64Array | None, failure: float) -> float:
    """Return E with P(|N_t| > E for some t) <= failure, N_t normal with standard deviations std[t-1], float64[T].

    step_std[t-1], float64[T]: standard deviation of N_t - N_(t-1) (the first is not used); None: nothing is known
    about their dependence and all P(A_t) are added.
    """
    unit = float(std.max())
    if unit == 0.0:
        return 0.0
    first = max(float(std[0]), _NO_NOISE * unit)
    rest = _grouped(std, step_std)

    def failures(x: float) -> float:
        return float(2.0 * ndtr(-unit * x / first)) + _later_failures(unit * x, rest, step_std is None)

    return unit * solved(failures, failure)


def _grouped(std: Float64Array, step_std: Float64Array | None) -> _Prefixes:
    smallest = _NO_NOISE * float(std.max())
    now, before = std[1:], np.maximum(std[:-1], smallest)
    noisy = now > smallest
    now, before = now[noisy], before[noisy]
    if step_std is None:
        distance = np.ones(now.shape)
    else:
        # (step^2 - (now - before)^2) / (2 now before), without its cancellation.
        change = now - before
        step = step_std[1:][noisy]
        distance = np.clip((step - change) * ((step + change) / now) / (2.0 * before), _SMALLEST_DISTANCE, 2.0)
        distance[before <= smallest] = 1.0
    rounded = [
        np.ceil(np.log(values) / math.log1p(step)).astype(np.int64)
        for values, step in ((now, _DEVIATION_STEP), (before, _DEVIATION_STEP), (distance, _DISTANCE_STEP))
    ]
    groups, count = _distinct(rounded)
    now, before, distance = (
        np.exp(row * math.log1p(step))
        for row, step in zip(groups, (_DEVIATION_STEP, _DEVIATION_STEP, _DISTANCE_STEP), strict=True)
    )
    return _Prefixes(count.astype(np.float64), now, before, np.minimum(distance, 2.0))


def _distinct(columns: list[Int64Array]) -> tuple[list[Int64Array], Int64Array]:
    """Return the distinct rows of whole numbers in order, column by column, and how often each occurs.

    As numpy.unique along an axis, which takes 15 times as long: here a row is one number.
    """
    if columns[0].size == 0:
        return columns, np.zeros(0, dtype=np.int64)
    lowest = [column.min() for column in columns]
    sizes = [int(column.max() - low) + 1 for column, low in zip(columns, lowest, strict=True)]
    key = np.zeros(columns[0].shape, dtype=np.int64)
    for column, low, size in zip(columns, lowest, sizes, strict=True):
        key = key * size + (column - low)
    key, count = np.unique(key, return_counts=True)
    found = []
    for low, size in zip(reversed(lowest), reversed(sizes), strict=True):
        found.append(key % size + low)
        key //= size
    return found[::-1], count


def _later_failures(x: float, prefixes: _Prefixes, alone: bool) -> float:
    """Return the sum of P(A_t without A_(t-1)), t > 1; of P(A_t) if `alone`."""
    failing = prefixes.number * 2.0 * ndtr(-x / prefixes.std)
    if alone or failing.shape[0] == 0:
        return float(failing.sum())
    heavy = failing > _NEGLIGIBLE * failing.sum() / failing.shape[0]
    some = _Prefixes(*(field[heavy] for field in prefixes))
    fresh = 2.0 * some.number * above_and_not_before(x / some.std, x / some.std_before, some.distance)
    # Rounding up the correlation's distance never makes a term larger than the prefix alone.
    return float(np.minimum(fresh, failing[heavy]).sum() + failing[~heavy].sum())


def above_and_not_before(h: Float64Array, k: Float64Array, distance: Float64Array) -> Float64Array:
    """Return P(X > h, Y <= k) of standard normal X, Y with correlation 1 - distance, distance in (0, 2]; h >= 0.

    It is the integral of phi(h + v) Phi((k - rho h - rho v) / s) over v > 0, by 64 Gauss-Legendre points as far as the
    integrand has not fallen by e^-40.
    """
    rho, s = 1.0 - distance, np.sqrt(np.maximum(distance * (2.0 - distance), _SMALLEST_DISTANCE))
    start = (k - rho * h) / s
    end = np.sqrt(h * h + _FALL) - h
    falling = rho > 0.0
    until = (start + np.sqrt(np.minimum(start, 0.0) ** 2 + _FALL)) * s / np.where(falling, rho, 1.0)
    end = np.where(falling, np.minimum(end, until), end)
    v = 0.5 * end[:, None] * (_NODES + 1.0)
    density = np.exp(-0.5 * (h[:, None] + v) ** 2) / math.sqrt(2.0 * math.pi)
    below: Float64Array = (density * ndtr(start[:, None] - (rho / s)[:, None] * v)) @ _WEIGHTS
    return 0.5 * end * below
