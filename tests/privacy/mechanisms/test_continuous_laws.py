"""Laplace, Gaussian, uniform and bounded Laplace noise: draws by their formulas, and curves by integration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from dprl.privacy.accounting.closed_forms import largest_loss, worst_outside
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform, fill_signed_uniform
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.bits import fill_bits
from dprl.privacy.randomness.streams import Streams
from tests.privacy.keys import key_of
from tests.privacy.laplace_losses import of_laplace_losses

# The Laplace mechanism: the right distribution and no other, the same bits without the compiler, the right epsilon.

SCALE = 3.0
GENERATORS = {"splitmix64": 0, "chacha20": 1}


def key(generator: str, seed: int) -> np.ndarray:
    return key_of(GENERATORS[generator], seed, 0x9E3779B97F4A7C15, 1, 2)


def sample(generator: str, seed: int, n: int, first: int = 0) -> np.ndarray:
    out = np.empty(n)
    fill_noise(out, Laplace(SCALE).noise(key(generator, seed)), np.uint64(first))
    return out


@pytest.mark.parametrize("generator", GENERATORS)
def test_a_draw_is_the_inverted_distribution_function_of_its_bits(generator: str) -> None:
    bits = np.empty(5000, dtype=np.uint64)
    fill_bits(bits, key(generator, 3), np.uint64(11))
    u = ((bits >> np.uint64(12)) + 0.5) / 2.0**52
    expected = np.where(bits & np.uint64(1), -1.0, 1.0) * -SCALE * np.log(u)
    assert np.allclose(sample(generator, 3, 5000, first=11), expected, rtol=1e-15, atol=0.0)


def test_a_delta_never_costs_noise_and_its_scale_proves_it() -> None:
    for epsilon, delta, sensitivity in (
        (1.0, 1e-6, Sensitivity.of_cells(20)),
        (1.0, 1e-6, Sensitivity.of_cells(400)),
        (0.5, 1e-3, Sensitivity(1.0, 1.0, 1.0, 50)),
    ):
        mechanism = Laplace.calibrated(epsilon, delta, sensitivity)
        assert mechanism.scale <= Laplace.calibrated(epsilon, 0.0, sensitivity).scale
        assert mechanism.curve(sensitivity).delta(epsilon) <= delta * (1 + 1e-6)
        less = Laplace(mechanism.scale * 0.99)
        assert less.curve(sensitivity).delta(epsilon) > delta
    composed = Laplace.calibrated(1.0, 1e-6, Sensitivity.of_cells(400))
    # Randomized responses of the same loss lose more.
    assert 0.99 < largest_loss(1.0, 1e-6, 400) * composed.scale < 1.0
    assert of_laplace_losses(400, 1.0 / composed.scale, 1e-6) == pytest.approx(1.0, rel=1e-4)


def test_the_kernels_see_what_the_mechanism_says_and_the_key_is_not_shown() -> None:
    noise = Laplace(2.5).noise(key("chacha20", 123456789))
    assert (noise.law, noise.scale, noise.bound, noise.table.size) == (Laplace.law, 2.5, 0.0, 0)
    assert "123456789" not in repr(noise)


# The Gaussian mechanism: the right distribution and no other, independent pairs, exact calibration.


def gaussian_sample(generator: str, seed: int, n: int, first: int = 0) -> np.ndarray:
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
    x = gaussian_sample(generator, 5, 20_000) / SCALE
    assert np.max(np.abs(x[::2] - radius * np.cos(angle) * np.where(low, -1, 1))) < 1e-14
    assert np.max(np.abs(x[1::2] - radius * np.sin(angle) * np.where(next_to_low, -1, 1))) < 1e-14


def test_the_sensitivity_in_l2_decides() -> None:
    many = Gaussian.calibrated(1.0, 1e-5, Sensitivity.of_cells(100))
    one = Gaussian.calibrated(1.0, 1e-5, Sensitivity(100.0, 1.0, 1.0, 100))
    assert many.scale == pytest.approx(10 * one.scale)
    assert many.variance == pytest.approx(many.scale**2)


# Uniform noise: its law, and its certified delta against exact integration over all shifts.

BOUND = 3.0


def delta_of(shift: np.ndarray, bound: float) -> float:
    """1 - prod (1 - |v_j| / 2a)_+, as in Lemma E."""
    return float(1.0 - np.prod(np.maximum(0.0, 1.0 - np.abs(shift) / (2.0 * bound))))


def test_delta_of_one_number_is_the_mass_that_only_one_neighbour_reaches() -> None:
    # Two densities 1/2a on [-a, a] and [v-a, v+a]: the positive part of p - e^epsilon q has mass v/2a at every epsilon.
    curve = Uniform(BOUND).curve(Sensitivity.of_cells(1, 0.6))
    for epsilon in (0.0, 1.0, 50.0):
        assert curve.delta(epsilon) == pytest.approx(0.1)
    assert curve.pure_epsilon == math.inf
    assert curve.epsilon(0.0999) == math.inf
    assert curve.epsilon(0.1001) == 0.0


@pytest.mark.parametrize(("l1", "linf", "cells"), [(1.0, 1.0, 1), (2.0, 1.0, 3), (1.5, 0.6, 4), (3.0, 0.4, 3)])
def test_no_shift_with_these_norms_is_worse_than_the_stated_one(l1: float, linf: float, cells: int) -> None:
    bound = 0.9
    # All shifts on a grid, rounded into the norms' balls.
    steps = np.linspace(0.0, linf, 13)
    shifts = [np.array(v) for v in itertools.product(steps, repeat=cells) if sum(v) <= l1 + 1e-12]
    worst = max(delta_of(v, bound) for v in shifts)
    stated = Uniform(bound).curve(Sensitivity(l1, l1, linf, cells)).delta(0.0)
    assert worst <= stated + 1e-12
    # The concentrated shift is within a step of the grid.
    assert stated <= worst + (linf / 12) / (2 * bound) + 1e-12


def test_a_shift_beyond_the_support_leaves_nothing() -> None:
    curve = Uniform(0.5).curve(Sensitivity.of_cells(2, 1.0))
    assert curve.delta(9.0) == 1.0
    assert curve.epsilon(0.5) == math.inf
    assert worst_outside(Sensitivity.of_cells(1), lambda _: -math.inf) == 1.0


def test_printed_bound_misses_its_delta_by_orders_of_magnitude() -> None:
    # [TH23] Theorem 5 at H = 5, delta = 1e-5: one coordinate of stage 1 shifts by 32.
    bound = 4 * 5**3 * math.sqrt(math.log(2 * 5 / 1e-5))
    assert bound == pytest.approx(1858.5, abs=0.05)
    assert Uniform(bound).curve(Sensitivity.of_cells(1, 32.0)).delta(0.0) == pytest.approx(8.6e-3, rel=2e-3)


# Bounded Laplace noise: the law by its exact distribution function, and Lemma E against exact integration.

N_DRAWS = 200_000
WIDTH, LIMIT = 2.0, 6.0


def bounded_sample(
    seed: int, n: int = N_DRAWS, scale: float = WIDTH, bound: float = LIMIT, first: int = 0
) -> np.ndarray:
    out = np.empty(n)
    key = Streams(seed, "test").key("user_noise")
    fill_noise(out, BoundedLaplace(scale, bound).noise(key), np.uint64(first))
    return out


def density(x: np.ndarray, scale: float, bound: float) -> np.ndarray:
    return np.where(np.abs(x) <= bound, np.exp(-np.abs(x) / scale) / (2 * scale * -np.expm1(-bound / scale)), 0.0)


def integrated_delta(epsilon: float, shift: float, scale: float, bound: float) -> float:
    """Positive part of p(x) - e^epsilon p(x - shift), integrated piece by piece."""
    kinks = sorted({-bound, shift - bound, 0.0, (shift - epsilon * scale) / 2, shift, bound})
    kinks = [x for x in kinks if -bound <= x <= bound]

    def gap(x: float) -> float:
        # Half-open supports: the ends have no mass.
        p, q = density(np.array([x, x - shift]), scale, bound)
        return max(0.0, float(p - math.exp(epsilon) * q))

    return float(sum(integrate.quad(gap, a, b, epsabs=1e-13)[0] for a, b in itertools.pairwise(kinks)))


def test_a_draw_is_the_inverse_of_the_distribution_to_the_last_digits() -> None:
    key, w = Streams(3, "test").key("user_noise"), np.empty(N_DRAWS)
    fill_signed_uniform(w, key, np.uint64(0))
    for bound in (2e-9, 3.0, 70.0):
        expected = -WIDTH * np.sign(w) * np.log1p(-np.abs(w) * -np.expm1(-bound / WIDTH))
        assert np.max(np.abs(bounded_sample(3, bound=bound) / expected - 1)) < 1e-15


@pytest.mark.parametrize("ratio", [1e-6, 0.3, 1.0, 3.0, 12.0, 800.0])
def test_variance_is_zeta(ratio: float) -> None:
    zeta = integrate.quad(lambda t: t * t * math.exp(-t * ratio), 0, 1, epsabs=0)[0] * ratio**3 / -math.expm1(-ratio)
    if ratio == 800.0:
        zeta = 2.0
    assert BoundedLaplace(2.0, 2.0 * ratio).variance == pytest.approx(4.0 * zeta, rel=1e-9)
    if ratio >= 0.3:
        q = math.exp(-ratio)
        printed = 2 / (1 - q) - ((ratio + 1) ** 2 + 1) * q / (1 - q)
        assert zeta == pytest.approx(printed, rel=1e-9)


@pytest.mark.parametrize(
    ("scale", "bound", "shift"), [(1.0, 1.0, 0.1), (1.0, 5.0, 0.1), (2.0, 3.0, 2.5), (1.0, 1.0, 1.7)]
)
def test_lemma_e_is_the_integral_in_one_dimension(scale: float, bound: float, shift: float) -> None:
    curve = BoundedLaplace(scale, bound).curve(Sensitivity.of_cells(1, shift))
    for epsilon in (shift / scale, shift / scale + 1.0):
        assert curve.delta(epsilon) == pytest.approx(integrated_delta(epsilon, shift, scale, bound), rel=1e-8)
    for part in (0.0, 0.5, 0.9):
        epsilon = part * shift / scale
        assert curve.delta(epsilon) >= integrated_delta(epsilon, shift, scale, bound)
    assert curve.pure_epsilon == math.inf


def test_lemma_e_is_the_integral_in_two_dimensions() -> None:
    # On a midpoint grid whose cells the supports cut exactly; delta at an epsilon above the ratio.
    scale, bound, shift = 1.0, 1.5, np.array([0.5, 0.25])
    x = -bound + (np.arange(2400) + 0.5) * (2 * bound / 2400)
    p, width = density(x, scale, bound), 2 * bound / 2400
    q = [density(x - v, scale, bound) for v in shift]
    epsilon = float(shift.sum()) / scale
    gap = np.maximum(0.0, np.outer(p, p) - math.exp(epsilon) * np.outer(q[0], q[1]))
    stated = 1 - math.prod(math.expm1(v / scale) / (2 * math.expm1(bound / scale)) * -1 + 1 for v in shift)
    assert float(gap.sum()) * width**2 == pytest.approx(stated, rel=1e-5)
    curve = BoundedLaplace(scale, bound).curve(Sensitivity(0.75, 0.75, 0.5, 2))
    assert curve.delta(epsilon) == pytest.approx(stated, rel=1e-12)


@pytest.mark.parametrize(("l1", "linf", "cells"), [(1.0, 1.0, 1), (2.0, 1.0, 3), (1.5, 0.6, 4), (2.4, 1.6, 3)])
def test_no_shift_is_worse_for_bounded_laplace_noise(l1: float, linf: float, cells: int) -> None:
    noise = BoundedLaplace(0.7, 1.0)
    steps = np.linspace(0.0, linf, 13)
    single = {v: noise.curve(Sensitivity.of_cells(1, v)).delta(99.0) if v else 0.0 for v in steps}
    shifts = [v for v in itertools.product(steps, repeat=cells) if sum(v) <= l1 + 1e-12]
    worst = max(1 - math.prod(1 - single[v] for v in shift) for shift in shifts)
    stated = noise.curve(Sensitivity(l1, l1, linf, cells)).delta(99.0)
    assert worst <= stated + 1e-12
    assert stated <= worst + (linf / 12) * noise._log_common(0.0) + (linf / 12) / 0.7 + 1e-12


def stated(epsilon: float, delta: float, sensitivity: Sensitivity) -> BoundedLaplace:
    scale = sensitivity.l1 / epsilon
    return BoundedLaplace(scale, scale * math.log1p(math.expm1(epsilon) / (2.0 * delta)))


def test_the_stated_bound_is_the_least_in_one_dimension() -> None:
    one = Sensitivity.of_cells(1)
    noise = stated(1.0, 1e-5, one)
    assert noise.bound / noise.scale == pytest.approx(11.36, abs=0.005)
    assert noise.curve(one).delta(1.0) == pytest.approx(1e-5, rel=1e-9)
    assert BoundedLaplace(noise.scale, noise.bound * 0.999).curve(one).delta(1.0) > 1.005e-5
