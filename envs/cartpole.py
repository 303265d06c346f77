"""CartPole with a different gravity for every agent: compiled steps of many episodes, the spec, and Gymnasium's form.

Each lane has an independent episode. Its numbers depend neither on the number of lanes nor on its position: no kernel
mixes lanes or lets the compiler reorder or fuse float operations. With NUMBA_DISABLE_JIT=1 the bits are the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs.base import Env
from dprl.envs.checks import require_integer, require_integers, require_number

Floats = NDArray[np.float64]
Observation = NDArray[np.float32]

POSITION_LIMIT = 2.4
"""End of the track, in metres from its middle."""
ANGLE_LIMIT = 12 * 2 * math.pi / 360
"""Largest angle of the pole, in radians."""
HALF_POLE = 0.5
"""Half of the length of the pole, in metres."""

_STEP = 0.02
_FORCE = 10.0
_POLE = 0.1
_MOMENT = _POLE * HALF_POLE
_PER_MASS = 1.0 / (1.0 + _POLE)  # Multiplying is faster than dividing; the results differ in the last bit.
_FIRST_WIDTH = 0.1
LARGEST_GRAVITY = 50.0
"""Twice that of Jupiter, in m/s^2; a larger number is a slip of the keyboard."""

_MOST_GRAVITIES = 10**6


@kernel
def fallen(x: float, angle: float) -> bool:
    """Return whether the cart has left its track or the pole leans too far; x in metres, angle in radians."""
    # Not `or`: a jump would prevent the vectorisation of `step_lanes` over lanes.
    return (abs(x) > POSITION_LIMIT) | (abs(angle) > ANGLE_LIMIT)


@kernel
def _sine(angle: float, square: float) -> float:
    """Return the sine, to about one unit in the last place for |angle| <= pi / 4; square: angle^2.

    The coefficients are those of fdlibm, added in pairs: a step waits for its longest chain of operations.
    """
    low = -1.66666666666666324348e-01 + square * 8.33333333332248946124e-03
    middle = -1.98412698298579493134e-04 + square * 2.75573137070700676789e-06
    high = -2.50507602534068634195e-08 + square * 1.58969099521155010221e-10
    fourth = square * square
    return angle + angle * square * (low + fourth * (middle + fourth * high))


@kernel
def _cosine(square: float) -> float:
    """Return the cosine of an angle of this square, as `_sine` does."""
    low = 4.16666666666666019037e-02 + square * -1.38888888888741095749e-03
    middle = 2.48015872894767294178e-05 + square * -2.75573143513906633035e-07
    high = 2.08757232129817482790e-09 + square * -1.13596475577881948265e-11
    fourth = square * square
    return 1.0 - (0.5 * square - fourth * (low + fourth * (middle + fourth * high)))


@no_alloc_kernel
def step_lanes(state: Floats, action: Floats, gravity: Floats) -> None:
    """Advance every lane by one step of 0.02 s, in place; a fallen lane does not change.

    state: [4, L], the rows position (m), velocity (m/s), angle (rad), angular velocity (rad/s). action: [L], 0.0 pushes
    left, 1.0 right. gravity: [L], m/s^2. The equations and Euler's method are those of CartPole-v0 of the OpenAI Gym,
    from R. Florian, 'Correct equations for the dynamics of the cart-pole system', 2007, without friction.
    """
    for lane in range(state.shape[1]):
        x, velocity, angle, spin = state[0, lane], state[1, lane], state[2, lane], state[3, lane]
        square = angle * angle
        sine, cosine = _sine(angle, square), _cosine(square)
        force = 2.0 * _FORCE * action[lane] - _FORCE
        push = (force + _MOMENT * spin * spin * sine) * _PER_MASS
        inertia = HALF_POLE * (4.0 / 3.0 - _POLE * _PER_MASS * (cosine * cosine))
        spin_change = (gravity[lane] * sine - cosine * push) / inertia
        velocity_change = push - _MOMENT * _PER_MASS * (spin_change * cosine)
        # The polynomials are valid for small angles only; without this an idle lane would diverge to infinity.
        step = 0.0 if fallen(x, angle) else _STEP
        state[0, lane] = x + step * velocity
        state[1, lane] = velocity + step * velocity_change
        state[2, lane] = angle + step * spin
        state[3, lane] = spin + step * spin_change


@no_alloc_kernel
def first_state(state: Floats, lane: int, uniforms: Floats) -> None:
    """Put a lane at the start of an episode: four numbers uniform in [-0.05, 0.05); uniforms: [4], in [0, 1)."""
    for row in range(4):
        state[row, lane] = _FIRST_WIDTH * (uniforms[row] - 0.5)


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
    kind: ClassVar[str] = "control task"
    builds: ClassVar[type[Env]]
    observation_size: ClassVar[int] = 4
    """Position, velocity, angle, angular velocity."""
    n_actions: ClassVar[int] = 2
    """0 pushes left, 1 right."""

    gravity_low: float = 9.7
    gravity_high: float = 9.9
    n_gravities: int = 3
    horizon: int = 200

    def __post_init__(self) -> None:
        require_number("gravity_low", self.gravity_low, 0.0, LARGEST_GRAVITY)
        require_number("gravity_high", self.gravity_high, 0.0, LARGEST_GRAVITY)
        require_integers(self, n_gravities=1, horizon=1)
        if self.gravity_high < self.gravity_low:
            rule = f"gravity_high must be at least gravity_low = {self.gravity_low:g}"
            raise ValueError(f"{rule}, got {self.gravity_high:g}; swap them")
        if self.n_gravities == 1 and self.gravity_high > self.gravity_low:
            rule = f"n_gravities must be at least 2 for the range {self.gravity_low:g} to {self.gravity_high:g}"
            raise ValueError(f"{rule}, got 1; raise it, or make gravity_high equal to gravity_low")
        if self.n_gravities > _MOST_GRAVITIES:
            rule = f"n_gravities must be at most {_MOST_GRAVITIES}"
            raise ValueError(f"{rule}, got {self.n_gravities}; lower n_gravities")

    def build(self) -> CartPoleGravity:
        """Return the task itself: it has no tables."""
        return self

    @cached_property
    def gravities(self) -> NDArray[np.float64]:
        """Those that agents have, all equally likely, read-only: float64 [G], m/s^2."""
        gravities: NDArray[np.float64] = np.linspace(self.gravity_low, self.gravity_high, self.n_gravities)
        gravities.setflags(write=False)
        return gravities

    def gravity_of(self, agent: int) -> float:
        """Return the gravity of an agent, in m/s^2: that of its number >= 0 modulo G.

        Random agent numbers therefore give random gravities. Raises ValueError on another number.
        """
        require_integer("agent", agent, 0)
        return float(self.gravities[int(agent) % self.n_gravities])


CartPoleGravity.builds = CartPoleGravity


class CartPoleGravityEnv(gymnasium.Env[Observation, int]):
    """Episodes of CartPole, each of an agent with a secret gravity; has the fields of CartPoleGravity.

    Observation: float32 [4], position (m), velocity, angle (rad), angular velocity. Action: Discrete(2), left or right.
    Reward: 1 per step. An episode is terminated when the pole or the cart is out of bounds, truncated when it still
    stands after `horizon` steps. info: empty. `gravity` is that of the episode, nan before the first one, for
    simulators of agents only; observations and info do not contain it. Raises ValueError on other values and on an
    action out of range, gymnasium.error.ResetNeeded on a step without an episode.
    Paper: [OT20] sec. 4.
    """

    def __init__(
        self,
        gravity_low: float = CartPoleGravity.gravity_low,
        gravity_high: float = CartPoleGravity.gravity_high,
        n_gravities: int = CartPoleGravity.n_gravities,
        horizon: int = CartPoleGravity.horizon,
        render_mode: None = None,
    ) -> None:
        self.task = CartPoleGravity(gravity_low, gravity_high, n_gravities, horizon)
        self.render_mode = render_mode
        # Twice the limits, so that the observation after a fall is inside as well.
        high = np.array([2.0 * POSITION_LIMIT, np.inf, 2.0 * ANGLE_LIMIT, np.inf], dtype=np.float32)
        self.observation_space = spaces.Box(-high, high, dtype=np.float32)
        self.action_space = spaces.Discrete(self.task.n_actions)
        self.gravity = math.nan
        self._state = np.zeros((4, 1))
        self._steps = self.task.horizon

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode: draw its first state, and its gravity unless an option sets it.

        options: {"gravity": m/s^2 in [0, 50]}, or {"agent": integer >= 0} for the gravity that this agent always has
        (see `CartPoleGravity.gravity_of`). They change no later draws. Raises ValueError on other options.
        """
        super().reset(seed=seed, options=options)
        uniforms, index = self.np_random.random(4), int(self.np_random.integers(self.task.gravities.size))
        self.gravity, options = float(self.task.gravities[index]), options or {}
        if len(options) > 1 or not set(options) <= {"gravity", "agent"}:
            rule = "options must be empty or have one key, gravity or agent"
            raise ValueError(f"{rule}, got {', '.join(map(str, options))}; pass one of them")
        if "agent" in options:
            self.gravity = self.task.gravity_of(options["agent"])
        if "gravity" in options:
            require_number("gravity", options["gravity"], 0.0, LARGEST_GRAVITY)
            self.gravity = float(options["gravity"])
        first_state(self._state, 0, uniforms)
        self._steps = 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Push left (0) or right (1); returns (observation, 1.0, terminated, truncated, {})."""
        if self._steps >= self.task.horizon:
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        if not self.action_space.contains(action):
            raise ValueError(f"action must be in 0..{self.task.n_actions - 1}, got {action!r}; pass an integer")
        step_lanes(self._state, np.array([float(action)]), np.array([self.gravity]))
        terminated = bool(fallen(self._state[0, 0], self._state[2, 0]))
        self._steps += 1
        truncated = self._steps == self.task.horizon and not terminated
        if terminated:
            self._steps = self.task.horizon
        return self._observation(), 1.0, terminated, truncated, {}

    def _observation(self) -> Observation:
        return self._state[:, 0].astype(np.float32)
