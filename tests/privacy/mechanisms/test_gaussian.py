"""The Gaussian mechanism: the right distribution and no other, independent pairs, exact calibration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gaussian import Gaussian, fill_gaussian
from dprl.privacy.randomness.bits import fill_bits
from tests.without_compiler import printed_both_ways

N_DRAWS = 200_000
SCALE = 3.0
GENERATORS = {"splitmix64": 0, "chacha20": 1}


def key(generator: str, seed: int) -> np.ndarray:
    return np.array([GENERATORS[generator], seed, 0x9E3779B97F4A7C15, 1, 2], dtype=np.uint64)


def sample(generator: str, seed: int, n: int = N_DRAWS, first: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_gaussian(out, Gaussian(SCALE).noise(key(generator, seed)), np.uint64(first))
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
def test_moments_and_tail_are_right(generator: str) -> None:
    # Each at 5 standard deviations of its estimate: false alarm below 1e-6.
    x = sample(generator, 2) / SCALE
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(x**power) - moment) < 5 * math.sqrt(variance / N_DRAWS)
    for threshold in (2.0, 3.5):
        p = 2 * stats.norm.sf(threshold)
        assert abs(np.sum(np.abs(x) > threshold) - N_DRAWS * p) < 5 * math.sqrt(N_DRAWS * p)
    assert np.all(np.isfinite(x))


@pytest.mark.parametrize("generator", GENERATORS)
def test_neighbouring_draws_are_independent(generator: str) -> None:
    # Correlations of independent draws have standard deviation 1/sqrt(n); 5 of them. Draws of a pair share their
    # radius: squares and absolute values would show it.
    x = sample(generator, 3)
    limit = 5 / math.sqrt(N_DRAWS / 2)
    for a, b in ((x[::2], x[1::2]), (x[1:-1:2], x[2::2]), (x[:-2:2], x[2::2]), (x, sample(generator, 4))):
        for transformed in (lambda v: v, np.abs, np.square, np.sign):
            assert abs(np.corrcoef(transformed(a), transformed(b))[0, 1]) < limit
    # Kolmogorov-Smirnov, false alarm 1e-3: the angle of a pair is uniform on the whole circle.
    angle = np.arctan2(x[1::2], x[::2])
    assert stats.kstest(angle, stats.uniform(-math.pi, 2 * math.pi).cdf).pvalue > 1e-3


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


@pytest.mark.parametrize("generator", GENERATORS)
@pytest.mark.parametrize("first", [0, 1, 255, 700])
@pytest.mark.parametrize("n", [0, 1, 2, 255, 256, 257, 1000])
def test_a_draw_depends_on_its_number_only(generator: str, first: int, n: int) -> None:
    whole = sample(generator, 6, 2000)
    assert np.array_equal(sample(generator, 6, n, first), whole[first : first + n])


def test_same_bits_without_the_compiler() -> None:
    code = (
        "import numpy as np\n"
        "from dprl.privacy.mechanisms.gaussian import Gaussian, fill_gaussian\n"
        "for code in (0, 1):\n"
        "    for n in (300, 301):\n"
        "        out = np.empty(n)\n"
        "        key = np.array([code, 5, 0x9E3779B97F4A7C15, 1, 2], dtype=np.uint64)\n"
        "        fill_gaussian(out, Gaussian(3.0).noise(key), np.uint64(4))\n"
        "        print(' '.join(float(x).hex() for x in out))\n"
    )
    printed_both_ways(code)


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
    with pytest.raises(ValueError, match=r"^scale must be finite and above 0"):
        Gaussian(scale)


def test_the_kernels_see_what_the_mechanism_says_and_the_key_is_not_shown() -> None:
    noise = Gaussian(2.5).noise(key("chacha20", 123456789))
    assert (noise.law, noise.scale, noise.bound, noise.table.size) == (Gaussian.law, 2.5, 0.0, 0)
    assert "123456789" not in repr(noise)
