"""Markov games and linear mixture MDPs as multi-agent environments of RLlib.

Importing this module registers them as 'dprl/MarkovGame' and 'dprl/LinearMixture'.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import register_env

from dprl.envs import LinearMixtureEnv, MarkovGameEnv, make_game, make_mixture

ENV_ID = "dprl/MarkovGame"
"""Name of the games for `AlgorithmConfig.environment`."""
MIXTURE_ENV_ID = "dprl/LinearMixture"
"""Name of the linear mixture MDPs."""

# RLlib takes any hashable object as an agent's name.
ByAgent = dict[Any, Any]


class _ParallelMultiAgentEnv(MultiAgentEnv):
    """RLlib wrapper of a PettingZoo environment; agents, observations, actions and rewards are unchanged."""

    # RLlib's ParallelPettingZooEnv lists agents in another order in every process, keeps them after the end of an
    # episode and has no dictionary of spaces.

    def __init__(self, parallel_env: MarkovGameEnv | LinearMixtureEnv) -> None:
        self.parallel_env = parallel_env
        self.possible_agents = list(parallel_env.possible_agents)
        self.agents = list(parallel_env.possible_agents)
        self.observation_spaces = {agent: parallel_env.observation_space(agent) for agent in self.possible_agents}
        self.action_spaces = {agent: parallel_env.action_space(agent) for agent in self.possible_agents}
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        """Start an episode; returns (observations, infos) by agent."""
        found = self.parallel_env.reset(seed=seed, options=options)
        self.agents = list(self.parallel_env.agents)
        return found

    def step(self, action_dict: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Take all agents' actions; returns the result of `parallel_env`, with '__all__' in both kinds of ends."""
        observations, rewards, terminateds, truncateds, infos = self.parallel_env.step(action_dict)
        self.agents = list(self.parallel_env.agents)
        for ends in (terminateds, truncateds):
            ends["__all__"] = all(ends.values())
        return observations, rewards, terminateds, truncateds, infos


def game_env(env_config: Mapping[str, Any]) -> _ParallelMultiAgentEnv:
    """Return a Markov game. env_config: {"game": registry name, and the fields of its spec}. Raises ValueError."""
    return _ParallelMultiAgentEnv(make_game(**env_config))


def mixture_env(env_config: Mapping[str, Any]) -> _ParallelMultiAgentEnv:
    """Return a linear mixture MDP. env_config: {"mixture": name, and the fields of its spec}. Raises ValueError."""
    return _ParallelMultiAgentEnv(make_mixture(**env_config))


def one_hot_observations(*_: object, agent_ids: list[str] | None = None) -> ConnectorV2:
    """Return the connector for RLlib's own networks: (steps taken, state) as two concatenated one-hot vectors.

    It is the `env_to_module_connector` of `AlgorithmConfig.env_runners`. agent_ids: agents with one-hot observations,
    by default all; a TabularRLModule takes the original ones.
    """
    return FlattenObservations(multi_agent=True, agent_ids=agent_ids)


def register_environments() -> None:
    """Register both names with RLlib, as importing this module does; `ray.shutdown()` removes them."""
    register_env(ENV_ID, game_env)
    register_env(MIXTURE_ENV_ID, mixture_env)


register_environments()
