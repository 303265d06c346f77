"""Gram matrices with right-hand sides: sensitivities, guarantees of printed and certified scales, and messages."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dprl.papers.claims import changed_numbers, mass_outside
from dprl.privacy.base import LedgerError
from dprl.privacy.mechanisms import GRAMS, gram
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.gram import (
    GramBoundedLaplace,
    GramGaussian,
    GramLaplace,
    GramRelease,
    GramUniform,
    gram_sensitivity,
    l1_upper,
    printed_laplace_scale,
    printed_uniform_bound,
)
from dprl.privacy.noise_design import Release
from dprl.privacy.randomness.streams import Streams
from tests.privacy.sending import gram_messages

# Gram matrices with right-hand sides: sensitivities, the guarantees of printed and certified scales, and messages.

KEY = Streams(0, "gram").key("user_noise")
TWO_AGENTS, TEN_AGENTS = GramRelease.of_horizon(5, 4, 2), GramRelease.of_horizon(5, 50, 10)


def _upper(phi: np.ndarray, value: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (diagonal, strict upper triangle, right-hand side) of a user's statistics."""
    matrix = np.outer(phi, phi)
    return np.diag(matrix), matrix[np.triu_indices(len(phi), 1)], phi * value


def _difference(one: tuple[np.ndarray, float], other: tuple[np.ndarray, float]) -> tuple[np.ndarray, ...]:
    return tuple(a - b for a, b in zip(_upper(*one), _upper(*other), strict=True))


def _peak(matrix: np.ndarray, linear: np.ndarray) -> tuple[np.ndarray, float]:
    """Return x in the unit ball with the largest x^T matrix x + linear x, and that value, by its dual."""
    values, vectors = np.linalg.eigh(matrix)
    low, high = max(values[-1], 0.0), max(values[-1], 0.0) + np.linalg.norm(linear)
    for _ in range(40):
        middle = 0.5 * (low + high)
        x = vectors @ (vectors.T @ linear / (2.0 * (middle - values)))
        low, high = (middle, high) if np.linalg.norm(x) > 1.0 else (low, middle)
    return x, float(high + 0.25 * ((vectors.T @ linear) ** 2 / (high - values)).sum())


def _farthest(signs: np.ndarray) -> float:
    """Return the largest signed distance of two messages of the unit ball; signs float64[D, D], symmetric."""
    matrix, ones = (signs + np.diag(np.diag(signs))) / 2.0, np.ones(len(signs))
    return _peak(matrix, ones)[1] + _peak(-matrix, ones)[1]


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_no_signs_have_a_larger_distance_than_those_of_thresholds(d: int) -> None:
    rows, columns = np.triu_indices(d)
    found = 0.0
    for code in range(2**rows.size):
        signs = np.zeros((d, d))
        signs[rows, columns] = signs[columns, rows] = 1.0 - 2.0 * (code >> np.arange(rows.size) & 1)
        found = max(found, _farthest(signs))
    assert l1_upper(d) == pytest.approx(found, rel=1e-8)
    assert l1_upper(1) == pytest.approx(2.25, rel=1e-8)  # phi = 1, phi' = -1/2: |1 - 1/4| + 3/2


@pytest.mark.parametrize("d", [1, 2, 5, 8, 12, 13, 20, 50])
def test_the_l1_sensitivity_is_attained_up_to_dimension_twelve(d: int) -> None:
    best = 0.0
    for first in range(1, d + 1):
        # Coordinates of two kinds. Climb: the signs of a pair, the best pair for these signs, and so on.
        matrix = np.where(np.minimum.outer(np.arange(d), np.arange(d)) < first, 0.5, -0.5)
        for _ in range(5):
            matrix += np.diag(np.diag(matrix))
            phi, other = _peak(matrix, np.ones(d))[0], -_peak(-matrix, np.ones(d))[0]
            found = sum(np.abs(part).sum() for part in _difference((phi, 1.0), (other, 1.0)))
            best = max(best, found)
            matrix = np.sign(np.outer(phi, phi) - np.outer(other, other)) / 2.0
    assert best <= l1_upper(d)
    assert best >= l1_upper(d) * (1.0 - 1e-8 if d <= 12 else 0.965)


def test_the_bound_of_large_dimensions_is_above_the_exact_value(monkeypatch: pytest.MonkeyPatch) -> None:
    large = [gram._joint_bound(d) for d in range(10, 15)]
    monkeypatch.setattr(gram, "_MOST_EXACT", 14)
    exact = [gram.l1_upper.__wrapped__(d) for d in range(10, 15)]
    assert all(one <= other <= 1.04 * one for one, other in zip(exact, large, strict=True))


