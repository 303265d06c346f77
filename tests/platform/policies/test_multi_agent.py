"""Games in RLlib: the environment's dictionaries, two learners, a frozen player, the examples of docs/policies.md."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import ray
import torch
from numpy.typing import NDArray
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.env_context import EnvContext
from ray.tune.registry import ENV_CREATOR, _global_registry

from dprl.envs import RandomGame, RockPaperScissors
from dprl.envs.episodes import PLAYERS
from dprl.platform.errors import UserError
from dprl.platform.policies import GamePolicy, TeamPolicy
from dprl.platform.policies.multi_agent import (
    ENV_ID,
    MIXTURE_ENV_ID,
    _ParallelMultiAgentEnv,
    game_env,
    mixture_env,
    register_environments,
)
from dprl.platform.policies.rl_module import TabularRLModule
from tests.on_ray import start_ray
from tests.platform.policies.cases import TEAM_ENV, mixed_table, ran, team_blocks, written

GAME = {"game": "random_game", "n_max_actions": 2, "horizon": 4}
NETWORK = {"mixture": "network_mdp", "n_agents": 3, "gap": 0.05, "dimension": 3, "horizon": 4}


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray cluster of this machine alone."""
    start_ray(num_cpus=2)
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _registered() -> None:
    """Register the names again, because another test of this process may have stopped a cluster."""
    register_environments()


def test_the_environment_has_what_rllib_asks_for() -> None:
    env = _global_registry.get(ENV_CREATOR, ENV_ID)(EnvContext(GAME, worker_index=0))
    assert isinstance(env, _ParallelMultiAgentEnv)
    assert env.possible_agents == env.agents == list(PLAYERS)
    for player, n_actions in zip(PLAYERS, (2, 3), strict=True):
        assert env.get_observation_space(player) == gymnasium.spaces.MultiDiscrete([5, 3])
        assert env.get_action_space(player) == gymnasium.spaces.Discrete(n_actions)
    for spaces in (env.observation_spaces, env.action_spaces):
        assert spaces is not None
        assert list(spaces) == list(PLAYERS)


def test_an_episode_is_that_of_the_parallel_environment() -> None:
    env = game_env(GAME)
    expected = game_env(GAME).parallel_env
    for seed in (0, None):
        observations, _ = env.reset(seed=seed)
        first, _ = expected.reset(seed=seed)
        for step in range(4):
            assert {player: found.tolist() for player, found in observations.items()} == {
                player: found.tolist() for player, found in first.items()
            }
            actions: dict[Any, Any] = {"max_player": step % 2, "min_player": np.int64(step % 3)}
            observations, rewards, terminateds, truncateds, infos = env.step(actions)
            first, expected_rewards, *_, expected_infos = expected.step(actions)
            assert (rewards, infos) == (expected_rewards, expected_infos)
            assert terminateds == dict.fromkeys((*PLAYERS, "__all__"), step == 3)
            assert truncateds == dict.fromkeys((*PLAYERS, "__all__"), False)
            assert env.agents == ([] if step == 3 else list(PLAYERS))
    assert env.reset()[0].keys() == set(PLAYERS) == set(env.agents)


def test_agents_of_a_network_are_those_of_its_parallel_environment() -> None:
    env = _global_registry.get(ENV_CREATOR, MIXTURE_ENV_ID)(EnvContext(NETWORK, worker_index=0))
    assert isinstance(env, _ParallelMultiAgentEnv)
    expected, agents = mixture_env(NETWORK).parallel_env, ["agent_0", "agent_1", "agent_2"]
    assert env.possible_agents == env.agents == agents
    for agent in agents:
        assert env.get_observation_space(agent) == gymnasium.spaces.MultiDiscrete([5, 27])
        assert env.get_action_space(agent) == gymnasium.spaces.Discrete(4)
    observations, _ = env.reset(seed=1)
    expected.reset(seed=1)
    for step in range(4):
        actions: dict[Any, Any] = dict(zip(agents, (3, np.int64(step), 0), strict=True))
        observations, rewards, terminateds, _, infos = env.step(actions)
        first, expected_rewards, *_, expected_infos = expected.step(actions)
        assert [observations[agent].tolist() for agent in agents] == [first[agent].tolist() for agent in agents]
        assert (rewards, infos) == (expected_rewards, expected_infos)
        assert terminateds == dict.fromkeys((*agents, "__all__"), step == 3)
    assert env.agents == []


