"""Uniform and bounded Laplace noise for Gram matrices, the law without noise, and certificates without clips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.papers.claims import changed_numbers, mass_outside
from dprl.privacy.base import LedgerError
from dprl.privacy.mechanisms import GRAMS
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.gram import (
    GramBoundedLaplace,
    GramGaussian,
    GramLaplace,
    GramRelease,
    GramUniform,
    l1_upper,
    printed_laplace_scale,
    printed_uniform_bound,
)
from dprl.privacy.noise_design import Release
from dprl.privacy.randomness.streams import Streams
from tests.privacy.sending import gram_messages

KEY = Streams(0, "gram").key("user_noise")
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


@pytest.mark.parametrize("kind", ["gram_uniform", "gram_bounded_laplace"])
def test_noise_has_the_right_scale_everywhere_and_no_other(kind: str) -> None:
    # Kolmogorov-Smirnov on 4000 numbers or more at a fixed seed; false-alarm rate of each acceptance 1e-6.
    scales = (9.0, 6.0, 3.0, 2.0, 0.0)
    mechanism: GramUniform | GramBoundedLaplace = GramUniform(SMALL, scales)
    if kind == "gram_bounded_laplace":
        mechanism = GramBoundedLaplace(SMALL, scales, tuple(2.0 * b for b in scales))
    shown = gram_messages(mechanism, np.zeros(4), 0.0, 2, KEY, 700)
    numbers = np.array([np.concatenate([message[np.triu_indices(4)], message[4]]) for message in shown]).ravel()

    def law(factor: float) -> Any:
        b = 6.0 * factor
        if kind == "gram_uniform":
            return stats.uniform(-b, 2 * b).cdf
        edge = 0.5 * math.exp(-2.0)
        return lambda x: np.clip((stats.laplace(scale=b).cdf(x) - edge) / (1 - 2 * edge), 0.0, 1.0)

    assert stats.kstest(numbers, law(1.0)).pvalue > 1e-6
    for wrong in (2 / 3, 3 / 2):
        assert stats.kstest(numbers, law(wrong)).pvalue < 1e-10
    assert numbers.std() == pytest.approx(mechanism.deviations[1], rel=0.03)
    assert mechanism.deviations[4] == 0.0
    assert np.max(np.abs(numbers)) <= (6.0 if kind == "gram_uniform" else 12.0)


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
