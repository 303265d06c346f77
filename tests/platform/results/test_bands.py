"""Bands cover whole curves with the stated frequency, also with few seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.stats import binom, t

from dprl.platform.results.inference import simultaneous_band

POINTS, TRIALS = 40, 300


def cumulative(generator: np.random.Generator, seeds: int) -> np.ndarray:
    """Curves like regret: running sums over episodes."""
    return np.cumsum(generator.normal(1.0, 1.0, (seeds, POINTS)), axis=1)


def late(generator: np.random.Generator, seeds: int) -> np.ndarray:
    """Curves that bend at a different place for each seed."""
    x = np.linspace(0.05, 1.0, POINTS)
    level, slope, bend = generator.normal(size=(3, seeds, 1))
    curves: np.ndarray = (1.0 + 0.3 * level) * x + 0.2 * slope * x**2 + 0.1 * bend * np.sin(4 * x)
    return curves


def coverage(draw: Callable[[np.random.Generator, int], np.ndarray], truth: np.ndarray, seeds: int) -> float:
    generator = np.random.default_rng([seeds, 5])
    inside = 0
    for _ in range(TRIALS):
        mean, half = simultaneous_band(draw(generator, seeds))
        inside += bool((np.abs(mean - truth) <= half).all())
    return inside / TRIALS


def least(probability: float) -> float:
    """The share below which TRIALS trials fall with probability 1e-3 if the coverage is `probability`."""
    return float(binom.ppf(1e-3, TRIALS, probability)) / TRIALS


X = np.linspace(0.05, 1.0, POINTS)


@pytest.mark.parametrize("seeds", [5, 10, 20])
def test_smooth_curves_are_covered(seeds: int) -> None:
    """Nominal 95 %, taken as at least 94 %: false-alarm rate 1e-3."""
    assert coverage(late, X, seeds) >= least(0.94)


@pytest.mark.parametrize(("seeds", "at_least"), [(3, 0.82), (5, 0.91), (10, 0.93), (20, 0.935)])
def test_rough_curves_are_covered_nearly_as_often(seeds: int, at_least: float) -> None:
    """The coverage of random walks stated in docs/reports.md: false-alarm rate 1e-3."""
    assert coverage(cumulative, np.arange(1.0, POINTS + 1), seeds) >= least(at_least)


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_of_a_single_point_it_is_students_interval(seeds: int) -> None:
    values = np.random.default_rng(seeds).normal(size=(seeds, 1))
    mean, half = simultaneous_band(values)
    exact = t.ppf(0.975, seeds - 1) * values.std(ddof=1) / np.sqrt(seeds)
    # With 1000 resamples the quantile is at most 12 % off.
    assert half[0] == pytest.approx(exact, rel=0.12)
    assert mean[0] == values.mean()


def test_it_is_wider_than_students_interval_everywhere_and_deterministic() -> None:
    curves = cumulative(np.random.default_rng(3), 6)
    _, half = simultaneous_band(curves)
    exact = t.ppf(0.975, 5) * curves.std(axis=0, ddof=1) / np.sqrt(6)
    assert (half > exact).all()
    assert (simultaneous_band(curves)[1] == half).all()


def test_below_three_seeds_there_is_none() -> None:
    mean, half = simultaneous_band(np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert mean.tolist() == [2.0, 3.0]
    assert np.isnan(half).all()


def test_where_seeds_agree_it_has_no_width() -> None:
    curves = np.array([[1.0, 0.1 + 0.2, 5.0], [1.0, 0.3, 6.0], [1.0, 0.3, 8.0]])
    _, half = simultaneous_band(curves)
    assert half[:2].tolist() == [0.0, 0.0]
    assert half[2] > 0.0
    assert simultaneous_band(np.ones((4, 3)))[1].tolist() == [0.0, 0.0, 0.0]
