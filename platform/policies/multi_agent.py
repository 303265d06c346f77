"""Markov games as multi-agent environments of RLlib; importing this registers them as 'dprl/MarkovGame'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.connectors.env_to_module import FlattenObservations
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.tune.registry import register_env

from dprl.envs import make_game
from dprl.envs.games.parallel_env import PLAYERS

ENV_ID = "dprl/MarkovGame"
"""What `AlgorithmConfig.environment` knows the games by."""

# RLlib takes any hashable object as an agent's name.
ByAgent = dict[Any, Any]


class MarkovGameMultiAgentEnv(MultiAgentEnv):
    """MarkovGameEnv for RLlib: agents, observations, actions and rewards are the same.

    env_config: {"game": registry name, and the fields of its spec}. Raises ValueError on another one.
    """

    # RLlib's ParallelPettingZooEnv lists agents in another order in every process, keeps them after the end of an
    # episode and has no dictionary of spaces.

    def __init__(self, env_config: Mapping[str, Any]) -> None:
        if "game" not in env_config:
            raise ValueError(
                f"env_config must have the key game, got {', '.join(env_config) or 'none'}; "
                "write e.g. {'game': 'soccer', 'horizon': 5}"
            )
        self.parallel_env = make_game(**env_config)
        self.possible_agents = list(PLAYERS)
        self.agents = list(PLAYERS)
        self.observation_spaces = {player: self.parallel_env.observation_space(player) for player in PLAYERS}
        self.action_spaces = {player: self.parallel_env.action_space(player) for player in PLAYERS}
        super().__init__()

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[ByAgent, ByAgent]:
        """Start an episode; returns (observations, infos) by player."""
        found = self.parallel_env.reset(seed=seed, options=options)
        self.agents = list(self.parallel_env.agents)
        return found

    def step(self, action_dict: ByAgent) -> tuple[ByAgent, ByAgent, ByAgent, ByAgent, ByAgent]:
        """Take both players' actions; returns what MarkovGameEnv does, with '__all__' in both kinds of ends."""
        observations, rewards, terminateds, truncateds, infos = self.parallel_env.step(action_dict)
        self.agents = list(self.parallel_env.agents)
        for ends in (terminateds, truncateds):
            ends["__all__"] = all(ends.values())
        return observations, rewards, terminateds, truncateds, infos


def one_hot_observations(*_: object, agent_ids: list[str] | None = None) -> ConnectorV2:
    """Return the connector that RLlib's own networks need: (steps taken, state) as two one-hot vectors in one.

    It is the `env_to_module_connector` of `AlgorithmConfig.env_runners`. agent_ids: whose observations, by default
    both players'; a TabularRLModule takes them as they are.
    """
    return FlattenObservations(multi_agent=True, agent_ids=agent_ids)


register_env(ENV_ID, MarkovGameMultiAgentEnv)
