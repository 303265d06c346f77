"""Largest noise of a Gaussian counter, from its standard deviations and those of its steps.

With A_t the event that the error of prefix t exceeds E, Hunter's inequality along the chain of prefixes is
P(some A_t) <= P(A_1) + sum over t > 1 of P(A_t without A_(t-1)); the terms are integrals over a half line.

Paper: Hunter 1976, equation (4).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import scipy

from dprl.privacy.accounting.root_finding import root_of_tail
from dprl.privacy.base import Float64Array, Int64Array

# Relative: standard deviations and distances 1 - correlation are rounded up to powers of one plus these, to group
# similar prefixes. The first increases E by at most this share.
_DEVIATION_STEP = 2e-4
_DISTANCE_STEP = 0.02
_SMALLEST_DISTANCE = 1e-12
# Standard deviations below this share of the largest count as 0.
_NO_NOISE = 1e-12
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
# Twice the logarithm of the decrease of an integrand at the end of its integral.
_FALL = 80.0
# Prefixes with a smaller share of the failures are bounded by P(A_t).
_NEGLIGIBLE = 1e-7


Pieces = Callable[[], Iterator[tuple[Float64Array, Float64Array]]]
"""Makes an iterator over consecutive ranges of prefixes: standard deviations of N_t, and of N_t - N_(t-1), N_0 = 0."""


class _Prefixes(NamedTuple):
    """Groups of prefixes t > 1: sizes, standard deviations of t and t - 1, 1 - correlation; float64[groups] each."""

    number: Float64Array
    std: Float64Array
    std_before: Float64Array
    distance: Float64Array


def gaussian_bound(pieces: Pieces, failure: float) -> float:
    """Return E with P(|N_t| > E for some t) <= failure, N_t normal with the standard deviations of `pieces`.

    The first of the steps' deviations is not used. Memory does not grow with the number of ranges.
    """
    unit = max(float(std.max()) for std, _ in pieces())
    if unit == 0.0:
        return 0.0
    first = max(float(next(pieces())[0][0]), _NO_NOISE * unit)
    rest = _grouped(pieces(), _NO_NOISE * unit)

    def failures(x: float) -> float:
        return float(2.0 * scipy.special.ndtr(-unit * x / first)) + _later_failures(unit * x, rest)

    return unit * root_of_tail(failures, failure)


def _grouped(pieces: Iterator[tuple[Float64Array, Float64Array]], smallest: float) -> _Prefixes:
    """Return all prefixes but the first in groups."""
    groups, count, last = [np.zeros(0, dtype=np.int64)] * 3, np.zeros(0, dtype=np.int64), np.zeros(0)
    for std, step_std in pieces:
        # The first prefix has no step; a later range's first step comes from the previous range.
        now, before = std[1 - last.size :], np.append(last, std[:-1])
        more, times = _rounded(now, before, step_std[1 - last.size :], smallest)
        both = [np.append(old, new) for old, new in zip(groups, more, strict=True)]
        groups, count = _distinct(both, np.append(count, times))
        last = std[-1:]
    now, before, distance = (
        np.exp(row * math.log1p(step))
        for row, step in zip(groups, (_DEVIATION_STEP, _DEVIATION_STEP, _DISTANCE_STEP), strict=True)
    )
    return _Prefixes(count.astype(np.float64), now, before, np.minimum(distance, 2.0))


def _rounded(
    now: Float64Array, before: Float64Array, step_std: Float64Array, smallest: float
) -> tuple[list[Int64Array], Int64Array]:
    """Return the groups of the noisy prefixes among consecutive ones, each field as a power, and their numbers."""
    before = np.maximum(before, smallest)
    noisy = now > smallest
    now, before = now[noisy], before[noisy]
    # (step^2 - (now - before)^2) / (2 now before), without its cancellation.
    step, change = step_std[noisy], now - before
    distance = np.clip((step - change) * ((step + change) / now) / (2.0 * before), _SMALLEST_DISTANCE, 2.0)
    distance[before <= smallest] = 1.0
    rounded = [
        np.ceil(np.log(values) / math.log1p(width)).astype(np.int64)
        for values, width in ((now, _DEVIATION_STEP), (before, _DEVIATION_STEP), (distance, _DISTANCE_STEP))
    ]
    return _distinct(rounded, np.ones(now.shape, dtype=np.int64))


def _distinct(columns: list[Int64Array], times: Int64Array) -> tuple[list[Int64Array], Int64Array]:
    """Return the distinct rows of whole numbers in order, column by column, and how often each occurs.

    times int64[rows]: multiplicity of every given row.

    It is like numpy.unique along an axis, in a 15th of the time, because here a row is one number.
    """
    if columns[0].size == 0:
        return columns, times
    lowest = [column.min() for column in columns]
    sizes = [int(column.max() - low) + 1 for column, low in zip(columns, lowest, strict=True)]
    key = np.zeros(columns[0].shape, dtype=np.int64)
    for column, low, size in zip(columns, lowest, sizes, strict=True):
        key = key * size + (column - low)
    order = np.argsort(key, kind="stable")
    key, first = np.unique(key[order], return_index=True)
    count = np.add.reduceat(times[order], first)
    found = []
    for low, size in zip(reversed(lowest), reversed(sizes), strict=True):
        found.append(key % size + low)
        key //= size
    return found[::-1], count


def _later_failures(x: float, prefixes: _Prefixes) -> float:
    """Return the sum of P(A_t without A_(t-1)), t > 1."""
    failing = prefixes.number * 2.0 * scipy.special.ndtr(-x / prefixes.std)
    if failing.shape[0] == 0:
        return 0.0
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
    below: Float64Array = (density * scipy.special.ndtr(start[:, None] - (rho / s)[:, None] * v)) @ _WEIGHTS
    return 0.5 * end * below
