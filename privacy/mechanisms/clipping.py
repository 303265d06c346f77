"""Shrinking a vector into a ball: the kernels of mechanisms that bound the distance of any two vectors.

Sums have eight lanes, added last: this gives equal bits for every vector width, without a long chain.
"""

from __future__ import annotations

import math

import numpy as np

from dprl.compiled import kernel

ANY, L1, L2, ELEMENTWISE = range(4)
NORMS = {"none": ANY, "l1": L1, "l2": L2, "elementwise": ELEMENTWISE}
"""Codes of balls by name; 'elementwise' is the ball of the largest coordinate, 'none' the whole space."""
_MAGNITUDE = np.int64(0x7FFFFFFFFFFFFFFF)
# Between these, sums of squares of a million numbers neither overflow nor lose their digits.
LEAST, MOST = 1e-140, 1e140
# A smaller factor has lost digits; rounded up, it would leave the vector outside the ball.
_LEAST_FACTOR = 2.3e-308


@kernel
def largest_magnitude(vector: np.ndarray) -> float:
    """Return the largest absolute value of `vector` float64[d], contiguous; inf or NaN if one is not finite."""
    # As integers they have the order of the magnitudes, with infinity and NaN on top: a maximum without branches.
    bits = vector.view(np.int64)
    largest = np.int64(0)
    for i in range(bits.shape[0]):
        largest = max(largest, bits[i] & _MAGNITUDE)
    return float(np.int64(largest).view(np.float64))


@kernel
def without_nonfinite(out: np.ndarray, vector: np.ndarray) -> float:
    """Fill `out` with `vector`, with 0 for non-finite numbers; return the largest absolute value."""
    largest = 0.0
    for i in range(out.shape[0]):
        out[i] = vector[i] if abs(vector[i]) < math.inf else 0.0
        largest = max(largest, abs(out[i]))
    return largest


@kernel
def dot(x: np.ndarray, y: np.ndarray) -> float:
    """Return the scalar product of float64[d] each, in eight lanes."""
    whole = x.shape[0] - x.shape[0] % 8
    a = b = c = d = e = f = g = h = 0.0
    for i in range(0, whole, 8):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
        e += x[i + 4] * y[i + 4]
        f += x[i + 5] * y[i + 5]
        g += x[i + 6] * y[i + 6]
        h += x[i + 7] * y[i + 7]
    rest = 0.0
    for i in range(whole, x.shape[0]):
        rest += x[i] * y[i]
    return ((a + e) + (b + f)) + ((c + g) + (d + h)) + rest


@kernel
def fill_clipped(out: np.ndarray, vector: np.ndarray, radius: float, norm: int) -> None:
    """Fill `out` with `vector` float64[d] shrunk into the ball of that radius in `norm`, a code above.

    Numbers that are not finite count as 0. `out` must not be `vector`.
    """
    largest = largest_magnitude(vector)
    if norm in (ANY, ELEMENTWISE):
        bound = radius if norm == ELEMENTWISE else math.inf
        for i in range(out.shape[0]):
            out[i] = min(max(vector[i], -bound), bound) if abs(vector[i]) < math.inf else 0.0
        return
    if LEAST < largest < MOST:
        if norm == L2:
            size = math.sqrt(dot(vector, vector))
        else:
            for i in range(out.shape[0]):
                out[i] = math.copysign(1.0, vector[i])
            size = dot(vector, out)
        factor = radius / size if size > radius else 1.0
        if factor >= _LEAST_FACTOR:
            for i in range(out.shape[0]):
                out[i] = vector[i] * factor
            return
    # Relative to the largest coordinate, as the norm may exceed the largest float64 or be 0.
    largest = without_nonfinite(out, vector)
    if largest == 0.0:
        return
    total = 0.0
    for i in range(out.shape[0]):
        relative = abs(out[i]) / largest
        total += relative * relative if norm == L2 else relative
    size = math.sqrt(total) if norm == L2 else total
    if largest > radius / size:
        for i in range(out.shape[0]):
            out[i] = out[i] / largest * (radius / size)


@kernel
def fill_units(units: np.ndarray, shrunk: np.ndarray, radius: int | np.int64, grid: float, norm: int) -> None:
    """Fill `units` int64[d] with `shrunk` float64[d] in units of the grid, rounded towards 0: of norm at most `radius`.

    shrunk: clipped to radius * grid. Units are subtracted if, in integers, rounding left the norm above `radius`.
    """
    squared = norm == L2
    total, limit = np.int64(0), np.int64(radius) * np.int64(radius) if squared else np.int64(radius)
    for i in range(units.shape[0]):
        units[i] = np.int64(shrunk[i] / grid)
        total += units[i] * units[i] if squared else abs(units[i])
    while total > limit:
        for i in range(units.shape[0]):
            if total > limit and units[i] != 0:
                size = abs(units[i])
                units[i] -= np.int64(1) if units[i] > 0 else np.int64(-1)
                total -= 2 * size - 1 if squared else 1