def test_one_player_is_a_module() -> None:
    env = RandomGame(n_states=2, n_max_actions=2, n_min_actions=3, horizon=3)
    table = np.random.default_rng(0).dirichlet(np.ones(6), size=(3, 2)).reshape(3, 2, 2, 3)
    policy = GamePolicy(table, env)
    places = [(h, s) for h in range(3) for s in range(2)]
    for player in PLAYERS:
        alone = getattr(policy, player)
        module = TabularRLModule.from_policy(alone)
        assert module.observation_space == policy.make_env().observation_space(player)
        assert module.action_space == policy.make_env().action_space(player)
        output = module.forward_inference({"obs": torch.as_tensor(np.array(places))})
        found = np.exp(output["action_dist_inputs"].numpy().astype(np.float64))
        # float32 logarithms.
        np.testing.assert_allclose(found, [alone.probabilities(place) for place in places], rtol=1e-6)


@pytest.mark.slow
def test_a_cell_of_a_game_is_no_module(tmp_path: Path) -> None:
    ran(tmp_path / "cell", RockPaperScissors(horizon=3))
    with pytest.raises(UserError, match=r"cell: must be a cell of a finite MDP, got 'rock_paper_scissors'; pass a pl"):
        TabularRLModule.from_run(tmp_path / "cell")


@pytest.mark.slow
@pytest.mark.cluster
def test_the_examples_of_the_guide_run_on_a_real_cell(cluster: None, root: Path, tmp_path: Path) -> None:
    """Two learners, and one against the run's min-player; another test runs the examples in NumPy."""
    text = (root / "docs" / "policies.md").read_text().partition("# Policies of Markov games")[2]
    text = text.partition("## Functions of both players")[2].partition("# Policies of cooperating agents")[0]
    assert "train_batch_size_per_learner=1000" in text
    quick = text.replace("train_batch_size_per_learner=1000", "train_batch_size_per_learner=150, num_epochs=1")
    blocks = re.findall(r"```python\n(.*?)```", quick, re.DOTALL)
    assert len(blocks) == 4
    folder = ran(tmp_path / "cell", RockPaperScissors(horizon=3))
    names: dict[str, Any] = {}
    for block in blocks:
        exec(re.sub(r'"dprl_runs/[^"]*"', repr(str(folder)), block), names)  # the project's own text
    policy = names["policy"]
    assert isinstance(policy, GamePolicy)
    assert {names["a"], names["b"], *names["alone"]} <= {0, 1, 2}
    assert names["exact"] == (policy.start_value, policy.exploitability)
    assert names["terminations"] == dict.fromkeys(PLAYERS, True)
    returns = names["returns"]
    assert returns["max_player"] == -returns["min_player"] > 0.0
    names["learners"].stop()
    check_frozen(names["against_the_run"], policy)


@pytest.mark.slow
@pytest.mark.cluster
def test_the_examples_of_the_guide_run_on_a_cell_of_agents(cluster: None, root: Path, tmp_path: Path) -> None:
    """RLlib's mean return is within five standard errors of the exact one: a false alarm in a million runs."""
    folder = written(tmp_path, mixed_table()[None], TEAM_ENV)
    names: dict[str, Any] = {}
    for block in team_blocks(root, folder):
        exec(block.replace("1000", "200"), names)  # the project's own text
    names["team"].stop()
    returns = [episode_return(names["policy"]) for _ in range(200)]
    error = float(np.std(returns)) / np.sqrt(200)
    assert abs(names["mean_return"] - names["policy"].start_value) < 5 * error < 0.4


def episode_return(policy: TeamPolicy) -> float:
    """Return the mean over agents of their returns in one episode."""
    env, total = policy.make_env(), 0.0
    observations, _ = env.reset(seed=int(policy.generator.integers(2**31)))
    while env.agents:
        actions = dict(zip(env.agents, policy(observations["agent_0"]), strict=True))
        observations, rewards, *_ = env.step(actions)
        total += float(np.mean(list(rewards.values())))
    return total


def state(algorithm: Algorithm, player: str) -> dict[str, NDArray[Any]]:
    module = algorithm.get_module(player)
    assert module is not None
    return {key: np.array(value) for key, value in module.get_state().items()}


def check_frozen(config: PPOConfig, policy: GamePolicy) -> None:
    """Train once against the run's min-player: the learner changes, the other one does not."""
    algorithm = config.build_algo()
    before = state(algorithm, "max_player")
    result = algorithm.train()
    after = state(algorithm, "max_player")
    assert any(not np.array_equal(before[key], after[key]) for key in before)
    opponent = algorithm.get_module("min_player")
    assert isinstance(opponent, TabularRLModule)
    found = np.exp(opponent.log_probabilities.detach().numpy()[:-1])
    np.testing.assert_allclose(found, policy.min_player.table, rtol=1e-6)
    assert result["env_runners"]["episode_len_max"] == policy.game.horizon
    algorithm.stop()
