"""The linear programs of the naive DP-Nash-VI: eq. (8) and equilibria. Whole runs: tests/algorithms/dp_nash_vi."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from benchmarks.harness import built, trust
from benchmarks.naive_dp_nash_vi import equilibrium_by_linprog, nearest_by_linprog
from benchmarks.naive_ucb_vi import Floats
from dprl.algorithms import DPNashVIConfig
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import coarse_correlated_equilibrium, equilibrium_scratch
from tests.algorithms.dp_nash_vi.oracle import OurChoiceNashVI, nearest_closed_form, pure_equilibrium


def largest_gain(policy: Floats, upper: Floats, lower: Floats) -> float:
    """What a player wins at most by a fixed action in place of the advised one, term by term."""
    pairs = list(itertools.product(range(policy.shape[0]), range(policy.shape[1])))
    gains = [sum(policy[a, b] * (upper[i, b] - upper[a, b]) for a, b in pairs) for i in range(policy.shape[0])]
    gains += [sum(policy[a, b] * (lower[a, b] - lower[a, i]) for a, b in pairs) for i in range(policy.shape[1])]
    return float(max(gains))


@pytest.mark.parametrize(
    ("noisy", "total", "slack", "least", "nearest"),
    [
        ([3.0, -1.0], 2.0, 0.5, 1.0, [2.5, 0.0]),  # the negative count goes to 0, the rest into the band
        ([3.0, 1.0], 4.0, 0.5, 0.0, [3.0, 1.0]),  # feasible already
        ([3.0, 1.0], 8.0, 1.0, 1.5, [4.5, 2.5]),  # too few: all are raised alike
        ([5.0, 3.0, 0.0], 3.0, 1.0, 2.0, [3.0, 1.0, 0.0]),  # too many: lowered alike, one stays at 0
        ([2.0, -3.0], -1.0, 1.0, 3.0, [0.0, 0.0]),  # only zero is feasible
        ([2.0, -3.0], -5.0, 1.0, math.inf, [0.0, 0.0]),  # nothing is
    ],
)
def test_eq_8_by_hand(noisy: list[float], total: float, slack: float, least: float, nearest: list[float]) -> None:
    row = np.array(noisy)
    solved, maximum = nearest_by_linprog(row, total, slack)
    assert maximum == pytest.approx(least, abs=1e-9)
    if math.isfinite(least):
        assert np.abs(solved - row).max() == pytest.approx(least, abs=1e-7)
        assert abs(solved.sum() - total) <= slack + 1e-7
    else:
        assert not solved.any()
    assert nearest_closed_form(row, np.array(total), slack) == pytest.approx(nearest, abs=1e-9)


def test_closed_form_and_linprog_agree() -> None:
    """Whole numbers, so ties and counts of zero are common; some totals leave nothing feasible."""
    rng = np.random.default_rng(1)
    rows = rng.integers(-4, 6, (100, 4)).astype(float)
    rows[::2] += rng.normal(0.0, 3.0, rows[::2].shape)
    totals, slack = rng.integers(-4, 16, 100).astype(float), 2.0
    projected = nearest_closed_form(rows, totals, slack)
    infeasible = 0
    for row, total, ours in zip(rows, totals, projected, strict=True):
        _, least = nearest_by_linprog(row, total, slack)
        infeasible += math.isinf(least)
        if math.isfinite(least):
            assert np.abs(ours - row).max() == pytest.approx(least, abs=1e-7)
            assert abs(ours.sum() - total) <= slack + 1e-9
    assert 0 < infeasible < 50


@pytest.mark.parametrize("shape", [(2, 2), (3, 2), (4, 4), (1, 3)])
def test_linprogs_choice_is_an_equilibrium_with_the_least_gap(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        lower = rng.random(shape)
        upper = lower + 0.3 * rng.random(shape)
        policy = equilibrium_by_linprog(upper, lower)
        assert policy.min() >= 0.0
        assert policy.sum() == pytest.approx(1.0, abs=1e-12)
        assert largest_gain(policy, upper, lower) <= 1e-9
        pure = pure_equilibrium(upper, lower)
        if pure is not None:
            assert largest_gain(pure, upper, lower) <= 0.0
            assert (policy * (upper - lower)).sum() <= (pure * (upper - lower)).sum() + 1e-9


@pytest.mark.parametrize("shape", [(2, 2), (3, 3), (2, 5), (4, 4)])
def test_our_kernel_and_linprog_choose_the_same(shape: tuple[int, int]) -> None:
    """Clipped bounds, so ties are common."""
    rng = np.random.default_rng(3)
    game = MarkovGame("game", np.ones((1, 1, *shape, 1)), np.zeros((1, 1, *shape)), np.ones(1))
    chooser, scratch, policy = (
        OurChoiceNashVI(game, built(DPNashVIConfig(), game, trust("none"), 1000), rng),
        equilibrium_scratch(*shape),
        np.zeros(shape),
    )
    mixed = 0
    for _ in range(40):
        middle, radius = rng.random(shape), 0.4 * rng.random(shape)
        upper, lower = np.minimum(middle + radius, 1.0), np.maximum(middle - radius, 0.0)
        coarse_correlated_equilibrium(upper, lower, scratch, policy)
        np.testing.assert_allclose(chooser.equilibrium(upper, lower), policy, atol=1e-9)
        mixed += policy.max() < 1.0
    assert mixed > 4
