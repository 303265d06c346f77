"""Coarse correlated equilibria of two-player games, by one stated rule, and Nash equilibria of matrix games.

The rule. The max-player's payoff is `upper`, the min-player's cost `lower`.
1. If the game has equilibria in pure actions (exactly, without slack), the one of the smallest upper - lower; ties go
   to the lowest joint action a*B + b.
2. Otherwise the coarse correlated equilibrium that minimises E[upper - lower + 1e-7 * scale * w], where scale is the
   largest absolute entry and w[a*B + b] in [0, 1) are fixed pseudo-random numbers (`tie_weights`). Without the last
   term the minimum is often attained by many equilibria, and rounding would pick one of them.

Both parts depend on nothing but the two matrices, and are unchanged when both are multiplied by the same positive
number. No rule can be continuous: the set of equilibria itself jumps where two entries tie.
With NUMBA_DISABLE_JIT=1 the same source runs as plain Python and gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, ParamSpec, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "EquilibriumScratch",
    "coarse_correlated_equilibrium",
    "equilibrium_scratch",
    "matrix_game",
    "tie_weights",
]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_LANES = 8
_TIE = 1e-7
_PIVOT_TOLERANCE = 1e-11
_TOLERANCE = 1e-12
_ACCEPTED = 1e-9
_LARGEST = 1e300
_SMALLEST = 1e-290


class EquilibriumScratch(NamedTuple):
    """Working memory of `coarse_correlated_equilibrium` for games of one size; made by `equilibrium_scratch`."""

    table: Floats
    ratios: Floats
    column: Floats
    basic: Integers
    nonbasic: Integers
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
    n_joint = n_max_actions * n_min_actions
    n_rows = n_max_actions + n_min_actions + 1
    blocks = -(-n_joint // _LANES)
    return EquilibriumScratch(
        table=np.zeros((n_rows + 1, blocks, _LANES)),
        ratios=np.zeros((blocks, _LANES)),
        column=np.zeros(n_rows + 1),
        basic=np.zeros(n_rows, dtype=np.int64),
        nonbasic=np.zeros(blocks * _LANES, dtype=np.int64),
        weights=tie_weights(n_joint),
        best_upper=np.zeros(n_min_actions),
        best_lower=np.zeros(n_max_actions),
    )


def _compiled(function: Callable[_P, _R]) -> Callable[_P, _R]:
    # No array is made here, so none needs its references counted. The cast is for type checkers, as in envs/dynamics.py.
    return cast("Callable[_P, _R]", njit(cache=True, error_model="numpy", fastmath=False, _nrt=False)(function))


@_compiled
def _scale(upper: Floats, lower: Floats) -> float:
    """Return the largest absolute entry, infinity if any entry is not a finite number."""
    largest = _SMALLEST
    for a in range(upper.shape[0]):
        for b in range(upper.shape[1]):
            entry = max(abs(upper[a, b]), abs(lower[a, b]))
            if not (abs(upper[a, b]) <= _LARGEST and abs(lower[a, b]) <= _LARGEST):
                return np.inf
            if entry > largest:
                largest = entry
    return largest


@_compiled
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


@_compiled
def _start(upper: Floats, lower: Floats, scale: float, scratch: EquilibriumScratch) -> None:
    """Fill the dictionary whose basis is the joint action of the smallest cost and all slacks of deviations."""
    n_max, n_min = upper.shape
    n, rows = n_max * n_min, n_max + n_min + 1
    table = scratch.table.reshape((rows + 1, scratch.nonbasic.shape[0]))
    inverse = 1.0 / scale
    first = 0
    for a in range(n_max):
        for b in range(n_min):
            j = a * n_min + b
            table[rows, j] = (upper[a, b] - lower[a, b]) * inverse + _TIE * scratch.weights[j]
            if table[rows, j] < table[rows, first]:
                first = j
    a0, b0 = first // n_min, first % n_min
    for i in range(n_max):
        base = upper[a0, b0] - upper[i, b0]
        for a in range(n_max):
            for b in range(n_min):
                table[i, a * n_min + b] = ((upper[a, b] - upper[i, b]) - base) * inverse
        table[i, first] = table[i, 0]
        table[i, 0] = base * inverse
    for i in range(n_min):
        base = lower[a0, i] - lower[a0, b0]
        for a in range(n_max):
            for b in range(n_min):
                table[n_max + i, a * n_min + b] = ((lower[a, i] - lower[a, b]) - base) * inverse
        table[n_max + i, first] = table[n_max + i, 0]
        table[n_max + i, 0] = base * inverse
    cost = table[rows, first]
    for j in range(n):
        table[rows - 1, j] = -1.0
        table[rows, j] -= cost
        scratch.nonbasic[j] = j
    table[rows, first] = table[rows, 0]
    table[rows - 1, 0], table[rows, 0] = 1.0, cost
    scratch.nonbasic[first] = 0
    for i in range(rows - 1):
        scratch.basic[i] = n + i
    scratch.basic[rows - 1] = first


@_compiled
def _pivot(table: Floats, column: Floats, r: int, block: int, lane: int) -> None:
    """Exchange the basic variable of row r with the nonbasic one of a column."""
    inverse = 1.0 / table[r, block, lane]
    for i in range(table.shape[0]):
        column[i] = table[i, block, lane]
        table[i, block, lane] = 0.0
    column[r] = 0.0
    for c in range(table.shape[1]):
        for k in range(_LANES):
            table[r, c, k] *= -inverse
    table[r, block, lane] = inverse
    for c in range(table.shape[1]):
        # Eight numbers by name, all read before any is written: so the compiler makes one vector of them.
        p0, p1, p2, p3 = table[r, c, 0], table[r, c, 1], table[r, c, 2], table[r, c, 3]
        p4, p5, p6, p7 = table[r, c, 4], table[r, c, 5], table[r, c, 6], table[r, c, 7]
        for i in range(table.shape[0]):
            f = column[i]
            x0, x1, x2, x3 = table[i, c, 0], table[i, c, 1], table[i, c, 2], table[i, c, 3]
            x4, x5, x6, x7 = table[i, c, 4], table[i, c, 5], table[i, c, 6], table[i, c, 7]
            x0, x1, x2, x3 = x0 + f * p0, x1 + f * p1, x2 + f * p2, x3 + f * p3
            x4, x5, x6, x7 = x4 + f * p4, x5 + f * p5, x6 + f * p6, x7 + f * p7
            table[i, c, 0], table[i, c, 1], table[i, c, 2], table[i, c, 3] = x0, x1, x2, x3
            table[i, c, 4], table[i, c, 5], table[i, c, 6], table[i, c, 7] = x4, x5, x6, x7


@_compiled
def _dual_simplex(scratch: EquilibriumScratch, bland_after: int, give_up_after: int) -> int:
    """Pivot until no slack and no probability is negative; return the number of pivots."""
    basic, nonbasic = scratch.basic, scratch.nonbasic
    table = scratch.table.reshape((basic.shape[0] + 1, nonbasic.shape[0]))
    rows = basic.shape[0]
    pivots = 0
    while pivots < give_up_after:
        bland = pivots >= bland_after
        r, worst = -1, -_TOLERANCE
        for i in range(rows):
            if table[i, 0] < -_TOLERANCE and (
                (bland and (r < 0 or basic[i] < basic[r])) or (not bland and table[i, 0] < worst)
            ):
                r, worst = i, table[i, 0]
        if r < 0:
            break
        e, best = -1, np.inf
        for k in range(1, nonbasic.shape[0]):
            d = table[r, k]
            if d > _PIVOT_TOLERANCE:
                ratio = max(table[rows, k], 0.0) / d
                if ratio < best or (ratio == best and bland and nonbasic[k] < nonbasic[e]):
                    e, best = k, ratio
        if e < 0:
            break
        _pivot(scratch.table, scratch.column, r, e // _LANES, e % _LANES)
        basic[r], nonbasic[e] = nonbasic[e], basic[r]
        pivots += 1
    return pivots


@_compiled
def _read_policy(scratch: EquilibriumScratch, policy: Floats) -> None:
    n_min = policy.shape[1]
    n = policy.shape[0] * n_min
    for a in range(policy.shape[0]):
        for b in range(n_min):
            policy[a, b] = 0.0
    total = 0.0
    for i in range(scratch.basic.shape[0]):
        j, probability = scratch.basic[i], scratch.table[i, 0, 0]
        if j < n and probability > 0.0:
            policy[j // n_min, j % n_min] = probability
            total += probability
    for a in range(policy.shape[0]):
        for b in range(n_min):
            policy[a, b] /= total


@_compiled
def _violation(upper: Floats, lower: Floats, policy: Floats, row: Floats, column: Floats) -> float:
    """Return the largest gain of a deviation under policy [A, B]; row [A] and column [B] are filled with marginals."""
    n_max, n_min = upper.shape
    for b in range(n_min):
        column[b] = 0.0
    mean_upper = mean_lower = 0.0
    for a in range(n_max):
        row[a] = 0.0
        for b in range(n_min):
            row[a] += policy[a, b]
            column[b] += policy[a, b]
            mean_upper += policy[a, b] * upper[a, b]
            mean_lower += policy[a, b] * lower[a, b]
    worst = 0.0
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
    return worst


@_compiled
def coarse_correlated_equilibrium(upper: Floats, lower: Floats, scratch: EquilibriumScratch, policy: Floats) -> float:
    """Fill policy [A, B] with the coarse correlated equilibrium of this module's rule; return its violation.

    E upper >= E upper(a', b) for every a' and E lower <= E lower(a, b') for every b', where (a, b) is drawn from policy.
    The returned number is the most by which any of these fails, divided by the largest absolute entry: 0 for a pure
    equilibrium, otherwise rounding, and infinity (policy uniform) where an entry is not a number of at most 1e300.

    upper, lower: [A, B], the max-player's payoff and the min-player's cost. scratch: of the same A, B.

    Paper: [QW24] Algorithm 1.
    """
    n_max, n_min = upper.shape
    scale = _scale(upper, lower)
    if scale == np.inf:
        for a in range(n_max):
            for b in range(n_min):
                policy[a, b] = 1.0 / (n_max * n_min)
        return np.inf
    pure = _pure_equilibrium(upper, lower, scratch.best_upper, scratch.best_lower)
    if pure >= 0:
        for a in range(n_max):
            for b in range(n_min):
                policy[a, b] = 0.0
        policy[pure // n_min, pure % n_min] = 1.0
        return 0.0
    violation = np.inf
    rows = n_max + n_min + 1
    for attempt in range(2):
        if not violation <= _ACCEPTED:
            _start(upper, lower, scale, scratch)
            _dual_simplex(scratch, 0 if attempt else 30 + 4 * rows, 200 + 40 * rows)
            _read_policy(scratch, policy)
            violation = _violation(upper, lower, policy, scratch.best_lower, scratch.best_upper) / scale
    return violation


def matrix_game(payoff: ArrayLike) -> tuple[float, Floats, Floats]:
    """Return the value of a zero-sum matrix game and one optimal mixed action of each player.

    They are the marginals of this module's coarse correlated equilibrium of (payoff, payoff), which form a Nash
    equilibrium because the game is zero-sum.

    payoff: [A, B], paid by the player who picks the column to the one who picks the row.
    """
    matrix = np.array(payoff, dtype=np.float64, order="C")
    if matrix.ndim != 2 or matrix.size == 0:
        raise ValueError(f"payoff must be a matrix [A, B] with A, B >= 1, got shape {matrix.shape}; pass one row per a")
    if not np.all(np.abs(matrix) <= _LARGEST):
        raise ValueError("payoff must hold finite numbers of at most 1e300; remove or rescale the others")
    policy = np.empty_like(matrix)
    violation = coarse_correlated_equilibrium(matrix, matrix, equilibrium_scratch(*matrix.shape), policy)
    if violation > _ACCEPTED:
        raise ValueError(f"payoff must be solvable to {_ACCEPTED}, a deviation gains {violation}; rescale its entries")
    row, column = policy.sum(axis=1), policy.sum(axis=0)
    return float(row @ matrix @ column), row, column
