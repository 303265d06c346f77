"""A game of one's own: hide and seek in a ring of rooms, a zero-sum Markov game of two players."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs import Env, MarkovGame
from dprl.envs.base import stationary
from dprl.envs.checks import require_integer, require_size
from dprl.platform.plugins import register_environment


@register_environment
@dataclass(frozen=True)
class HideAndSeek:
    """Hide and seek: both players move at once, each one room to the left, not at all, or one to the right.

    State: rooms from the seeker (max-player) to the hider (min-player), 0 to n_states - 1. The seeker earns 1 in each
    step that begins in the hider's room. n_states: rooms of the ring, at least 3. horizon: steps, at least 1.

    Raises ValueError on other values.
    """

    name: ClassVar[str] = "hide_and_seek"
    builds: ClassVar[type[Env]] = MarkovGame

    n_states: int = 3
    horizon: int = 4

    def __post_init__(self) -> None:
        require_integer("n_states", self.n_states, 3)
        require_integer("horizon", self.horizon, 1)
        require_size(self.name, (self.horizon, self.n_states, 9), "horizon or n_states")

    def build(self) -> MarkovGame:
        """Build the game as arrays: transitions [H, S, 3, 3, S], rewards [H, S, 3, 3], start [S]: far apart."""
        gaps, moves = np.arange(self.n_states), np.array([-1, 0, 1])
        following = (gaps[:, None, None] - moves[:, None] + moves) % self.n_states  # [S, seeker, hider]
        rewards = np.broadcast_to((gaps == 0.0)[:, None, None], following.shape).astype(np.float64)
        laws = np.eye(self.n_states)[following]
        return MarkovGame(self.name, *stationary(self.horizon, laws, rewards, self.n_states // 2))
