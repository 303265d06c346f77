"""Lower-triangular Toeplitz matrices of the factorisations: the square root of A, its inverse, and what columns cost.

A is the lower-triangular matrix of ones, the Toeplitz matrix of 1/(1-x); its square root is that of (1-x)^(-1/2).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy import fft

from dprl.privacy.base import Float64Array
from dprl.privacy.mechanisms.base import Sensitivity

_EXTENDED = float(np.finfo(np.longdouble).eps)
_DOUBLE = 2.0**-53


@lru_cache(maxsize=4)
def root_coefficients(n_items: int) -> Float64Array:
    """Return the first coefficients of (1-x)^(-1/2): c_0 = 1, c_j = c_{j-1} (1 - 1/(2j)); read-only."""
    return _products(n_items, 1)


@lru_cache(maxsize=4)
def inverse_root_coefficients(n_items: int) -> Float64Array:
    """Return the first coefficients of (1-x)^(1/2): e_0 = 1, e_j = e_{j-1} (1 - 3/(2j)); read-only."""
    return _products(n_items, 3)


def _products(n_items: int, step: int) -> Float64Array:
    twice = 2 * np.arange(1, n_items, dtype=np.longdouble)
    coefficients = np.ones(n_items)
    coefficients[1:] = np.cumprod((twice - step) / twice)
    coefficients.setflags(write=False)
    return coefficients


def root_slack(n_items: int) -> float:
    """Return a factor >= 1 for the column norms of the matrix that noise made with rounded coefficients implies.

    If every coefficient of a series is off by at most a share r, the matrix whose inverse it makes changes by less than
    s = r * 2 * 2 sqrt(n/pi) times itself in the operator norm (the absolute coefficients of the one series sum to 2,
    those of the other to less than 2 sqrt(n/pi) + 1).
    """
    share = 3.0 * n_items * _EXTENDED + 4.0 * _DOUBLE
    change = 2.0 * share * (2.0 * math.sqrt(n_items / math.pi) + 1.0)
    return (1.0 + summing_slack(n_items)) / (1.0 - change)


def summing_slack(n_items: int) -> float:
    """Return a bound on the relative error of float64 sums of n_items positive products that are as far off each."""
    return 8.0 * (n_items + 8) * _DOUBLE


def through_column(row: Sensitivity, column: Float64Array, slack: float) -> Sensitivity:
    """Return how much the noised numbers change if a row changes by `row` and enters them with weights `column`."""
    weights = np.abs(column)
    l2 = math.sqrt(float(weights @ weights))
    l1, largest = float(weights.sum()), float(weights.max())
    return Sensitivity(row.l1 * l1 * slack, row.l2 * l2 * slack, row.linf * largest * slack, row.cells * column.size)


def through_normalized_columns(
    row: Sensitivity, coefficients: Float64Array, norms: Float64Array, slack: float
) -> Sensitivity:
    """Return the largest of `row` through any column (c_0 ... c_{T-j}) / g_j; the L2 norm is computed, not taken as 1.

    coefficients, norms: c_0 ... c_{T-1} >= 0 and g_1 ... g_T, float64[T] each.
    """
    l1 = float(np.max(np.cumsum(coefficients)[::-1] / norms))
    l2 = float(np.max(np.sqrt(np.cumsum(coefficients * coefficients))[::-1] / norms))
    largest = float(np.max(np.maximum.accumulate(coefficients)[::-1] / norms))
    return Sensitivity(row.l1 * l1 * slack, row.l2 * l2 * slack, row.linf * largest * slack, row.cells * norms.size)


def convolve_columns(rows: Float64Array, coefficients: Float64Array, columns_at_a_time: int = 8) -> None:
    """Replace every column of rows float64[T, cells] by its convolution with `coefficients` float64[T]."""
    n_items = rows.shape[0]
    length = fft.next_fast_len(2 * n_items - 1, real=True)
    transformed = fft.rfft(coefficients, length)
    for start in range(0, rows.shape[1], columns_at_a_time):
        part = np.ascontiguousarray(rows[:, start : start + columns_at_a_time].T)
        product = fft.rfft(part, length, axis=1) * transformed
        rows[:, start : start + columns_at_a_time] = fft.irfft(product, length, axis=1)[:, :n_items].T
