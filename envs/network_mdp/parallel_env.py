"""Linear mixture MDPs as PettingZoo environments: all agents act at once, one step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from dprl.envs.network_mdp.base import LinearMixtureMDP
from dprl.envs.network_mdp.dynamics import next_state

__all__ = ["LinearMixtureEnv"]

Observations = dict[str, NDArray[np.integer[Any]]]
Infos = dict[str, dict[str, Any]]


class LinearMixtureEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """Episodes of a linear mixture MDP, agents 'agent_0', 'agent_1', ...; all are terminated after its H steps.

    Observation of every agent: int64 [2], (steps taken, state), in MultiDiscrete([H + 1, S]). Actions: Discrete(A), in
    the order of `action_vectors`. Rewards: each agent's own, in [0, 1]; what all want is their mean. info of every
    agent: {"state": int, "step": int}. With equal seeds it draws the states that FiniteMDPEnv draws for `mdp.joint()`.
    Raises ValueError on a missing action, one out of range or one of nobody, gymnasium.error.ResetNeeded on a step
    without an episode.
    """

    def __init__(self, mdp: LinearMixtureMDP, render_mode: None = None) -> None:
        self.mdp = mdp
        self.render_mode = render_mode
        self.metadata = {"name": f"{mdp.name}_v0", "render_modes": [], "is_parallelizable": True}
        self.possible_agents = [f"agent_{i}" for i in range(mdp.n_agents)]
        self.agents: list[str] = []
        size = [mdp.horizon + 1, mdp.n_states]
        self.observation_spaces = {agent: spaces.MultiDiscrete(size) for agent in self.possible_agents}
        self.action_spaces: dict[str, spaces.Discrete[Any]] = {
            agent: spaces.Discrete(mdp.n_actions) for agent in self.possible_agents
        }
        self._random: np.random.Generator | None = None
        self._step, self._state = 0, mdp.start

    def observation_space(self, agent: str) -> spaces.MultiDiscrete:
        """Return the space of an agent's observations, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        """Return the space of an agent's actions, the same object every time."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:  # noqa: ARG002
        """Start an episode in the state where all start; `options` has no meaning here.

        seed: of the draws from now on; without one they go on where they were.
        """
        if seed is not None or self._random is None:
            self._random, _ = seeding.np_random(seed)
        # FiniteMDPEnv draws its first state, even if there is only one.
        self._random.random()
        self._step, self._state = 0, self.mdp.start
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos()

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Take all agents' actions; returns (observations, rewards, terminations, truncations, infos) by agent."""
        if not self.agents or self._random is None:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        joint = self._joint(actions)
        rewards = self.mdp.rewards[:, self._state].tolist()
        self._state = int(next_state(self.mdp.lists, self.mdp.drifts, self._state, joint, self._random.random()))
        self._step += 1
        terminated = self._step == self.mdp.horizon
        if terminated:
            self.agents = []
        return (
            self._observations(),
            dict(zip(self.possible_agents, rewards, strict=True)),
            dict.fromkeys(self.possible_agents, terminated),
            dict.fromkeys(self.possible_agents, False),
            self._infos(),
        )

    def render(self) -> None:
        """Draw nothing; there is no render mode."""

    def close(self) -> None:
        """Release nothing."""

    def _joint(self, actions: Mapping[str, int]) -> NDArray[np.int64]:
        """Return the actions [n] of all agents. Raises ValueError."""
        if set(actions) != set(self.possible_agents):
            raise ValueError(
                f"actions must have the keys {' and '.join(self.possible_agents)}, got "
                f"{', '.join(map(str, actions)) or 'none'}; pass one action of each agent"
            )
        for agent in self.possible_agents:
            if not self.action_spaces[agent].contains(actions[agent]):
                raise ValueError(
                    f"actions must have {agent} in 0..{self.mdp.n_actions - 1}, got {actions[agent]!r}; pass an integer"
                )
        return np.array([int(actions[agent]) for agent in self.possible_agents], dtype=np.int64)

    def _observations(self) -> Observations:
        return {agent: np.array([self._step, self._state], dtype=np.int64) for agent in self.possible_agents}

    def _infos(self) -> Infos:
        return {agent: {"state": self._state, "step": self._step} for agent in self.possible_agents}
