"""Intervals, bands, effects and families of tests over seeds: their definitions and their coverage."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom, t

from dprl.platform.results.inference import (
    LEVEL,
    effect,
    estimate,
    holm,
    median_interval,
    scale_of,
    scaled_band,
    simultaneous_band,
)

TRIALS = 2000


def test_a_positive_sample_has_the_geometric_mean_and_students_interval_of_its_logs() -> None:
    values = np.array([1.0, 10.0, 100.0, 1000.0])
    found = estimate(values, "log")
    expected = stats.t.interval(0.95, 3, loc=np.log(values).mean(), scale=stats.sem(np.log(values)))
    assert found.value == pytest.approx(stats.gmean(values))
    assert found[1:3] == pytest.approx(np.exp(expected))
    assert found.lower > 0.0


def test_the_linear_scale_has_students_interval() -> None:
    values = np.array([-1.0, 0.0, 5.0])
    expected = stats.t.interval(0.95, 2, loc=values.mean(), scale=stats.sem(values))
    assert estimate(values)[:3] == pytest.approx((values.mean(), *expected))


def test_an_interval_ends_at_the_range_of_the_metric() -> None:
    values = np.array([100.0, 150.0, 199.0])
    assert estimate(values, "linear").upper > 200.0
    assert estimate(values, "linear", (0.0, 200.0)).upper == 200.0
    assert estimate(values, "log", (0.0, 200.0)).upper == 200.0
    assert estimate(-values, "linear", (-200.0, 0.0)).lower == -200.0


@pytest.mark.parametrize("n", [1, 2])
def test_fewer_than_three_seeds_have_no_interval_and_no_test(n: int) -> None:
    values = np.arange(1.0, 1.0 + n)
    found = estimate(values, "log", (0.0, 1.0))
    assert found.value == pytest.approx(stats.gmean(values))
    assert not found.has_interval
    between = effect(values, np.array([1.0, 2.0, 3.0]), "log")
    assert between.value == pytest.approx(stats.gmean(values) / 6.0 ** (1 / 3))
    assert all(math.isnan(x) for x in (between.lower, between.upper, between.p_value))


def test_a_value_that_is_not_positive_makes_the_scale_linear_and_drops_no_seed() -> None:
    positive, with_zero = np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 3.0])
    assert scale_of(positive, positive) == "log"
    assert scale_of(positive, with_zero) == scale_of(-positive) == scale_of(np.array([1.0, math.inf])) == "linear"
    assert effect(positive, with_zero, "linear").value == pytest.approx(1 / 3)


def test_a_ratio_is_welchs_interval_of_the_logs() -> None:
    generator = np.random.default_rng(0)
    one, other = generator.lognormal(1.0, 0.3, 5), generator.lognormal(0.0, 1.0, 9)
    found = effect(one, other, "log")
    expected = stats.ttest_ind(np.log(one), np.log(other), equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert found.value == pytest.approx(stats.gmean(one) / stats.gmean(other))
    assert (found.lower, found.upper) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.p_value == pytest.approx(expected.pvalue)


def test_a_difference_is_welchs_interval() -> None:
    one, other = np.array([1.0, 2.0, 4.0]), np.array([-1.0, 0.0, 0.5, 3.0])
    found = effect(one, other, "linear")
    expected = stats.ttest_ind(one, other, equal_var=False)
    assert (found.lower, found.upper) == pytest.approx(tuple(expected.confidence_interval(0.95)))


def test_cells_that_do_not_vary() -> None:
    same, other, rounded = np.full(3, 0.3), np.full(3, 0.4), np.array([0.1 + 0.2, 0.3, 0.1 + 0.2])
    for scale in ("log", "linear"):
        assert effect(same, rounded, scale).p_value == 1.0
        found = effect(same, other, scale)
        assert found.p_value == 0.0
        assert found.lower == found.value == found.upper


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@pytest.mark.parametrize("strange", [math.inf, math.nan])
def test_a_value_that_is_not_finite_is_no_significant_difference(strange: float) -> None:
    one, other = np.array([1.0, strange, 2.0]), np.array([1.0, 2.0, 3.0])
    for found in (effect(one, other, scale_of(one, other)), effect(other, one, scale_of(one, other))):
        assert all(math.isnan(x) for x in (found.lower, found.upper, found.p_value))


@pytest.mark.parametrize("seeds", [3, 5, 10])
def test_log_intervals_cover_the_geometric_mean(seeds: int) -> None:
    """Log-normal samples, 95 %: outside 0.935..0.965 with probability 0.2 %."""
    generator = np.random.default_rng(seeds)
    found = (estimate(generator.lognormal(2.0, 0.8, seeds), "log") for _ in range(TRIALS))
    inside = sum(each.lower <= math.exp(2.0) <= each.upper for each in found)
    assert 0.935 < inside / TRIALS < 0.965


def test_a_log_band_is_that_of_the_logs_and_never_reaches_the_floor() -> None:
    curves = np.cumsum(np.random.default_rng(0).lognormal(0.0, 1.5, (4, 30)), axis=1)
    centre, lower, upper = scaled_band(curves, "log", (0.0, np.arange(1, 31) * 20.0))
    mean, half = simultaneous_band(np.log(curves))
    assert centre == pytest.approx(stats.gmean(curves))
    assert lower == pytest.approx(np.exp(mean - half))
    assert (lower > 0.0).all()
    assert (upper <= np.arange(1, 31) * 20.0).all()
    assert (upper == np.arange(1, 31) * 20.0).any()


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


def test_holm_is_that_of_the_definition() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_a_difference_is_significant_up_to_the_level_after_adjustment() -> None:
    found = effect(np.array([1.0, 2.0, 3.0]), np.array([11.0, 12.0, 13.0]), "linear")
    for adjusted, significant in ((LEVEL, True), (1.001 * LEVEL, False), (math.nan, False)):
        assert found._replace(adjusted=adjusted).significant == significant


# Bands cover whole curves with the stated frequency, also with few seeds.


POINTS, N_BANDS = 40, 300


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
    for _ in range(N_BANDS):
        mean, half = simultaneous_band(draw(generator, seeds))
        inside += bool((np.abs(mean - truth) <= half).all())
    return inside / N_BANDS


def least(probability: float) -> float:
    """The share below which N_BANDS trials fall with probability 1e-3 if the coverage is `probability`."""
    return float(binom.ppf(1e-3, N_BANDS, probability)) / N_BANDS


X = np.linspace(0.05, 1.0, POINTS)


@pytest.mark.parametrize("seeds", [5, 10, 20])
def test_smooth_curves_are_covered(seeds: int) -> None:
    """Nominal 95 %, taken as at least 94 %: false-alarm rate 1e-3."""
    assert coverage(late, X, seeds) >= least(0.94)


@pytest.mark.parametrize(("seeds", "at_least"), [(3, 0.82), (5, 0.91), (10, 0.93), (20, 0.935)])
def test_rough_curves_are_covered_nearly_as_often(seeds: int, at_least: float) -> None:
    """The coverage of random walks stated in docs/statistics.md: false-alarm rate 1e-3."""
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
