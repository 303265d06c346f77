"""Distributions of the loss: both worlds' masses are kept, and the step hardly matters."""

from __future__ import annotations

import numpy as np
import pytest

from dprl.privacy.accounting import pld
from dprl.privacy.accounting.pld import DISCRETE_GAUSSIAN, RESPONSES, UNARY, Kind, losses_of

MIXTURES = [
    ((Kind(RESPONSES, 0.1, 200), Kind(RESPONSES, 0.13, 90)), 0.0),
    ((Kind(RESPONSES, 0.05, 30), Kind(UNARY, 0.2, 40)), 0.3),
    ((Kind(UNARY, 0.02, 900), Kind(DISCRETE_GAUSSIAN, 30.0, 12)), 0.0),
    ((Kind(RESPONSES, 1.5, 2),), 1.0),
    ((Kind(RESPONSES, 0.3, 3), Kind(UNARY, 0.5, 4)), 0.0),
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


@pytest.mark.parametrize(("kinds", "mu"), MIXTURES)
def test_a_coarser_grid_is_above_and_hardly_so(
    kinds: tuple[Kind, ...], mu: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fine = losses_of(kinds, mu, 0.0)
    monkeypatch.setattr(pld, "_STEPS", 30)
    coarse = losses_of.__wrapped__(kinds, mu, 0.0)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        assert fine.delta(epsilon) <= coarse.delta(epsilon) * (1 + 3e-9)
        assert coarse.delta(epsilon) <= fine.delta(epsilon) * (1 + 0.02)
