"""The Gaussian mechanism: the right distribution and no other, independent pairs, exact calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.bits import fill_bits
from tests.privacy.keys import key_of

N_DRAWS = 200_000
SCALE = 3.0
GENERATORS = {"splitmix64": 0, "chacha20": 1}


def key(generator: str, seed: int) -> np.ndarray:
    return key_of(GENERATORS[generator], seed, 0x9E3779B97F4A7C15, 1, 2)


def sample(generator: str, seed: int, n: int = N_DRAWS, first: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, Gaussian(SCALE).noise(key(generator, seed)), np.uint64(first))
    return out


@pytest.mark.parametrize("generator", GENERATORS)
def test_accepts_the_right_scale_and_rejects_two_thirds_and_three_halves(generator: str) -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate of the acceptance 1e-3. Even and odd draws are computed
    # differently, so each half is tested too.
    x = sample(generator, 1)
    for part in (x, x[::2], x[1::2]):
        assert stats.kstest(part, stats.norm(scale=SCALE).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.norm(scale=SCALE * factor).cdf).pvalue < 1e-100


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_pair_is_the_box_muller_point_of_its_two_words(generator: str) -> None:
    words = np.empty(20_000, dtype=np.uint64)
    fill_bits(words, key(generator, 5), np.uint64(0))
    u, v = (((w >> np.uint64(12)) + 0.5) / 2.0**52 for w in (words[::2], words[1::2]))
    low, next_to_low = words[1::2] & np.uint64(1), words[1::2] >> np.uint64(1) & np.uint64(1)
    radius, angle = np.sqrt(-2.0 * np.log(u)), math.pi / 2 * v
    x = sample(generator, 5, 20_000) / SCALE
    assert np.max(np.abs(x[::2] - radius * np.cos(angle) * np.where(low, -1, 1))) < 1e-14
    assert np.max(np.abs(x[1::2] - radius * np.sin(angle) * np.where(next_to_low, -1, 1))) < 1e-14


@pytest.mark.parametrize(("epsilon", "delta", "mu"), [(1.0, 1e-6, 0.23670), (1.0, 1e-5, 0.26805)])
def test_calibration_meets_the_published_numbers(epsilon: float, delta: float, mu: float) -> None:
    assert Gaussian.calibrated(epsilon, delta, Sensitivity.of_cells(1)).scale == pytest.approx(1 / mu, rel=3e-5)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.1])
def test_scale_and_guarantee_are_inverse(epsilon: float, delta: float) -> None:
    sensitivity = Sensitivity.of_cells(12, 0.5)
    mechanism = Gaussian.calibrated(epsilon, delta, sensitivity)
    curve = mechanism.curve(sensitivity)
    assert math.isinf(curve.pure_epsilon)
    assert delta * (1 - 1e-6) <= curve.delta(epsilon) <= delta
    assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-6)
    assert Gaussian(mechanism.scale * 0.999).curve(sensitivity).delta(epsilon) > delta


def test_the_curve_is_the_difference_of_two_normal_probabilities() -> None:
    # Computed here from the likelihood ratio of N(0, sigma^2) and N(l2, sigma^2), not from the project's formula.
    sigma, l2, epsilon = 2.0, 1.5, 0.4
    x = np.linspace(-20 * sigma, 20 * sigma, 2_000_001)
    p, q = stats.norm(l2, sigma).pdf(x), stats.norm(0, sigma).pdf(x)
    delta = np.sum(np.maximum(0.0, p - math.exp(epsilon) * q)) * (x[1] - x[0])
    assert Gaussian(sigma).curve(Sensitivity(l2, l2, l2, 1)).delta(epsilon) == pytest.approx(delta, rel=1e-5)


def test_the_sensitivity_in_l2_decides() -> None:
    many = Gaussian.calibrated(1.0, 1e-5, Sensitivity.of_cells(100))
    one = Gaussian.calibrated(1.0, 1e-5, Sensitivity(100.0, 1.0, 1.0, 100))
    assert many.scale == pytest.approx(10 * one.scale)
    assert many.variance == pytest.approx(many.scale**2)


def test_pure_privacy_is_refused_with_a_remedy() -> None:
    with pytest.raises(ValueError, match=r"^delta must be above 0 for Gaussian noise, got 0.0; .*choose laplace"):
        Gaussian.calibrated(1.0, 0.0, Sensitivity.of_cells(1))


@pytest.mark.parametrize("scale", [0.0, -1.0, math.inf, math.nan])
def test_bad_scales_are_refused(scale: float) -> None:
    with pytest.raises(ValueError, match=r"^scale must be a finite number above 0"):
        Gaussian(scale)
