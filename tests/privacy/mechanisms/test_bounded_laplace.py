"""Bounded Laplace noise: the law by its exact distribution function, and Lemma E against exact integration."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import integrate

from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.bounded import BoundedLaplace, fill_signed_uniform
from dprl.privacy.mechanisms.sampling import fill_noise
from dprl.privacy.randomness.streams import Streams

N_DRAWS = 200_000
SCALE, BOUND = 2.0, 6.0


def sample(seed: int, n: int = N_DRAWS, scale: float = SCALE, bound: float = BOUND, first: int = 0) -> np.ndarray:
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
        expected = -SCALE * np.sign(w) * np.log1p(-np.abs(w) * -np.expm1(-bound / SCALE))
        assert np.max(np.abs(sample(3, bound=bound) / expected - 1)) < 1e-15


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
def test_no_shift_with_these_norms_is_worse_than_the_stated_one(l1: float, linf: float, cells: int) -> None:
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
