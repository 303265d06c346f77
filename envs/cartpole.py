"""CartPole with a different gravity for every agent: the task and its spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dprl.envs.base import Env
from dprl.envs.cartpole_dynamics import fallen, first_state, step_lanes
from dprl.envs.checks import require_integer, require_integers, require_number, table

__all__ = ["LARGEST_GRAVITY", "CartPole", "CartPoleGravity", "fallen", "first_state", "step_lanes"]

LARGEST_GRAVITY = 50.0
"""Twice that of Jupiter, in m/s^2; a larger number is a slip of the keyboard."""

_MOST_GRAVITIES = 10**6


@dataclass(frozen=True, eq=False)
class CartPole:
    """A cart with a pole to be balanced for at most `horizon` steps; the reward is 1 per step.

    name: the registry name of the spec that built it.
    gravities: float64 [G], m/s^2, copied and read-only: those that agents have, all equally likely.
    horizon: steps after which an episode ends if the pole still stands.
    The steps themselves are `first_state`, `step_lanes` and `fallen`. Raises ValueError on other values.
    """

    kind: ClassVar[str] = "control task"
    observation_size: ClassVar[int] = 4
    """Position, velocity, angle, angular velocity."""
    n_actions: ClassVar[int] = 2
    """0 pushes left, 1 right."""

    name: str
    gravities: NDArray[np.float64]
    horizon: int

    def __post_init__(self) -> None:
        gravities = table("gravities", self.gravities, 1)
        gravities.setflags(write=False)
        object.__setattr__(self, "gravities", gravities)
        require_integer("horizon", self.horizon, 1)

    def __reduce__(self) -> tuple[Callable[..., CartPole], tuple[object, ...]]:
        # An unpickled array is writeable; rebuilding makes it read-only again.
        return CartPole, (self.name, self.gravities, self.horizon)

    def gravity_of(self, agent: int) -> float:
        """Return the gravity of an agent, in m/s^2: that of its number >= 0 modulo G.

        Random agent numbers therefore give random gravities. Raises ValueError on another number.
        """
        require_integer("agent", agent, 0)
        return float(self.gravities[int(agent) % self.gravities.size])


@dataclass(frozen=True)
class CartPoleGravity:
    """CartPole with a private gravity per agent: one of a few, drawn with equal chances.

    The cart of the Gym's CartPole-v0: an observation is 4 numbers, 2 actions push left or right, the reward is 1 per
    step until the pole leans more than 12 degrees, the cart is more than 2.4 m from the middle, or `horizon` steps end.
    An agent's gravity is one of several that are equally spaced; it is the agent's secret.

    gravity_low, gravity_high: the ends of the range of gravities, m/s^2, in [0, 50]. n_gravities: their number, both
    ends included; 1 if the ends are equal. horizon: steps of the longest episode, at least 1.
    Raises ValueError on other values.
    Paper: [OT20] sec. 4.
    """

    name: ClassVar[str] = "cartpole_gravity"
    builds: ClassVar[type[Env]] = CartPole

    gravity_low: float = 9.7
    gravity_high: float = 9.9
    n_gravities: int = 3
    horizon: int = 200

    def __post_init__(self) -> None:
        require_number("gravity_low", self.gravity_low, 0.0, LARGEST_GRAVITY)
        require_number("gravity_high", self.gravity_high, 0.0, LARGEST_GRAVITY)
        require_integers(self, n_gravities=1, horizon=1)
        if self.gravity_high < self.gravity_low:
            raise ValueError(
                f"gravity_high must be at least gravity_low = {self.gravity_low:g}, got {self.gravity_high:g}; "
                "swap them"
            )
        if self.n_gravities == 1 and self.gravity_high > self.gravity_low:
            raise ValueError(
                f"n_gravities must be at least 2 for the range {self.gravity_low:g} to {self.gravity_high:g}, got 1; "
                "raise it, or make gravity_high equal to gravity_low"
            )
        if self.n_gravities > _MOST_GRAVITIES:
            raise ValueError(
                f"n_gravities must be at most {_MOST_GRAVITIES}, got {self.n_gravities}; lower n_gravities"
            )

    def build(self) -> CartPole:
        """Build the task; its gravities are equally spaced from gravity_low to gravity_high."""
        return CartPole(self.name, np.linspace(self.gravity_low, self.gravity_high, self.n_gravities), self.horizon)
