"""Distributions of the loss of Laplace and discrete Gaussian noise, against dp-accounting and sums over the laws."""

from __future__ import annotations

import math
import tracemalloc
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st

from dprl.privacy.accounting.amplification import ShuffledLoss
from dprl.privacy.accounting.closed_forms import (
    ZCDP,
    GaussianDP,
    PrivacyCurve,
    RandomizedResponses,
    gaussian_delta,
    zcdp_delta,
)
from dprl.privacy.accounting.composition import compose, repeat
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss, RoundedGaussianLoss
from dprl.privacy.accounting.losses import LaplaceLoss, Losses, SummedLosses, laplace_losses, laplace_step, losses_of
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms import ADDITIVE
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.laplace import Laplace
from tests import reference_accountant as reference

# Distributions of the loss keep both masses, and their sums are never rounded down.

LOSSES = [
    losses_of(RandomizedResponses(1, 0.1)),
    losses_of(RandomizedResponses(3, 1.5, informative=0.5)),
    laplace_losses(0.02),
    laplace_losses(2.0),
    losses_of(GaussianDP(0.3)),
    losses_of(DiscreteGaussianLoss(12, 30.0)),
    losses_of(ShuffledLoss(1.5, 10_000)),
    losses_of(RandomizedResponses(200, 0.1)),
]


@pytest.mark.parametrize("losses", LOSSES)
@pytest.mark.parametrize("share", [0.0, 1.0, 0.13])
def test_both_worlds_have_mass_one_also_on_a_grid(losses: Losses, share: float) -> None:
    if share > 0.0:
        _, losses = losses.on_grid(share * math.sqrt(losses.variance))
    assert float(np.sum(losses.mass)) + losses.lost == pytest.approx(1.0, abs=1e-8)
    # e^-loss turns one world's probabilities into the other's.
    assert float(losses.mass @ np.exp(-losses.losses)) == pytest.approx(1.0, abs=1e-8)
    assert np.all(losses.mass >= 0)
    assert losses.lost < 1e-25


@pytest.mark.parametrize(
    "curve", [GaussianDP(0.2), GaussianDP(3.0), ZCDP(0.02), DiscreteGaussianLoss(4, 20.0)], ids=repr
)
def test_a_rebuilt_loss_has_the_deltas_of_its_curve_rounded_up(curve: PrivacyCurve) -> None:
    losses = losses_of(curve)
    for epsilon in np.linspace(0.0, curve.epsilon(1e-12), 40):
        rebuilt = float(losses.mass @ -np.expm1(np.minimum(epsilon - losses.losses, 0.0))) + losses.lost
        # A bound that is not convex in e^epsilon, zCDP's near 0, becomes tighter.
        assert curve.delta(epsilon) * (1.0 - 1e-9) <= rebuilt or isinstance(curve, ZCDP)
        assert rebuilt <= curve.delta(epsilon) * 1.02


@pytest.mark.parametrize("parts", [[(2, 0.3)], [(150, 0.02), (3, 1.7)], [(40, 0.1), (8, 0.5), (1, 2.0)]])
def test_sums_by_fft_are_direct_sums_rounded_up(parts: list[tuple[int, float]]) -> None:
    """From 0 to just below the largest sum, also where one change of measure serves many epsilons."""
    step = laplace_step(max(parts, key=lambda part: part[0] * part[1])[1])
    found = SummedLosses([(laplace_losses(each), n) for n, each in parts], step)
    grids = [(*laplace_losses(each).on_grid(step), n) for n, each in parts]
    mass, start = np.ones(1), sum(n * first for first, _, n in grids)
    for grid in (grid for _, grid, n in grids for _ in range(n)):
        mass = np.convolve(mass, grid.mass)
    losses = (start + np.arange(mass.size)) * step
    largest = sum(n * each for n, each in parts)
    lost = sum(n * grid.lost for _, grid, n in grids)
    for share in (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.9999, 1.0 - 1e-7):
        above = losses > share * largest
        exact = float(mass[above] @ -np.expm1(share * largest - losses[above])) + lost
        # The error of an FFT is relative to the probability of losses above epsilon.
        allowed = exact * 1e-6 + 1e-11 * float(mass[above].sum())
        assert exact * (1.0 - 1e-13) <= found.delta(share * largest) <= exact + allowed


# Tight curves of Laplace and discrete Gaussian noise against dp_accounting and against sums over the laws.

POOLED = Sensitivity(10.0, math.sqrt(50.0), 5.0, 10)
"""Two counts that change by 5: the old and the new cell of a user whose H = 5 steps are pooled."""
LAWS = ("laplace", "discrete_laplace", "gaussian", "discrete_gaussian")


