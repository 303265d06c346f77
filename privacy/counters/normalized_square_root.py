"""Normalised square-root factorisation: correlated Gaussian noise with nearly the least error, drawn at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy

from dprl.compiled import kernel
from dprl.privacy.base import Float64Array
from dprl.privacy.counters.base import ROWS, Counter, CounterState, errors_of, node_of
from dprl.privacy.counters.error_bounds import gaussian_process_bound
from dprl.privacy.counters.release import fill_rows
from dprl.privacy.mechanisms.base import ROW, Mechanism, Sensitivity

# A is the lower-triangular matrix of ones, the Toeplitz matrix of 1/(1-x); its square root is that of (1-x)^(-1/2).
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
    """Return a factor >= 1 for the column norms of the matrix implied by noise with rounded coefficients.

    If every coefficient of a series has a relative error of at most r, the inverse matrix changes by less than
    s = r * 2 * 2 sqrt(n/pi) times itself in the operator norm (the absolute coefficients of one series sum to 2, those
    of the other to less than 2 sqrt(n/pi) + 1).
    """
    share = 3.0 * n_items * _EXTENDED + 4.0 * _DOUBLE
    change = 2.0 * share * (2.0 * math.sqrt(n_items / math.pi) + 1.0)
    return (1.0 + summing_slack(n_items)) / (1.0 - change)


def summing_slack(n_items: int) -> float:
    """Return a bound on the relative error of float64 sums of n_items positive products with such errors."""
    return 8.0 * (n_items + 8) * _DOUBLE


def convolve_columns(rows: Float64Array, coefficients: Float64Array, columns_at_a_time: int = 8) -> None:
    """Replace every column of rows float64[T, cells] by its convolution with `coefficients` float64[T]."""
    n_items = rows.shape[0]
    length = scipy.fft.next_fast_len(2 * n_items - 1, real=True)
    transformed = scipy.fft.rfft(coefficients, length)
    for start in range(0, rows.shape[1], columns_at_a_time):
        part = np.ascontiguousarray(rows[:, start : start + columns_at_a_time].T)
        product = scipy.fft.rfft(part, length, axis=1) * transformed
        rows[:, start : start + columns_at_a_time] = scipy.fft.irfft(product, length, axis=1)[:, :n_items].T


MEMORY_LIMIT = 2 << 30
"""Largest number of bytes of noise that a counter stores."""
# Up to this number all prefixes' errors are computed; beyond it only some, and the others are interpolated.
_ALL_PREFIXES = 5000


@dataclass(frozen=True)
class NormalizedSquareRoot(Counter):
    """Normalised square-root factorisation: columns of norm 1 give all users equal losses and reduce the error.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is mu-GDP for mu = l2 / sigma, also if later rows depend on earlier outputs. Every item attains this.

    The noise of prefix t is sum_{i<=t} g_i v_i, v_i = sum_{j<=i} e_{i-j} w_j, with g_j the norm of column j of the
    square root and e the coefficients of (1-x)^(1/2). (It is not sum_j c_{t-j} g_j w_j: square root and diagonal do not
    commute, and columns would have norms up to 1.03.)

    Args:
        n_items: T, the maximum number of items.
        node: the noise of every row w_j; None if only the geometry is needed.

    Paper: Henzinger, Kalinin, Upadhyay 2025 (normalised square-root factorisation).
    """

    n_items: int
    node: Mechanism | None = None
    name: ClassVar[str] = "normalized_square_root"
    place: ClassVar[str] = ROW
    most_items: ClassVar[int] = 10**9

    def column_norms(self) -> Float64Array:
        """Return g_1 ... g_T, the norms of the columns of the square root, float64[T]."""
        coefficients = root_coefficients(self.n_items)
        return np.sqrt(np.cumsum(coefficients * coefficients))[::-1]

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        """Return the largest norms of `row` through any column (c_0 ... c_{T-j}) / g_j; L2 is not taken as 1."""
        c, norms, slack = root_coefficients(self.n_items), self.column_norms(), root_slack(self.n_items)
        l1 = float(np.max(np.cumsum(c)[::-1] / norms))
        l2 = float(np.max(np.sqrt(np.cumsum(c * c))[::-1] / norms))
        linf = float(np.max(np.maximum.accumulate(c)[::-1] / norms))
        return Sensitivity(row.l1 * l1 * slack, row.l2 * l2 * slack, row.linf * linf * slack, row.cells * self.n_items)

    def profile(self) -> Float64Array:
        """Return the norms of the rows of A diag(g) Toeplitz(e), float64[T].

        Beyond 5000 items, about 180 rows are computed, densest at both ends, and the others are interpolated by a cubic
        spline (relative error below 1e-7).
        """
        return _normalized_profile(self.n_items).copy()

    def errors(self) -> tuple[float, float]:
        """Return root mean square and maximum of the profile."""
        return errors_of([self.profile()])

    def errors_at_most(self) -> tuple[float, float]:
        """Return upper bounds on both errors, a few per cent above them, in T steps: those of the plain square root.

        Its prefix t has noise of variance sum_{j<t} c_j^2, and its first user's column norm is that of all c.
        """
        squares = np.cumsum(root_coefficients(self.n_items) ** 2)
        rms, largest = errors_of([np.sqrt(squares)])
        cost = math.sqrt(float(squares[-1])) * root_slack(self.n_items)
        return rms * cost, largest * cost

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        """Return E: with probability 1 - beta no error of n_cells sums of `summands` cells is larger, at 1..users."""
        sigma = node_of(self).scale * math.sqrt(summands)
        inverse = inverse_root_coefficients(self.n_items)
        # The noise that prefix t adds: row t of the inverse square root, times g_t.
        steps = self.column_norms() * np.sqrt(np.cumsum(inverse * inverse))
        deviations = sigma * self.profile()[:users], sigma * steps[:users]
        return gaussian_process_bound(lambda: iter([deviations]), n_cells, beta)

    def memory(self, n_cells: int) -> int:
        """Return the bytes of one row per item."""
        return self.n_items * n_cells * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        """Draw all noise; raise ValueError if it does not fit in MEMORY_LIMIT."""
        needed = self.memory(n_cells)
        if needed > MEMORY_LIMIT:
            raise ValueError(
                f"n_items = {self.n_items} with {n_cells} cells needs {needed} bytes of noise, more than "
                f"{MEMORY_LIMIT}; choose counter: buffered_toeplitz"
            )
        node, rows = node_of(self).noise(key), np.empty((self.n_items, n_cells))
        fill_rows(rows, node)
        convolve_columns(rows, inverse_root_coefficients(self.n_items))
        rows *= self.column_norms()[:, None]
        np.cumsum(rows, axis=0, out=rows)
        return CounterState(ROWS, 2, node, rows, np.zeros(0, np.int64), np.zeros(0))


@lru_cache(maxsize=4)
def _normalized_profile(n_items: int) -> Float64Array:
    coefficients = inverse_root_coefficients(n_items)
    norms = NormalizedSquareRoot(n_items).column_norms()
    if n_items <= _ALL_PREFIXES:
        return row_norms(coefficients, np.ascontiguousarray(norms))
    # As a function of log(t / (T + 1 - t)), both ends are as smooth as the middle.
    every, ends = np.arange(1, n_items + 1), np.arange(1, 33)
    end = _log_odds(every[-1:], n_items)[0]
    between = np.rint((n_items + 1) / (1.0 + np.exp(-np.linspace(-end, end, 120)))).astype(np.int64)
    prefixes = np.unique(np.concatenate([ends, between, n_items + 1 - ends]))
    known = [_row_norm(coefficients, norms, int(t)) for t in prefixes]
    profile: Float64Array = scipy.interpolate.CubicSpline(_log_odds(prefixes, n_items), known)(
        _log_odds(every, n_items)
    )
    return profile


def _log_odds(prefix: npt.NDArray[np.int64], n_items: int) -> Float64Array:
    return np.log(prefix) - np.log(n_items + 1 - prefix)


def _row_norm(coefficients: Float64Array, norms: Float64Array, t: int) -> float:
    """Return the norm of row t of A diag(norms) Toeplitz(coefficients); entry j is sum_{i=j..t} g_i e_{i-j}."""
    length = scipy.fft.next_fast_len(2 * t - 1, real=True)
    product = scipy.fft.rfft(norms[:t][::-1], length) * scipy.fft.rfft(coefficients[:t], length)
    row = scipy.fft.irfft(product, length)[:t]
    return float(np.sqrt(row @ row))


@kernel
def row_norms(coefficients: Float64Array, norms: Float64Array) -> Float64Array:
    """Return the norms of all rows of A diag(norms) Toeplitz(coefficients), float64[T], in T^2/2 steps."""
    n_items = norms.shape[0]
    row, result = np.zeros(n_items), np.empty(n_items)
    backwards = coefficients[::-1].copy()
    for t in range(n_items):
        shifted, weight, square = backwards[n_items - 1 - t :], norms[t], 0.0
        for j in range(t + 1):
            row[j] += weight * shifted[j]
        for j in range(t + 1):
            square += row[j] * row[j]
        result[t] = np.sqrt(square)
    return result
