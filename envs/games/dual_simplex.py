"""Dual simplex on a dense dictionary, in doubles or in double-doubles (two doubles, 106 bits).

Row i of a dictionary says: variable basic[i] = table[i, 0] + sum_k table[i, k] * variable nonbasic[k], and variables
must not be negative. The last row is the cost, to be minimised; none of its coefficients may be negative at the start,
and no pivot makes one so. Hence phase 1 is unnecessary: pivot until no constant is negative.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.compiled import no_alloc_kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TOLERANCE = 1e-12
"""Constants above -TOLERANCE count as not negative."""
_SMALLEST_PIVOT = 1e-11
_SOUND_PIVOT = 1e-7
# With 8 x 8 actions a row below -1e-12 has a coefficient above 1e-14; rounding may hide it in doubles only.
_SMALLEST_PRECISE_PIVOT = 1e-16
# Rows are padded to whole vectors of four numbers, and the first is aligned to a cache line.
_LANES, _LINE = 4, 8


class Dictionary(NamedTuple):
    """A dictionary of r rows and the cost, [r + 1, columns padded with zeros]; `remainder` is its second double."""

    table: Floats
    remainder: Floats
    column: Floats
    row: Floats
    basic: Integers
    nonbasic: Integers


def _aligned(shape: tuple[int, ...]) -> Floats:
    # A vector of eight numbers that crosses a cache line costs twice.
    size = math.prod(shape)
    room = np.zeros(size + _LINE)
    skipped = -room.ctypes.data // room.itemsize % _LINE
    return room[skipped : skipped + size].reshape(shape)


def dictionary(n_rows: int, n_columns: int) -> Dictionary:
    """Allocate a dictionary of n_rows rows and the cost, and n_columns columns including the constants."""
    width = -(-n_columns // _LANES) * _LANES
    return Dictionary(
        table=_aligned((n_rows + 1, width)),
        remainder=_aligned((n_rows + 1, width)),
        column=np.zeros(n_rows + 1),
        row=_aligned((width,)),
        basic=np.zeros(n_rows, dtype=np.int64),
        nonbasic=np.zeros(width, dtype=np.int64),
    )


@no_alloc_kernel
def exact_sum(x: float, y: float) -> tuple[float, float]:
    """Return the rounded sum and its error, exactly (Knuth)."""
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


@no_alloc_kernel
def precise_sum(x: float, x_low: float, y: float, y_low: float) -> tuple[float, float]:
    """Return the sum of two double-double numbers."""
    high, low = exact_sum(x, y)
    next_high, next_low = exact_sum(x_low, y_low)
    high, low = exact_sum(high, low + next_high)
    return exact_sum(high, low + next_low)


@no_alloc_kernel
def _precise_product(x: float, x_low: float, y: float, y_low: float) -> tuple[float, float]:
    """Return the product of two double-double numbers; the error of x * y is that of Dekker."""
    product = x * y
    x_top = 134217729.0 * x
    x_top -= x_top - x
    y_top = 134217729.0 * y
    y_top -= y_top - y
    x_rest, y_rest = x - x_top, y - y_top
    error = ((x_top * y_top - product) + x_top * y_rest + x_rest * y_top) + x_rest * y_rest
    return exact_sum(product, error + (x * y_low + x_low * y))


@no_alloc_kernel
def _add(x: Floats, y: Floats, f: float) -> None:
    # A separate function: the compiler then vectorises rows of unknown length.
    for k in range(x.shape[0]):
        x[k] += f * y[k]


@no_alloc_kernel
def _pivot(table: Floats, column: Floats, row: Floats, r: int, e: int) -> None:
    """Exchange the basic variable of row r with the nonbasic one of column e; column and row are working memory."""
    inverse = 1.0 / table[r, e]
    for i in range(table.shape[0]):
        column[i] = table[i, e]
        table[i, e] = 0.0
    for k in range(row.shape[0]):
        row[k] = table[r, k] * -inverse
    row[e] = inverse
    for i in range(table.shape[0]):
        _add(table[i], row, column[i])
    for k in range(row.shape[0]):
        table[r, k] = row[k]


@no_alloc_kernel
def _precise_pivot(entries: Dictionary, r: int, e: int) -> None:
    """Exchange as `_pivot` does, in double-double numbers."""
    rows, columns = entries.basic.shape[0], entries.nonbasic.shape[0]
    high, low = entries.table, entries.remainder
    pivot, pivot_low = high[r, e], low[r, e]
    inverse = 1.0 / pivot
    error, error_low = _precise_product(inverse, 0.0, pivot, pivot_low)
    error, error_low = precise_sum(1.0, 0.0, -error, -error_low)
    inverse, inverse_low = exact_sum(inverse, error * inverse)
    for k in range(columns):
        high[r, k], low[r, k] = _precise_product(high[r, k], low[r, k], -inverse, -inverse_low)
    high[r, e], low[r, e] = inverse, inverse_low
    for i in range(rows + 1):
        if i != r:
            f, f_low = high[i, e], low[i, e]
            high[i, e], low[i, e] = 0.0, 0.0
            for k in range(columns):
                x, x_low = _precise_product(f, f_low, high[r, k], low[r, k])
                high[i, k], low[i, k] = precise_sum(high[i, k], low[i, k], x, x_low)


@no_alloc_kernel
def _leaving(table: Floats, basic: Integers, bland: bool) -> int:
    """Return the row of the most negative constant, by Bland's rule that of the lowest variable, -1 if none is left."""
    worst = -TOLERANCE
    for i in range(basic.shape[0]):
        worst = min(worst, table[i, 0])
    if not worst < -TOLERANCE:
        return -1
    r = 0
    while table[r, 0] != worst:
        r += 1
    if bland:
        for i in range(basic.shape[0]):
            if table[i, 0] < -TOLERANCE and basic[i] < basic[r]:
                r = i
    return r