@pytest.mark.parametrize("d", [1, 2, 3, 4, 9, 30])
def test_no_pair_is_further_apart_than_the_sensitivity(d: int) -> None:
    m, rng = 2.0, np.random.default_rng(d)
    bound, largest = gram_sensitivity(d, m), np.zeros(4)
    for trial in range(4000):
        pair = []
        for _ in range(2):
            phi = rng.normal(size=d) if trial % 2 else rng.choice([-1.0, 1.0], d) * rng.random(d) ** rng.integers(0, 3)
            norm = m * (1.0 if trial % 3 else rng.random())
            pair.append((phi / np.linalg.norm(phi) * norm, m * rng.choice([0.0, 1.0, rng.random()])))
        diagonal, off_diagonal, vector = _difference(*pair)
        parts = np.concatenate([diagonal, off_diagonal, vector])
        frobenius = np.sqrt(np.sum(diagonal**2) + 2 * np.sum(off_diagonal**2) + np.sum(vector**2))
        matrix = np.max(np.abs(np.concatenate([diagonal, off_diagonal])))
        largest = np.maximum(largest, [np.abs(parts).sum(), frobenius, np.abs(parts).max(), matrix])
        assert parts.size == bound.cells
    slack = 1 + 1e-12
    assert largest[0] <= bound.l1 * slack
    assert largest[1] <= bound.l2 * slack
    assert largest[2] <= bound.linf * slack
    assert largest[3] <= m * m * slack


@pytest.mark.parametrize("d", [2, 4, 11])
def test_the_l2_bound_is_attained_at_cosine_minus_one_half(d: int) -> None:
    m = 2.0
    phi, other = np.zeros(d), np.zeros(d)
    # The difference of the Gram matrices is diagonal in this basis, so that the upper triangle attains it too.
    phi[:2], other[:2] = (
        m * np.array([math.cos(math.pi / 3), math.sin(math.pi / 3)]),
        m * np.array([0.5, -math.sqrt(0.75)]),
    )
    other[0] = m * 0.5
    assert phi @ other == pytest.approx(-m * m / 2)
    diagonal, off_diagonal, vector = _difference((phi, m), (other, m))
    frobenius = np.sum(diagonal**2) + 2 * np.sum(off_diagonal**2) + np.sum(vector**2)
    assert math.sqrt(frobenius) == pytest.approx(gram_sensitivity(d, m).l2)


def test_certified_scales() -> None:
    for release, sigma, b in ((TWO_AGENTS, 210.6, 393.16), (TEN_AGENTS, 470.9, 14003)):
        assert GramGaussian.calibrated(1.0, 1e-5, release, False).scales == pytest.approx((sigma,) * 5, rel=2e-4)
        assert GramLaplace.calibrated(1.0, 0.0, release, False).scales == pytest.approx((b,) * 5, rel=2e-5)
    by_stage = GramGaussian.calibrated(1.0, 1e-5, TWO_AGENTS).scales
    expected = [m * m * math.sqrt(4.5 * 2 * 4) / 0.2680511 for m in (4, 3, 2, 1, 0)]
    assert by_stage == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("stage_scales", [False, True])
@pytest.mark.parametrize(("epsilon", "delta"), [(0.3, 1e-6), (1.0, 1e-5), (6.0, 1e-3), (1.0, 0.0)])
def test_guarantee_and_scale_are_inverse(epsilon: float, delta: float, stage_scales: bool) -> None:
    laplace = GramLaplace.calibrated(epsilon, delta, TEN_AGENTS, stage_scales)
    if delta == 0.0:
        assert epsilon * 0.999 < laplace.curve().pure_epsilon <= epsilon
        return
    gaussian = GramGaussian.calibrated(epsilon, delta, TWO_AGENTS, stage_scales)
    for curve in (gaussian.curve(), laplace.curve()):
        assert curve.delta(epsilon) <= delta
        assert curve.epsilon(delta) > epsilon * 0.98


def _messages(mechanism: GramGaussian | GramLaplace, phi: np.ndarray, value: float, stage: int, n: int) -> np.ndarray:
    return gram_messages(mechanism, phi, value, stage, KEY, n)


def test_messages_are_symmetric_and_clipped_on_the_device() -> None:
    mechanism = GramLaplace.calibrated(1.0, 0.0, TWO_AGENTS, False)
    phi = np.array([30.0, -40.0, 0.0, 0.0])
    silent = _messages(mechanism, np.zeros(4), 0.0, 2, 20)
    shown = _messages(mechanism, phi, 99.0, 2, 20)
    assert np.array_equal(shown[:, :4], shown[:, :4].transpose(0, 2, 1))
    clipped = np.array([1.8, -2.4, 0.0, 0.0])
    tolerance = 1e-10
    for message, noise in zip(shown, silent, strict=True):
        np.testing.assert_allclose((message - noise)[:4], np.outer(clipped, clipped), atol=tolerance)
        np.testing.assert_allclose((message - noise)[4], clipped * 3.0, atol=tolerance)
    below = _messages(mechanism, phi, -99.0, 2, 3) - silent[:3]
    np.testing.assert_allclose(below[:, 4], np.tile(clipped * -3.0, (3, 1)), atol=tolerance)


# Uniform and bounded Laplace noise for Gram matrices, the law without noise, and certificates without clips.

SMALL, LARGE = GramRelease.of_horizon(5, 4, 2), GramRelease.of_horizon(5, 50, 10)
DELTA = 1e-5


def _l1(release: GramRelease) -> float:
    return release.n_messages * sum(m**2 for m in release.bounds) * l1_upper(release.dimension)


