"""Frozen lake: cross the ice to the goal without falling into a hole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from gymnasium.envs.toy_text.frozen_lake import MAPS, FrozenLakeEnv

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.checks import require_choice, require_flag, require_integers, require_size
from dprl.envs.gymnasium_tables import step_of

__all__ = ["FrozenLake"]

_ACTIONS = 4


@dataclass(frozen=True)
class FrozenLake:
    """FrozenLake of Gymnasium, with its transitions and rewards, for a finite horizon.

    States are the cells, row by row from the start in the top left corner; actions 0 to 3 move left, down, right, up.
    On slippery ice a move goes in the chosen direction or in one of the two at a right angle to it, each with a chance
    of 1/3. The episode does not end in a hole or at the goal; nothing more is earned there. A move that reaches the
    goal earns 1: the reward of a state and action is the chance of that, without noise. Dynamics and rewards are the
    same at every step.

    map_name: '4x4' or '8x8'. is_slippery: whether moves can slip. horizon: at least 1.
    Raises ValueError on other values.

    >>> FrozenLake(is_slippery=False, horizon=6).build().optimal_start_value()
    1.0

    Source: Gymnasium, FrozenLake-v1; its episodes end after 100 steps on the small map and 200 on the large one.
    """

    name: ClassVar[str] = "frozen_lake"
    builds: ClassVar[type[Env]] = FiniteMDP
    stationary: ClassVar[bool] = True

    map_name: str = "4x4"
    is_slippery: bool = True
    horizon: int = 20

    def __post_init__(self) -> None:
        require_choice("map_name", self.map_name, tuple(MAPS))
        require_flag("is_slippery", self.is_slippery)
        require_integers(self, horizon=1)
        require_size(self.name, self.sizes, "horizon")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions: known before anything is built."""
        return int(self.horizon), sum(map(len, MAPS[self.map_name])), _ACTIONS

    def build(self) -> FiniteMDP:
        """Build the lake as arrays: transitions [H, S, 4, S], rewards [H, S, 4], start [S]."""
        lake = FrozenLakeEnv(map_name=self.map_name, is_slippery=self.is_slippery)
        transitions, rewards, start, _ = step_of(lake.P, lake.initial_state_distrib)
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start))
