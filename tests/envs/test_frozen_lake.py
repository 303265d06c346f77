"""FrozenLake against Gymnasium's own episodes."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from dprl.envs import FrozenLake


@pytest.mark.parametrize("slippery", [False, True])
@pytest.mark.parametrize("map_name", ["4x4", "8x8"])
def test_values_are_those_of_episodes_in_gymnasium(map_name: str, slippery: bool) -> None:
    """An optimal policy in 4,000 episodes, within 6 standard errors of a coin: a false alarm in 1e-8."""
    horizon, episodes = 30, 4000
    mdp = FrozenLake(map_name=map_name, is_slippery=slippery, horizon=horizon).build()
    assert mdp.stationary
    policy = mdp.optimum()[1]
    lake = gymnasium.make("FrozenLake-v1", map_name=map_name, is_slippery=slippery, max_episode_steps=horizon)
    reached = 0.0
    lake.reset(seed=0)
    for _ in range(episodes):
        state, _ = lake.reset()
        for h in range(horizon):
            state, reward, terminated, truncated, _ = lake.step(int(policy[h, state]))
            reached += float(reward)
            if terminated or truncated:
                break
    value = mdp.optimal_start_value()
    assert abs(reached / episodes - value) <= 6.0 * np.sqrt(value * (1.0 - value) / episodes) + 1e-12


def test_the_small_lake_is_crossed_in_six_moves() -> None:
    assert [FrozenLake(is_slippery=False, horizon=h).build().optimal_start_value() for h in (5, 6, 20)] == [0, 1, 1]
