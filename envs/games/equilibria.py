"""Coarse correlated equilibria of two-player games, by one stated rule, and Nash equilibria of matrix games.

The rule. The max-player's payoff is `upper`, the min-player's cost `lower`.
1. If the game has equilibria in pure actions (exactly, without slack), the one of the smallest upper - lower; ties go
   to the lowest joint action a*B + b.
2. Otherwise the coarse correlated equilibrium that minimises E[upper - lower + 1e-7 * scale * w], where scale is the
   largest absolute entry and w[a*B + b] in [0, 1) are fixed pseudo-random numbers (`tie_weights`). Without the last
   term the minimum is often attained by many equilibria, and rounding would pick one of them.

In 2 an inequality counts as satisfied if it fails by at most 1e-12 of a power of two of at most twice the scale; that
includes nearly pure equilibria. The answer depends only on the two matrices and is the same on every machine. Up to
rounding, it does not change when both are multiplied by the same positive number. With one action for the min-player,
B = 1, it is the action of the largest `upper`, among ties the one of the largest `lower`. No rule can be continuous:
the set of equilibria itself jumps where two entries tie. A pure equilibrium is preferred because it needs no
correlation between the players and takes a tenth of the time.

If rounding may have spoilt a result (small pivot, violation above the tolerance), it is recomputed in double-doubles.
With NUMBA_DISABLE_JIT=1 the same source runs as plain Python and gives the same bits.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.compiled import no_alloc_kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

TOLERANCE = 1e-12
"""Constants above -TOLERANCE count as not negative."""
_SMALLEST_PIVOT = 1e-11
_SOUND_PIVOT = 1e-7
# With 8 x 8 actions a row below -1e-12 has a coefficient above 1e-14; rounding may hide it in doubles only.
_SMALLEST_PRECISE_PIVOT = 1e-16
_LANES, _LINE = 4, 8  # Rows are padded to whole vectors of four numbers, and the first is aligned to a cache line.
_TIE = 1e-7
_TRUSTED = 2 * TOLERANCE  # The solver's tolerance is relative to a power of two of at most twice the scale.
LARGEST_VIOLATION = 1e-9
"""Largest violation of `coarse_correlated_equilibrium` that a caller should accept; above it, stop the run."""
# Dropping probabilities above -TOLERANCE changes their sum by less; larger errors come from the cap on pivots.
_LARGEST_LOSS = 1e-6
_LARGEST = 1e300
_SMALLEST = 1e-290


class _Dictionary(NamedTuple):
    """A dictionary of r rows and the cost, [r + 1, columns padded with zeros]; `remainder` is its second double."""

    table: Floats
    remainder: Floats
    column: Floats
    row: Floats
    basic: Integers
    nonbasic: Integers


class EquilibriumScratch(NamedTuple):
    """Working memory of `coarse_correlated_equilibrium` for games of one size; made by `equilibrium_scratch`."""

    dictionary: _Dictionary
    weights: Floats
    best_upper: Floats
    best_lower: Floats


def tie_weights(n: int) -> Floats:
    """Return n fixed numbers in [0, 1) without any pattern: the first outputs of SplitMix64 with seed 0."""
    weights = np.empty(n)
    mask = 2**64 - 1
    for j in range(n):
        z = (j + 1) * 0x9E3779B97F4A7C15 & mask
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
        z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
        weights[j] = ((z ^ z >> 31) >> 11) * 2.0**-53
    return weights


def equilibrium_scratch(n_max_actions: int, n_min_actions: int) -> EquilibriumScratch:
    """Return the working memory for games of A x B actions; one call at a time may use it."""
    return EquilibriumScratch(
        dictionary=dictionary(n_max_actions + n_min_actions + 1, n_max_actions * n_min_actions),
        weights=tie_weights(n_max_actions * n_min_actions),
        best_upper=np.zeros(n_min_actions),
        best_lower=np.zeros(n_max_actions),
    )


@no_alloc_kernel
def _unit(scale: float) -> float:
    """Return the power of two that brings scale to [1/2, 1): multiplying by it is exact."""
    return math.ldexp(1.0, -math.frexp(scale)[1])


@no_alloc_kernel
def _scale(upper: Floats, lower: Floats) -> float:
    """Return the largest absolute entry, infinity if any entry is not a finite number."""
    largest = _SMALLEST
    for a in range(upper.shape[0]):
        for b in range(upper.shape[1]):
            entry = max(abs(upper[a, b]), abs(lower[a, b]))
            if not (abs(upper[a, b]) <= _LARGEST and abs(lower[a, b]) <= _LARGEST):
                return np.inf
            largest = max(largest, entry)
    return largest


@no_alloc_kernel
def _pure_equilibrium(upper: Floats, lower: Floats, best_upper: Floats, best_lower: Floats) -> int:
    """Return the joint action of rule 1, -1 if no pair of pure actions is an equilibrium."""
    n_max, n_min = upper.shape
    for b in range(n_min):
        best_upper[b] = upper[0, b]
    for a in range(n_max):
        best_lower[a] = lower[a, 0]
        for b in range(n_min):
            best_upper[b] = max(best_upper[b], upper[a, b])
            best_lower[a] = min(best_lower[a], lower[a, b])
    chosen, smallest = -1, np.inf
    for a in range(n_max):
        for b in range(n_min):
            gap = upper[a, b] - lower[a, b]
            if upper[a, b] == best_upper[b] and lower[a, b] == best_lower[a] and gap < smallest:
                chosen, smallest = a * n_min + b, gap
    return chosen


@no_alloc_kernel
def _start(upper: Floats, lower: Floats, scale: float, scratch: EquilibriumScratch) -> None:
    """Fill the dictionary; its basis is the joint action of the smallest cost and all slacks of deviations.

    Rows: the slacks of the A and the B deviations, the probability of that joint action, the cost. Column 0 holds the
    constants, the others the coefficients of the remaining joint actions. Phase 1 is therefore unnecessary.
    """
    n_max, n_min = upper.shape
    n, rows = n_max * n_min, n_max + n_min + 1
    table = scratch.dictionary.table
    unit = _unit(scale)
    tie = _TIE * (scale * unit)
    first = 0
    for a in range(n_max):
        for b in range(n_min):
            j = a * n_min + b
            table[rows, j] = (upper[a, b] - lower[a, b]) * unit + tie * scratch.weights[j]
            if table[rows, j] < table[rows, first]:
                first = j
    a0, b0 = first // n_min, first % n_min
    for i in range(n_max):
        base = (upper[a0, b0] - upper[i, b0]) * unit
        for a in range(n_max):
            for b in range(n_min):
                table[i, a * n_min + b] = (upper[a, b] - upper[i, b]) * unit - base
        table[i, first] = table[i, 0]
        table[i, 0] = base
    for i in range(n_min):
        base = (lower[a0, i] - lower[a0, b0]) * unit
        for a in range(n_max):
            for b in range(n_min):
                table[n_max + i, a * n_min + b] = (lower[a, i] - lower[a, b]) * unit - base
        table[n_max + i, first] = table[n_max + i, 0]
        table[n_max + i, 0] = base
    cost = table[rows, first]
    for j in range(n):
        table[rows - 1, j] = -1.0
        table[rows, j] -= cost
        scratch.dictionary.nonbasic[j] = j
    table[rows, first] = table[rows, 0]
    table[rows - 1, 0], table[rows, 0] = 1.0, cost
    scratch.dictionary.nonbasic[first] = 0
    for i in range(rows - 1):
        scratch.dictionary.basic[i] = n + i
    scratch.dictionary.basic[rows - 1] = first


@no_alloc_kernel
def _precise_start(upper: Floats, lower: Floats, scale: float, scratch: EquilibriumScratch) -> None:
    """Replace the dictionary of `_start` by one in double-double numbers: table + remainder."""
    n_max, n_min = upper.shape
    rows = n_max + n_min + 1
    table, remainder = scratch.dictionary.table, scratch.dictionary.remainder
    unit = _unit(scale)
    tie = _TIE * (scale * unit)
    first = scratch.dictionary.basic[rows - 1]
    for k in range(remainder.shape[1]):
        remainder[rows - 1, k] = 0.0
    for k in range(n_max * n_min):
        j = first if k == 0 else scratch.dictionary.nonbasic[k]
        a, b, a0, b0 = j // n_min, j % n_min, first // n_min, first % n_min
        for i in range(rows - 1):
            if i < n_max:
                x, y, base_x, base_y = upper[a, b], upper[i, b], upper[a0, b0], upper[i, b0]
            else:
                x, y, base_x, base_y = lower[a, i - n_max], lower[a, b], lower[a0, i - n_max], lower[a0, b0]
            high, low = exact_sum(x * unit, -y * unit)
            if k > 0:
                base_high, base_low = exact_sum(base_x * unit, -base_y * unit)
                high, low = precise_sum(high, low, -base_high, -base_low)
            table[i, k], remainder[i, k] = high, low
        high, low = exact_sum(upper[a, b] * unit, -lower[a, b] * unit)
        high, low = precise_sum(high, low, tie * scratch.weights[j], 0.0)
        if k > 0:
            high, low = precise_sum(high, low, -table[rows, 0], -remainder[rows, 0])
        table[rows, k], remainder[rows, k] = high, low


@no_alloc_kernel
def _read_policy(upper: Floats, lower: Floats, scale: float, scratch: EquilibriumScratch, policy: Floats) -> float:
    """Fill policy [A, B] with the probabilities of the dictionary and return its violation, relative to scale.

    The violation is the largest gain of a deviation; best_lower [A] and best_upper [B] are filled with marginals.
    """
    n_max, n_min = policy.shape
    policy[...] = 0.0
    total = 0.0
    for i in range(scratch.dictionary.basic.shape[0]):
        j, probability = scratch.dictionary.basic[i], scratch.dictionary.table[i, 0]
        if j < n_max * n_min and probability > 0.0:
            policy[j // n_min, j % n_min] = probability
            total += probability
    if not abs(total - 1.0) <= _LARGEST_LOSS:
        return np.inf
    row, column, worst = scratch.best_lower, scratch.best_upper, 0.0
    column[:] = 0.0
    mean_upper = mean_lower = 0.0
    for a in range(n_max):
        row[a] = 0.0
        for b in range(n_min):
            policy[a, b] /= total
            row[a] += policy[a, b]
            column[b] += policy[a, b]
            mean_upper += policy[a, b] * upper[a, b]
            mean_lower += policy[a, b] * lower[a, b]
    for a in range(n_max):
        gained = -mean_upper
        for b in range(n_min):
            gained += column[b] * upper[a, b]
        worst = max(worst, gained)
    for b in range(n_min):
        saved = mean_lower
        for a in range(n_max):
            saved -= row[a] * lower[a, b]
        worst = max(worst, saved)
    return worst / scale


@no_alloc_kernel
def coarse_correlated_equilibrium(upper: Floats, lower: Floats, scratch: EquilibriumScratch, policy: Floats) -> float:
    """Fill policy [A, B] with the coarse correlated equilibrium of this module's rule; return its violation.

    With (a, b) drawn from policy, E upper >= E upper(a', b) for every a', and E lower <= E lower(a, b') for every b'.
    The returned number is the most by which any of these fails, divided by the largest absolute entry: 0 for a pure
    equilibrium, otherwise rounding, and infinity (policy uniform) where an entry is not a number of at most 1e300.

    upper, lower: [A, B], the max-player's payoff and the min-player's cost. scratch: of the same A, B.
    Paper: [QW24] Algorithm 1.
    """
    n_max, n_min = upper.shape
    scale = _scale(upper, lower)
    if scale == np.inf:
        policy[...] = 1.0 / (n_max * n_min)
        return np.inf
    pure = _pure_equilibrium(upper, lower, scratch.best_upper, scratch.best_lower)
    if pure >= 0:
        policy[...] = 0.0
        policy[pure // n_min, pure % n_min] = 1.0
        return 0.0
    _start(upper, lower, scale, scratch)
    sound = solve(scratch.dictionary, False)
    violation = _read_policy(upper, lower, scale, scratch, policy)
    if not (sound and violation <= _TRUSTED):
        _start(upper, lower, scale, scratch)
        _precise_start(upper, lower, scale, scratch)
        solve(scratch.dictionary, True)
        violation = _read_policy(upper, lower, scale, scratch, policy)
    return violation


def matrix_game(payoff: ArrayLike) -> tuple[float, Floats, Floats]:
    """Return the value of a zero-sum matrix game and one optimal mixed action of each player.

    They are the marginals of this module's equilibrium of (payoff, payoff), a Nash equilibrium as the game is zero-sum.

    payoff: [A, B], paid by the player who picks the column to the one who picks the row.

    >>> value, row, column = matrix_game([[1.0, -1.0], [-1.0, 1.0]])
    >>> value, row.tolist(), column.tolist()
    (0.0, [0.5, 0.5], [0.5, 0.5])
    """
    try:
        matrix = np.array(payoff, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError("payoff must be a matrix [A, B] of numbers; pass one row of B numbers per a") from error
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"payoff must be a matrix [A, B] with A, B >= 1, got shape {matrix.shape}; pass rows")
    if not np.all(np.abs(matrix) <= _LARGEST):
        raise ValueError("payoff must hold finite numbers of at most 1e300; remove or rescale the others")
    policy = np.empty_like(matrix)
    violation = coarse_correlated_equilibrium(matrix, matrix, equilibrium_scratch(*matrix.shape), policy)
    if not violation <= LARGEST_VIOLATION:
        raise ValueError(f"payoff must be solvable, a deviation gains {violation} of its scale; round its entries")
    row, column = policy.sum(axis=1), policy.sum(axis=0)
    return float(np.sum(row[:, None] * matrix * column)), row, column


# The dual simplex on a dense dictionary, in doubles or in double-doubles (two doubles, 106 bits).
#
# Row i of a dictionary says: variable basic[i] = table[i, 0] + sum_k table[i, k] * variable nonbasic[k], and variables
# must not be negative. The last row is the cost, to be minimised; none of its coefficients may be negative at the
# start, and no pivot makes one so. Hence phase 1 is unnecessary: pivot until no constant is negative.


def _aligned(shape: tuple[int, ...]) -> Floats:
    # A vector of eight numbers that crosses a cache line costs twice.
    size = math.prod(shape)
    room = np.zeros(size + _LINE)
    skipped = -room.ctypes.data // room.itemsize % _LINE
    return room[skipped : skipped + size].reshape(shape)


def dictionary(n_rows: int, n_columns: int) -> _Dictionary:
    """Allocate a dictionary of n_rows rows and the cost, and n_columns columns including the constants."""
    width = -(-n_columns // _LANES) * _LANES
    return _Dictionary(
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
def _precise_pivot(entries: _Dictionary, r: int, e: int) -> None:
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
def solve(entries: _Dictionary, precise: bool) -> bool:
    """Pivot until no constant is below -TOLERANCE; return whether that was reached without small pivots.

    False means that rounding may affect the result: a pivot was below 1e-7, none was usable, or the cap was reached.

    The most negative variable leaves; after many pivots Bland's rule avoids cycles. A cap guards against rounding.

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
