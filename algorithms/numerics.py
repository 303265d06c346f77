"""Numbers in compiled loops, where a library call would cost more: the exponential, and inverses of small matrices."""

from __future__ import annotations

import math

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.compiled import kernel, no_alloc_kernel

# exp(r) = 1 + r + r c/(2-c) for |r| <= ln(2)/2, c = r - z (C1 + z (C2 + ...)), z = r^2: fdlibm's coefficients.
_C1, _C2, _C3 = 1.66666666666666019037e-01, -2.77777777770155933842e-03, 6.61375632143793436117e-05
_C4, _C5 = -1.65339022054652515390e-06, 4.13813679705723846039e-08
_PER_LN2 = 1.44269504088896338700
# ln(2) in two parts; the first has so few digits that its products with whole numbers below 2^20 are exact.
_LN2_HIGH, _LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
_ROUNDING = 6755399441055744.0  # Adding 1.5 * 2^52 rounds to a whole number and leaves it in the lowest bits.
_LOWEST = -708.0  # Below it the result would be subnormal.


def plain_nearest(counts: Float64Array, total: float) -> Float64Array:
    """Return the non-negative vector of sum `total` >= 0 nearest to `counts`."""
    falling = np.sort(counts)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(counts) + 1)
    return np.asarray(np.maximum(counts - shifts[np.flatnonzero(falling >= shifts)[-1]], 0.0))


@kernel
def exponential(x: float) -> float:
    """Return exp(x) for x <= 0, within 1 ulp, without branches; 0 below -708.

    The compiler can vectorise it, unlike the C library's function, which is called for every number.
    """
    bounded = max(x, _LOWEST)
    shifted = bounded * _PER_LN2 + _ROUNDING
    n = shifted - _ROUNDING
    high, low = bounded - n * _LN2_HIGH, n * _LN2_LOW
    r = high - low
    z = r * r
    c = r - z * (_C1 + z * (_C2 + z * (_C3 + z * (_C4 + z * _C5))))
    of_r = 1.0 - ((low - r * c / (2.0 - c)) - high)
    # Multiplies by 2^n: adds n to the exponent.
    bits = np.float64(of_r).view(np.int64) + np.int64(np.float64(shifted).view(np.int64) << np.int64(52))
    result = np.int64(bits).view(np.float64)
    return result if x >= _LOWEST else 0.0


@no_alloc_kernel
def inverted(matrix: Float64Array, shift: float, factor: Float64Array, inverse: Float64Array) -> bool:
    """Fill `inverse` [D, D] of matrix + shift I; return False if it has a pivot <= 0. Reads the upper triangle."""
    d = matrix.shape[0]
    if not _factored(matrix, shift, factor):
        return False
    for j in range(d):  # L^-1
        inverse[j, j] = factor[j, j]
        for i in range(j + 1, d):
            total = 0.0
            for k in range(j, i):
                total += factor[i, k] * inverse[k, j]
            inverse[i, j] = -total * factor[i, i]
    for i in range(d):  # L^-T L^-1; row i needs the rows of L^-1 from i on
        for j in range(i + 1):
            total = 0.0
            for k in range(i, d):
                total += inverse[k, i] * inverse[k, j]
            factor[i, j] = total
    for i in range(d):
        for j in range(i + 1):
            inverse[i, j] = factor[i, j]
            inverse[j, i] = factor[i, j]
    return True


@no_alloc_kernel
def _factored(matrix: Float64Array, shift: float, factor: Float64Array) -> bool:
    """Fill the lower triangle of `factor` with Cholesky's L, its diagonal inverted; return False for a pivot <= 0."""
    for i in range(matrix.shape[0]):
        for j in range(i):
            total = matrix[j, i]
            for k in range(j):
                total -= factor[i, k] * factor[j, k]
            factor[i, j] = total * factor[j, j]
        pivot = matrix[i, i] + shift
        for k in range(i):
            pivot -= factor[i, k] * factor[i, k]
        if pivot <= 0.0:
            return False
        factor[i, i] = 1.0 / math.sqrt(pivot)
    return True
