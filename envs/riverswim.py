"""RiverSwim: a chain where the current carries the swimmer away from the large reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_choice, require_integers, require_size

__all__ = ["RiverSwim"]

LEFT, RIGHT = 0, 1


class _Current(NamedTuple):
    """Effect of `right` (first: stay, right; middle: left, stay, right; last: left, stay) and the rest."""

    first: tuple[float, float]
    middle: tuple[float, float, float]
    last: tuple[float, float]
    small_reward: float
    starts: tuple[int, ...]


# Each number as printed in its source; see the docstring of RiverSwim.
_VERSIONS = {
    "osband": _Current((0.4, 0.6), (0.05, 0.6, 0.35), (0.4, 0.6), 5 / 1000, (0,)),
    "strehl_littman": _Current((0.7, 0.3), (0.1, 0.6, 0.3), (0.7, 0.3), 5 / 10000, (1, 2)),
    "bourel": _Current((0.6, 0.4), (0.05, 0.55, 0.4), (0.4, 0.6), 0.05, (0,)),
}


@dataclass(frozen=True)
class RiverSwim:
    """RiverSwim: a chain of states with a small reward at the near bank and a large one upstream.

    Action 0 (left) always moves one state down (it stays in state 0); action 1 (right) fights the current.
    Rewards: a small one for left in state 0, 1 for right in the last state, 0 elsewhere; scaled to [0, 1].
    States are numbered from 0. Dynamics and rewards are the same at every step.

    n_states: length of the chain, at least 3. horizon: steps of an episode, at least 1.
    version:
      osband: small reward 0.005; start in state 0. Osband, Russo, Van Roy, '(More) efficient reinforcement
        learning via posterior sampling', NeurIPS 2013, with horizon 20.
      strehl_littman: rewards 5 and 10000, here divided by 10000; start in state 1 or 2 with probability 1/2
        each, as public implementations read the source's states 0 to 5. Strehl, Littman, 'An analysis of
        model-based interval estimation for Markov decision processes', JCSS 74, 2008.
      bourel: small reward 0.05; start in state 0. The version of the average-reward (UCRL) literature; transitions as
        in H. Bourel's reference code for the course Online and Reinforcement Learning (2024), rewards and start as in
        other public code for it. No paper with these numbers could be checked.
    Raises ValueError on other values.

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
    version: str = "osband"

    def __post_init__(self) -> None:
        require_integers(self, n_states=3, horizon=1)
        require_size(self.name, self.sizes, "horizon or n_states")
        require_choice("version", self.version, _VERSIONS)

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), 2

    def build(self) -> FiniteMDP:
        """Build the chain as arrays: transitions [H, S, 2, S], rewards [H, S, 2], start [S]."""
        current, last = _VERSIONS[self.version], self.n_states - 1
        transitions = np.zeros((self.n_states, 2, self.n_states))
        transitions[0, LEFT, 0] = 1.0
        transitions[0, RIGHT, :2] = current.first
        for s in range(1, last):
            transitions[s, LEFT, s - 1] = 1.0
            transitions[s, RIGHT, s - 1 : s + 2] = current.middle
        transitions[last, LEFT, last - 1] = 1.0
        transitions[last, RIGHT, last - 1 :] = current.last
        rewards = np.zeros((self.n_states, 2))
        rewards[0, LEFT] = current.small_reward
        rewards[last, RIGHT] = 1.0
        start = np.zeros(self.n_states)
        start[list(current.starts)] = 1.0 / len(current.starts)
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start))
