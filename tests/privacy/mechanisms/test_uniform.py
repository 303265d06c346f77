"""Uniform noise: its law, and its certified delta against exact integration over all shifts."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from dprl.privacy.accounting.closed_forms import worst_outside
from dprl.privacy.base import Sensitivity
from dprl.privacy.mechanisms.bounded import Uniform

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


@pytest.mark.parametrize("cells", [1, 5])
def test_a_bound_of_l1_over_two_delta_suffices_without_much_to_spare(cells: int) -> None:
    sensitivity = Sensitivity.of_cells(cells, 2.0)
    for delta in (1e-5, 0.3):
        noise = Uniform(sensitivity.l1 / (2.0 * delta))
        assert noise.curve(sensitivity).delta(1.0) <= delta * (1 + 1e-12)
        assert Uniform(noise.bound / (1 + delta)).curve(sensitivity).delta(1.0) >= delta * (1 - 1e-12)
    with pytest.raises(ValueError, match="law must be one that can be calibrated, got uniform"):
        Uniform.calibrated(1.0, 0.1, sensitivity)


def test_printed_bound_misses_its_delta_by_orders_of_magnitude() -> None:
    # [TH23] Theorem 5 at H = 5, delta = 1e-5: one coordinate of stage 1 shifts by 32.
    bound = 4 * 5**3 * math.sqrt(math.log(2 * 5 / 1e-5))
    assert bound == pytest.approx(1858.5, abs=0.05)
    assert Uniform(bound).curve(Sensitivity.of_cells(1, 32.0)).delta(0.0) == pytest.approx(8.6e-3, rel=2e-3)
