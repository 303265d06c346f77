"""CartPole with a private gravity as a Gymnasium environment, one step at a time."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from dprl.envs.cartpole import LARGEST_GRAVITY, CartPoleGravity
from dprl.envs.cartpole_dynamics import ANGLE_LIMIT, HALF_POLE, POSITION_LIMIT, fallen, first_state, step_lanes
from dprl.envs.checks import require_number

__all__ = ["CartPoleGravityEnv"]

Observation = NDArray[np.float32]
Picture = NDArray[np.uint8]

_HEIGHT, _WIDTH = 400, 600
# Pixels: above the lower edge; the cart's sides; above the cart's middle; the pole's thickness.
_TRACK, _CART, _AXLE, _THICKNESS = 100.0, (50.0, 30.0), 7.5, 10.0
_WHITE, _BLACK, _WOOD, _METAL = (255, 255, 255), (0, 0, 0), (202, 152, 101), (129, 132, 203)


class CartPoleGravityEnv(gymnasium.Env[Observation, int]):
    """Episodes of CartPole, each of an agent with a secret gravity; has the fields of CartPoleGravity.

    Observation: float32 [4], position (m), velocity, angle (rad), angular velocity. Action: Discrete(2), left or right.
    Reward: 1 per step. An episode is terminated when the pole or the cart is out of bounds, truncated when it still
    stands after `horizon` steps. info: empty. `gravity` is that of the episode, nan before the first one, for
    simulators of agents only; observations and info do not contain it.
    render_mode: None or rgb_array, uint8 [400, 600, 3]. Raises ValueError on other values and on an action out of
    range, gymnasium.error.ResetNeeded on a step without an episode.
    Paper: [OT20] sec. 4.
    """

    # Gymnasium declares this on the instance and reads it from the class.
    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 50}  # type: ignore[misc]

    def __init__(
        self,
        gravity_low: float = CartPoleGravity.gravity_low,
        gravity_high: float = CartPoleGravity.gravity_high,
        n_gravities: int = CartPoleGravity.n_gravities,
        horizon: int = CartPoleGravity.horizon,
        render_mode: str | None = None,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or rgb_array, got {render_mode!r}; choose one of them")
        self.task = CartPoleGravity(gravity_low, gravity_high, n_gravities, horizon).build()
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
        (see `CartPole.gravity_of`). They apply to this episode and do not change the draws of later ones.
        Raises ValueError on other options.
        """
        super().reset(seed=seed, options=options)
        uniforms, index = self.np_random.random(4), int(self.np_random.integers(self.task.gravities.size))
        self.gravity = self._chosen(options or {}, float(self.task.gravities[index]))
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

    def render(self) -> Picture | None:  # type: ignore[override]  # Gymnasium leaves the kind of frame open
        """Return a picture of the cart and the pole, or None without a render mode."""
        if self.render_mode is None:
            return None
        return _picture(float(self._state[0, 0]), float(self._state[2, 0]))

    def _observation(self) -> Observation:
        return self._state[:, 0].astype(np.float32)

    def _chosen(self, options: dict[str, Any], drawn: float) -> float:
        """Return the gravity set by the options, or else the drawn one. Raises ValueError."""
        if len(options) > 1 or not set(options) <= {"gravity", "agent"}:
            raise ValueError(
                f"options must be empty or have one key, gravity or agent, got {', '.join(map(str, options))}; "
                "pass one of them"
            )
        if "agent" in options:
            return self.task.gravity_of(options["agent"])
        if "gravity" in options:
            require_number("gravity", options["gravity"], 0.0, LARGEST_GRAVITY)
        return float(options.get("gravity", drawn))


def _picture(x: float, angle: float) -> Picture:
    """Return the picture [400, 600, 3] of a cart at x metres with a pole that leans by angle radians to the right."""
    scale = _WIDTH / (2.0 * POSITION_LIMIT)
    # Pixels right of the cart's middle and above it.
    right = np.arange(_WIDTH)[None, :] + 0.5 - _WIDTH / 2.0 - scale * x
    above = _HEIGHT - _TRACK - 0.5 - np.arange(_HEIGHT)[:, None]
    over_axle = above - _AXLE
    along = right * math.sin(angle) + over_axle * math.cos(angle)
    across = right * math.cos(angle) - over_axle * math.sin(angle)
    half = _THICKNESS / 2.0
    picture = np.full((_HEIGHT, _WIDTH, 3), _WHITE, np.uint8)
    picture[int(_HEIGHT - _TRACK)] = _BLACK
    picture[(abs(right) <= _CART[0] / 2.0) & (abs(above) <= _CART[1] / 2.0)] = _BLACK
    pole = (abs(across) <= half) & (along >= -half) & (along <= 2.0 * HALF_POLE * scale - half)
    picture[pole] = _WOOD
    picture[right**2 + over_axle**2 <= half**2] = _METAL
    return picture
