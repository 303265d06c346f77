"""Environments one step at a time: finite MDPs for Gymnasium, games and linear mixture MDPs for PettingZoo.

In PettingZoo's form all agents act at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils import seeding
from numpy.typing import NDArray
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from dprl.envs.base import FiniteMDP
from dprl.envs.games.base import MarkovGame
from dprl.envs.linear_mixture import LinearMixtureMDP

PLAYERS = ("max_player", "min_player")

Observation = NDArray[np.integer[Any]]
Observations = dict[str, Observation]
Infos = dict[str, dict[str, Any]]


class FiniteMDPEnv(gymnasium.Env[Observation, int]):
    """Episodes of a finite MDP; an episode ends by `terminated` after its H steps.

    Observation: int64 [2], (steps taken, state), in MultiDiscrete([H + 1, S]); the step is included because dynamics
    and optimal actions depend on it. Action: Discrete(A). info: {"state": int, "step": int}.
    Raises ValueError on an action out of range, gymnasium.error.ResetNeeded on a step without an episode.
    """

    def __init__(self, mdp: FiniteMDP, render_mode: None = None) -> None:
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = spaces.MultiDiscrete([mdp.horizon + 1, mdp.n_states])
        self.action_space = spaces.Discrete(mdp.n_actions)
        self._step = mdp.horizon
        self._state = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in a state drawn from the start distribution; `options` has no meaning here."""
        super().reset(seed=seed, options=options)
        self._step = 0
        self._state = self._draw(self.mdp.start_cdf)
        return self._observation(), self._info()

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Take an action; returns (observation, reward in [0, 1], terminated, False, info)."""
        if self._step >= self.mdp.horizon:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be in 0..{self.mdp.n_actions - 1}, got {action!r}; pass an integer")
        here = (self._step, self._state, int(action))
        reward = float(self.mdp.rewards[here])
        self._state = self._draw(self.mdp.cdf[here])
        self._step += 1
        return self._observation(), reward, self._step == self.mdp.horizon, False, self._info()

    def _draw(self, cdf: NDArray[np.float64]) -> int:
        # The rule of dynamics.roll_out: the first t with u < cdf[t].
        return int(np.searchsorted(cdf, self.np_random.random(), side="right"))

    def _observation(self) -> Observation:
        return np.array([self._step, self._state], dtype=np.int64)

    def _info(self) -> dict[str, Any]:
        return {"state": self._state, "step": self._step}


class _ParallelEpisodes(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """Episodes of agents who all observe the step and the state, act at once, and end after H steps.

    n_actions: of each agent, by name.
    """

    def __init__(
        self, env: MarkovGame | LinearMixtureMDP, n_actions: Mapping[str, int], render_mode: None = None
    ) -> None:
        self.render_mode = render_mode
        self.metadata = {"name": f"{env.name}_v0", "render_modes": [], "is_parallelizable": True}
        self.possible_agents = list(n_actions)
        self.agents: list[str] = []
        size = [env.horizon + 1, env.n_states]
        self.observation_spaces = {agent: spaces.MultiDiscrete(size) for agent in n_actions}
        self.action_spaces: dict[str, spaces.Discrete[Any]] = {
            agent: spaces.Discrete(number) for agent, number in n_actions.items()
        }
        self._horizon, self._step, self._state = env.horizon, 0, 0

    @abstractmethod
    def _begin(self, seed: int | None) -> int:
        """Return the first state of an episode."""

    @abstractmethod
    def _move(self, actions: Sequence[int]) -> tuple[int, Sequence[float]]:
        """Return the next state and the reward of each agent."""

    def observation_space(self, agent: str) -> spaces.MultiDiscrete:
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:  # noqa: ARG002
        """Start an episode in a state drawn from the start distribution; `options` has no meaning here.

        seed: of the draws from now on; without a seed the current stream continues.
        """
        self._step, self._state = 0, self._begin(seed)
        self.agents = list(self.possible_agents)
        return self._observations(), self._infos()

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Take all agents' actions; returns (observations, rewards, terminations, truncations, infos) by agent."""
        if not self.agents:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        self._state, rewards = self._move(self._checked(actions))
        self._step += 1
        terminated = self._step == self._horizon
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
        """Do nothing: there is no render mode."""

    def _checked(self, actions: Mapping[str, int]) -> list[int]:
        """Return the actions in the order of the agents. Raises ValueError."""
        if set(actions) != set(self.possible_agents):
            rule = f"actions must have the keys {' and '.join(self.possible_agents)}"
            raise ValueError(f"{rule}, got {', '.join(map(str, actions)) or 'none'}; pass one action of each agent")
        for agent, space in self.action_spaces.items():
            if not space.contains(actions[agent]):
                rule = f"actions must have {agent} in 0..{int(space.n) - 1}"
                raise ValueError(f"{rule}, got {actions[agent]!r}; pass an integer")
        return [int(actions[agent]) for agent in self.possible_agents]

    def _observations(self) -> Observations:
        return {agent: np.array([self._step, self._state], dtype=np.int64) for agent in self.possible_agents}

    def _infos(self) -> Infos:
        return {agent: {"state": self._state, "step": self._step} for agent in self.possible_agents}


