"""PrivUnit2: its certified loss, the law of its messages, and its accuracy."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dprl.privacy.mechanisms.privunit import PrivUnit, cap_mass
from dprl.privacy.mechanisms.privunit_kernels import fill_normals
from dprl.privacy.randomness.streams import Streams
from tests.privacy.sending import randomized
from tests.without_compiler import printed_without_compiler

KEY = Streams(0, "privunit").key("user_noise")


def _messages(mechanism: PrivUnit, vector: np.ndarray, n: int, first: int = 0) -> np.ndarray:
    return np.array([randomized(mechanism, vector, KEY, first + i) for i in range(n)])


def _direction(d: int, seed: int = 0) -> np.ndarray:
    vector = np.random.default_rng(seed).normal(size=d)
    return vector / np.linalg.norm(vector)


@pytest.mark.parametrize(("d", "gamma"), [(3, 0.25), (5, 0.5), (11, 0.123), (41, 0.75), (113, 0.3), (113, 1e-3)])
def test_cap_mass_is_what_rational_arithmetic_says(d: int, gamma: float) -> None:
    # For odd d the density of t is a polynomial, proportional to (1 - t^2)^k with k = (d - 3) / 2.
    k = (d - 3) // 2

    def integral(t: Fraction) -> Fraction:
        return sum(
            (Fraction((-1) ** i * math.comb(k, i), 2 * i + 1) * t ** (2 * i + 1) for i in range(k + 1)), Fraction(0)
        )

    exact = (integral(Fraction(1)) - integral(Fraction(gamma))) / (2 * integral(Fraction(1)))
    # The certificate allows for 1e-9.
    assert cap_mass(d, gamma) == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize("d", [2, 3, 4, 16, 112, 5000])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 3.0, 8.0])
def test_the_certified_loss_is_what_was_asked_for_from_below(d: int, epsilon: float) -> None:
    mechanism = PrivUnit.calibrated(epsilon, 0.0, d)
    p, q = mechanism.probability, cap_mass(d, mechanism.threshold)
    loss = math.log(p / (1 - p)) + math.log((1 - q) / q)
    assert loss < mechanism.epsilon <= epsilon
    assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-7, abs=1e-7)
    assert mechanism.curve().pure_epsilon == mechanism.epsilon
    assert p * 2**53 == int(p * 2**53)


def precise_loss(mechanism: PrivUnit) -> mpmath.mpf:
    """ln(p / (1 - p)) + ln((1 - q) / q) in 40 digits; 1 - 2q is the mass of the belt."""
    with mpmath.workdps(40):
        p, half = mpmath.mpf(mechanism.probability), mpmath.mpf(1) / 2
        b = mpmath.mpf(mechanism.dimension - 1) / 2
        belt = mpmath.betainc(half, b, 0, mpmath.mpf(mechanism.threshold) ** 2, regularized=True)
        return mpmath.log(p / (1 - p)) + mpmath.log1p(belt) - mpmath.log1p(-belt)


@pytest.mark.parametrize(
    ("d", "gamma"), [(29, 1.48e-9), (626_894, 6.8e-9), (2, 1e-15), (1_000_000, 1e-12), (5, 1e-200)]
)
def test_small_thresholds_are_certified_from_above(d: int, gamma: float) -> None:
    mechanism = PrivUnit(d, 0.5, gamma)
    assert 0.0 < precise_loss(mechanism) <= mechanism.epsilon
    assert mechanism.epsilon == pytest.approx(float(precise_loss(mechanism)), rel=1e-8, abs=1e-140)


def test_the_certified_loss_is_right_in_any_dimension() -> None:
    rng = np.random.default_rng(0)
    for _ in range(40):
        d = int(10 ** rng.uniform(math.log10(2), 5))
        gamma = min(0.9, 10 ** rng.uniform(-14, 0) * 10 / math.sqrt(d))
        mechanism = PrivUnit(d, 0.5 + 0.4 * rng.random() ** 9, gamma)
        assert precise_loss(mechanism) <= mechanism.epsilon
        assert mechanism.epsilon == pytest.approx(float(precise_loss(mechanism)), rel=1e-8)


@pytest.mark.parametrize("d", [2, 7, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize("epsilon", [1.1e-6, 3e-6, 1e-4])
def test_a_small_request_is_met(d: int, epsilon: float) -> None:
    mechanism = PrivUnit.calibrated(epsilon, 0.0, d)
    assert precise_loss(mechanism) <= mechanism.epsilon <= epsilon
    assert mechanism.epsilon == pytest.approx(epsilon, rel=1e-7)
    # The mean of a message is close to the largest that the loss allows in the direction of v.
    assert mechanism.gain == pytest.approx(epsilon * PrivUnit.calibrated(1e-2, 0.0, d).gain / 1e-2, rel=1e-2)


@pytest.mark.parametrize("epsilon", [1.0, 4.0, 12.0])
def test_no_other_split_of_epsilon_has_less_noise(epsilon: float) -> None:
    best = PrivUnit.calibrated(epsilon, 0.0, 30).noise_norm
    for gamma in np.linspace(0.0, 0.99, 400):
        q = cap_mass(30, gamma)
        coin = epsilon - math.log((1 - q) / q)
        if coin > 0:
            assert PrivUnit(30, 1 / (1 + math.exp(-coin)), float(gamma)).noise_norm > best * (1 - 1e-7)


@pytest.mark.parametrize(("d", "epsilon"), [(2, 2.0), (3, 4.0), (9, 1.0), (112, 3.0)])
def test_messages_have_the_law_that_is_stated(d: int, epsilon: float) -> None:
    # Kolmogorov-Smirnov within and outside the cap, of <x, v> and of a direction orthogonal to v, and the coin at 4.5
    # standard deviations, at fixed seeds: false-alarm rate below 1e-4 each.
    mechanism, v, n = PrivUnit.calibrated(epsilon, 0.0, d), _direction(d), 8000
    x = _messages(mechanism, 17.0 * v, n)
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1.0, rtol=1e-12)
    t, gamma, p = x @ v, mechanism.threshold, mechanism.probability
    inside = t >= gamma
    assert abs(inside.sum() - n * p) < 4.5 * math.sqrt(n * p * (1 - p))
    marginal, q = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2), cap_mass(d, gamma)
    assert stats.kstest(t[inside], lambda s: (marginal.cdf(s) - (1 - q)) / q).pvalue > 1e-4
    assert stats.kstest(t[~inside], lambda s: marginal.cdf(s) / (1 - q)).pvalue > 1e-4
    across = np.linalg.qr(np.column_stack([v, _direction(d, 1)]))[0][:, 1]
    sideways = (x @ across) / np.sqrt(1 - t**2)
    if d == 2:
        assert abs(np.sum(sideways > 0) - n / 2) < 4.5 * math.sqrt(n) / 2
    else:
        assert stats.kstest(sideways, stats.beta((d - 2) / 2, (d - 2) / 2, loc=-1, scale=2).cdf).pvalue > 1e-4


def test_the_message_of_a_vector_without_direction_is_a_uniform_direction() -> None:
    # 5 standard errors for each of the means of 5 coordinates; false-alarm rate of Kolmogorov-Smirnov 1e-4 each.
    mechanism = PrivUnit.calibrated(3.0, 0.0, 5)
    x = _messages(mechanism, np.array([math.nan, 0.0, math.inf, 0.0, -math.inf]), 10_000)
    assert np.all(np.abs(x.mean(axis=0)) < 5 / math.sqrt(5 * 10_000))
    for coordinate in x.T:
        assert stats.kstest(coordinate, stats.beta(2, 2, loc=-1, scale=2).cdf).pvalue > 1e-4


def test_radii_are_accurate_relative_to_their_size() -> None:
    # By the lowest bit of a word, u or 1 - u is in (0, 1/2); both ends, the place where formulas change, and random u.
    rng, m = np.random.default_rng(2), 500
    words = rng.integers(0, 2**64, size=3 * m, dtype=np.uint64)
    edges = [0, 1, 2, 3, 2**40, 2**40 + 1, 2**64 - 1, 2**64 - 2]
    edges += [int((1 - math.sqrt(0.5)) * 2**64) * 2 + i for i in range(-3000, 3000, 1500)]
    words[: len(edges)] = np.array(edges, dtype=np.uint64)
    normals = np.empty(2 * m)
    fill_normals(normals, words)
    for i in range(m):
        word, low = int(words[i]), int(words[m + i])
        with mpmath.workdps(50):
            u = mpmath.mpf(word >> 1) / 2**64 + (low + mpmath.mpf(1) / 2) / mpmath.mpf(2) ** 128
            radius = mpmath.sqrt(-2 * mpmath.log(u if word & 1 else 1 - u))
            assert abs(mpmath.hypot(normals[i], normals[m + i]) / radius - 1) < 2e-15


def test_a_vector_without_direction_takes_the_same_draws() -> None:
    code = (
        "import numpy as np\n"
        "from dprl.privacy.mechanisms import privunit_kernels\n"
        "from dprl.privacy.mechanisms.privunit import PrivUnit\n"
        "from dprl.privacy.randomness.streams import Streams\n"
        "from tests.privacy.sending import randomized\n"
        "drawn, kernel = [], privunit_kernels.fill_bits\n"
        "def recorded(out, key, first):\n"
        "    drawn.append((out.size, int(first)))\n"
        "    kernel(out, key, first)\n"
        "privunit_kernels.fill_bits = recorded\n"
        "mechanism, key = PrivUnit.calibrated(2.0, 0.0, 7), Streams(0, 'x').key('user_noise')\n"
        "for vector in (np.eye(7)[0], np.zeros(7), np.full(7, np.nan)):\n"
        "    drawn.clear()\n"
        "    randomized(mechanism, vector, key, 3)\n"
        "    print(drawn)\n"
    )
    lines = printed_without_compiler(code).splitlines()
    assert len(lines) == 3
    assert len(set(lines)) == 1
