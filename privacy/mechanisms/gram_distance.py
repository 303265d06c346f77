"""Largest L1 distance of two Gram messages (upper triangle of phi phi^T, phi V) with |phi| <= 1 and 0 <= V <= 1.

The distance F = sum_{i<=j} |phi_i phi_j - phi'_i phi'_j| + sum_i |V phi_i - V' phi'_i| is convex in (V, V'), so they
are 0 or 1. With both 1, phi' and -phi' together give at least 2 sum |phi_i| in the second sum, so for one of them F is
at least its value at (1, 0). So both are 1.

Exact: let u = phi - phi' >= 0 (flip coordinates) and v = phi + phi'. Then phi_i phi_j - phi'_i phi'_j has the sign of
v_i / u_i + v_j / u_j, that of the larger ratio. So with coordinates ordered by decreasing |v_i / u_i| and s_i the sign
of v_i, F is the largest value of phi^T M phi - phi'^T M phi' + sum_i (phi_i - phi'_i) over the 2^D matrices M_ii = s_i,
M_ij = s_min(i, j) / 2, and for any other signs F is at least that form. Its maximum is g(M) + g(-M),

    g(M) = max_{|x| <= 1} x^T M x + sum_i x_i = min_{l > 0, l > M} l + 1^T (l - M)^-1 1 / 4.

Every l gives an upper bound, so rounding in the minimisation is harmless; -s gives the same value as s.

In large dimensions: for u v = 0 the first sum is at most (D / sqrt(2) + 1) |u| |v| / 2, as the matrix has Frobenius
norm |u| |v| / sqrt(2) and a diagonal with an L1 norm of at most |u| |v|; the second is at most sqrt(D) |u|. With
|u| = 2 cos(a / 2) and |v| = 2 sin(a / 2) this is (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2). If u v is not 0,
|u|^2 + |v|^2 + 2 |u v| <= 4 makes it smaller for |u| >= 2/3, and for less |u| it is below its value at a right angle a.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from dprl.privacy.base import Float64Array

_MOST_EXACT = 12
# Relative; far above rounding.
_SLACK = 1.0 + 1e-9
# Few enough that every midpoint differs from both ends in float64.
_HALVINGS = 40


@lru_cache(maxsize=64)
def largest_distance(dimension: int) -> float:
    """Return the largest L1 distance, rounded up: exact up to dimension 12, above it an upper bound; see above."""
    if dimension > _MOST_EXACT:
        return _joint_bound(dimension) * _SLACK
    matrices = _threshold_matrices(dimension)
    return float((_largest_values(matrices) + _largest_values(-matrices)).max()) * _SLACK


def _joint_bound(dimension: int) -> float:
    """Return the maximum of (D / sqrt(2) + 1) sin a + 2 sqrt(D) cos(a / 2) over a."""
    matrix, root = dimension / math.sqrt(2.0) + 1.0, math.sqrt(dimension)
    half = math.asin((math.sqrt(dimension + 8.0 * matrix * matrix) - root) / (4.0 * matrix))
    return matrix * math.sin(2.0 * half) + 2.0 * root * math.cos(half)


def _threshold_matrices(dimension: int) -> Float64Array:
    """Return all M with s_D = 1, float64[2^(D-1), D, D]."""
    places = np.arange(dimension)
    signs = 1.0 - 2.0 * (np.arange(2 ** (dimension - 1))[:, None] >> places & 1)
    matrices = np.asarray(0.5 * signs[:, np.minimum(places[:, None], places)], dtype=np.float64)
    matrices[:, places, places] *= 2.0
    return matrices


def _largest_values(matrices: Float64Array) -> Float64Array:
    """Return upper bounds of g for matrices float64[n, D, D], exact up to rounding, float64[n]."""
    values, vectors = np.linalg.eigh(matrices)
    weights: Float64Array = 0.25 * vectors.sum(axis=1) ** 2
    low: Float64Array = np.maximum(values[:, -1], 0.0)
    high: Float64Array = low + (0.5 * math.sqrt(matrices.shape[1]) + 1e-6)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = (weights / (middle[:, None] - values) ** 2).sum(axis=1) < 1.0
        low, high = np.where(rises, low, middle), np.where(rises, middle, high)
    bounds: Float64Array = high + (weights / (high[:, None] - values)).sum(axis=1)
    return bounds
