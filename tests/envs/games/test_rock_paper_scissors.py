"""Rock-paper-scissors: payoffs and equilibria by hand, with and without memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dprl.envs.games.rock_paper_scissors import RockPaperScissors

ROCK, PAPER, SCISSORS = range(3)
DRAW, WON, LOST = range(3)
EQUILIBRIA = {"standard": [1 / 3, 1 / 3, 1 / 3], "biased": [1 / 16, 10 / 16, 5 / 16]}
PAYOFFS, MEMORIES = sorted(EQUILIBRIA), ["none", "outcome"]


@pytest.mark.parametrize(
    ("payoffs", "rewards"),
    [
        ("standard", [[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]]),
        ("biased", [[0.5, 0.25, 1.0], [0.75, 0.5, 0.45], [0.0, 0.55, 0.5]]),
    ],
)
@pytest.mark.parametrize("memory", MEMORIES)
def test_rewards_are_the_same_in_every_round_and_state(payoffs: Any, memory: Any, rewards: list[list[float]]) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory=memory).build()
    np.testing.assert_array_equal(game.rewards, np.broadcast_to(rewards, game.rewards.shape))
    # Zero-sum and symmetric: swapping the players swaps their rewards.
    np.testing.assert_allclose(game.rewards + game.rewards.swapaxes(2, 3), 1.0, rtol=1e-15)


@pytest.mark.parametrize("payoffs", PAYOFFS)
def test_the_state_is_the_last_outcome(payoffs: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, horizon=2).build()
    assert game.transitions.shape == (2, 3, 3, 3, 3)
    np.testing.assert_array_equal(game.start, [1.0, 0.0, 0.0])
    np.testing.assert_array_equal(game.transitions.sum(axis=-1), 1.0)
    outcomes = {
        (ROCK, SCISSORS): WON,
        (PAPER, ROCK): WON,
        (SCISSORS, PAPER): WON,
        (SCISSORS, ROCK): LOST,
        (ROCK, PAPER): LOST,
        (PAPER, SCISSORS): LOST,
        **{(action, action): DRAW for action in range(3)},
    }
    for actions, outcome in outcomes.items():
        np.testing.assert_array_equal(game.transitions[:, :, *actions, outcome], 1.0)


@pytest.mark.parametrize("payoffs", PAYOFFS)
def test_without_memory_there_is_one_state(payoffs: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory="none").build()
    np.testing.assert_array_equal(game.transitions, np.ones((5, 1, 3, 3, 1)))
    np.testing.assert_array_equal(game.start, [1.0])


@pytest.mark.parametrize("payoffs", PAYOFFS)
@pytest.mark.parametrize("memory", MEMORIES)
def test_nash_is_the_equilibrium_of_one_round_in_every_round(payoffs: Any, memory: Any) -> None:
    game = RockPaperScissors(payoffs=payoffs, memory=memory, horizon=7).build()
    values, max_player, min_player = game.nash()
    np.testing.assert_allclose(values, np.broadcast_to(0.5 * np.arange(7, -1, -1)[:, None], values.shape), atol=1e-12)
    for policy in (max_player, min_player):
        np.testing.assert_allclose(policy, np.broadcast_to(EQUILIBRIA[payoffs], policy.shape), atol=1e-12)
