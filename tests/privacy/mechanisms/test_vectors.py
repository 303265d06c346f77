"""Randomizers of vectors: their contract, clipped noise, PrivUnit2 and projected random signs."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy import stats

from dprl.privacy.mechanisms.privunit import PrivUnit, cap_mass
from dprl.privacy.mechanisms.privunit_kernels import fill_normals
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.random_sign_kernels import fill_projection
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.mechanisms.vectors import GRID, ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.randomness.bits import CHACHA20, fill_bits
from dprl.privacy.randomness.exact import LIMBS, RESERVED
from dprl.privacy.randomness.streams import Streams
from tests.privacy.clipped_vectors import clipped, whole_units
from tests.privacy.sending import estimated, randomized, randomized_all
from tests.without_compiler import printed_without_compiler

# Randomizers of vectors: the contract of all of them, then the two that clip and add noise.

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
    messages = randomized_all(mechanism, vector, KEY, range(200))
    assert np.array_equal(randomized(mechanism, vector, KEY, 7), messages[7])
    other = Streams(1, "gradients").key("user_noise")
    assert not np.array_equal(randomized(mechanism, vector, other, 7), messages[7])
    assert len({message.tobytes() for message in messages}) == len(messages)


@pytest.mark.parametrize("name", sorted(name for name in MECHANISMS if name.startswith("clipped")))
def test_additive_noise_of_neighbouring_numbers_shares_no_word(name: str) -> None:
    # Messages of zero, one after the other, are one stretch of the stream's noise.
    mechanism = MECHANISMS[name]
    noise = mechanism.vector_noise(KEY)
    messages = _noise(mechanism, 5)
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
    estimates = estimated(mechanism, randomized_all(mechanism, vector, KEY, range(n)))
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
        "from tests.privacy.mechanisms.test_vectors import KEY, MECHANISMS, VECTOR, randomized\n"
        "for name, mechanism in sorted(MECHANISMS.items()):\n"
        "    print(*(float(x).hex() for x in randomized(mechanism, VECTOR, KEY, 5)))\n"
    )
    lines = printed_without_compiler(code).strip().split("\n")
    for line, (_, mechanism) in zip(lines, sorted(MECHANISMS.items()), strict=True):
        there = np.array([float.fromhex(x) for x in line.split()])
        # Bits may differ, because the two may take logarithms from different libraries.
        np.testing.assert_allclose(there, randomized(mechanism, VECTOR, KEY, 5), rtol=1e-12, atol=1e-15)


def _noise(mechanism: VectorMechanism, n: int) -> np.ndarray:
    return randomized_all(mechanism, np.zeros(mechanism.dimension), KEY, range(n)).ravel()


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


# PrivUnit2: its certified loss, the law of its messages, and its accuracy.

CAP_KEY = Streams(0, "privunit").key("user_noise")


def _messages(mechanism: PrivUnit, vector: np.ndarray, n: int, first: int = 0) -> np.ndarray:
    return randomized_all(mechanism, vector, CAP_KEY, range(first, first + n))


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


@pytest.mark.parametrize(("d", "gamma"), [(29, 1.48e-9), (626_894, 6.8e-9), (2, 1e-15), (10**6, 1e-12), (5, 1e-200)])
def test_small_thresholds_are_certified_from_above(d: int, gamma: float) -> None:
    mechanism = PrivUnit(d, 0.5, gamma)
    assert 0.0 < precise_loss(mechanism) <= mechanism.epsilon
    assert mechanism.epsilon == pytest.approx(float(precise_loss(mechanism)), rel=1e-8, abs=1e-140)


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


# Projected random sign: its law, the guarantee of its bits, and the accuracy of its estimate.

SIGN_KEY = Streams(0, "projected random sign").key("user_noise")


def _seed(message: np.ndarray) -> int:
    return (int(message[-2]) << 32) | int(message[-1])


def _projection(mechanism: ProjectedRandomSign, message: np.ndarray) -> np.ndarray:
    seed = np.uint64(_seed(message))
    rows = np.empty((mechanism.projections, mechanism.dimension))
    for i, row in enumerate(rows):
        fill_projection(row, seed, i)
    return rows


@pytest.mark.parametrize(
    ("epsilon", "dimension", "projections"),
    [(1.0, 112, 1), (2.5, 112, 1), (5.0, 112, 2), (10.0, 112, 4), (10.0, 3, 3), (0.1, 1, 1), (7.49, 112, 2)],
)
def test_projections_are_the_papers(epsilon: float, dimension: int, projections: int) -> None:
    assert ProjectedRandomSign.calibrated(epsilon, 0.0, dimension, 1.0).projections == projections


def test_bits_together_lose_at_most_epsilon_also_in_rational_arithmetic() -> None:
    for epsilon in np.linspace(0.05, 60.0, 400):
        mechanism = ProjectedRandomSign.calibrated(float(epsilon), 0.0, 112, 1.0)
        assert Fraction(mechanism.bit.epsilon) * mechanism.projections <= Fraction(float(epsilon)) * (
            1 + Fraction(1, 2**53)
        )
        assert mechanism.epsilon <= epsilon
        assert mechanism.curve().pure_epsilon == pytest.approx(epsilon, rel=1e-15)


def test_entries_of_the_projection_are_sparse_signs() -> None:
    # Chi-square on 400 000 entries at a fixed seed, false-alarm rate 1e-3; correlation of two rows at 5 deviations.
    rows = np.empty((4, 100_000))
    for i, row in enumerate(rows):
        fill_projection(row, np.uint64(987654321), i)
    values, counts = np.unique(rows, return_counts=True)
    np.testing.assert_allclose(values, [-math.sqrt(3), 0.0, math.sqrt(3)])
    assert stats.chisquare(counts, rows.size * np.array([1, 4, 1]) / 6).pvalue > 1e-3
    assert abs(np.mean(rows[0] * rows[1])) < 5 / math.sqrt(100_000)


def _words(key: np.ndarray, first: int, n: int) -> list[int]:
    words = np.empty(n, dtype=np.uint64)
    fill_bits(words, key, np.uint64(first))
    return [int(word) for word in words]


@pytest.mark.parametrize("key", [SIGN_KEY, np.array([CHACHA20, 1, 2, 3, 4])])
def test_every_word_serves_one_purpose_of_one_submission(key: np.ndarray) -> None:
    # A message assembled in Python from the random words that it should use.
    mechanism, rng = ProjectedRandomSign.calibrated(10.0, 0.0, 20, 1.0), np.random.default_rng(5)
    n, noise = mechanism.projections, mechanism.vector_noise(key)
    truth = sum(int(limb) << (64 * (LIMBS - 1 - i)) for i, limb in enumerate(mechanism.bit.table()))
    used: dict[str, list[int]] = {"roundings": [], "coins": [], "spare": []}
    for number in (0, 1, 2, 3, noise.submissions - 1):
        vector = rng.normal(size=20) * 0.1
        message = randomized(mechanism, vector, key, number)
        assert [_seed(message)] == _words(noise.open_key, number, 1)
        first = number * noise.draws
        assert noise.draws == 2 * n
        mean = 0.5 + 0.5 * np.clip(_projection(mechanism, message) @ vector, -1.0, 1.0)
        rounded = np.array(_words(key, first, n)) / 2.0**64 < mean
        told = np.array([word < truth >> (64 * (LIMBS - 1)) for word in _words(key, first + n, n)])
        assert message[:n].tolist() == np.where(told, rounded, ~rounded).astype(float).tolist()
        used["roundings"] += range(first, first + n)
        used["coins"] += range(first + n, first + 2 * n)
        ties = ((first + n + i) * (LIMBS - 1) + j + int(RESERVED) for i in range(n) for j in range(LIMBS - 1))
        used["spare"] += ties
    numbers = [number for purpose in used.values() for number in purpose]
    assert len(set(numbers)) == len(numbers)
    assert max(used["coins"]) < int(RESERVED) <= max(used["spare"]) < 2**64
    assert noise.open_key[0] == key[0]
    assert not set(noise.open_key[1:].tolist()) & set(key[1:].tolist())


@pytest.mark.parametrize(("epsilon", "clip"), [(1.0, 2.0), (5.0, 1.0), (10.0, 0.5)])
def test_bits_have_the_probability_of_equation_24_and_no_other(epsilon: float, clip: float) -> None:
    # The score sum (bit - P)(2P - 1) / sd is standard normal for the right P; 4.5 deviations (false-alarm rate 7e-6).
    # With 2/3 or 3/2 of epsilon it is beyond 6.
    mechanism = ProjectedRandomSign.calibrated(epsilon, 0.0, 15, clip)
    vector = np.random.default_rng(1).normal(size=15) * 0.4
    bits, u = [], []
    for message in randomized_all(mechanism, vector, SIGN_KEY, range(20_000)):
        bits.append(message[:-2])
        u.append(np.clip(_projection(mechanism, message) @ vector, -clip, clip))

    def score(x: float) -> float:
        low = 1 / (math.exp(x) + 1)
        chance = low + (np.array(u) + clip) / (2 * clip) * (1 - 2 * low)
        weight = 2 * chance - 1
        return float(np.sum((np.array(bits) - chance) * weight) / np.sqrt(np.sum(chance * (1 - chance) * weight**2)))

    x = mechanism.bit.epsilon
    assert abs(score(x)) < 4.5
    assert abs(score(x * 2 / 3)) > 6
    assert abs(score(x * 3 / 2)) > 6


def test_worst_ratio_is_attained_by_opposite_saturated_vectors() -> None:
    # Given M, a bit is told with `truth` for u = C and flipped for u = -C; counts at 5 standard deviations.
    # A row of M without an entry, where both vectors project to 0, has probability (2/3)^60.
    mechanism = ProjectedRandomSign.calibrated(5.0, 0.0, 60, 1e-6)
    truth = 1.0 / (1.0 + math.exp(-mechanism.bit.epsilon))
    assert mechanism.projections * math.log(truth / (1 - truth)) == pytest.approx(5.0)
    vector, n = np.random.default_rng(2).normal(size=60), 4000
    for sign in (1.0, -1.0):
        told = 0
        for message in randomized_all(mechanism, sign * vector, SIGN_KEY, range(n)):
            told += int(np.sum((2 * message[:-2] - 1) * np.sign(_projection(mechanism, message) @ vector) == sign))
        assert abs(told - 2 * n * truth) < 5 * math.sqrt(2 * n * truth * (1 - truth))


def test_an_estimate_is_the_papers() -> None:
    paper = ProjectedRandomSign.calibrated(5.0, 0.0, 9, 0.7)
    message = randomized(paper, np.ones(9), SIGN_KEY, 0)
    by_hand = _projection(paper, message).T @ (0.7 * (2 * message[:-2] - 1))
    np.testing.assert_allclose(estimated(paper, [message])[0], by_hand, rtol=1e-13, atol=1e-15)
