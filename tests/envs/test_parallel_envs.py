"""Contract of every game and mixture in PettingZoo: its own tests, termination, and agreement with the arrays."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
import numpy as np
import pettingzoo  # type: ignore[import-untyped]
import pytest
from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test  # type: ignore[import-untyped]
from pettingzoo.utils.conversions import parallel_to_aec  # type: ignore[import-untyped]

from dprl.envs import GAMES, MIXTURES, FiniteMDPEnv, MarkovGameEnv, RandomGame, make_episodes, make_game, make_mixture
from dprl.envs.episodes import PLAYERS
from tests.envs.network_mdp.cases import SPECS

# Fields of a small game in which returns differ.
SMALL: dict[str, dict[str, Any]] = {
    "random_game": {"n_max_actions": 2, "horizon": 4},
    "rock_paper_scissors": {"horizon": 4},
    "soccer": {"n_rows": 2, "n_columns": 3, "horizon": 4},
}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: (name, SMALL[name]) for name in GAMES},
    **{f"network_mdp {case}": ("network_mdp", fields) for case, fields in SPECS.items()},
    "linear_mixture": ("linear_mixture", {"n_states": 4, "n_agents": 2, "horizon": 3}),
}
UNUSUAL = (
    "Observation numpy array is all zeros",  # the first state before the first step
    "Observation space for each agent probably should be",  # MultiDiscrete, as of the MDPs
    "We recommend agents to be named",  # 'max_player' says more than 'player_0'
)


def made(case: str) -> Any:
    name, fields = CASES[case]
    return (make_game if name in GAMES else make_mixture)(name, **fields)


def joint_actions(env: Any) -> list[tuple[int, ...]]:
    """The actions of all agents, in the order of the joint MDP's actions."""
    if isinstance(env, MarkovGameEnv):
        return list(np.ndindex(env.game.n_max_actions, env.game.n_min_actions))
    return [tuple(actions) for actions in env.mdp.joint_actions().tolist()]


def rewards_of(env: Any, step: int, state: int, actions: tuple[int, ...]) -> list[float]:
    """The rewards of all agents, from the arrays."""
    if isinstance(env, MarkovGameEnv):
        reward = env.game.rewards[(step, state, *actions)]
        return [reward, -reward]
    paid = env.mdp.rewards[:, state]
    if paid.ndim == 2:
        paid = paid[:, np.ravel_multi_index(tuple(actions), (env.mdp.n_actions,) * env.mdp.n_agents)]
    rewards: list[float] = paid.tolist()
    return rewards


@pytest.mark.parametrize("case", CASES)
def test_pettingzoos_own_tests_pass(case: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(made(case), num_cycles=20)
        parallel_seed_test(lambda: made(case), num_cycles=20)
        for message in UNUSUAL:
            warnings.filterwarnings("ignore", message)
        api_test(parallel_to_aec(made(case)), num_cycles=20)


@pytest.mark.parametrize("case", CASES)
def test_an_episode_is_one_of_the_joint_mdp(case: str) -> None:
    """Joint actions, states and draws are those of FiniteMDPEnv, which is tested against the arrays."""
    env = made(case)
    mdp = env.game.joint if isinstance(env, MarkovGameEnv) else env.mdp.joint()
    agents = list(PLAYERS) if isinstance(env, MarkovGameEnv) else [f"agent_{i}" for i in range(env.mdp.n_agents)]
    joint, choices, seen = FiniteMDPEnv(mdp), joint_actions(env), set()
    for seed in range(10):
        draws = np.random.default_rng(seed)
        observations, infos = env.reset(seed=seed)
        observation, info = joint.reset(seed=seed)
        terminated = False
        while not terminated:
            assert env.agents == env.possible_agents == agents
            assert infos == dict.fromkeys(agents, info)
            assert [found.tolist() for found in observations.values()] == [observation.tolist()] * len(agents)
            action = int(draws.integers(len(choices)))
            step, state = observation.tolist()
            expected = rewards_of(env, step, state, choices[action])
            observation, reward, terminated, _, info = joint.step(action)
            found = env.step(dict(zip(agents, choices[action], strict=True)))
            observations, rewards, terminations, truncations, infos = found
            assert list(rewards.values()) == expected
            own = expected[0] if isinstance(env, MarkovGameEnv) else np.mean(expected)
            assert own == pytest.approx(reward)
            assert terminations == dict.fromkeys(agents, terminated)
            assert truncations == dict.fromkeys(agents, False)
            assert list(observations) == list(rewards) == list(infos) == agents
            seen.add((*observation.tolist(), *expected))
        assert {found[0] for found in observations.values()} == {mdp.horizon}
        assert env.agents == []
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(dict.fromkeys(agents, 0))
    assert len(seen) > mdp.horizon


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


@pytest.mark.parametrize("name", sorted({*GAMES, *MIXTURES} - {"mixture_file"}))
def test_pettingzoo_makes_them_by_id_with_the_fields_of_their_spec(name: str) -> None:
    spec: Any = {**GAMES, **MIXTURES}[name]
    fields = {**SMALL, "network_mdp": {"n_intermediate": 2, "gap": 0.1}}.get(name, {"n_states": 4})
    env = pettingzoo.make("parallel", f"dprl/{spec.__name__}-v0", **fields)
    built, expected = (env.game, spec(**fields).build()) if name in GAMES else (env.mdp, spec(**fields).build())
    ours, theirs = (of.transitions if name in GAMES else of.transitions() for of in (built, expected))
    np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1"):
        pettingzoo.make("parallel", f"dprl/{spec.__name__}-v0", horizon=0)


@pytest.mark.parametrize(
    ("make", "name", "fields", "message"),
    [
        (make_game, "soccer", {"horizont": 5}, r"^horizont must be one of .* of soccer; did you mean 'horizon'"),
        (make_game, "socer", {}, r"^game must be one of .*soccer.*, got 'socer'; choose"),
        (make_game, "riverswim", {}, r"^game must be .*, got 'riverswim', .*; use make_episodes or gymnasium\.make"),
        (make_mixture, "network", {}, r"^mixture must be one of network_mdp, .*, got 'network'; choose"),
        (make_mixture, "soccer", {}, r"^mixture must be one of .*, got 'soccer', a two-player .*; use make_g"),
        (make_episodes, "soccer", {}, r"^environment must be one of .*, got 'soccer', a two-player .*; use make_game"),
        (make_episodes, "riverswim", {"n_sates": 3}, r"^n_sates must be one of .*; did you mean 'n_states'"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(make: Any, name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make(name, **fields)
    assert "\n" not in str(caught.value)