@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 60), total=st.floats(0.3, 12.0), delta=st.sampled_from([1e-3, 1e-5]))
def test_laplace_losses_are_those_of_dp_accounting(n: int, total: float, delta: float) -> None:
    """Never below the truth, which lies between the peer's two bounds, and within 1 % of it."""
    a = total / n
    ours = LaplaceLoss(((n, a),), total).epsilon(delta)
    above, below = (
        peer.from_laplace_mechanism(1.0 / a, pessimistic_estimate=up, value_discretization_interval=2e-4)
        .self_compose(n)
        .get_epsilon_for_delta(delta)
        for up in (True, False)
    )
    assert below * (1.0 - 1e-6) - 1e-6 <= ours <= above * 1.01 + 1e-4


@pytest.mark.parametrize("a", [0.2, 1.0, 5.0])
def test_one_number_has_the_delta_of_its_two_densities(a: float) -> None:
    y, step = np.linspace(-50.0, 50.0, 400_001, retstep=True)
    for epsilon in (0.0, 0.3 * a, 0.9 * a):
        more = 0.5 * np.exp(-np.abs(y)) - 0.5 * np.exp(epsilon - np.abs(y - a))
        truth = step * np.sum(np.maximum(0.0, more))
        found = LaplaceLoss(((1, a),), a).delta(epsilon)
        assert found == pytest.approx(truth, rel=1e-3)
        # Rounded up, and by little.
        assert 1.0 < found / -math.expm1((epsilon - a) / 2.0) < 1.0 + 1e-8


@pytest.mark.parametrize("parts", [(), ((0, 1.0),), ((1, 0.0),), ((2, 1.0), (1, math.inf))])
def test_losses_are_numbers_above_0(parts: tuple[tuple[int, float], ...]) -> None:
    with pytest.raises(ValueError, match="parts must be numbers of losses above 0, at least one, got "):
        LaplaceLoss(parts, 1.0)


@pytest.mark.parametrize(
    "parts",
    [
        ((93_068, 1.0 / 300.0),),
        ((20_000, 0.002), (1, 1.0)),
        ((1_000_000, 0.0005), (3, 0.5)),
        ((1, 1.0), *((1000, 0.001 * i) for i in range(1, 9))),
        ((1, 2.0), *((9, 0.01 + 1e-5 * i) for i in range(50))),
    ],
    ids=["equal", "one large", "a million", "9 kinds", "50 kinds"],
)
def test_many_losses_and_many_kinds_cost_what_they_cost(parts: tuple[tuple[int, float], ...]) -> None:
    found = LaplaceLoss(parts, math.fsum(n * a for n, a in parts)).epsilon(1e-6)
    truth = reference.epsilon(tuple((("laplace", a, math.inf), n) for n, a in parts), 1e-6)
    assert truth * (1.0 - 1e-4) <= found <= truth * 1.002


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("change", [POOLED, POOLED.joined(3), POOLED.repeated(4), Sensitivity.of_cells(10).joined(4)])
@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (3.0, 1e-6), (0.5, 1e-3)])
def test_no_calibrated_noise_proves_more_than_was_asked_for(
    law: str, change: Sensitivity, epsilon: float, delta: float
) -> None:
    curve = ADDITIVE[law].calibrated(epsilon, delta, change).curve(change)
    assert curve.delta(epsilon) <= delta
    assert 0.999 * epsilon <= curve.epsilon(delta) <= epsilon


