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

SCALE = 3.0
GENERATORS = {"splitmix64": 0, "chacha20": 1}


def key(generator: str, seed: int) -> np.ndarray:
    return key_of(GENERATORS[generator], seed, 0x9E3779B97F4A7C15, 1, 2)


def sample(generator: str, seed: int, n: int, first: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, Gaussian(SCALE).noise(key(generator, seed)), np.uint64(first))
    return out


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
