"""Bounds on Gaussian processes: exact bivariate terms, coverage and tightness for a factorisation's noise."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from scipy.special import ndtr

from dprl.privacy.base import Float64Array
from dprl.privacy.counters.error import above_and_not_before, failure_of_a_cell, gaussian_bound

T, N_CELLS, BETA = 999, 100, 0.05
FAILURE = 1.0 - (1.0 - BETA) ** (1.0 / N_CELLS)
REFUTED, SHOWN = 1e-6, 1e-4

rng_of = np.random.default_rng


def bound_of(std: Float64Array, steps: Float64Array, n_cells: int, beta: float) -> float:
    return gaussian_bound(std, steps, failure_of_a_cell(n_cells, beta))


def union_bound(std: Float64Array, n_cells: int, beta: float) -> float:
    """The bound that adds up the failures of all prefixes."""
    failure, noisy = 1.0 - (1.0 - beta) ** (1.0 / n_cells), std[std > 0.0]
    return float(optimize.brentq(lambda x: 2.0 * ndtr(-x / noisy).sum() - failure, 0.1, 100.0))


def normalised_square_root(n_items: int) -> Float64Array:
    """Row t: the weights of w_1..w_T in the noise of prefix t, in the normalised square-root factorisation."""
    j = np.arange(1, n_items)
    c, e = np.cumprod(np.append(1.0, 1 - 1 / (2 * j))), np.cumprod(np.append(1.0, 1 - 3 / (2 * j)))
    norms = np.sqrt(np.cumsum(c * c))[::-1]
    inverse_root = np.array([np.append(e[: t + 1][::-1], np.zeros(n_items - 1 - t)) for t in range(n_items)])
    return np.cumsum(norms[:, None] * inverse_root, axis=0)


def test_gaussian_process_bound_holds_and_is_tight() -> None:
    rows = normalised_square_root(T)
    std = np.linalg.norm(rows, axis=1)
    steps = np.linalg.norm(np.diff(rows, axis=0, prepend=0.0), axis=1)
    assert std.max() == pytest.approx(3.0730, abs=1e-4)
    rng = rng_of(5)
    worst = np.concatenate([np.abs(rows @ rng.standard_normal((T, 2000))).max(axis=0) for _ in range(10)])
    bound = bound_of(std, steps, N_CELLS, BETA)
    # As in test_error_bounds.
    assert np.sum(worst > bound) <= stats.binom.isf(REFUTED, worst.shape[0], FAILURE)
    assert np.sum(worst > bound / 1.1) > stats.binom.isf(SHOWN, worst.shape[0], FAILURE)
    assert bound < union_bound(std, N_CELLS, BETA) < 1.02 * bound


@pytest.mark.parametrize("h", [0.5, 2.0, 5.5, 12.0])
@pytest.mark.parametrize("ratio", [0.6, 1.0, 1.4])
@pytest.mark.parametrize("distance", [1e-6, 1e-3, 0.14, 0.7, 1.6])
def test_terms_equal_direct_integration(h: float, ratio: float, distance: float) -> None:
    k, rho = h * ratio, 1.0 - distance

    def density(x: float) -> float:
        return math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi) * float(ndtr((k - rho * x) / math.sqrt(1.0 - rho**2)))

    edges = h + np.linspace(0.0, 2.2, 60) ** 4
    exact = sum(integrate.quad(density, a, b, epsabs=0.0)[0] for a, b in itertools.pairwise(edges))
    term = above_and_not_before(np.array([h]), np.array([k]), np.array([distance]))
    assert term[0] == pytest.approx(exact, rel=2e-3, abs=1e-60)


@pytest.mark.parametrize("std", [1.0, 0.30001, 3.0003, 41.0])
def test_independent_noises_are_a_product_and_rounded_up(std: float) -> None:
    n = 50
    bound = bound_of(np.full(n, std), np.append(std, np.full(n - 1, math.sqrt(2.0) * std)), 1, 1e-3)
    exact = std * stats.norm.isf(0.5 * (1.0 - (1.0 - 1e-3) ** (1.0 / n)))
    assert exact * (1.0 - 1e-6) <= bound <= exact * (1.0 + 5e-4)


def test_prefixes_without_noise_add_nothing() -> None:
    std, steps = np.array([0.0, 1.0, 0.0, 3.0]), np.array([0.0, 1.0, 1.0, 3.0])
    assert bound_of(std, steps, 1, 0.01) == pytest.approx(union_bound(std, 1, 0.01), rel=3e-4)
    assert bound_of(np.zeros(3), np.zeros(3), 1, 0.01) == 0.0