@pytest.mark.parametrize(("scale", "change"), [(2.0, (3, 2)), (6.0, (5, 5)), (1.5, (2, 2)), (4.0, (4, 1))])
def test_discrete_laplace_noise_on_larger_changes_is_bounded(scale: float, change: tuple[int, int]) -> None:
    """Against the sum over the joint law of both counts."""
    z = np.arange(-120, 121)
    there = np.exp(-np.abs(z) / scale)
    there /= there.sum()
    moved = [np.exp(-np.abs(z - v) / scale) * there.max() for v in change]
    l1, largest = float(sum(change)), float(max(change))
    curve = ADDITIVE["discrete_laplace"](scale).curve(Sensitivity(l1, math.hypot(*change), largest, 2))  # type: ignore[call-arg]
    for epsilon in (0.0, 0.2 * l1 / scale, 0.7 * l1 / scale):
        joint = np.outer(there, there) - math.exp(epsilon) * np.outer(*moved)
        assert np.maximum(joint, 0.0).sum() <= curve.delta(epsilon) * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize(
    ("l2", "sigma", "cells", "epsilon"),
    [(1.0, 1.75, 1, 5.0), (3.0, 3.0, 2, 8.0), (4.0, 5.0, 1, 5.0), (10.0, 20.0, 2, 4.0)],
)
def test_rounded_gaussians_have_the_delta_that_is_proved(l2: float, sigma: float, cells: int, epsilon: float) -> None:
    """Against the two bounds of the proof at many slacks k: at most 2 % above the least, and never below it."""
    least = 1.0
    for k in np.logspace(-24, -3, 400):
        square = math.log(2.01 * 2.1 * cells / k) / (2.0 * math.pi**2)
        if square < sigma**2:
            mu = l2 / math.sqrt(sigma**2 - square)
            least = min(least, k + gaussian_delta(epsilon, mu), math.exp(k) * gaussian_delta(epsilon - 2.0 * k, mu))
    assert least <= RoundedGaussianLoss(l2, sigma, cells).delta(epsilon) <= 1.02 * least


@settings(max_examples=20, deadline=None)
@given(sigma=st.floats(1.75, 12.0), n=st.integers(1, 12), center=st.floats(0.0, 1.0), at=st.floats(0.0, 4.0))
def test_sums_of_unit_changes_are_bounded_around_every_center(sigma: float, n: int, center: float, at: float) -> None:
    z = np.arange(-math.ceil(14 * sigma), math.ceil(14 * sigma) + 1) + center
    mass = np.exp(-0.5 * (z / sigma) ** 2)
    mass /= mass.sum()
    total, noise = np.ones(1), n * z[0]
    for _ in range(n):
        total = np.convolve(total, mass)
    loss = (n - 2.0 * (noise + np.arange(total.size))) / (2.0 * sigma * sigma)
    mu = math.sqrt(n) / sigma
    epsilon = mu * mu / 2.0 + at * mu
    exact = float(total @ -np.expm1(-np.maximum(loss - epsilon, 0.0)))
    assert exact <= RoundedGaussianLoss.of_unit_changes(n, sigma).delta(epsilon) * (1.0 + 1e-9) + 1e-13


def test_composition_keeps_the_kinds() -> None:
    once = Laplace(20.0).curve(Sensitivity.of_cells(10))
    both = compose([once, Laplace(10.0).curve(Sensitivity.of_cells(4))])
    assert isinstance(both, LaplaceLoss)
    assert both.parts == ((10, 0.05), (4, 0.1))
    assert repeat(once, 2).epsilon(1e-5) == pytest.approx(Laplace(20.0).curve(Sensitivity.of_cells(20)).epsilon(1e-5))
    curve = DiscreteGaussian(300.0).curve(POOLED)
    four, joint = repeat(curve, 4), compose([curve] * 4)
    assert joint.epsilon(1e-6) == pytest.approx(four.epsilon(1e-6), rel=1e-4)
    mixed = compose([once, curve])
    assert once.epsilon(1e-6) < mixed.epsilon(1e-6) < once.pure_epsilon + curve.epsilon(1e-6)


@pytest.mark.parametrize("delta", [1e-6, 1e-13, 1e-20])
@pytest.mark.parametrize(("mu", "n", "a"), [(1.0, 2, 0.5), (0.06, 2, 0.02), (0.3, 10, 0.1), (1.5, 50, 0.1)])
def test_gaussian_beside_laplace_noise_is_never_below_the_truth(mu: float, n: int, a: float, delta: float) -> None:
    """By a contour integral: a peer's FFT has few digits left at small deltas."""
    found = compose([GaussianDP(mu), LaplaceLoss(((n, a),), n * a)]).epsilon(delta)
    truth = reference.delta(((("gaussian", mu * mu), 1), (("laplace", a, math.inf), n)), found)
    assert 0.95 * delta < truth <= delta


@pytest.mark.parametrize(
    ("scale", "copies"),
    # In the last ones only the remainder has little noise.
    [*product((0.26, 0.28, 0.4, 0.6, 1.0, 1.7, 2.5), (1, 2, 3)), (1.75, 30), (1.75, 40), (2.5, 90)],
)
@pytest.mark.parametrize("offset", [0.0, 0.25, 0.5])
def test_joined_gaussian_noise_around_any_number_is_bounded(scale: float, copies: int, offset: float) -> None:
    if copies == 1:
        offset = 0.0
    z, variance = np.arange(-200, 201), scale**2 / copies
    one, other = (np.exp(-((z - offset - change) ** 2) / (2.0 * variance)) for change in (0, 1))
    curve = DiscreteGaussian(scale).curve(Sensitivity.of_cells(1).joined(copies))
    for epsilon in (0.0, 0.1, 1.0, 3.0, 5.0, 8.0, 12.0, 20.0):
        for p, q in ((one / one.sum(), other / other.sum()), (other / other.sum(), one / one.sum())):
            true = float(np.maximum(p - math.exp(epsilon) * q, 0.0).sum())
            assert curve.delta(epsilon) >= true * (1.0 - 1e-7) - 1e-15


