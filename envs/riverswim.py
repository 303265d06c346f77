"""RiverSwim: a chain where the current carries the swimmer away from the large reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_integers, require_size

LEFT, RIGHT = 0, 1


# Effect of `right` in the first state (stay, right), between (left, stay, right) and in the last (left, stay).
_FIRST, _MIDDLE, _LAST = (0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6)
_SMALL_REWARD = 5 / 1000


@dataclass(frozen=True)
class RiverSwim:
    """RiverSwim: a chain of states with a small reward at the near bank and a large one upstream.

    Action 0 (left) moves one state down, action 1 (right) fights the current. Rewards: 0.005 for left in state 0, 1 for
    right in the last state, 0 elsewhere. Episodes start in state 0; dynamics and rewards are the same at every step.

    n_states: length of the chain, at least 3. horizon: steps of an episode, at least 1.
    Raises ValueError on other values.

    Source: Osband, Russo, Van Roy, '(More) efficient reinforcement learning via posterior sampling', NeurIPS 2013.

    >>> river = RiverSwim(n_states=6, horizon=20).build()
    >>> river.transitions.shape, river.rewards.shape
    ((20, 6, 2, 6), (20, 6, 2))
    >>> round(river.optimal_start_value(), 4)  # expected reward of an episode
    3.3973
    """

    name: ClassVar[str] = "riverswim"
    builds: ClassVar[type[Env]] = FiniteMDP
    stationary: ClassVar[bool] = True

    n_states: int = 6
    horizon: int = 20

    def __post_init__(self) -> None:
        require_integers(self, n_states=3, horizon=1)
        require_size(self.name, self.sizes, "horizon or n_states")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), 2

    def build(self) -> FiniteMDP:
        """Build the chain as arrays: transitions [H, S, 2, S], rewards [H, S, 2], start [S]."""
        last = self.n_states - 1
        transitions = np.zeros((self.n_states, 2, self.n_states))
        transitions[0, LEFT, 0] = 1.0
        transitions[0, RIGHT, :2] = _FIRST
        for s in range(1, last):
            transitions[s, LEFT, s - 1] = 1.0
            transitions[s, RIGHT, s - 1 : s + 2] = _MIDDLE
        transitions[last, LEFT, last - 1] = 1.0
        transitions[last, RIGHT, last - 1 :] = _LAST
        rewards = np.zeros((self.n_states, 2))
        rewards[0, LEFT] = _SMALL_REWARD
        rewards[last, RIGHT] = 1.0
        start = np.eye(self.n_states)[0]
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start))
