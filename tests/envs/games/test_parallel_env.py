"""The PettingZoo side: its own tests, seeding, termination, and agreement with the arrays."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pettingzoo  # type: ignore[import-untyped]
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test  # type: ignore[import-untyped]
from pettingzoo.utils.conversions import parallel_to_aec  # type: ignore[import-untyped]

from dprl.envs import GAMES, FiniteMDPEnv, MarkovGameEnv, RandomGame, Soccer, make_episodes, make_game
from dprl.envs.episodes import PLAYERS

# Fields of a small game in which returns differ.
SMALL: dict[str, dict[str, Any]] = {
    "random_game": {"n_max_actions": 2, "horizon": 4},
    "rock_paper_scissors": {"horizon": 4},
    "soccer": {"n_rows": 2, "n_columns": 3, "horizon": 4},
}
UNUSUAL = (
    "Observation numpy array is all zeros",  # the first state before the first step
    "Observation space for each agent probably should be",  # MultiDiscrete, as of the MDPs
    "We recommend agents to be named",  # 'max_player' says more than 'player_0'
)


def small(name: str) -> MarkovGameEnv:
    return make_game(name, **SMALL[name])


def pairs(env: MarkovGameEnv, seed: int) -> list[dict[str, int]]:
    draws = np.random.default_rng(seed)
    sizes = (env.game.n_max_actions, env.game.n_min_actions)
    return [dict(zip(PLAYERS, draws.integers(sizes).tolist(), strict=True)) for _ in range(env.game.horizon)]


@pytest.mark.parametrize("name", GAMES)
def test_pettingzoos_own_tests_pass(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(small(name), num_cycles=20)
        parallel_seed_test(lambda: small(name), num_cycles=20)
        for message in UNUSUAL:
            warnings.filterwarnings("ignore", message)
        api_test(parallel_to_aec(small(name)), num_cycles=20)


@pytest.mark.parametrize("name", GAMES)
def test_an_episode_is_one_of_the_joint_mdp_and_zero_sum(name: str) -> None:
    """Pairs of actions, states, rewards and draws are those of FiniteMDPEnv, which is tested against the arrays."""
    env = small(name)
    game, joint = env.game, FiniteMDPEnv(env.game.joint)
    seen = set()
    for seed in range(5):
        observations, infos = env.reset(seed=seed)
        observation, info = joint.reset(seed=seed)
        for actions in pairs(env, seed):
            assert env.agents == env.possible_agents == list(PLAYERS)
            assert infos == dict.fromkeys(PLAYERS, info)
            assert all(found.tolist() == observation.tolist() for found in observations.values())
            a, b = actions["max_player"], actions["min_player"]
            expected = game.rewards[(*observation, a, b)]
            observation, reward, terminated, _, info = joint.step(a * game.n_min_actions + b)
            observations, rewards, terminations, truncations, infos = env.step(actions)
            assert rewards == {"max_player": expected, "min_player": -expected}
            assert expected == reward
            assert terminations == dict.fromkeys(PLAYERS, terminated)
            assert truncations == dict.fromkeys(PLAYERS, False)
            assert list(observations) == list(rewards) == list(infos) == list(PLAYERS)
            seen.add((*observation.tolist(), expected))
        assert terminated
        assert observations["max_player"][0] == observations["min_player"][0] == game.horizon
        assert env.agents == []
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step({"max_player": 0, "min_player": 0})
    assert len(seen) > game.horizon


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({}, r"^actions must have the keys max_player and min_player, got none; pass one action of each agent$"),
        ({"max_player": 0}, r"^actions must have the keys .*, got max_player; "),
        ({"max_player": 0, "min_player": 0, "umpire": 0}, r"^actions must have the keys .*, got .*umpire; "),
        ({"max_player": 2, "min_player": 0}, r"^actions must have max_player in 0\.\.1, got 2; pass an integer$"),
        ({"max_player": 0, "min_player": -1}, r"^actions must have min_player in 0\.\.2, got -1; "),
        ({"max_player": 0.5, "min_player": 0}, r"^actions must have max_player in 0\.\.1, got 0\.5; "),
        ({"max_player": 0, "min_player": None}, r"^actions must have min_player in 0\.\.2, got None; "),
    ],
)
def test_bad_actions_are_refused_and_take_no_step(actions: Any, message: str) -> None:
    env = MarkovGameEnv(RandomGame(n_max_actions=2).build())
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(actions)
    env.reset(seed=0)
    with pytest.raises(ValueError, match=message):
        env.step(actions)
    assert env.step({"max_player": np.array([1])[0], "min_player": 2})[4]["max_player"]["step"] == 1


@pytest.mark.parametrize(
    "make", [make_game, lambda _, **fields: pettingzoo.make("parallel", "dprl/Soccer-v0", **fields)]
)
def test_games_are_made_by_name_with_the_fields_of_their_spec(make: Any) -> None:
    env = make("soccer", **SMALL["soccer"])
    assert isinstance(env, MarkovGameEnv)
    np.testing.assert_array_equal(env.game.transitions, Soccer(n_rows=2, n_columns=3, horizon=4).build().transitions)
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1"):
        make("soccer", horizon=0)


@pytest.mark.parametrize(
    ("make", "name", "fields", "message"),
    [
        (make_game, "soccer", {"horizont": 5}, r"^horizont must be one of .* of soccer; did you mean 'horizon'"),
        (make_game, "socer", {}, r"^game must be one of .*soccer.*, got 'socer'; choose"),
        (
            make_game,
            "riverswim",
            {},
            r"^game must be one of .*, got 'riverswim', a finite MDP; use make_episodes or gymnasium\.make",
        ),
        (
            make_episodes,
            "soccer",
            {},
            r"^environment must be one of .*, got 'soccer', a two-player .*; use make_game or",
        ),
        (make_episodes, "riverswim", {"n_sates": 3}, r"^n_sates must be one of .*; did you mean 'n_states'"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(make: Any, name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(name, **fields)
    assert "\n" not in str(caught.value)
