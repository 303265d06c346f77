"""Random games: seeds, sizes, the laws they are drawn from, and their exact solution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dprl.envs.games.random_game import RandomGame

FIRST_ROW = [0.39546198954297845, 0.5930180594914135, 0.011519950965607977]
FIRST_REWARD = 0.48553513877958776


def test_sizes_of_the_default_and_of_the_larger_one() -> None:
    for size, game in ((3, RandomGame().build()), (6, RandomGame(6, 6, 6, 6).build())):
        assert (game.horizon, game.n_states, game.n_max_actions, game.n_min_actions) == (size,) * 4
        np.testing.assert_allclose(game.transitions.sum(axis=-1), 1.0, rtol=1e-14)
        np.testing.assert_array_equal(game.start, 1 / size)


def test_players_may_have_different_numbers_of_actions() -> None:
    game = RandomGame(n_states=4, n_max_actions=2, n_min_actions=5, horizon=3).build()
    assert game.transitions.shape == (3, 4, 2, 5, 4)
    assert game.rewards.shape == (3, 4, 2, 5)


def test_the_first_numbers_of_seed_0_stay_as_they_are() -> None:
    """Recorded values, so that results of old runs can be reproduced by name and seed."""
    game = RandomGame().build()
    np.testing.assert_allclose(game.transitions[0, 0, 0, 0], FIRST_ROW, rtol=1e-12)
    np.testing.assert_allclose(game.rewards[0, 0, 0, 0], FIRST_REWARD, rtol=1e-12)


@pytest.mark.parametrize("concentration", [1.0, 0.1])
def test_entries_follow_their_laws(concentration: float) -> None:
    """Parts of a Dirichlet row are beta variables, rewards uniform; a false alarm has probability 1e-6 each."""
    game = RandomGame(n_states=4, n_max_actions=5, n_min_actions=5, horizon=40, concentration=concentration).build()
    law = stats.beta(concentration, 3 * concentration)
    assert stats.kstest(game.transitions[..., 2].ravel(), law.cdf).pvalue > 1e-6
    assert stats.kstest(game.transitions[..., 2].ravel(), stats.beta(0.5, 1.5).cdf).pvalue < 1e-6
    assert stats.kstest(game.rewards.ravel(), "uniform").pvalue > 1e-6
