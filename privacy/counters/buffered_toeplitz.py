"""The buffered Toeplitz factorisation: nearly the least error of correlated noise, in a few rows of memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.compiled import kernel
from dprl.privacy.base import Float64Array, Sensitivity
from dprl.privacy.counters.base import BUFFERED, Counter, CounterState, node_of
from dprl.privacy.counters.error import failure_of_a_cell, gaussian_bound
from dprl.privacy.mechanisms.base import ROW, Mechanism

# A multiple of 3, the number that a release takes at a time.
N_BUFFERS = 6


@dataclass(frozen=True)
class BufferedToeplitz(Counter):
    """Toeplitz factorisation c_0 = 1, c_j = sum_i omega_i theta_i^(j-1), near the square root; columns have norm 1.

    *Formal guarantee.* If replacing one item (one user's row) changes it by `row`, the whole sequence of T noisy prefix
    vectors is mu-GDP for mu = l2 / sigma, also if later rows depend on earlier outputs. Every item attains this. It
    holds for the omega and theta in use, however good the approximation is.

    A step draws w and sets v = w - sum_i omega_i s_i, s_i = theta_i s_i + v; the noise of the prefix grows by g v,
    where g is the norm of the item's column.
    Paper: Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024; Henzinger, Kalinin, Upadhyay 2025 (norm 1).
    """

    n_items: int
    node: Mechanism | None = None
    name: ClassVar[str] = "buffered_toeplitz"
    place: ClassVar[str] = ROW
    most_items: ClassVar[int] = 10**7

    def columns(self) -> tuple[Float64Array, Float64Array]:
        """Return c_0 ... c_{T-1} and the columns' norms g_1 ... g_T, float64[T] each."""
        coefficients = exponential_sums(*fitted(self.n_items), self.n_items)
        return coefficients, np.sqrt(np.cumsum(coefficients * coefficients))[::-1]

    def sensitivity(self, row: Sensitivity) -> Sensitivity:
        l1, l2, linf = _charged(self.n_items)
        # Bound on the relative error of float64 sums of n_items positive products.
        slack = 1.0 + 8.0 * (self.n_items + 8) * 2.0**-53
        return Sensitivity(row.l1 * l1 * slack, row.l2 * l2 * slack, row.linf * linf * slack, row.cells * self.n_items)

    def explain(self) -> str:
        _, l2, _ = _charged(self.n_items)
        return (
            f"a row counts {l2:.6g} times in L2, the norm of each column of the factorisation: the noise of T = "
            f"{self.n_items:,} releases is correlated, and falls instead of adding up"
        )

    def deviations(self) -> tuple[Float64Array, Float64Array]:
        """Return the standard deviations of the prefix noise and of each step's addition, float64[T] each."""
        _, norms = self.columns()
        prefixes, steps = prefix_variances(*fitted(self.n_items), norms)
        return np.sqrt(prefixes), norms * np.sqrt(steps)

    def profile(self) -> Float64Array:
        return self.deviations()[0]

    def error_bound(self, n_cells: int, beta: float, summands: int = 1, users: int | None = None) -> float:
        sigma, last = node_of(self).scale * math.sqrt(summands), users or self.n_items
        prefixes, steps = self.deviations()
        return gaussian_bound(sigma * prefixes[:last], sigma * steps[:last], failure_of_a_cell(n_cells, beta))

    def memory(self, n_cells: int) -> int:
        return ((N_BUFFERS + 1) * n_cells + self.n_items) * 8

    def open(self, n_cells: int, key: npt.NDArray[np.uint64]) -> CounterState:
        coefficients = np.concatenate([*fitted(self.n_items), self.columns()[1]])
        rows = np.zeros((N_BUFFERS + 1, n_cells))
        return CounterState(BUFFERED, 2, node_of(self).noise(key), rows, np.zeros(1, np.int64), coefficients)


@lru_cache(maxsize=4)
def _charged(n_items: int) -> tuple[float, float, float]:
    """Return the largest L1, L2 and Linf norm of any column (c_0 ... c_{T-j}) / g_j; the L2 norm is not taken as 1."""
    coefficients, norms = BufferedToeplitz(n_items).columns()
    roots = np.sqrt(np.cumsum(coefficients * coefficients))
    columns = np.cumsum(coefficients), roots, np.maximum.accumulate(coefficients)
    l1, l2, linf = (float(np.max(each / norms[::-1])) for each in columns)
    return l1, l2, linf


@kernel
def exponential_sums(omega: Float64Array, theta: Float64Array, n_items: int) -> Float64Array:
    """Return 1 and the first n_items - 1 of sum_i omega_i theta_i^(j-1), j = 1, 2, ..."""
    coefficients, powers = np.ones(n_items), omega.copy()
    for j in range(1, n_items):
        total = 0.0
        for i in range(powers.shape[0]):
            total += powers[i]
            powers[i] *= theta[i]
        coefficients[j] = total
    return coefficients


@kernel
def prefix_variances(
    omega: Float64Array, theta: Float64Array, norms: Float64Array
) -> tuple[Float64Array, Float64Array]:
    """Return the variances of the prefix noise and of v after every step, float64[norms], if w has variance 1."""
    n = omega.shape[0]
    # Of the buffers and the prefix noise, which is last.
    covariance, with_v = np.zeros((n + 1, n + 1)), np.zeros(n + 1)
    decay, gain = np.ones(n + 1), np.ones(n + 1)
    variances, step_variances = np.empty(norms.shape[0]), np.empty(norms.shape[0])
    decay[:n] = theta
    for t in range(norms.shape[0]):
        for i in range(n + 1):
            with_v[i] = 0.0
            for j in range(n):
                with_v[i] -= omega[j] * covariance[j, i]
        variance_v = 1.0
        for j in range(n):
            variance_v -= omega[j] * with_v[j]
        gain[n] = norms[t]
        for i in range(n + 1):
            for j in range(n + 1):
                crossed = decay[i] * gain[j] * with_v[i] + decay[j] * gain[i] * with_v[j]
                covariance[i, j] = decay[i] * decay[j] * covariance[i, j] + crossed + gain[i] * gain[j] * variance_v
        variances[t], step_variances[t] = covariance[n, n], variance_v
    return variances, step_variances


# The three numbers of a fit lie on this lattice, so that rounding on another machine cannot change the noise.
_LATTICE = np.array([1 / 16, 1 / 16, 1 / 256])
_LARGEST_STEP = 16
_LEAST_GAIN = 1e-9


@lru_cache(maxsize=16)
def fitted(n_items: int) -> tuple[Float64Array, Float64Array]:
    """Return omega and theta, float64[N_BUFFERS] each, read-only.

    The square root's coefficients are the integral over theta in (0, 1) of theta^(j-1) (theta / (1-theta))^(1/2) / pi.
    With theta = 1/(1+exp(-x)) the trapezoidal rule converges fast; its ends and a common factor are those with the
    smallest product of sensitivity and largest error that a descent on a lattice finds.
    """
    at = np.array([0, round(16 * (math.log(n_items) + 4)), 8])
    best, step = _product(at, n_items), _LARGEST_STEP
    while step:
        moved = False
        for move in np.concatenate([np.eye(3, dtype=int), -np.eye(3, dtype=int)]) * step:
            value = _product(at + move, n_items)
            if value < best - _LEAST_GAIN:
                at, best, moved = at + move, value, True
        step = step if moved else step // 2
    omega, theta = _quadrature(at)
    omega.setflags(write=False)
    theta.setflags(write=False)
    return omega, theta


def _quadrature(at: npt.NDArray[np.int64]) -> tuple[Float64Array, Float64Array]:
    low, high, log_factor = at * _LATTICE
    x = np.linspace(low, high, N_BUFFERS)
    theta = 1.0 / (1.0 + np.exp(-x))
    remainder = 1.0 / (1.0 + np.exp(x))
    return (x[1] - x[0]) * np.exp(log_factor) / np.pi * theta**1.5 * remainder**0.5, theta


def _product(at: npt.NDArray[np.int64], n_items: int) -> float:
    """Return log(sensitivity^2 * largest error^2) of the Toeplitz factorisation, up to rounding; infinite if undefined.

    The inverse series is 1 - sum_i r_i x / (1 - lambda_i x), lambda the eigenvalues of diag(theta) - 1 omega^T.
    """
    if at[1] <= at[0]:
        return math.inf
    omega, theta = _quadrature(at)
    values, vectors = np.linalg.eig(np.diag(theta) - omega[None, :])
    weights = ((omega @ vectors) * np.linalg.solve(vectors, np.ones(N_BUFFERS)) / (1.0 - values)).real
    roots = np.concatenate([[1.0], values.real])
    # Row t of A C^-1 has the entries b_j = sum_i w_i roots_i^j, j < t.
    weights = np.concatenate([[1.0 - weights.sum()], weights])
    largest_error = _square_sum(weights, roots, n_items)
    product = (1.0 + _square_sum(omega, theta, n_items - 1)) * largest_error
    return math.log(product) if largest_error > 0.0 and math.isfinite(product) else math.inf


def _square_sum(weights: Float64Array, roots: Float64Array, n: int) -> float:
    """Return sum_{j<n} (sum_i weights_i roots_i^j)^2."""
    product = np.outer(roots, roots)
    same = np.isclose(product, 1.0, rtol=0.0, atol=1e-12)
    sums = np.where(same, n, (1.0 - product**n) / np.where(same, 1.0, 1.0 - product))
    return float(weights @ sums @ weights)
