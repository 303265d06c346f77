"""Distributions of the loss keep both masses, and their sums are never rounded down."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dprl.privacy.accounting.amplification import ShuffledLoss
from dprl.privacy.accounting.closed_forms import ZCDP, GaussianDP, PrivacyCurve, RandomizedResponses
from dprl.privacy.accounting.discrete_gaussians import DiscreteGaussianLoss
from dprl.privacy.accounting.losses import Losses, SummedLosses, laplace_losses, laplace_step, losses_of

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
