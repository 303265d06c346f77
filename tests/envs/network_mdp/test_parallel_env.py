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

from dprl.envs import MIXTURES, FiniteMDPEnv, LinearMixtureEnv, NetworkMDP, make_mixture
from tests.envs.network_mdp.cases import SPECS

UNUSUAL = (
    "Observation numpy array is all zeros",  # the first state before the first step
    "Observation space for each agent probably should be",  # MultiDiscrete, as of the MDPs
)


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_pettingzoos_own_tests_pass(fields: dict[str, Any]) -> None:
    def make() -> LinearMixtureEnv:
        return make_mixture("network_mdp", **fields)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(), num_cycles=20)
        parallel_seed_test(make, num_cycles=20)
        for message in UNUSUAL:
            warnings.filterwarnings("ignore", message)
        api_test(parallel_to_aec(make()), num_cycles=20)


@pytest.mark.parametrize("fields", SPECS.values(), ids=SPECS)
def test_an_episode_is_one_of_the_joint_mdp(fields: dict[str, Any]) -> None:
    """Joint actions, states and draws are those of FiniteMDPEnv, which is tested against the arrays."""
    env = LinearMixtureEnv(NetworkMDP(**fields).build())
    mdp, joint, agents = env.mdp, FiniteMDPEnv(env.mdp.joint()), env.possible_agents
    seen = set()
    for seed in range(10):
        draws = np.random.default_rng(seed)
        observations, infos = env.reset(seed=seed)
        observation, info = joint.reset(seed=seed)
        terminated = False
        while not terminated:
            assert env.agents == agents == [f"agent_{i}" for i in range(mdp.n_agents)]
            assert infos == dict.fromkeys(agents, info)
            assert [found.tolist() for found in observations.values()] == [observation.tolist()] * mdp.n_agents
            action = int(draws.integers(mdp.n_joint_actions))
            expected = mdp.rewards[:, observation[1]]
            observation, reward, terminated, _, info = joint.step(action)
            actions = dict(zip(agents, mdp.joint_actions()[action], strict=True))
            observations, rewards, terminations, truncations, infos = env.step(actions)
            assert list(rewards.values()) == expected.tolist()
            assert np.mean(list(rewards.values())) == pytest.approx(reward)
            assert terminations == dict.fromkeys(agents, terminated)
            assert truncations == dict.fromkeys(agents, False)
            assert list(observations) == list(rewards) == list(infos) == agents
            seen.add(tuple(observation.tolist()))
        assert {found[0] for found in observations.values()} == {mdp.horizon}
        assert env.agents == []
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(dict.fromkeys(agents, 0))
    assert len(seen) > mdp.horizon


@pytest.mark.parametrize(
    "make", [make_mixture, lambda _, **fields: pettingzoo.make("parallel", "dprl/NetworkMDP-v0", **fields)]
)
def test_mixtures_are_made_by_name_with_the_fields_of_their_spec(make: Any) -> None:
    env = make("network_mdp", n_intermediate=2, gap=0.1)
    assert isinstance(env, LinearMixtureEnv)
    expected = NetworkMDP(n_intermediate=2, gap=0.1).build()
    np.testing.assert_array_equal(env.mdp.transitions(), expected.transitions())
    with pytest.raises(ValueError, match=r"^gap must be at most "):
        make("network_mdp", gap=0.2)


def test_every_mixture_is_registered() -> None:
    assert {f"dprl/{spec.__name__}-v0" for spec in MIXTURES.values()} <= set(pettingzoo.parallel_registry)


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("network_mdp", {"horizont": 5}, r"^horizont must be one of .* of network_mdp; did you mean 'horizon'"),
        ("network", {}, r"^mixture must be one of network_mdp, got 'network'; choose"),
        ("soccer", {}, r"^mixture must be one of network_mdp, got 'soccer', a two-player .*; use make_game or"),
    ],
)
def test_what_cannot_be_made_is_said_in_one_line(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        make_mixture(name, **fields)
    assert "\n" not in str(caught.value)
