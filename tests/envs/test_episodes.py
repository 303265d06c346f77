"""The Gymnasium side: the env checker, seeding, termination and agreement with the arrays."""

from __future__ import annotations

import itertools
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray

from dprl.envs import MDPS, FiniteMDPEnv, RiverSwim
from dprl.envs.dynamics import roll_out

IDS = [f"dprl/{spec.__name__}-v0" for spec in MDPS.values()]
# Fields of a small environment in which returns differ, where they are not n_states and horizon.
SMALL: dict[str, dict[str, Any]] = {
    "dprl/GridWorld-v0": {"width": 2, "height": 2, "horizon": 4},
    "dprl/DeepSea-v0": {"size": 4, "deterministic": False},
    "dprl/GymnasiumTable-v0": {"horizon": 12},
}


def make(env_id: str, **fields: Any) -> FiniteMDPEnv:
    env = gymnasium.make(env_id, **fields).unwrapped
    assert isinstance(env, FiniteMDPEnv)
    return env


def episode(env: FiniteMDPEnv, seed: int) -> list[tuple[int, int, float, bool]]:
    observation, _ = env.reset(seed=seed)
    rows = [(int(observation[0]), int(observation[1]), 0.0, False)]
    choose = np.random.default_rng(seed)
    while not rows[-1][3]:
        action = int(choose.integers(env.mdp.n_actions))
        observation, reward, terminated, truncated, info = env.step(action)
        assert not truncated
        assert info == {"state": observation[1], "step": observation[0]}
        rows.append((int(observation[0]), int(observation[1]), reward, terminated))
    return rows


@pytest.mark.parametrize("env_id", IDS)
def test_the_env_checker_has_nothing_to_say(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(make(env_id))


@pytest.mark.parametrize("env_id", IDS)
def test_an_episode_ends_by_termination_after_its_horizon(env_id: str) -> None:
    env = make(env_id, **SMALL.get(env_id, {"horizon": 7}))
    horizon = env.mdp.horizon
    rows = episode(env, seed=0)
    assert [row[0] for row in rows] == list(range(horizon + 1))
    assert [row[3] for row in rows] == [False] * horizon + [True]
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)


@pytest.mark.parametrize("env_id", IDS)
def test_one_seed_one_episode(env_id: str) -> None:
    assert episode(make(env_id), seed=5) == episode(make(env_id), seed=5)
    assert any(episode(make(env_id), seed=5) != episode(make(env_id), seed=other) for other in range(5))


def test_the_fields_of_the_spec_are_keyword_arguments() -> None:
    env = make("dprl/RiverSwim-v0", horizon=10, n_states=4)
    expected = RiverSwim(n_states=4, horizon=10).build()
    np.testing.assert_array_equal(env.mdp.transitions, expected.transitions)
    assert env.observation_space == gymnasium.spaces.MultiDiscrete([11, 4])
    assert env.action_space == gymnasium.spaces.Discrete(2)
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1"):
        gymnasium.make("dprl/RiverSwim-v0", horizon=0)


def test_bad_actions_and_a_missing_reset_are_refused() -> None:
    env = FiniteMDPEnv(RiverSwim(n_states=3, horizon=2).build())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    for action in (2, -1, 0.5, None):
        with pytest.raises(ValueError, match=r"^action must be in 0\.\.1, got"):
            env.step(action)  # type: ignore[arg-type]


class Replay:
    """A fake generator of an environment with fixed draws, all of them at steps of a distribution function."""

    def __init__(self, draws: NDArray[np.float64]) -> None:
        self._draws = iter(draws)

    def random(self) -> float:
        return float(next(self._draws))


def test_steps_and_roll_outs_turn_equal_draws_into_equal_states() -> None:
    mdp = RiverSwim(n_states=3, horizon=6).build()
    policy = np.ones((6, 3), np.int64)
    states, actions = np.empty(7, np.int64), np.empty(6, np.int64)
    for draws in itertools.product([0.0, 0.05, 0.4, 0.65], repeat=7):
        uniforms = np.array(draws)
        roll_out(mdp.cdf, mdp.start_cdf, policy, uniforms, states, actions)
        env = FiniteMDPEnv(mdp)
        env.np_random = Replay(uniforms)  # type: ignore[assignment]
        seen = [env.reset()[1]["state"], *(env.step(1)[4]["state"] for _ in range(6))]
        if seen != states.tolist():
            pytest.fail(f"draws {draws}: steps give {seen}, the roll-out {states.tolist()}")
