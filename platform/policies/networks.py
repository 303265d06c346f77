"""Learned networks as plain callables: an actor-critic on CartPole, and policies of any Gymnasium environment."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike, NDArray

from dprl.algorithms.dppg.network import Network
from dprl.envs import CartPoleGravity, Control, ControlLog, ControlTask, EnvConfig
from dprl.envs.control import to_space
from dprl.platform.policies.tabular import GymnasiumPolicy

if TYPE_CHECKING:
    from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ActorCriticPolicy(GymnasiumPolicy):
    """An actor-critic as a function: `policy(observation)` is the action with the largest logit.

    parameters: float64 [d], the concatenation of the shared layer c [units, observations], the logits p [actions,
    units] and the value v [units], each row-major; ReLU units without biases. env: its task.
    generator: random generator of `sample`; by default a new one with a seed from the operating system. Raises
    ValueError if `parameters` do not fit such a network.
    """

    parameters: Floats = field(repr=False)
    env: EnvConfig[CartPoleGravity]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        parameters = np.array(self.parameters)
        a_unit = self.task.observation_size + self.task.n_actions + 1
        if parameters.ndim != 1 or parameters.dtype.kind != "f" or not parameters.size or parameters.size % a_unit:
            rule = f"parameters must be a vector of floats, {a_unit} per unit"
            raise ValueError(f"{rule}, got {parameters.dtype} {parameters.shape}; pass c, p and v of one network")
        if not np.isfinite(parameters).all():
            raise ValueError("parameters must be finite, got infinity or NaN; the run has diverged")
        parameters.setflags(write=False)
        object.__setattr__(self, "parameters", parameters)

    def __call__(self, observation: ArrayLike) -> int | NDArray[np.int64]:
        """Return the action with the largest logit, the first of equal ones; int64 [n] for observations [n, 4].

        Raises ValueError for an invalid observation.
        """
        chosen: NDArray[np.int64] = np.argmax(self.logits(observation), axis=-1)
        return chosen if chosen.ndim else int(chosen)

    def sample(self, observation: ArrayLike) -> int:
        """Return an action drawn with the policy's probabilities for one observation [4]."""
        chances = self.probabilities(observation)
        return int(self.generator.choice(self.task.n_actions, p=chances))

    def probabilities(self, observation: ArrayLike) -> Floats:
        """Return the probability [A] of each action, or [n, A] for observations [n, 4]."""
        logits = self.logits(observation)
        weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))

    def logits(self, observation: ArrayLike) -> Floats:
        """Return the logit [A] of each action, or [n, A] for observations [n, 4]."""
        return np.asarray(self._hidden(observation) @ self.layers[1].T)

    def value(self, observation: ArrayLike) -> Floats:
        """Return the critic's value of an observation, float64, or [n] for observations [n, 4]."""
        return np.asarray(self._hidden(observation) @ self.layers[2])

    def _hidden(self, observation: ArrayLike) -> Floats:
        seen, size = np.asarray(observation, dtype=np.float64), self.task.observation_size
        if seen.ndim not in (1, 2) or seen.shape[-1] != size:
            rule = f"observation must be floats of shape ({size},) or (n, {size})"
            raise ValueError(f"{rule}, got {seen.shape}; pass an observation of the environment")
        return np.maximum(seen @ self.layers[0].T, 0.0)

    @cached_property
    def layers(self) -> tuple[Floats, Floats, Floats]:
        """The layers c [units, observations], p [actions, units] and v [units]."""
        inputs, actions = self.task.observation_size, self.task.n_actions
        units = self.parameters.size // (inputs + actions + 1)
        first, logits, value = np.split(self.parameters, [units * inputs, units * (inputs + actions)])
        return first.reshape(units, inputs), logits.reshape(actions, units), value

    @cached_property
    def task(self) -> CartPoleGravity:
        """The environment's parameters."""
        return self.env.build()

    def to_rl_module(self) -> ActorCriticModule:
        """Return the network as an RLModule of RLlib, in torch; it can be trained further."""
        # Imported here because torch and RLlib take seconds to load, and acting needs neither.
        from dprl.algorithms.pgc_a3c.on_rllib.module import ActorCriticModule  # noqa: PLC0415

        env = self.make_env()
        model = {"hidden": self.layers[2].size, "parameters": self.parameters.tolist()}
        return ActorCriticModule(
            observation_space=env.observation_space, action_space=env.action_space, model_config=model
        )


@dataclass(frozen=True, eq=False)
class ControlPolicy:
    """A network as a function: `policy(observation)` is the most probable action.

    parameters: float64 [d], see `Network`. env: its environment. generator: random generator of `sample`. network: its
    layers. Raises ValueError if `parameters` do not fit the network.
    """

    parameters: NDArray[np.float64] = field(repr=False)
    env: Control | ControlLog
    generator: np.random.Generator
    network: Network

    def __post_init__(self) -> None:
        parameters = np.array(self.parameters, dtype=np.float64)
        if parameters.shape != (self.network.dimension,) or not np.isfinite(parameters).all():
            rule = f"parameters must be {self.network.dimension} finite floats"
            raise ValueError(f"{rule}, got {parameters.shape}; pass those of the run's network")
        parameters.setflags(write=False)
        object.__setattr__(self, "parameters", parameters)

    def __call__(self, observation: ArrayLike) -> Any:  # noqa: ANN401 - an action of the environment
        """Return the most probable action for one observation. Raises ValueError for another shape, or nan."""
        return self._action(observation, None)

    def sample(self, observation: ArrayLike) -> Any:  # noqa: ANN401 - an action of the environment
        """Return an action drawn from the policy for one observation. Raises ValueError like a call."""
        return self._action(observation, self.generator)

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the policy's Gymnasium environment, with the run's horizon. Raises ValueError for a log without one."""
        if self.task.entry.entry_point is None:
            raise ValueError("env_id must be set for an environment, got a log without a simulator; make your own")
        return TimeLimit(gymnasium.make(self.task.entry, **self.task.arguments), self.task.horizon)

    @cached_property
    def task(self) -> ControlTask:
        """The environment's task."""
        return self.env.task if isinstance(self.env, ControlLog) else self.env.build()

    def _action(self, observation: ArrayLike, rng: np.random.Generator | None) -> Any:  # noqa: ANN401
        shape = self.task.observed.shape
        given = np.asarray(observation)
        if given.shape != shape or not np.isfinite(given).all():
            rule = f"observation must be one of {self.task.entry.id}, finite numbers of shape {shape}"
            raise ValueError(f"{rule}, got {given.shape}; call the policy once for each observation")
        act = self.network.acting(self.parameters, rng, tensors=False)
        return to_space(self.task.taken, act(self.task.flat(given[np.newaxis])))[0]
