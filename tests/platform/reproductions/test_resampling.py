"""Statistics of trials, against closed forms and scipy, with infinite values."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from dprl.platform.reproductions.resampling import (
    compared,
    estimate,
    mean,
    median,
    permutation_p,
    ratio,
    ratio_range,
    resampled,
    share,
    trial_range,
)

INF = math.inf


def test_a_median_is_infinite_where_half_of_the_trials_have_no_success() -> None:
    assert estimate(np.array([1.0, 2.0, INF, INF]), median).value == INF
    assert estimate(np.array([1.0, 2.0, 3.0, INF]), median).value == 2.5


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution() -> None:
    values = np.random.default_rng(1).normal(5.0, 2.0, 400)
    found = estimate(values, mean)
    half = 1.96 * values.std() / 20.0
    assert found.value == pytest.approx(values.mean())
    assert found.lower == pytest.approx(values.mean() - half, abs=0.1 * half)
    assert found.upper == pytest.approx(values.mean() + half, abs=0.1 * half)


def test_the_interval_of_a_median_covers_the_median_of_the_distribution() -> None:
    # 95 % intervals miss 200 times with 200 x 0.05 = 10 +- 3.1; 25 is 4.8 standard deviations above.
    generator = np.random.default_rng(2)
    missed = 0
    for _ in range(200):
        values = generator.exponential(1.0, 60)
        values[values > 3.0] = INF
        found = estimate(values, median)
        missed += not found.lower <= math.log(2) <= found.upper
    assert 1 <= missed <= 25


def test_ends_of_intervals_may_be_infinite_and_are_never_nan() -> None:
    values = np.array([10.0] * 6 + [INF] * 5)
    found = estimate(values, median)
    assert (found.value, found.lower, found.upper) == (10.0, 10.0, INF)
    assert trial_range(values, median, 20) == (10.0, INF)


def test_two_trials_have_no_interval() -> None:
    assert estimate(np.array([1.0, 3.0]), median).value == 2.0
    assert math.isnan(estimate(np.array([1.0, 3.0]), median).lower)
    assert math.isnan(share(np.array([1.0, 1.0])).lower)


@pytest.mark.parametrize(("hits", "of"), [(0, 20), (20, 20), (17, 20), (69, 100)])
def test_shares_have_the_interval_of_clopper_and_pearson(hits: int, of: int) -> None:
    expected = scipy.stats.binomtest(hits, of).proportion_ci(0.95, "exact")
    found = share((np.arange(of) < hits).astype(float))
    assert found.value == hits / of
    assert (found.lower, found.upper) == pytest.approx((expected.low, expected.high))


def test_the_range_of_20_trials_of_a_share_is_that_of_the_binomial_distribution() -> None:
    hits = (np.arange(100) < 80).astype(float)
    low, high = trial_range(hits, mean, 20)
    # Quantiles of Binomial(20, 0.8) / 20: 12 and 19; a resampled end may be one off.
    assert abs(20 * low - scipy.stats.binom.ppf(0.025, 20, 0.8)) <= 1.0
    assert abs(20 * high - scipy.stats.binom.ppf(0.975, 20, 0.8)) <= 1.0


def test_equal_values_have_equal_resamples_and_streams_differ() -> None:
    values = np.random.default_rng(3).exponential(1.0, 50)
    assert np.array_equal(resampled(values, mean, 20), resampled(values.copy(), mean, 20))
    correlation = np.corrcoef(resampled(values, mean, 20, 0), resampled(values, mean, 20, 1))[0, 1]
    assert abs(correlation) < 0.08  # 5 standard deviations of 1 / sqrt(4000)


def test_a_clear_difference_is_seen() -> None:
    generator = np.random.default_rng(4)
    found = compared(generator.normal(10.0, 1.0, 100), generator.normal(8.0, 1.0, 100), mean, 20)
    assert 0.0 < found.lower < found.difference < found.upper
    assert found.seen > 0.99
    half = 1.96 * math.sqrt(2.0 / 100)
    assert found.upper - found.lower == pytest.approx(2 * half, rel=0.2)
    # Cells are resampled independently, although they have equally many trials in the same order.
    values = generator.normal(10.0, 1.0, 100)
    found = compared(values + 1.0, values, mean, 20)
    assert found.upper - found.lower == pytest.approx(2 * half * values.std(), rel=0.2)


def test_two_infinite_medians_do_not_differ_and_an_infinite_one_is_larger() -> None:
    never, once = np.full(30, INF), np.full(30, 100.0)
    assert compared(never, never, median, 20)[:3] == (0.0, 0.0, 0.0)
    assert compared(never, never, median, 20).seen == 0.5
    assert compared(never, once, median, 20).difference == INF
    assert compared(never, once, median, 20).lower > 0.0
    assert compared(once, never, median, 20).upper < 0.0


def test_a_relative_area_is_a_quotient_of_means_and_nothing_where_there_is_no_reference() -> None:
    generator = np.random.default_rng(5)
    values, reference = generator.uniform(0.4, 0.8, 100), generator.uniform(0.9, 1.0, 100)
    found = ratio(values, reference)
    assert found.value == pytest.approx(values.mean() / reference.mean())
    assert found.lower < found.value < found.upper
    low, high = ratio_range(values, reference, 20, 20)
    assert low < found.lower
    assert found.upper < high
    assert math.isnan(ratio(values, np.zeros(100)).value)
    assert math.isnan(ratio_range(values, np.zeros(100), 20, 20)[0])


def test_permutations_find_a_difference_and_their_p_values_are_uniform_without_one() -> None:
    generator = np.random.default_rng(6)
    assert permutation_p(generator.normal(1.0, 1.0, 40), generator.normal(0.0, 1.0, 40)) < 0.01
    assert permutation_p(generator.normal(0.0, 1.0, 40), generator.normal(1.0, 1.0, 40)) > 0.99
    p_values = [permutation_p(*generator.exponential(1.0, (2, 12))) for _ in range(200)]
    # Kolmogorov and Smirnov: wrong in one of 10,000 cases.
    assert scipy.stats.kstest(p_values, "uniform").pvalue > 1e-4


def test_permutations_agree_with_scipy() -> None:
    generator = np.random.default_rng(7)
    one, other = generator.normal(0.4, 1.0, 20), generator.normal(0.0, 1.0, 20)
    exact = scipy.stats.ttest_ind(one, other, alternative="greater").pvalue
    assert permutation_p(one, other) == pytest.approx(exact, abs=0.02)


def test_all_permutations_of_equal_values_are_as_large() -> None:
    assert permutation_p(np.full(5, 0.1), np.full(5, 0.1)) == 1.0
