"""Exact error bounds: the tail of Laplace sums against integration, and the bounds against simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dprl.privacy.counters.error_bounds import (
    _prefixes_by_popcount,
    laplace_sum_tail,
    sum_error_bound,
    tree_error_bound,
)


def characteristic_tail(x: float, m: int) -> float:
    """P(|sum of m Laplace(1)| > x) by inverting the characteristic function 1/(1+t^2)^m."""
    inside, _ = integrate.quad(
        lambda t: 2 / np.pi * np.sinc(x * t / np.pi) * x / (1 + t * t) ** m, 0, 60, limit=2000, epsabs=1e-12
    )
    return float(1 - inside)


@pytest.mark.parametrize(("x", "m"), [(0.5, 2), (3.0, 3), (5.0, 7), (10.0, 20), (25.0, 60)])
def test_tail_equals_the_inverted_characteristic_function(x: float, m: int) -> None:
    assert laplace_sum_tail(x, m) == pytest.approx(characteristic_tail(x, m), abs=1e-7)


def test_tail_of_one_draw_and_of_zero() -> None:
    assert laplace_sum_tail(7.0, 1) == pytest.approx(np.exp(-7.0), rel=1e-12)
    for m in (1, 5, 1000):
        assert laplace_sum_tail(0.0, m) == pytest.approx(1.0, rel=1e-9)


def test_tail_of_many_draws_is_nearly_normal() -> None:
    m = 1_000_000
    x = 4.0 * np.sqrt(2.0 * m)
    assert laplace_sum_tail(x, m) == pytest.approx(2 * stats.norm.sf(4.0), rel=1e-3)


@pytest.mark.parametrize("n", [1, 2, 5, 8, 100, 1023])
def test_prefixes_by_popcount(n: int) -> None:
    counted = _prefixes_by_popcount(n)
    assert counted == {m: c for m in range(1, 12) if (c := sum(k.bit_count() == m for k in range(1, n + 1)))}


@pytest.mark.parametrize("n_items", [1, 6, 100])
def test_tree_bound_holds_and_is_tight(n_items: int) -> None:
    # 3000 trees of 20 cells: the failure rate may exceed beta by 4 standard deviations at most (one-sided 3e-5).
    n_runs, n_cells, beta = 3000, 20, 0.1
    rng = np.random.default_rng(n_items)
    levels = np.zeros((n_items.bit_length() + 1, n_runs, n_cells))
    worst = np.zeros(n_runs)
    for k in range(1, n_items + 1):
        parent = k & (k - 1)
        row = (k & -k).bit_length()
        base = levels[(parent & -parent).bit_length()] if parent else 0.0
        levels[row] = base + rng.laplace(size=(n_runs, n_cells))
        worst = np.maximum(worst, np.abs(levels[row]).max(axis=1))
    bound = tree_error_bound(n_items, n_cells, beta)
    assert np.mean(worst > bound) <= beta + 4 * np.sqrt(beta * (1 - beta) / n_runs)
    assert bound <= 1.25 * np.quantile(worst, 1 - beta)


@pytest.mark.parametrize("n_items", [1, 10, 200])
def test_sum_bound_holds_and_is_tight(n_items: int) -> None:
    n_runs, n_cells, beta = 3000, 20, 0.1
    rng = np.random.default_rng(n_items)
    total, worst = np.zeros((n_runs, n_cells)), np.zeros(n_runs)
    for _ in range(n_items):
        total += rng.laplace(size=(n_runs, n_cells))
        worst = np.maximum(worst, np.abs(total).max(axis=1))
    bound = sum_error_bound(n_items, n_cells, beta)
    assert np.mean(worst > bound) <= beta + 4 * np.sqrt(beta * (1 - beta) / n_runs)
    assert bound <= 1.15 * np.quantile(worst, 1 - beta)


def test_tiny_failure_probabilities_are_refused_and_small_ones_met() -> None:
    with pytest.raises(ValueError, match="beta must be at least 1e-30"):
        sum_error_bound(1000, 10, 1e-45)
    assert sum_error_bound(1_000_000, 10, 1e-25) > sum_error_bound(1_000_000, 10, 1e-3)
