"""Randomizers of vectors: the contract of all of them, then the two that clip and add noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dprl.privacy.accounting.closed_forms import GaussianDP
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import (
    GRID,
    ClippedGaussian,
    ClippedLaplace,
    VectorMechanism,
)
from dprl.privacy.randomness.streams import Streams
from tests.privacy.clipped_vectors import clipped, whole_units
from tests.privacy.sending import estimated, randomized
from tests.without_compiler import printed_without_compiler

DIMENSION, CLIP = 12, 0.5
KEY = Streams(0, "gradients").key("user_noise")
VECTOR = np.linspace(-4.0, 7.0, DIMENSION)


def _mechanisms() -> dict[str, VectorMechanism]:
    return {
        "clipped_laplace": ClippedLaplace.calibrated(1.5, 0.0, DIMENSION, CLIP),
        "clipped_laplace grid": ClippedLaplace.calibrated(1.5, 0.0, DIMENSION, CLIP, exact=True),
        "clipped_gaussian": ClippedGaussian.calibrated(1.5, 1e-5, DIMENSION, CLIP),
        "clipped_gaussian grid": ClippedGaussian.calibrated(1.5, 1e-5, DIMENSION, CLIP, exact=True),
        "projected_random_sign": ProjectedRandomSign.calibrated(5.0, 0.0, DIMENSION, CLIP),
        "privunit": PrivUnit.calibrated(1.5, 0.0, DIMENSION),
    }


MECHANISMS = _mechanisms()


@pytest.fixture(params=sorted(MECHANISMS))
def mechanism(request: pytest.FixtureRequest) -> VectorMechanism:
    return MECHANISMS[request.param]


STRANGE = {
    "nan": np.full(DIMENSION, math.nan),
    "nan of 0 / 0 on x86": np.array([-math.nan, *[1.0] * (DIMENSION - 1)]),
    "inf": np.full(DIMENSION, math.inf),
    "zero": np.zeros(DIMENSION),
    "huge": np.where(np.arange(DIMENSION) % 2, 1.7e308, -1.7e308),
    "tiny": np.full(DIMENSION, 5e-324),
    "mixed": np.array([math.nan, math.inf, -math.inf, 1e300, -1e-300, 0.0, 1.0, -1.0, 2.0, 3.0, 4.0, 5.0]),
}


@pytest.mark.parametrize("name", sorted(STRANGE))
def test_whatever_the_vector_a_message_of_the_same_form_is_sent(mechanism: VectorMechanism, name: str) -> None:
    message = randomized(mechanism, STRANGE[name], KEY, 3)
    assert message.shape == (mechanism.message_length,)
    assert message.dtype == np.float64
    assert np.all(np.isfinite(message))
    assert np.all(np.isfinite(estimated(mechanism, [message])))


def test_numbers_that_are_not_finite_count_as_zero(mechanism: VectorMechanism) -> None:
    vector = STRANGE["mixed"]
    zeroed = np.where(np.isfinite(vector), vector, 0.0)
    for number in range(20):
        given = vector.copy()
        assert np.array_equal(randomized(mechanism, given, KEY, number), randomized(mechanism, zeroed, KEY, number))
        assert np.array_equal(given, vector, equal_nan=True)


def test_a_message_is_a_function_of_stream_and_number(mechanism: VectorMechanism) -> None:
    vector = VECTOR
    messages = [randomized(mechanism, vector, KEY, number) for number in range(200)]
    assert np.array_equal(randomized(mechanism, vector, KEY, 7), messages[7])
    other = Streams(1, "gradients").key("user_noise")
    assert not np.array_equal(randomized(mechanism, vector, other, 7), messages[7])
    assert len({message.tobytes() for message in messages}) == len(messages)


@pytest.mark.parametrize("name", sorted(name for name in MECHANISMS if name.startswith("clipped")))
def test_additive_noise_of_neighbouring_numbers_shares_no_word(name: str) -> None:
    # Messages of zero, one after the other, are one stretch of the stream's noise.
    mechanism = MECHANISMS[name]
    noise = mechanism.vector_noise(KEY)
    messages = np.concatenate([randomized(mechanism, np.zeros(DIMENSION), KEY, number) for number in range(5)])
    stretch = np.empty(5 * DIMENSION)
    fill_noise(stretch, noise.noise, np.uint64(0))
    assert np.array_equal(messages, stretch * (noise.grid or 1.0))
    assert noise.submissions * noise.draws <= 2**53


@pytest.mark.parametrize("number", [-1, 2**60])
def test_numbers_outside_of_the_stream_are_refused(mechanism: VectorMechanism, number: int) -> None:
    with pytest.raises(ValueError, match="number must lie in"):
        randomized(mechanism, np.zeros(DIMENSION), KEY, number)


def test_another_shape_is_refused(mechanism: VectorMechanism) -> None:
    with pytest.raises(ValueError, match="message and vector must be as long as the mechanism says"):
        randomized(mechanism, np.zeros(DIMENSION + 1), KEY, 0)


@pytest.mark.parametrize("name", ["clipped_laplace", "clipped_gaussian grid", "projected_random_sign", "privunit"])
def test_the_estimate_is_unbiased_and_its_noise_as_large_as_stated(name: str) -> None:
    # 20 000 messages: every coordinate's mean within 6 standard errors (false-alarm rate below 1e-7), the mean squared
    # norm within 4 % (10 standard errors or more). 6000 where exact arithmetic draws 72 000 numbers for them: 7.
    mechanism, n = MECHANISMS[name], 6000 if name.endswith("grid") else 20_000
    vector = np.linspace(-1.0, 1.5, DIMENSION)
    vector *= 1.0 / np.linalg.norm(vector) if name.startswith("privunit") else 0.02
    estimates = estimated(mechanism, [randomized(mechanism, vector, KEY, i) for i in range(n)])
    # The paper's estimate of random signs has the mean d_hat tanh(x / 2) g.
    gain = 1.0
    if isinstance(mechanism, ProjectedRandomSign):
        gain = mechanism.projections * math.tanh(mechanism.bit.epsilon / 2.0)
    errors = estimates / gain - vector
    assert np.all(np.abs(errors.mean(axis=0)) < 6 * errors.std(axis=0) / math.sqrt(n) + 1e-4)
    measured = math.sqrt(np.mean(np.sum(errors**2, axis=1)))
    if name == "projected_random_sign":
        bits = mechanism.message_length - 2
        exact = math.sqrt((mechanism.noise_norm / gain) ** 2 - np.sum(vector**2) / bits)
        assert measured == pytest.approx(exact, rel=0.02)
        assert measured < mechanism.noise_norm / gain * 1.02
    else:
        assert measured == pytest.approx(mechanism.noise_norm, rel=0.02)


def test_messages_without_the_compiler_are_the_same() -> None:
    code = (
        "from tests.privacy.mechanisms.test_gradients import KEY, MECHANISMS, VECTOR, randomized\n"
        "for name, mechanism in sorted(MECHANISMS.items()):\n"
        "    print(*(float(x).hex() for x in randomized(mechanism, VECTOR, KEY, 5)))\n"
    )
    lines = printed_without_compiler(code).strip().split("\n")
    for line, (_, mechanism) in zip(lines, sorted(MECHANISMS.items()), strict=True):
        there = np.array([float.fromhex(x) for x in line.split()])
        # Bits may differ, because the two may take logarithms from different libraries.
        np.testing.assert_allclose(there, randomized(mechanism, VECTOR, KEY, 5), rtol=1e-12, atol=1e-15)


def _noise(mechanism: VectorMechanism, n: int) -> np.ndarray:
    vector = np.zeros(mechanism.dimension)
    return np.concatenate([randomized(mechanism, vector, KEY, i) for i in range(n)])


@pytest.mark.parametrize("exact", [False, True])
def test_laplace_noise_has_the_right_scale_and_no_other(exact: bool) -> None:
    # Kolmogorov-Smirnov on 60 000 numbers at a fixed seed; false-alarm rate of the acceptance 1e-3.
    mechanism = ClippedLaplace.calibrated(2.0, 0.0, DIMENSION, CLIP, exact)
    assert mechanism.scale == pytest.approx(CLIP / 2.0, rel=1e-5)
    x = _noise(mechanism, 5000)
    assert stats.kstest(x, stats.laplace(scale=CLIP / 2.0).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(x, stats.laplace(scale=CLIP / 2.0 * factor).cdf).pvalue < 1e-50


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 2.0, 5.0, 10.0])
@pytest.mark.parametrize("exact", [False, True])
def test_guarantee_and_scale_are_inverse(epsilon: float, exact: bool) -> None:
    laplace = ClippedLaplace.calibrated(epsilon, 0.0, 112, 0.01, exact).curve()
    assert laplace.pure_epsilon == pytest.approx(epsilon, rel=1e-12)
    curve = ClippedGaussian.calibrated(epsilon, 1e-5, 112, 0.01, exact).curve()
    assert curve.delta(epsilon) <= 1e-5
    assert curve.epsilon(1e-5) == pytest.approx(epsilon, rel=1e-6)


def test_the_sensitivity_is_the_diameter_of_the_ball() -> None:
    sigma = ClippedGaussian.calibrated(1.0, 1e-5, 3, 2.0).scale
    assert ClippedGaussian.calibrated(1.0, 1e-5, 3, 2.0).curve() == GaussianDP(2.0 / sigma)
    far, near = (clipped(np.array([x, 0.0, 0.0]), 1.0, True) for x in (9.0, -9.0))
    assert np.linalg.norm(far - near) == 2.0


def test_worst_laplace_likelihood_ratio_is_epsilon_and_is_attained() -> None:
    mechanism = ClippedLaplace.calibrated(1.3, 0.0, DIMENSION, CLIP)
    rng = np.random.default_rng(1)

    def log_density(x: np.ndarray, vector: np.ndarray) -> float:
        centre = clipped(vector, CLIP / 2, False)
        return float(np.sum(stats.laplace.logpdf(x, loc=centre, scale=mechanism.scale)))

    ratios = []
    for _ in range(500):
        one, other = (rng.standard_t(1.5, DIMENSION) * 10.0 ** rng.uniform(-3, 3) for _ in range(2))
        x = rng.laplace(scale=mechanism.scale * 3, size=DIMENSION)
        ratios.append(log_density(x, one) - log_density(x, other))
    assert max(ratios) <= 1.3 + 1e-12
    axis = np.eye(DIMENSION)[0] * 7.0
    assert log_density(axis, axis) - log_density(axis, -axis) == pytest.approx(1.3)


@pytest.mark.parametrize("squared", [False, True])
def test_clipping_shrinks_into_the_ball_and_leaves_what_is_inside(squared: bool) -> None:
    rng, order = np.random.default_rng(2), 2 if squared else 1
    inside = np.array([0.1, -0.2, 0.05])
    assert np.array_equal(clipped(inside, 1.0, squared), inside)
    for _ in range(300):
        vector = rng.standard_t(1.2, 40) * 10.0 ** rng.uniform(-5, 200)
        shrunk = clipped(vector, 0.75, squared)
        assert np.linalg.norm(shrunk, order) <= 0.75 * (1 + 1e-14)
        if np.linalg.norm(vector / np.abs(vector).max(), order) * np.abs(vector).max() > 0.75:
            assert np.linalg.norm(shrunk, order) == pytest.approx(0.75)
            np.testing.assert_allclose(shrunk / shrunk[0], vector / vector[0], rtol=1e-12)


@pytest.mark.parametrize("squared", [False, True])
def test_rounding_towards_zero_never_leaves_the_integer_ball(squared: bool) -> None:
    rng = np.random.default_rng(3)
    for trial in range(2000):
        d = int(rng.integers(1, 30))
        radius = int(rng.integers(1, 40)) if trial % 2 else int(rng.integers(2**19, 2**23))
        vector = rng.integers(-9, 10, d).astype(float) if trial % 3 else rng.standard_t(1.3, d) * 1e9
        units = whole_units(vector, radius, 2.0**-7, squared)
        size = sum(int(u) ** 2 for u in units) if squared else sum(abs(int(u)) for u in units)
        assert size <= (radius**2 if squared else radius)
        centre = clipped(vector, radius * 2.0**-7, squared)
        assert np.all(np.abs(units * 2.0**-7) <= np.abs(centre))
        # One unit of rounding, and one that the check in integers may have taken.
        assert np.all(np.abs(units * 2.0**-7 - centre) < 2 * 2.0**-7)


def test_units_are_taken_off_until_the_norm_is_right_in_whole_numbers() -> None:
    """In float64 the norm of this vector is 2^28, and it is not clipped."""
    units = whole_units(np.append(np.ones(8), 2.0**28), 2**28, 1.0, True)
    assert units.tolist() == [0] * 8 + [2**28]


@pytest.mark.parametrize("kind", [ClippedLaplace, ClippedGaussian])
def test_on_a_grid_every_number_is_a_multiple_of_it(kind: type[ClippedLaplace] | type[ClippedGaussian]) -> None:
    mechanism = kind.calibrated(1.0, 0.0 if kind is ClippedLaplace else 1e-5, DIMENSION, 0.01, exact=True)
    assert mechanism.arithmetic == GRID
    assert math.frexp(mechanism.grid)[0] == 0.5
    assert 1.0 <= mechanism.additive.scale / 2**kind.grid_bits < 2.0
    vector, silent = np.linspace(-0.001, 0.002, DIMENSION), np.zeros(DIMENSION)
    units = whole_units(vector, mechanism.radius_units, mechanism.grid, mechanism.norm == "l2")
    for number in range(50):
        message = randomized(mechanism, vector, KEY, number) / mechanism.grid
        assert np.array_equal(message, np.rint(message))
        assert np.array_equal(message - units, randomized(mechanism, silent, KEY, number) / mechanism.grid)


@pytest.mark.parametrize(("clip", "size"), [(6e-184, 1e139), (1e-180, 1e139), (1e-170, 1e139), (1e-300, 1e30)])
@pytest.mark.parametrize("squared", [False, True])
def test_a_small_ball_holds_what_is_shrunk_into_it(clip: float, size: float, squared: bool) -> None:
    # The factor between the two is not a normal number; 12 roundings are below 1e-14.
    shrunk = clipped(np.full(DIMENSION, size), clip / 2, squared) / clip
    norm = np.linalg.norm(shrunk) if squared else np.abs(shrunk).sum()
    assert norm == pytest.approx(0.5, rel=1e-14)
