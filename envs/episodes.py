"""Finite MDPs as Gymnasium environments, one step at a time."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dprl.envs.base import FiniteMDP

Observation = NDArray[np.integer[Any]]


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
