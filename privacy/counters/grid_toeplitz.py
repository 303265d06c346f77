"""The buffered Toeplitz factorisation on a grid of whole numbers, with exact releases, as needed for real data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy

from dprl.compiled import kernel
from dprl.privacy.accounting.closed_forms import gaussian_mu
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.counters.base import ROWS, Counter, CounterState, node_of
from dprl.privacy.counters.buffered_toeplitz import BufferedToeplitz
from dprl.privacy.counters.error import failure_of_a_cell, gaussian_bound
from dprl.privacy.mechanisms.base import GRID_ROW, Mechanism
from dprl.privacy.mechanisms.sampling import SILENT, fill_noise

MOST_ITEMS = 4096
"""Maximum number of items: a certificate takes T^3 / 3 steps, and an opening T^2 / 2 per cell."""
# Calibrated noise has a scale of 2^13 to 2^14 units of the grid, if a grid from the finest to the coarsest allows it.
_LARGEST_SCALE, _FINEST, _COARSEST = 2.0**14, -16, -1
# Slack for norms of whole numbers, where a square root and a product are rounded.
_SLACK = 1.0 + 2.0**-50
_LARGEST_INTEGER = 2.0**53
_BLOCK = 128


@dataclass(frozen=True)
class GridToeplitz(Counter):
    """The buffered Toeplitz factorisation with whole numbers instead of C / grid, rounded once, and integer noise.

    *Formal guarantee.* If replacing one item (one user's row of integers) changes it by `row`, the whole sequence of T
    noisy prefix vectors is (l2^2 / (2 sigma^2))-zCDP, l2 = the largest column norm of the integer matrix C times the L2
    norm of `row`, and sigma the node's scale. It holds in computer arithmetic, also if later rows depend on earlier
    outputs, and for any lower-triangular integer C with C_tt >= 1: a rounded c_j changes l2 and the error only.

    Proof. (1) All that is released is a function of z = C x + w, w the discrete Gaussian noise. With u = 1 / grid the
    whole numbers X_t = floor((u z_t - sum_{i<t} C_ti X_i) / C_tt + 1/2) are one, and so is grid (X_1 + ... + X_t).
    (2) The server releases the same bits. By induction X = u x + V, where V is the same function of w: if X_i = u x_i +
    V_i for i < t, the quotient is u x_t + (u w_t - sum_{i<t} C_ti V_i) / C_tt, and floor commutes with adding an
    integer. So release t is the exact sum plus grid (V_1 + ... + V_t), and V is computed beforehand and without data.
    (3) Given rows 1 ... t-1 of z, row t is discrete Gaussian around the integers sum_{i<=t} C_ti x_i. Every x_i is a
    function of rows 1 ... i-1 of z, of user i and of fresh randomness. Therefore replacing user k changes only x_k, by
    some d_k that rows 1 ... k-1 determine, and shifts row t >= k by C_tk d_k, no other row. (4) A discrete Gaussian
    shifted by integers s is (|s|^2 / (2 sigma^2))-zCDP; zCDP composes adaptively, and the squared shifts add up to
    |C_k|^2 |d_k|^2 <= l2^2. (5) Given rows 1 ... k-1, the shifts of all later rows are one known vector and their noise
    is independent of it. So all bounds of `DiscreteGaussian.curve` for a vector of norm l2 hold, also those below zCDP,
    which certificates use.

    Arithmetic: C is whole numbers in float64, computed once, and its column norms are those of the rounded entries.
    C_tt >= 1, because columns' norms g_t are below 2 up to MOST_ITEMS and the grid is at most 1/2. `prefix_noise`
    refuses to release unless every sum is below 2^51, so that float64 adds without rounding in any order.

    node: discrete Gaussian noise of every row, in units of the rows of C x; None if only the geometry is needed.
    grid: a power of two up to 1/2; the smallest part of a count.
    Paper: Canonne, Kamath, Steinke 2020, Theorem 14 (4); those of BufferedToeplitz.
    """

    n_items: int
    node: Mechanism | None = None
    grid: float = 2.0**-8
    name: ClassVar[str] = BufferedToeplitz.name
    place: ClassVar[str] = GRID_ROW

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_items > MOST_ITEMS:
            rule = f"counter: {self.name} with whole numbers takes up to {MOST_ITEMS} releases"
            raise ValueError(f"{rule}, got {self.n_items}; write counter: kary_tree, or a larger replan_growth")
        exponent = math.log2(self.grid) if self.grid > 0.0 else math.nan
        if exponent not in range(_FINEST, _COARSEST + 1):
            raise ValueError(f"grid must be a power of two in [2^{_FINEST}, 2^{_COARSEST}], got {self.grid}")
        if self.node is not None and self.node.scale < 1.0:
            rule = f"scale must be at least 1 for {self.name} with whole numbers"
            raise ValueError(f"{rule}, got {self.node.scale}; lower epsilon, or write counter: kary_tree")

    def calibrated(self, mechanism: type[Mechanism], epsilon: float, delta: float, row: Sensitivity) -> Self:
        """Return the counter with the least noise for (epsilon, delta), on the finest grid for its sampler."""
        if delta <= 0.0:
            mechanism.calibrated(epsilon, delta, row)  # raises
        scale = row.l2 / gaussian_mu(epsilon, delta)
        exponent = min(max(math.ceil(math.log2(scale / _LARGEST_SCALE)), _FINEST), _COARSEST)
        shape = replace(self, grid=2.0**exponent)
        return replace(shape, node=mechanism.calibrated(epsilon, delta, shape.sensitivity(row)))

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return the largest norms of `row` through any column of whole numbers."""
        l1, square, largest = column_norms(*_factors(self.n_items, self.grid))
        l2 = row.l2 * math.sqrt(square) * _SLACK
        return Sensitivity(row.l1 * l1 * _SLACK, l2, row.linf * largest * _SLACK, row.cells * self.n_items)

    def explain(self) -> str:
        norm = math.sqrt(column_norms(*_factors(self.n_items, self.grid))[1])
        return (
            f"a row counts {norm:.6g} times in L2, the largest norm of a column of whole numbers, about 1 / grid for "
            f"grid = {self.grid:.6g}: the noise of T = {self.n_items:,} releases is correlated"
        )

    @property
    def unit(self) -> float:
        """The grid: noisy numbers are integers, and 1 / grid times as large as counts."""
        return self.grid

    def profile(self) -> Float64Array:
        """Return the norms of the rows of B = A C^-1, float64[T]: noise of scale 1 is in units of the grid."""
        return _row_errors(self.n_items, self.grid)[0].copy()

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta no error of n_cells sums of `summands` cells is larger, at 1..users.

        A discrete Gaussian probability is at most 1 / (1 - 1 / (24 sigma^2)) times that of the integer next to a
        Gaussian number, because cosh >= 1. So E is a Gaussian bound at a slightly smaller beta, plus half a unit of
        every number for that rounding, and half a unit of X for the floor.
        """
        scale, (prefixes, steps, largest_sum) = node_of(self).scale, _row_errors(self.n_items, self.grid)
        likelier = -self.n_items * summands * math.log1p(-1.0 / (24.0 * scale * scale))
        sigma, last = scale * math.sqrt(summands), users or self.n_items
        failure = failure_of_a_cell(n_cells, beta) * math.exp(-likelier)
        coefficients, weights = _factors(self.n_items, self.grid)
        rounded = 0.5 + 0.5 * self.grid * float(np.rint(coefficients[0] * weights).max())
        return gaussian_bound(sigma * prefixes[:last], sigma * steps[:last], failure) + summands * rounded * largest_sum

    def memory(self, n_cells: int) -> int:
        return self.n_items * n_cells * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Draw all noise: the whole numbers V, added up."""
        node, rows = node_of(self).noise(key), np.empty((self.n_items, n_cells))
        # Node m draws the numbers m n ... m n + n - 1, for m = 1, 2, ...
        fill_noise(rows.reshape(-1), node, np.uint64(n_cells))
        self.prefix_noise(rows)
        return CounterState(ROWS, 2, node._replace(table=SILENT.table), rows, np.zeros(0, np.int64), np.zeros(0))

    def prefix_noise(self, rows: Float64Array) -> None:
        """Turn the noise w, whole numbers float64[T, cells], into that of the prefixes, grid (V_1 + ... + V_t).

        Raises ArithmeticError if a sum is not exact, with a probability below 2^-200 for the laws used here.
        """
        rows /= self.grid
        highest, largest_row = np.abs(rows).max(), 0.0
        for start, matrix in _blocks(self.n_items, self.grid):
            stop, own = start + len(matrix), matrix[:, start:]
            largest_row = max(largest_row, float(matrix.sum(axis=1).max()))
            # Whole numbers below 2^53, so the products are added without rounding in any order.
            rows[start:stop] -= matrix[:, :start] @ rows[:start]
            substitute(rows[start:stop], np.ascontiguousarray(own))
            found = max(np.abs(rows[:stop]).max(), 1.0) * max(largest_row, float(self.n_items))
            if not highest + found < _LARGEST_INTEGER / 4.0:
                raise ArithmeticError("noise must be below 2^51 units to be exact; take fewer items or a coarser grid")
        np.cumsum(rows, axis=0, out=rows)
        rows *= self.grid


@lru_cache(maxsize=4)
def _factors(n_items: int, grid: float) -> tuple[Float64Array, Float64Array]:
    """Return c_0 ... c_{T-1} and 1 / (g_i grid): C_ti is the product of c_{t-i} and the latter, rounded."""
    coefficients, norms = BufferedToeplitz(n_items).columns()
    weights = 1.0 / (norms * grid)
    weights.setflags(write=False)
    coefficients.setflags(write=False)
    return coefficients, weights


def _blocks(n_items: int, grid: float, size: int = _BLOCK) -> Iterator[tuple[int, Float64Array]]:
    """Yield the rows of C in ranges, as (first row, float64[rows, last row])."""
    coefficients, weights = _factors(n_items, grid)
    for start in range(0, n_items, size):
        stop = min(start + size, n_items)
        lags = np.arange(start, stop)[:, None] - np.arange(stop)
        yield start, np.rint(np.where(lags < 0, 0.0, coefficients[lags]) * weights[:stop])


@kernel
def column_norms(coefficients: Float64Array, weights: Float64Array) -> tuple[float, float, float]:
    """Return the largest L1 norm, squared L2 norm and entry of any column of C: whole numbers, without rounding."""
    l1 = square = largest = 0.0
    for i in range(weights.shape[0]):
        column_sum = column_square = 0.0
        for lag in range(weights.shape[0] - i):
            entry = np.rint(coefficients[lag] * weights[i])
            column_sum += entry
            column_square += entry * entry
            largest = max(largest, entry)
        l1, square = max(l1, column_sum), max(square, column_square)
    return l1, square, largest


@kernel
def substitute(rows: Float64Array, matrix: Float64Array) -> None:
    """Replace rows r float64[n, cells] by V, V_t = floor((r_t - sum_{i<t} C_ti V_i) / C_tt + 1/2), exactly.

    matrix: C float64[n, n], lower triangular; all are whole numbers.
    """
    for t in range(rows.shape[0]):
        for i in range(t):
            entry = matrix[t, i]
            for cell in range(rows.shape[1]):
                rows[t, cell] -= entry * rows[i, cell]
        own = np.int64(matrix[t, t])
        for cell in range(rows.shape[1]):
            # In floats, floor would not commute with adding an integer if the quotient is close to one.
            rows[t, cell] = float((2 * np.int64(rows[t, cell]) + own) // (2 * own))


@lru_cache(maxsize=16)
def _row_errors(n_items: int, grid: float) -> tuple[Float64Array, Float64Array, float]:
    """Return the norms of the rows of B and of C^-1, float64[T] each, and the largest L1 norm of a row of B."""
    (matrix,) = (rows for _, rows in _blocks(n_items, grid, n_items))
    inverse, _ = scipy.linalg.lapack.dtrtri(matrix, lower=1, overwrite_c=1)
    steps = np.square(inverse).sum(axis=1)
    prefixes = np.cumsum(inverse, axis=0, out=inverse)
    return np.sqrt(np.square(prefixes).sum(axis=1)), np.sqrt(steps), float(np.abs(prefixes).sum(axis=1).max())
