"""Post-processing of released counts: solution of eq. (8), Euclidean projection, bound of Lemma 5.8."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

from dprl.algorithms.dp_nash_vi.algorithm import _Estimates, postprocess, private_expectations
from dprl.privacy.base import Float64Array

KINDS = ("noisy", "large", "negative", "edge of feasible", "ties", "sum too low", "sum too high", "no slack")
SIZES = pytest.mark.parametrize("n_states", [1, 2, 3, 5, 10, 40])


def solve(noisy: Float64Array, visits: Float64Array, slack: float) -> tuple[Float64Array, Float64Array, int]:
    """Return x [S, X], its totals [X] and the number of infeasible cells; what is written to starts dirty."""
    step = np.concatenate([noisy, visits[None]])
    found = _Estimates.zeros(*noisy.shape)
    for array in found:
        array[:] = 7.0
    before = step.copy()
    infeasible = postprocess(step, slack, found)
    np.testing.assert_array_equal(step, before)
    return found.counts, found.sums, infeasible


def random_case(rng: np.random.Generator, kind: str) -> tuple[Float64Array, float, float]:
    """Noisy counts [S] of one cell, noisy visits and slack."""
    n_states = int(rng.integers(1, 13))
    if kind == "noisy":
        true = rng.poisson(3, n_states) * (rng.random(n_states) < 0.5)
        noisy, visits = true + rng.laplace(0, 5, n_states), true.sum() + rng.laplace(0, 5)
        slack = rng.choice([0.0, 1.0, 5.0, 20.0])
    elif kind == "large":
        true = rng.poisson(300, n_states)
        noisy, visits = true + rng.laplace(0, 20, n_states), true.sum() + rng.laplace(0, 60)
        slack = rng.choice([0.0, 1.0, 10.0])
    elif kind == "negative":
        noisy, visits, slack = -rng.exponential(3, n_states), rng.normal(0, 10), rng.exponential(3)
    elif kind == "edge of feasible":
        noisy, slack = rng.normal(0, 3, n_states), rng.exponential(1)
        visits = -slack + rng.choice([-1e-3, 0.0, 1e-3, -2.0])
    elif kind == "ties":
        noisy, slack = rng.integers(-3, 4, n_states).astype(np.float64), rng.integers(0, 3)
        visits = rng.integers(-3, 10)
    elif kind == "sum too low":
        noisy, slack = rng.normal(0, 3, n_states), rng.exponential(2)
        visits = noisy.clip(0).sum() + rng.exponential(20)
    elif kind == "sum too high":
        noisy, slack = rng.exponential(5, n_states) - 1, rng.exponential(0.3)
        visits = rng.uniform(0, max(noisy.clip(0).sum(), 1e-3))
    else:
        noisy = np.where(rng.random(n_states) < 0.5, 0.0, rng.normal(0, 2, n_states))
        visits, slack = rng.uniform(0, 5), 0.0
    return np.asarray(noisy, dtype=np.float64), float(visits), float(slack)


def batch(rng: np.random.Generator, n_states: int, cells: int = 400) -> tuple[Float64Array, Float64Array]:
    """Noisy counts [S, X] and visits [X] of very different sizes, ties and zeros among them."""
    size = 10.0 ** rng.uniform(-2, 3, cells)
    noisy = rng.laplace(0.3, 1.0, (n_states, cells)) * size
    visits = noisy.clip(0).sum(0) * rng.choice([0.0, 0.3, 1.0, 2.0], cells) + rng.laplace(0, 1.0, cells) * size
    noisy[:, ::4] = np.round(noisy[:, ::4])
    visits[::4] = np.round(visits[::4])
    return noisy, visits


def linear_programme(noisy: Float64Array, visits: float, slack: float) -> tuple[int, float]:
    """Status (0 solved, 2 infeasible) and value of eq. (8) as in Remark 5.7: t over all x."""
    n = noisy.size
    identity, one = np.eye(n), np.ones((n, 1))
    matrix = np.block([[identity, -one], [-identity, -one], [one.T, np.zeros((1, 1))], [-one.T, np.zeros((1, 1))]])
    right = np.concatenate([noisy, -noisy, [visits + slack, slack - visits]])
    cost = np.zeros(n + 1)
    cost[-1] = 1.0
    result = linprog(cost, A_ub=matrix, b_ub=right, bounds=[(0, None)] * (n + 1), method="highs")
    return int(result.status), float(result.fun) if result.status == 0 else np.inf


def check_against_linear_programming(cases: int) -> None:
    rng = np.random.default_rng(1)
    infeasible_cases = 0
    for i in range(cases):
        noisy, visits, slack = random_case(rng, KINDS[i % len(KINDS)])
        status, value = linear_programme(noisy, visits, slack)
        x, totals, infeasible = solve(noisy[:, None], np.array([visits]), slack)
        assert infeasible == (visits + slack < 0.0)
        if infeasible:
            # The solver lets constraints be violated by 1e-7.
            assert status == 2 or visits + slack > -1e-6
            assert not x.any()
            infeasible_cases += 1
            continue
        scale = max(1.0, abs(visits), float(np.abs(noisy).max()))
        assert status == 0
        assert np.abs(x[:, 0] - noisy).max() == pytest.approx(value, abs=1e-6 * scale)
        assert x.min() >= 0.0
        assert abs(x.sum() - visits) <= slack + 1e-14 * scale
        assert totals[0] == pytest.approx(x.sum(), abs=1e-14 * scale)
    assert 0.1 * cases < infeasible_cases < 0.3 * cases


def test_optimum_of_the_linear_programme() -> None:
    check_against_linear_programming(800)


@SIZES
@pytest.mark.parametrize("slack", [0.0, 0.5, 30.0])
def test_euclidean_projection(n_states: int, slack: float) -> None:
    # x is the projection of n if and only if (n - x)(y - x) <= 0 for all feasible y. The largest n*y - x*y of a given
    # total is total * max(n - x), so only the two ends of the band need be tried.
    noisy, visits = batch(np.random.default_rng(n_states), n_states)
    x, totals, infeasible = solve(noisy, visits, slack)
    feasible = visits + slack >= 0.0
    assert infeasible == np.count_nonzero(~feasible) > 0
    assert not x[:, ~feasible].any()
    assert not totals[~feasible].any()
    x, noisy, visits, totals = x[:, feasible], noisy[:, feasible], visits[feasible], totals[feasible]
    scale = np.maximum(np.abs(noisy).max(0), np.abs(visits) + slack)
    assert x.min() >= 0.0
    assert np.all(np.abs(x.sum(0) - totals) <= 1e-14 * scale)
    assert np.all(np.abs(totals - visits) <= slack + 1e-14 * scale)
    direction = noisy - x
    for total in (np.maximum(visits - slack, 0.0), visits + slack):
        assert np.all(total * direction.max(0) - (direction * x).sum(0) <= 1e-13 * n_states * scale**2)


def exact_projection(noisy: Float64Array, visits: float, slack: float) -> list[Fraction]:
    """The projection of noisy [S] in exact arithmetic, by sorting."""
    counts = [Fraction(float(n)) for n in noisy]
    low, high = Fraction(visits) - Fraction(slack), max(Fraction(visits) + Fraction(slack), Fraction(0))
    kept = sum((max(n, Fraction(0)) for n in counts), Fraction(0))
    total = min(max(kept, low), high)
    if total == kept:
        return [max(n, Fraction(0)) for n in counts]
    largest, running, shift = sorted(counts, reverse=True), Fraction(0), Fraction(0)
    for k, n in enumerate(largest, start=1):
        running += n
        shift = (total - running) / k
        if k == len(largest) or largest[k] + shift <= 0:
            break
    return [max(n + shift, Fraction(0)) for n in counts]


@pytest.mark.parametrize("size", [1e-270, 1e-9, 1.0, 1e6, 1e12])
def test_accuracy_at_every_size(size: float) -> None:
    # Slack and total are far below the counts, where a sum of counts would have no correct digit at all.
    rng = np.random.default_rng(5)
    for n_states in (1, 2, 5, 10):
        noisy = size * rng.laplace(0.0, 1.0, (n_states, 60))
        noisy[:, ::3] = size * (rng.choice([-1.0, 1.0]) + 1e-12 * rng.integers(-5, 6, (n_states, 20)))
        visits = size * np.where(np.arange(60) % 2, rng.exponential(1e-12, 60), rng.exponential(1.0, 60))
        for slack in (0.0, 1e-13 * size):
            x, totals, _ = solve(noisy, visits, slack)
            for j in range(60):
                exact = exact_projection(noisy[:, j], float(visits[j]), slack)
                error = max(abs(Fraction(float(a)) - b) for a, b in zip(x[:, j], exact, strict=True))
                assert error <= Fraction(4e-16 * (n_states + 3)) * sum(exact)
                assert abs(Fraction(float(totals[j])) - sum(exact)) <= Fraction(3e-16 * n_states) * sum(exact)


@pytest.mark.parametrize("slack", [0.0, 1e-320, 2.5, 1e300])
def test_it_ends_with_finite_numbers(slack: float) -> None:
    values = np.array([0.0, -0.0, 5e-324, -1e-310, 1e-300, 1.0, 1.0, -3.0, 1e12, 1e17, -1e17, 1e300, -1e300])
    rng = np.random.default_rng(6)
    noisy, visits = rng.choice(values, (7, 3000)), rng.choice(values, 3000)
    x, totals, _ = solve(noisy, visits, slack)
    assert np.isfinite(x).all()
    assert x.min() >= 0.0
    with np.errstate(over="raise"):
        np.testing.assert_allclose(x.sum(0), totals, rtol=1e-14, atol=1e-320)


@pytest.mark.parametrize("n_states", [3, 5, 11])
def test_it_ends_where_a_count_is_just_not_positive(n_states: int) -> None:
    # Rounding decides whether that count is in the set, and could make the loop run for ever.
    rng = np.random.default_rng(13)
    noisy = rng.laplace(1.0, 1.0, (n_states, 4000))
    kink = np.take_along_axis(np.sort(noisy, axis=0), rng.integers(0, n_states - 1, 4000)[None], 0)
    expected = (noisy - kink).clip(0.0)
    x, _, _ = solve(noisy, expected.sum(0), 0.0)
    np.testing.assert_allclose(x, expected, atol=1e-13)


@SIZES
@pytest.mark.parametrize("precision", [0.4, 40.0])
def test_what_lemma_5_8_says(n_states: int, precision: float) -> None:
    rng = np.random.default_rng(11)
    cells = 500
    true = rng.poisson(10.0 ** rng.uniform(-1, 3, cells), (n_states, cells)).astype(np.float64)
    visits = true.sum(0)
    ends = rng.choice([-1.0, 1.0], (n_states + 1, cells))
    errors = 0.25 * precision * np.where(rng.random(cells) < 0.5, ends, rng.uniform(-1, 1, (n_states + 1, cells)))
    x, totals, infeasible = solve(true + errors[:-1], visits + errors[-1], 0.25 * precision)
    smoothed, smoothed_visits = x + precision / (2 * n_states), totals + 0.5 * precision
    rounding = 1e-13 * (1.0 + visits)
    assert infeasible == 0
    assert smoothed.min() > 0.0
    assert np.all(np.abs(smoothed - true) <= precision + rounding)
    assert np.all(smoothed_visits >= visits - rounding)
    assert np.all(smoothed_visits <= visits + precision + rounding)
    np.testing.assert_allclose(smoothed.sum(0), smoothed_visits, rtol=1e-13)


@SIZES
@pytest.mark.parametrize("precision", [0.0, 8.0])
def test_expectations(n_states: int, precision: float) -> None:
    rng = np.random.default_rng(12)
    noisy, visits = batch(rng, n_states)
    found = _Estimates.zeros(*noisy.shape)
    postprocess(np.concatenate([noisy, visits[None]]), 0.25 * precision, found)
    upper = rng.uniform(0.0, 20.0, n_states)
    lower = upper * rng.uniform(0.0, 1.0, n_states)
    private_expectations(found, precision, upper, lower)

    smoothed = found.counts + precision / (2 * n_states)
    total = smoothed.sum(0)
    probabilities = np.divide(smoothed, total, out=np.zeros_like(smoothed), where=total > 0.0)
    middle = 0.5 * (upper + lower)
    variance = (probabilities * (middle[:, None] - middle @ probabilities) ** 2).sum(0)
    np.testing.assert_allclose(found.visits, total, rtol=1e-13, atol=1e-300)
    np.testing.assert_allclose(found.upper, upper @ probabilities, rtol=1e-12)
    np.testing.assert_allclose(found.lower, lower @ probabilities, rtol=1e-12)
    np.testing.assert_allclose(found.variance, variance, rtol=1e-12, atol=1e-15 * 20.0**2)
    assert found.variance.min() >= 0.0
    assert (total == 0.0).any() == (precision == 0.0)


def test_variance_of_values_that_hardly_differ() -> None:
    # W^2 is 1e4 and its own rounding 1e-12, as large as the variance.
    values = 100.0 + np.array([0.0, 1e-6, 2e-6])
    found = _Estimates.zeros(3, 1)
    postprocess(np.array([[1.0], [2.0], [1.0], [4.0]]), 0.0, found)
    private_expectations(found, 0.0, values, values)
    assert found.variance[0] == pytest.approx(0.5e-12, rel=1e-6, abs=0.0)
    private_expectations(found, 0.0, np.full(3, 100.0), np.full(3, 100.0))
    assert found.variance[0] == 0.0