@no_alloc_kernel
def _entering(row: Floats, cost: Floats, ratios: Floats, nonbasic: Integers, smallest_pivot: float, bland: bool) -> int:
    """Return the column of the smallest ratio of cost to pivot, -1 if no pivot is large enough."""
    for k in range(ratios.shape[0]):
        usable = row[k] > smallest_pivot
        ratio = max(cost[k], 0.0) / (row[k] if usable else 1.0)
        ratios[k] = ratio if usable else np.inf
    m0 = m1 = m2 = m3 = np.inf
    for k in range(0, ratios.shape[0], 4):
        m0 = min(m0, ratios[k])
        m1 = min(m1, ratios[k + 1])
        m2 = min(m2, ratios[k + 2])
        m3 = min(m3, ratios[k + 3])
    best = min(m0, m1, m2, m3)
    if not best < np.inf:
        return -1
    e = 0
    while ratios[e] != best:
        e += 1
    if bland:
        for k in range(e + 1, ratios.shape[0]):
            if ratios[k] == best and nonbasic[k] < nonbasic[e]:
                e = k
    return e


@no_alloc_kernel
def solve(entries: Dictionary, precise: bool) -> bool:
    """Pivot until no constant is below -TOLERANCE; return whether that was reached without small pivots.

    False means that rounding may affect the result: a pivot was below 1e-7, none was usable, or the cap was reached.

    The most negative variable leaves. After many pivots Bland's rule takes over, since it cannot cycle; a cap on their
    number guards against rounding.

    precise: in double-double numbers, about ten times as long; `remainder` must have been filled.
    """
    table, basic, nonbasic = entries.table, entries.basic, entries.nonbasic
    rows = basic.shape[0]
    smallest_pivot = _SMALLEST_PRECISE_PIVOT if precise else _SMALLEST_PIVOT
    sound = True
    for pivots in range(200 + 40 * rows):
        bland = pivots >= 30 + 4 * rows
        r = _leaving(table, basic, bland)
        if r < 0:
            return sound
        e = _entering(table[r], table[rows], entries.row, nonbasic, smallest_pivot, bland)
        if e < 0:
            break
        sound &= table[r, e] >= _SOUND_PIVOT
        if precise:
            _precise_pivot(entries, r, e)
        else:
            _pivot(table, entries.column, entries.row, r, e)
        basic[r], nonbasic[e] = nonbasic[e], basic[r]
    return False
