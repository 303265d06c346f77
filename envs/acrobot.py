"""Acrobot with different link masses for every user: single and vectorised environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.acrobot import AcrobotEnv
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from dprl.envs.checks import require_integer, table

__all__ = ["LARGEST_MASS", "AcrobotMassesEnv"]

LARGEST_MASS = 10.0
"""Of a link, in kg; a larger number is a slip of the keyboard."""
NOMINAL = ((1.0, 1.0),)
"""Masses of Gymnasium's Acrobot, in kg."""

Floats = NDArray[np.float64]


class AcrobotMassesEnv(AcrobotEnv):
    """Gymnasium's Acrobot-v1, with link masses that are drawn for each episode.

    masses: pairs (link 1, link 2) in kg, each in (0, 10], all equally likely. Moments of inertia stay 1 kg m^2.
    render_mode: as in Gymnasium. `link_masses` is the episode's pair, for simulators of users only; observations and
    info do not contain it. Raises ValueError on other values.
    """

    def __init__(self, masses: Sequence[tuple[float, float]] = NOMINAL, render_mode: str | None = None) -> None:
        super().__init__(render_mode)
        self.masses = table("masses", masses, 2)
        if self.masses.shape[1] != 2 or not ((self.masses > 0.0) & (self.masses <= LARGEST_MASS)).all():
            raise ValueError(
                f"masses must be pairs of numbers in (0, {LARGEST_MASS:g}], got {masses!r}; write e.g. ((1.0, 1.0),)"
            )
        self.link_masses = self.masses[0]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode: draw its first state, as Gymnasium does, and then its masses."""
        seen, info = super().reset(seed=seed, options=options)
        self.link_masses = self.masses[int(self.np_random.integers(len(self.masses)))]
        self.LINK_MASS_1, self.LINK_MASS_2 = self.link_masses
        return seen, info


class _Copies(AcrobotEnv):
    """Equations of Gymnasium's Acrobot for n copies, with masses float64[n]."""

    def moved(self, state: Floats, torque: Floats) -> Floats:
        """Return the states float64[4, n] after a step of 0.2 s: Runge and Kutta's method, angles in [-pi, pi]."""
        first = self._slope(state, torque)
        second = self._slope(state + self.dt / 2.0 * first, torque)
        third = self._slope(state + self.dt / 2.0 * second, torque)
        fourth = self._slope(state + self.dt * third, torque)
        found = state + self.dt / 6.0 * (first + 2 * second + 2 * third + fourth)
        angles = found[:2]
        while (above := angles > np.pi).any():
            angles[above] -= 2 * np.pi
        while (below := angles < -np.pi).any():
            angles[below] += 2 * np.pi
        fastest = np.array([[self.MAX_VEL_1], [self.MAX_VEL_2]])
        found[2:] = np.clip(found[2:], -fastest, fastest)
        return found

    def _slope(self, state: Floats, torque: Floats) -> Floats:
        return np.stack(self._dsdt([*state, torque])[:4])  # type: ignore[no-untyped-call]


class _AcrobotMassesVectorEnv(VectorEnv[NDArray[np.float32], NDArray[np.int64], NDArray[Any]]):
    """n episodes of AcrobotMassesEnv that are stepped together: 2 us a step at 200 copies, not 35.

    A copy draws as AcrobotMassesEnv does with the seed `seed` + its number. After the end of an episode, the next step
    resets the copy. Arguments and errors: as AcrobotMassesEnv, without pictures; max_episode_steps: most steps.
    """

    metadata: ClassVar[dict[str, Any]] = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # type: ignore[misc]

    def __init__(
        self, num_envs: int, masses: Sequence[tuple[float, float]] = NOMINAL, max_episode_steps: int = 500
    ) -> None:
        require_integer("num_envs", num_envs, 1)
        self.num_envs, self.max_episode_steps = num_envs, max_episode_steps
        self._users = [AcrobotMassesEnv(masses) for _ in range(num_envs)]
        self.single_observation_space = self._users[0].observation_space
        self.single_action_space = self._users[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._copies = _Copies()
        self.link_masses = np.ones((2, num_envs))
        self._state, self._over = np.zeros((4, num_envs)), np.ones(num_envs, dtype=bool)
        self._steps = np.zeros(num_envs, dtype=np.int64)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Start an episode of every copy. options: as in Gymnasium."""
        for i, user in enumerate(self._users):
            user.reset(seed=None if seed is None else seed + i, options=options)
        self._take(np.ones(self.num_envs, dtype=bool))
        return self._seen(), {}

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Apply torques of -1, 0 or 1 N m by actions int64[n] in 0..2. Raises gymnasium.error.ResetNeeded."""
        if not self._steps.any() and self._over.all():
            raise gymnasium.error.ResetNeeded("no episode is under way; call reset() before step()")
        fresh = self._over
        self._state = self._copies.moved(self._state, np.asarray(actions, dtype=np.float64) - 1.0)
        self._steps += 1
        for i in np.flatnonzero(fresh):
            self._users[i].reset()
        self._take(fresh)
        first, second = self._state[:2]
        ended = (-np.cos(first) - np.cos(second + first) > 1.0) & ~fresh
        cut = self._steps >= self.max_episode_steps
        self._over = ended | cut
        return self._seen(), np.where(ended | fresh, 0.0, -1.0), ended, cut, {}

    def _take(self, fresh: NDArray[np.bool_]) -> None:
        """Store the first states and masses of copies that have been reset."""
        for i in np.flatnonzero(fresh):
            self._state[:, i], self.link_masses[:, i] = self._users[i].state, self._users[i].link_masses
        self._steps[fresh] = 0
        self._over = self._over & ~fresh
        self._copies.LINK_MASS_1, self._copies.LINK_MASS_2 = self.link_masses  # type: ignore[assignment]

    def _seen(self) -> NDArray[np.float32]:
        first, second, *speeds = self._state
        return np.stack(
            [np.cos(first), np.sin(first), np.cos(second), np.sin(second), *speeds], axis=1, dtype=np.float32
        )