def test_huge_losses_take_little_memory() -> None:
    """Huge losses have nearly no variance; a grid as fine as their deviation had 10^9 points."""
    tracemalloc.start()
    curve = LaplaceLoss(((2, 3.6e8), (2, 1.1e3)), 2 * 3.6e8 + 2 * 1.1e3)
    assert 0.99 * curve.pure_epsilon < curve.epsilon(1e-6) <= curve.pure_epsilon
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e9
    assert 0.0 < LaplaceLoss(((20, 362850.43563037267),), 20 * 362850.43563037267).delta(1.0) <= 1.0


# The curve of discrete Gaussian noise, against convolution, dp-accounting and the continuous Gaussian.


def convolved_delta(epsilon: float, n: int, sigma: float) -> float:
    reach = int(14 * sigma + 3)
    z = np.arange(-reach, reach + 1.0)
    one = np.exp(-z * z / (2 * sigma * sigma))
    one /= one.sum()
    total = one
    for _ in range(n - 1):
        total = np.convolve(total, one)
    losses = (n - 2 * np.arange(-n * reach, n * reach + 1.0)) / (2 * sigma * sigma)
    return float(np.sum(total * -np.expm1(np.minimum(epsilon - losses, 0.0))))


@pytest.mark.parametrize(
    ("epsilon", "n", "sigma"),
    [(1, 1, 0.5), (1, 1, 4.5), (1, 2, 3), (0, 5, 3), (2, 7, 3.1), (3, 40, 10), (1, 50, 9.5), (0.1, 3, 30), (9, 300, 3)],
)
def test_equals_convolution(epsilon: float, n: int, sigma: float) -> None:
    ours, convolved = DiscreteGaussianLoss(n, sigma).delta(epsilon), convolved_delta(epsilon, n, sigma)
    assert ours == pytest.approx(convolved, rel=3e-9)
    assert ours >= convolved


def test_wide_sums_are_bounded_by_the_integral_closely() -> None:
    n, sigma = 3000, 1e4 / math.sqrt(3000)
    below, above = (DiscreteGaussianLoss(n, sigma * factor).delta(1.0) for factor in (1 - 1e-9, 1 + 1e-9))
    assert below <= above <= below * (1 + 2e-3)
    n = 10**6
    curve = DiscreteGaussianLoss(n, 4300.0)
    assert curve.epsilon(1e-6) >= GaussianDP(math.sqrt(n) / 4300.0).epsilon(1e-6)
    assert curve.epsilon(1e-6) == pytest.approx(GaussianDP(math.sqrt(n) / 4300.0).epsilon(1e-6), rel=1e-5)


def test_hardly_any_privacy_is_left_of_many_releases_with_little_noise() -> None:
    # The mean of the loss is 555, then 5000, many standard deviations above epsilon.
    assert DiscreteGaussianLoss(10_000, 3.0).delta(1.0) == pytest.approx(1.0)
    assert DiscreteGaussianLoss(10**6, 10.01).delta(1.0) == pytest.approx(1.0)
    assert DiscreteGaussianLoss(10_000, 3.0).epsilon(1e-6) == pytest.approx(GaussianDP(100 / 3).epsilon(1e-6), rel=1e-5)


def test_too_little_noise_falls_back_on_zcdp() -> None:
    assert DiscreteGaussianLoss(2, 1.5).delta(3.0) == zcdp_delta(3.0, 2 / (2 * 1.5**2))
    assert DiscreteGaussianLoss(2, 1.5).epsilon(1e-6) == pytest.approx(ZCDP(2 / (2 * 1.5**2)).epsilon(1e-6), rel=1e-8)


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"^delta must be above 0"):
        DiscreteGaussian.calibrated(1.0, 0.0, Sensitivity.of_cells(3))
    with pytest.raises(ValueError, match=r"^n must be at least 1"):
        DiscreteGaussianLoss(0, 1.0)
    for sigma in (0.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=r"^sigma must be above 0 and finite, got"):
            DiscreteGaussianLoss(1, sigma)
