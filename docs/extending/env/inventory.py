"""An environment of one's own: a shop that orders goods before it knows what its customers will ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dprl.envs import Env, FiniteMDP
from dprl.envs.checks import require_integer, require_number, require_size
from dprl.platform.plugins import register_environment


@register_environment
@dataclass(frozen=True)
class Inventory:
    """Inventory: order goods each day, sell to customers, and pay for goods in store.

    State: pieces in store, 0 to n_states - 1. Action: pieces ordered, 0 to n_states - 1; pieces that exceed the store
    are lost. Customers then ask for D pieces, geometric with ratio `demand`. The reward, scaled to [0, 1], is 1 for
    each piece sold minus `cost` for each piece in store, shifted to be at least 0.

    n_states: 1 + the size of the store, at least 2. horizon: days, at least 1. demand: P(D >= d + 1) / P(D >= d), in
    [0, 0.99]. cost: in [0, 1]. Raises ValueError on other values.
    """

    name: ClassVar[str] = "inventory"
    builds: ClassVar[type[Env]] = FiniteMDP

    n_states: int = 4
    horizon: int = 6
    demand: float = 0.6
    cost: float = 0.2

    def __post_init__(self) -> None:
        require_integer("n_states", self.n_states, 2)
        require_integer("horizon", self.horizon, 1)
        require_size(self.name, (self.horizon, self.n_states, self.n_states), "horizon or n_states")
        require_number("demand", self.demand, 0.0, 0.99)
        require_number("cost", self.cost, 0.0, 1.0)

    def build(self) -> FiniteMDP:
        """Build the shop as arrays: transitions [H, S, S, S], rewards [H, S, S], start [S]: an empty store."""
        sizes = np.arange(self.n_states)
        full = self.n_states - 1
        stock = np.minimum(sizes[:, None] + sizes[None, :], full)  # [S, A]: after the delivery
        asked = self.demand**sizes  # P(D >= d)
        law = np.zeros((self.n_states,) * 3)
        sold = np.zeros((self.n_states, self.n_states))
        for s, a in np.ndindex(stock.shape):
            x = stock[s, a]
            chances = -np.diff(asked[: x + 1], append=0.0)  # of selling 0, ..., x pieces; x if more are asked for
            law[s, a, x - np.arange(x + 1)] = chances
            sold[s, a] = chances @ np.arange(x + 1)
        rewards = (sold - self.cost * stock + self.cost * full) / (full * (1.0 + self.cost))
        days = (self.horizon, 1, 1)
        return FiniteMDP(self.name, np.tile(law, (*days, 1)), np.tile(rewards, days), np.eye(self.n_states)[0])
