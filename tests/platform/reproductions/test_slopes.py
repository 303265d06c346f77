"""Log-log slopes: a known exponent is found, a wrong one is excluded, and uninformative points are left out."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.platform.reproductions.theory import fit

X = np.geomspace(1e3, 1e6, 7)
ALL = np.ones(len(X), dtype=bool)


def curves(exponent: float, noise: float = 0.02, seeds: int = 20) -> np.ndarray:
    drawn = np.random.default_rng(7).normal(0.0, noise, (seeds, len(X)))
    return np.asarray(3.0 * X**exponent * np.exp(drawn))


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.5, 2.0])
def test_a_known_exponent_is_recovered_and_wrong_ones_are_excluded(exponent: float) -> None:
    y = curves(exponent)
    assert fit(X, y, ALL, exponent).slope.value == pytest.approx(exponent, abs=0.01)
    assert fit(X, y, ALL, exponent).verdict == "consistent"
    assert fit(X, y, ALL, exponent + 0.2).verdict == "below the term"
    assert fit(X, y, ALL, exponent - 0.2).verdict == "above the term"


def test_intervals_have_the_true_exponent_as_often_as_they_say() -> None:
    """At 95 % the hits of 400 lie below 362 in one of a million cases."""
    generator = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        y = X**0.5 * np.exp(generator.normal(0.0, 0.1, (5, len(X))))
        hits += fit(X, y, ALL, 0.5).verdict == "consistent"
    assert 362 <= hits <= 399


def test_saturated_points_are_left_out() -> None:
    y = curves(0.5, 0.0)
    y[:, 4:] = X[4:]
    found = fit(X, y, np.arange(len(X)) < 4, 0.5)
    assert (found.points, found.of) == (4, len(X))
    assert found.slope.value == pytest.approx(0.5)
    assert fit(X, y, ALL, 0.5).slope.value > 0.6


def test_a_point_without_a_positive_excess_in_every_seed_is_left_out() -> None:
    y = curves(0.5)
    y[3, 2] = -1.0
    assert fit(X, y, ALL, 0.5).points == len(X) - 1


@pytest.mark.parametrize("points", [0, 1, 2])
def test_fewer_than_three_points_have_no_slope(points: int) -> None:
    found = fit(X, curves(0.5), np.arange(len(X)) < points, 0.5)
    assert math.isnan(found.slope.value)
    assert found.verdict == "not measurable"


def test_two_seeds_have_no_interval() -> None:
    assert fit(X, curves(0.5, seeds=2), ALL, 0.5).verdict == "not measurable"
