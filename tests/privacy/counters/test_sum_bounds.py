"""Exact tails of sums: Laplace by its characteristic function, discrete laws by convolution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dprl.privacy.counters.error import running_sum_bound
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.tails import laplace_sum_tail, lattice_sum_tail


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


@pytest.mark.parametrize("m", [10**6, 10**8])
def test_tail_of_many_draws_is_nearly_normal(m: int) -> None:
    x = 4.0 * np.sqrt(2.0 * m)
    assert laplace_sum_tail(x, m) == pytest.approx(2 * stats.norm.sf(4.0), rel=1e-3)


@pytest.mark.parametrize("scale", [0.3, 1.0, 7.0])
@pytest.mark.parametrize("n", [1, 3, 40])
def test_lattice_tails_equal_convolutions(scale: float, n: int) -> None:
    z = np.arange(-400, 401)
    for weight, law in (
        (np.exp(-np.abs(z) / scale), DiscreteLaplace(scale)),
        (np.exp(-0.5 * (z / scale) ** 2), DiscreteGaussian(scale)),
    ):
        one = weight / weight.sum()
        total = one
        for _ in range(n - 1):
            total = np.convolve(total, one)
        middle = total.shape[0] // 2
        for m in (1, 3, 10, 30, 100):
            exact = total[middle + m :].sum()
            if exact > 1e-60:
                assert lattice_sum_tail(m, n, law.log_transform, law.scale, law.moment_limit) == pytest.approx(
                    exact, rel=1e-6
                )


@pytest.mark.parametrize("n", [1000, 1_000_000])
def test_many_discrete_draws_are_bounded_as_gaussian_ones(n: int) -> None:
    for failure in (1e-4, 1e-23):
        gaussian = Gaussian(4.0).sum_bound(n, failure)
        assert gaussian == pytest.approx(4.0 * np.sqrt(n) * stats.norm.isf(failure / 4.0))
        assert DiscreteGaussian(4.0).sum_bound(n, failure) == pytest.approx(gaussian, abs=1.0)


def test_chains_and_levy_agree_where_they_meet() -> None:
    # Levy's factor of 2 is not reached by 33 summands.
    for law in (Laplace(1.0), Gaussian(1.0)):
        chain, levy = (running_sum_bound(n, law, 1, 1e-4) / np.sqrt(n) for n in (32, 33))
        assert chain < levy < 1.04 * chain
