"""Privacy loss distributions keep both masses, depend little on the grid step, and never round a sum down."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dprl.privacy.accounting import pld
from dprl.privacy.accounting.pld import (
    DISCRETE_GAUSSIAN,
    RESPONSES,
    Kind,
    SummedLosses,
    laplace_losses,
    laplace_step,
    losses_of,
)

MIXTURES = [
    ((Kind(RESPONSES, 0.1, 200), Kind(RESPONSES, 0.13, 90)), 0.0),
    ((Kind(RESPONSES, 0.05, 30), Kind(RESPONSES, 0.2, 40, 0.5)), 0.3),
    ((Kind(RESPONSES, 0.02, 900, 0.5), Kind(DISCRETE_GAUSSIAN, 30.0, 12)), 0.0),
    ((Kind(RESPONSES, 1.5, 2),), 1.0),
    ((Kind(RESPONSES, 0.3, 3), Kind(RESPONSES, 0.5, 4, 0.5)), 0.0),
]


@pytest.mark.parametrize(("kinds", "mu"), MIXTURES)
@pytest.mark.parametrize("rho", [0.0, 0.01])
def test_both_worlds_have_mass_one(kinds: tuple[Kind, ...], mu: float, rho: float) -> None:
    losses = losses_of(kinds, mu, rho)
    assert float(np.sum(losses.mass)) + losses.lost == pytest.approx(1.0, abs=1e-9)
    # e^-loss turns one world's probabilities into the other's.
    assert float(losses.mass @ np.exp(-losses.losses)) == pytest.approx(1.0, abs=1e-9)
    assert np.all(losses.mass >= 0)
    assert losses.lost < 1e-25


def test_few_losses_are_summed_one_by_one() -> None:
    """Each of five answers has the loss of its epsilon, or minus that."""
    losses = losses_of((Kind(RESPONSES, 0.3, 3), Kind(RESPONSES, 0.5, 2)), 0.0, 0.0)
    sums = np.array([*itertools.product(*[(-each, each) for each in (0.3, 0.3, 0.3, 0.5, 0.5)])])
    mass = np.prod(1.0 / (1.0 + np.exp(-sums)), axis=1)
    for epsilon in (0.0, 0.5, 1.7):
        exact = mass @ np.maximum(0.0, -np.expm1(epsilon - sums.sum(axis=1)))
        assert losses.delta(epsilon) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(("kinds", "mu"), MIXTURES)
def test_a_coarser_grid_is_above_and_hardly_so(
    kinds: tuple[Kind, ...], mu: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = losses_of(kinds, mu, 0.0)
    monkeypatch.setattr(pld, "_STEPS", 30)
    coarse = losses_of(kinds, mu, 0.0)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert fine.delta(epsilon) <= coarse.delta(epsilon) * (1 + 3e-9)
        assert coarse.delta(epsilon) <= fine.delta(epsilon) * (1 + 0.02)


@pytest.mark.parametrize("parts", [[(2, 0.3)], [(150, 0.02), (3, 1.7)], [(40, 0.1), (8, 0.5), (1, 2.0)]])
def test_sums_by_fft_are_direct_sums_rounded_up(parts: list[tuple[int, float]]) -> None:
    """From 0 to just below the largest sum, also where one change of measure serves many epsilons."""
    _, a = max(parts, key=lambda part: part[0] * part[1])
    grids = [(pld._on_grid(laplace_losses(each), laplace_step(a)), n) for n, each in parts]
    mass, first = np.ones(1), sum(n * grid.first for grid, n in grids)
    for grid in (grid for grid, n in grids for _ in range(n)):
        mass = np.convolve(mass, grid.mass)
    losses = (first + np.arange(mass.size)) * laplace_step(a)
    found = SummedLosses([(laplace_losses(each), n) for n, each in parts], laplace_step(a))
    largest = sum(n * each for n, each in parts)
    lost = sum(n * grid.lost for grid, n in grids)
    for share in (0.0, 0.03, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.97, 0.9999, 1.0 - 1e-7):
        above = losses > share * largest
        exact = float(mass[above] @ -np.expm1(share * largest - losses[above])) + lost
        # The error of an FFT is relative to the probability of losses above epsilon.
        allowed = exact * 1e-6 + 1e-11 * float(mass[above].sum())
        assert exact * (1.0 - 1e-13) <= found.delta(share * largest) <= exact + allowed
