"""Learned network as a plain callable, for any environment of Gymnasium."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.algorithms.dppg.network import Network
from dprl.envs import Control, ControlTask


@dataclass(frozen=True, eq=False)
class ControlPolicy:
    """A network as a function: `policy(observation)` is the most probable action.

    parameters: float64 [d], see `Network`. env: its environment. generator: random generator of `sample`. network: its
    layers. Raises ValueError if `parameters` do not fit the network.
    """

    parameters: NDArray[np.float64] = field(repr=False)
    env: Control
    generator: np.random.Generator
    network: Network

    def __post_init__(self) -> None:
        parameters = np.array(self.parameters, dtype=np.float64)
        if parameters.shape != (self.network.dimension,) or not np.isfinite(parameters).all():
            raise ValueError(
                f"parameters must be {self.network.dimension} finite floats, got {parameters.shape}; pass those of the "
                "run's network"
            )
        parameters.setflags(write=False)
        object.__setattr__(self, "parameters", parameters)

    def __call__(self, observation: ArrayLike) -> Any:  # noqa: ANN401 - an action of the environment
        """Return the most probable action for one observation. Raises ValueError for another shape, or nan."""
        return self._action(observation, None)

    def sample(self, observation: ArrayLike) -> Any:  # noqa: ANN401 - an action of the environment
        """Return an action drawn from the policy for one observation. Raises ValueError like a call."""
        return self._action(observation, self.generator)

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the policy's Gymnasium environment."""
        return gymnasium.make(self.task.entry, **self.task.arguments)

    @cached_property
    def task(self) -> ControlTask:
        """The environment's task."""
        return self.env.build()

    def _action(self, observation: ArrayLike, rng: np.random.Generator | None) -> Any:  # noqa: ANN401
        shape = self.task.observed.shape
        given = np.asarray(observation)
        if given.shape != shape or not np.isfinite(given).all():
            rule = f"observation must be one of {self.env.env_id}, finite numbers of shape {shape}"
            raise ValueError(f"{rule}, got {given.shape}; call the policy once for each observation")
        found = self.network.act(self.parameters, self.task.flat(given[np.newaxis]), rng)
        return self.task.to_env(found)[0]
