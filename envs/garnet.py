"""Garnet: generic average-reward non-stationary environment test bed, here with fixed dynamics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_integers, require_size


@dataclass(frozen=True)
class Garnet:
    """Garnet(S, A, b): every state and action leads to b random states.

    For each (s, a), b distinct successors are drawn uniformly; their probabilities are the parts of [0, 1] between b-1
    uniform cut points. Dynamics and rewards are the same at every step. Two choices are ours: mean rewards are
    uniform on [0, 1] per (s, a) without noise, not N(0, 1) as in Bhatnagar et al., and episodes start in state 0.

    n_states, n_actions, horizon: at least 1. branching: b, from 1 to n_states. seed: at least 0; the same
    seed gives the same MDP, bit for bit. Raises ValueError on other values.
    Paper: Archibald, McKinnon, Thomas, 'On the generation of Markov decision processes', JORS 46, 1995;
    Bhatnagar, Sutton, Ghavamzadeh, Lee, 'Natural actor-critic algorithms', Automatica 45, 2009.
    """

    name: ClassVar[str] = "garnet"
    builds: ClassVar[type[Env]] = FiniteMDP
    stationary: ClassVar[bool] = True

    n_states: int = 10
    n_actions: int = 4
    branching: int = 3
    horizon: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        require_integers(self, n_states=1, n_actions=1, branching=1, horizon=1, seed=0)
        if self.branching > self.n_states:
            rule = f"branching must be at most n_states = {self.n_states}"
            raise ValueError(f"{rule}, got {self.branching}; lower branching or raise n_states")
        require_size(self.name, self.sizes, "horizon, n_states or n_actions")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), int(self.n_states), int(self.n_actions)

    @property
    def n_successors(self) -> int:
        """The number of possible next states of a state and an action."""
        return int(self.branching)

    def build(self) -> FiniteMDP:
        """Draw the MDP: transitions [H, S, A, S], rewards [H, S, A], start [S]."""
        generator = np.random.default_rng(self.seed)
        pairs = self.n_states * self.n_actions
        orders = generator.permuted(np.tile(np.arange(self.n_states), (pairs, 1)), axis=1)
        cuts = np.sort(generator.random((pairs, self.branching - 1)), axis=1)
        chances = np.zeros((pairs, self.n_states))
        parts = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
        np.put_along_axis(chances, orders[:, : self.branching], parts, axis=1)
        transitions = chances.reshape(self.n_states, self.n_actions, self.n_states)
        rewards = generator.random((self.n_states, self.n_actions))
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start=0))
