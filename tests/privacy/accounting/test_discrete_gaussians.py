"""The curve of discrete Gaussian noise, against convolution, dp-accounting and the continuous Gaussian."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution

from dprl.privacy.accounting.closed_forms import ZCDP, GaussianDP, zcdp_delta
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian


def convolved_delta(epsilon: float, n: int, sigma: float) -> float:
    reach = int(14 * sigma + 3)
    z = np.arange(-reach, reach + 1.0)
    one = np.exp(-z * z / (2 * sigma * sigma))
    one /= one.sum()
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    losses = (n - 2 * np.arange(-n * reach, n * reach + 1.0)) / (2 * sigma * sigma)
    return float(np.sum(total * -np.expm1(np.minimum(epsilon - losses, 0.0))))


@pytest.mark.parametrize(
    ("epsilon", "n", "sigma"),
    [
        (1, 1, 0.5),
        (1, 1, 4.5),
        (1, 2, 3),
        (0, 5, 3),
        (2, 7, 3.1),
        (3, 40, 10),
        (1, 100, 42.25),
        (0.1, 3, 30),
        (9, 300, 3),
    ],
)
def test_equals_convolution(epsilon: float, n: int, sigma: float) -> None:
    ours, convolved = DiscreteGaussianLoss(n, sigma).delta(epsilon), convolved_delta(epsilon, n, sigma)
    assert ours == pytest.approx(convolved, rel=3e-9)
    assert ours >= convolved


@pytest.mark.parametrize(("n", "sigma"), [(1, 4.5), (100, 42.25)])
def test_agrees_with_dp_accounting(n: int, sigma: float) -> None:
    step = 1e-4 / math.sqrt(n)
    pld = privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=step)
    peer = pld.self_compose(n).get_epsilon_for_delta(1e-6)
    ours = DiscreteGaussianLoss(n, sigma).epsilon(1e-6)
    # dp-accounting rounds every loss up to its grid: 0.05 % for the larger n, and 0.1 % at a step of 1e-4.
    assert ours <= peer
    assert ours == pytest.approx(peer, rel=6e-4)
    if n == 100:
        coarse = privacy_loss_distribution.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-4)
        assert coarse.self_compose(n).get_epsilon_for_delta(1e-6) == pytest.approx(1.0010, abs=5e-3)
        assert ours == pytest.approx(0.99992, abs=1e-5)


def test_wide_sums_are_bounded_by_the_integral_closely() -> None:
    n, sigma = 3000, 1e4 / math.sqrt(3000)
    below, above = (DiscreteGaussianLoss(n, sigma * factor).delta(1.0) for factor in (1 - 1e-9, 1 + 1e-9))
    assert below <= above <= below * (1 + 2e-3)
    n = 10**6
    curve = DiscreteGaussianLoss(n, 4300.0)
    assert curve.epsilon(1e-6) >= GaussianDP(math.sqrt(n) / 4300.0).epsilon(1e-6)
    assert curve.epsilon(1e-6) == pytest.approx(GaussianDP(math.sqrt(n) / 4300.0).epsilon(1e-6), rel=1e-5)


def test_hardly_any_privacy_is_left_of_many_releases_with_little_noise() -> None:
    # The mean of the loss is 555, then 5000, many standard deviations above epsilon.
    assert DiscreteGaussianLoss(10_000, 3.0).delta(1.0) == pytest.approx(1.0)
    assert DiscreteGaussianLoss(10**6, 10.01).delta(1.0) == pytest.approx(1.0)
    assert DiscreteGaussianLoss(10_000, 3.0).epsilon(1e-6) == pytest.approx(
        GaussianDP(100 / 3.0).epsilon(1e-6), rel=1e-5
    )


def test_too_little_noise_falls_back_on_zcdp() -> None:
    assert DiscreteGaussianLoss(2, 1.5).delta(3.0) == zcdp_delta(3.0, 2 / (2 * 1.5**2))
    assert DiscreteGaussianLoss(2, 1.5).epsilon(1e-6) == pytest.approx(ZCDP(2 / (2 * 1.5**2)).epsilon(1e-6), rel=1e-8)


@pytest.mark.parametrize("delta", [1e-15, 1e-6, 0.1])
@pytest.mark.parametrize(
    ("epsilon", "n"), [(1e-3, 1), (0.3, 60), (1.0, 10_000), (30.0, 1), (30.0, 60), (1e3, 60), (1e3, 10_000)]
)
def test_every_request_has_a_sigma_that_meets_it(epsilon: float, delta: float, n: int) -> None:
    sigma = DiscreteGaussian.calibrated(epsilon, delta, Sensitivity.of_cells(n)).scale
    assert DiscreteGaussianLoss(n, sigma).delta(epsilon) <= delta
    curve = DiscreteGaussianLoss(n, sigma)
    assert curve.delta(curve.epsilon(delta)) <= delta


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"^delta must be above 0"):
        DiscreteGaussian.calibrated(1.0, 0.0, Sensitivity.of_cells(3))
    with pytest.raises(ValueError, match=r"^n must be at least 1"):
        DiscreteGaussianLoss(0, 1.0)
    for sigma in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^sigma must be above 0 and finite, got"):
            DiscreteGaussianLoss(1, sigma)
