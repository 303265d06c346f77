"""The compiled duality gap is that of MarkovGame, bit for bit, from Python, from compiled code, or uncompiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from dprl.envs import RandomMDP
from dprl.envs.games import MarkovGame
from dprl.envs.games.dynamics import GapTables, duality_gap

Floats = NDArray[np.float64]
SIZES = [(1, 1, 1, 1), (1, 4, 2, 3), (2, 1, 3, 2), (3, 2, 2, 2), (5, 5, 3, 3), (4, 6, 4, 3), (3, 3, 1, 4), (3, 7, 9, 8)]


def random_game(seed: int, size: tuple[int, int, int, int]) -> MarkovGame:
    rng = np.random.default_rng(seed)
    horizon, n_states, n_max, n_min = size
    shape = (horizon, n_states, n_max, n_min)
    transitions = rng.dirichlet(np.ones(n_states), size=shape)
    return MarkovGame("dense", transitions, rng.random(shape), rng.dirichlet(np.ones(n_states)))


def random_joint(seed: int, game: MarkovGame) -> Floats:
    """Return a policy [H, S, A*B]."""
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.ones(game.joint.n_actions), size=game.joint.rewards.shape[:2])


def responses(game: MarkovGame, policy: Floats) -> tuple[Floats, Floats]:
    max_player, min_player = game.marginals(policy.reshape(game.rewards.shape))
    return game.best_response_to_min(min_player)[0][0], game.best_response_to_max(max_player)[0][0]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_both_values_are_those_of_the_best_responses(size: tuple[int, int, int, int]) -> None:
    game = random_game(sum(size), size)
    tables = game.gap_tables()
    for seed in range(3):  # the same working memory: nothing may be left over
        policy = random_joint(seed, game)
        duality_gap(tables, policy)
        upper, lower = responses(game, policy)
        np.testing.assert_allclose(tables.upper, upper, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(tables.lower, lower, rtol=1e-13, atol=1e-13)
        max_player, min_player = game.marginals(policy.reshape(game.rewards.shape))
        gap = game.start @ (tables.upper - tables.lower)
        assert game.exploitability(max_player, min_player) == pytest.approx(gap, abs=1e-12)


def test_an_mdp_has_its_optimum_above_and_the_policy_below() -> None:
    mdp = RandomMDP(seed=3).build()
    game = MarkovGame.from_mdp(mdp)
    policy, tables = np.eye(mdp.n_actions)[mdp.optimum()[1]], game.gap_tables()
    duality_gap(tables, policy)
    np.testing.assert_array_equal(tables.upper, mdp.optimum()[0][0])
    np.testing.assert_array_equal(tables.lower, mdp.optimum()[0][0])  # so the regret of the optimum is exactly 0


@pytest.mark.parametrize("options", [{}, {"_nrt": False}], ids=["counting", "no_alloc_kernel"])
def test_it_compiles_into_other_kernels(options: dict[str, Any]) -> None:
    @njit(error_model="numpy", **options)
    def total_regret(tables: GapTables, policies: Floats) -> float:
        total = 0.0
        for k in range(policies.shape[0]):
            duality_gap(tables, policies[k])
            total += tables.upper[0] - tables.lower[0]
        return total

    game = random_game(1, (3, 4, 3, 2))
    policies = np.array([random_joint(seed, game) for seed in range(4)])
    expected = 0.0
    for policy in policies:
        upper, lower = responses(game, policy)
        expected += float(upper[0] - lower[0])
    assert total_regret(game.gap_tables(), policies) == pytest.approx(expected, rel=1e-12)
