"""Markov games as PettingZoo environments: both players act at once, one step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import ParallelEnv  # type: ignore[import-untyped]

from dprl.envs.episodes import FiniteMDPEnv
from dprl.envs.games.base import MarkovGame

__all__ = ["MAX_PLAYER", "MIN_PLAYER", "PLAYERS", "MarkovGameEnv"]

MAX_PLAYER, MIN_PLAYER = "max_player", "min_player"
PLAYERS = (MAX_PLAYER, MIN_PLAYER)

Observations = dict[str, NDArray[np.integer[Any]]]
Infos = dict[str, dict[str, Any]]


class MarkovGameEnv(ParallelEnv):  # type: ignore[misc]  # PettingZoo has no types
    """Episodes of a Markov game, agents 'max_player' and 'min_player'; both are terminated after its H steps.

    Observation of either player: int64 [2], (steps taken, state), in MultiDiscrete([H + 1, S]). Actions: Discrete(A)
    and Discrete(B). Rewards: r in [0, 1] of the game for the max-player, -r for the min-player. info of either
    player: {"state": int, "step": int}. With equal seeds it draws the states that FiniteMDPEnv draws for
    `game.joint`. Raises ValueError on a missing action, one out of range or one of nobody, gymnasium.error.ResetNeeded
    on a step without an episode.
    """

    def __init__(self, game: MarkovGame, render_mode: None = None) -> None:
        self.game = game
        self.render_mode = render_mode
        self.metadata = {"name": f"{game.name}_v0", "render_modes": [], "is_parallelizable": True}
        self.possible_agents = list(PLAYERS)
        self.agents: list[str] = []
        self.observation_spaces = {agent: spaces.MultiDiscrete([game.horizon + 1, game.n_states]) for agent in PLAYERS}
        self.action_spaces: dict[str, spaces.Discrete[Any]] = {
            MAX_PLAYER: spaces.Discrete(game.n_max_actions),
            MIN_PLAYER: spaces.Discrete(game.n_min_actions),
        }
        self._episodes = FiniteMDPEnv(game.joint)

    def observation_space(self, agent: str) -> spaces.MultiDiscrete:
        """Return the space of a player's observations, the same object every time."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> spaces.Discrete[Any]:
        """Return the space of a player's actions, the same object every time."""
        return self.action_spaces[agent]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Infos]:
        """Start an episode in a state drawn from the start distribution; `options` has no meaning here.

        seed: of the draws from now on; without one they go on where they were.
        """
        observation, info = self._episodes.reset(seed=seed, options=options)
        self.agents = list(PLAYERS)
        return self._observations(observation), self._infos(info)

    def step(
        self, actions: Mapping[str, int]
    ) -> tuple[Observations, dict[str, float], dict[str, bool], dict[str, bool], Infos]:
        """Take both players' actions; returns (observations, rewards, terminations, truncations, infos) by player."""
        if not self.agents:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        pair = self._pair(actions)
        observation, reward, terminated, truncated, info = self._episodes.step(pair)
        if terminated:
            self.agents = []
        return (
            self._observations(observation),
            {MAX_PLAYER: reward, MIN_PLAYER: -reward},
            dict.fromkeys(PLAYERS, terminated),
            dict.fromkeys(PLAYERS, truncated),
            self._infos(info),
        )

    def render(self) -> None:
        """Draw nothing; there is no render mode."""

    def close(self) -> None:
        """Release nothing."""

    def _pair(self, actions: Mapping[str, int]) -> int:
        """Return the action a * B + b of the joint MDP. Raises ValueError."""
        if set(actions) != set(PLAYERS):
            raise ValueError(
                f"actions must have the keys {' and '.join(PLAYERS)}, got {', '.join(map(str, actions)) or 'none'}; "
                "pass one action of each player"
            )
        for player, n_actions in zip(PLAYERS, (self.game.n_max_actions, self.game.n_min_actions), strict=True):
            if not self.action_spaces[player].contains(actions[player]):
                raise ValueError(
                    f"actions must have {player} in 0..{n_actions - 1}, got {actions[player]!r}; pass an integer"
                )
        return int(actions[MAX_PLAYER]) * self.game.n_min_actions + int(actions[MIN_PLAYER])

    @staticmethod
    def _observations(observation: NDArray[np.integer[Any]]) -> Observations:
        return {player: observation.copy() for player in PLAYERS}

    @staticmethod
    def _infos(info: dict[str, Any]) -> Infos:
        return {player: dict(info) for player in PLAYERS}
