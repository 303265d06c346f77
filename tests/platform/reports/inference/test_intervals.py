"""Intervals over seeds: the mean's and the median's, and their coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dprl.platform.reports.inference.intervals import band, median_interval


def test_the_band_is_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    expected = stats.t.interval(0.95, 3, loc=values.mean(), scale=stats.sem(values))
    assert band(values) == pytest.approx((4.0, *expected))


@pytest.mark.parametrize("n", [1, 2])
def test_the_mean_of_few_values_has_no_band(n: int) -> None:
    mean, lower, upper = band(np.arange(n, dtype=float))
    assert mean == (n - 1) / 2
    assert math.isnan(lower)
    assert math.isnan(upper)


def test_the_band_covers_the_mean_as_often_as_it_says() -> None:
    """2000 normal samples of 4 seeds: 95 % coverage; outside 0.935..0.965 with probability 0.2 %."""
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(2000):
        _, lower, upper = band(rng.normal(size=4))
        inside += lower <= 0 <= upper
    assert 0.935 < inside / 2000 < 0.965


@pytest.mark.parametrize(("n", "rank"), [(6, 0), (8, 0), (9, 1), (20, 5), (50, 17)])
def test_the_interval_of_the_median_has_the_ranks_of_the_sign_test(n: int, rank: int) -> None:
    """Ranks (from 0) as tabulated for 95 %, e.g. Conover (1999), table A3: for 20 values the 6th and the 15th."""
    values = np.random.default_rng(2).permutation(n).astype(float)
    assert median_interval(values) == ((n - 1) / 2, float(rank), float(n - 1 - rank))


@pytest.mark.parametrize("n", range(1, 6))
def test_few_values_have_a_median_and_no_interval(n: int) -> None:
    median, lower, upper = median_interval(np.arange(n, dtype=float))
    assert median == (n - 1) / 2
    assert math.isnan(lower)
    assert math.isnan(upper)


def test_infinite_values_open_the_interval_above() -> None:
    values = np.array([1.0] * 12 + [math.inf] * 8)
    assert median_interval(values) == (1.0, 1.0, math.inf)
    assert median_interval(np.array([1.0] * 10 + [math.inf] * 10)) == (math.inf, 1.0, math.inf)
    assert median_interval(np.full(6, math.inf)) == (math.inf, math.inf, math.inf)


def test_the_interval_covers_the_median_at_least_as_often_as_it_says() -> None:
    """4000 skewed samples of 20: 95.86 % exactly; below 0.947 with probability 0.02 %, above 0.97 with 0.01 %."""
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(4000):
        _, lower, upper = median_interval(rng.exponential(size=20))
        inside += lower <= math.log(2) <= upper
    assert 0.947 < inside / 4000 < 0.97