@pytest.mark.parametrize(("release", "attained"), [(SMALL, 0.0946), (LARGE, 0.974)])
def test_the_mass_of_uniform_noise_lies_between_the_pair_s_and_the_sum(release: GramRelease, attained: float) -> None:
    bound = printed_uniform_bound(5, DELTA)
    found = GramUniform(release, (bound,) * 5).curve()
    assert mass_outside(Uniform(bound), changed_numbers(release)) == pytest.approx(attained, abs=1e-3)
    for epsilon in (0.0, 1.0, 100.0):
        assert attained < found.delta(epsilon) <= min(1.0, _l1(release) / (2.0 * bound))
    assert found.pure_epsilon == found.epsilon(attained) == math.inf
    assert found.epsilon(0.999999) == 0.0


@pytest.mark.parametrize("multiple", [1.0, 3.0, 5.0])
@pytest.mark.parametrize("release", [SMALL, LARGE])
def test_the_mass_of_bounded_laplace_noise_lies_between_the_pair_s_and_one_number_s(
    release: GramRelease, multiple: float
) -> None:
    scale = printed_laplace_scale(5, release.dimension, 1.0)
    noise = GramBoundedLaplace(release, (scale,) * 5, (multiple * scale,) * 5)
    least = mass_outside(BoundedLaplace(scale, multiple * scale), changed_numbers(release))
    assert least < noise.mass_outside
    assert noise.curve().delta(math.inf) == pytest.approx(noise.mass_outside)
    assert noise.curve().pure_epsilon == math.inf
    ratio = _l1(release) / scale
    assert noise.curve().delta(ratio * (1 + 1e-12)) == pytest.approx(noise.mass_outside)
    # Superadditivity: all of the L1 norm in one number bounds it.
    assert noise.mass_outside <= math.expm1(ratio) / (2.0 * math.expm1(multiple))


def test_deviations_are_those_of_the_diagonal() -> None:
    gaussian = GramGaussian.calibrated(1.0, DELTA, SMALL)
    laplace = GramLaplace.calibrated(1.0, 0.0, SMALL)
    assert gaussian.deviations == pytest.approx(gaussian.scales)
    assert laplace.deviations == pytest.approx(math.sqrt(2.0) * np.array(laplace.scales))


@pytest.mark.parametrize("scale", [1.0, 1e12])
@pytest.mark.parametrize("kind", sorted(GRAMS))
def test_without_clips_nothing_is_proved_whatever_the_scale(kind: str, scale: float) -> None:
    release = GramRelease.of_horizon(4, 3, 2, clipped=False)
    more: dict[str, Any] = {"limits": (scale,) * 4} if kind == "gram_bounded_laplace" else {}
    mechanism: Any = GRAMS[kind](release, (scale,) * 4, **more)
    curve = mechanism.curve()
    assert (curve.pure_epsilon, curve.epsilon(0.5), curve.delta(1e6)) == (math.inf, math.inf, 1.0)
    assert "D7" in curve.method
    release_of = Release("statistics", mechanism, None, False, release.n_numbers, "seeded")
    assert release_of.curve() == curve
    for calibrated in (GramGaussian, GramLaplace):
        with pytest.raises(ValueError, match="release must be clipped for a guarantee"):
            calibrated.calibrated(1.0, DELTA, release)
    # What is sent is neither shrunk nor cut from below; noise for the same number is the same.
    phi = np.array([5.0, math.nan, -1.0])
    clean = np.array([5.0, 0.0, -1.0])
    one, two = (gram_messages(mechanism, x, v, 1, KEY, 1)[0] for x, v in ((phi, -7.0), (np.zeros(3), 0.0)))
    np.testing.assert_allclose((one - two)[:3], np.outer(clean, clean), atol=scale * 1e-14)
    np.testing.assert_allclose((one - two)[3], -7.0 * clean, atol=scale * 1e-14)


def test_raw_statistics_have_no_account() -> None:
    (message,) = gram_messages(SMALL, np.array([8.0, 0.0, 0.0, 0.0]), 9.0, 1, KEY, 1)
    assert message[0, 0] == message[4, 0] == 16.0
    with pytest.raises(LedgerError, match="cannot account for"):
        Release("statistics", SMALL, None, False, SMALL.n_numbers, "seeded")  # type: ignore[arg-type]


def test_isotropic_noise_is_less_off_the_diagonal_by_the_root_of_two() -> None:
    scales, off = (40.0, 30.0, 20.0, 10.0, 5.0), ~np.eye(4, dtype=np.bool_)
    plain, isotropic = (
        gram_messages(GramGaussian(TWO_AGENTS, scales, each), np.zeros(4), 0.0, 1, KEY, 3) for each in (False, True)
    )
    np.testing.assert_allclose(isotropic[:, :4][:, off], math.sqrt(0.5) * plain[:, :4][:, off], rtol=1e-14)
    np.testing.assert_array_equal(isotropic[:, :4][:, ~off], plain[:, :4][:, ~off])
    np.testing.assert_array_equal(isotropic[:, 4], plain[:, 4])
