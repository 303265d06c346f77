"""Inverse of a small positive definite matrix in a compiled loop; a library call would cost more than the inverse."""

from __future__ import annotations

import math

from dprl.algorithms.base import Float64Array
from dprl.compiled import no_alloc_kernel


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