class MarkovGameEnv(_ParallelEpisodes):
    """Episodes of a Markov game, agents 'max_player' and 'min_player'; both are terminated after its H steps.

    Observation of either player: int64 [2], (steps taken, state), in MultiDiscrete([H + 1, S]). Actions: Discrete(A)
    and Discrete(B). Rewards: r in [0, 1] of the game for the max-player, -r for the min-player. info: {"state": int,
    "step": int}. With equal seeds it draws the states of FiniteMDPEnv for `game.joint`. Raises ValueError on a missing
    action, one out of range or one of nobody, gymnasium.error.ResetNeeded on a step without an episode.
    """

    def __init__(self, game: MarkovGame, render_mode: None = None) -> None:
        super().__init__(game, dict(zip(PLAYERS, game.rewards.shape[2:], strict=True)), render_mode)
        self.game = game
        self._episodes = FiniteMDPEnv(game.joint)

    def _begin(self, seed: int | None) -> int:
        return int(self._episodes.reset(seed=seed)[1]["state"])

    def _move(self, actions: Sequence[int]) -> tuple[int, Sequence[float]]:
        _, reward, _, _, info = self._episodes.step(actions[0] * self.game.n_min_actions + actions[1])
        return info["state"], (reward, -reward)


class LinearMixtureEnv(_ParallelEpisodes):
    """Episodes of a linear mixture MDP, agents 'agent_0', 'agent_1', ...; all are terminated after its H steps.

    Observation of every agent: int64 [2], (steps taken, state), in MultiDiscrete([H + 1, S]). Actions: Discrete(A), in
    the order of `action_vectors`. Rewards: each agent's own, in [0, 1]; all maximise the mean. info: {"state": int,
    "step": int}. With equal seeds it draws the states of FiniteMDPEnv for `mdp.joint()`. Raises ValueError on a missing
    action, one out of range or one of nobody, gymnasium.error.ResetNeeded on a step without an episode.
    """

    def __init__(self, mdp: LinearMixtureMDP, render_mode: None = None) -> None:
        super().__init__(mdp, {f"agent_{i}": mdp.n_actions for i in range(mdp.n_agents)}, render_mode)
        self.mdp = mdp
        self._random: np.random.Generator | None = None

    def _begin(self, seed: int | None) -> int:
        if seed is not None or self._random is None:
            self._random, _ = seeding.np_random(seed)
        # FiniteMDPEnv draws its first state, even if there is only one.
        self._random.random()
        return self.mdp.start

    def _move(self, actions: Sequence[int]) -> tuple[int, Sequence[float]]:
        if self._random is None:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        joint, draw = np.array(actions, dtype=np.int64), self._random.random()
        after = self.mdp.after(self._step, self._state, joint, draw)
        paid = self.mdp.rewards[:, self._state]
        if paid.ndim == 2:
            paid = paid[:, np.ravel_multi_index(tuple(joint), (self.mdp.n_actions,) * self.mdp.n_agents)]
        return after, paid.tolist()
