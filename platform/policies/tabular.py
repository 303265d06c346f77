"""Policies as tables: one action, or the probabilities of all actions, per step and state."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import EnvConfig, FiniteMDP


class GymnasiumPolicy:
    """Policy of a run in a Gymnasium environment. env: the environment's settings."""

    env: EnvConfig[Any]

    @property
    def env_id(self) -> str:
        """Environment id for `gymnasium.make`; the part before the colon is imported first."""
        return f"dprl.envs:dprl/{type(self.env).__name__}-v0"

    @property
    def env_settings(self) -> dict[str, Any]:
        """Additional keywords for `gymnasium.make`."""
        return dataclasses.asdict(self.env)  # type: ignore[call-overload, no-any-return]

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the policy's Gymnasium environment; a `GymnasiumTable` maps rewards to [0, 1]."""
        return gymnasium.make(self.env_id, **self.env_settings)


class ActionTable:
    """Policy table of one player or agent as a function: `policy(observation)` is an action.

    table: integers [H, S], one action per step and state, or floats [H, S, A] with rows of probabilities.
    generator: random generator for stochastic tables.
    """

    table: NDArray[Any]
    generator: np.random.Generator

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return int(self.table.shape[2])

    def __call__(self, observation: ArrayLike) -> int:
        """Return the action at (steps taken, state), int64 [2]. Raises ValueError if there is none."""
        here = observation_index(observation, self.table)
        if self.deterministic:
            return int(self.table[here])
        return int(self.generator.choice(self.n_actions, p=self.table[here]))

    def probabilities(self, observation: ArrayLike) -> NDArray[np.float64]:
        """Return the probability [A] of each action at (steps taken, state)."""
        chances: NDArray[np.float64] = self.probability_table[observation_index(observation, self.table)]
        return chances

    @property
    def deterministic(self) -> bool:
        """Whether the table names one action per step and state."""
        return self.table.ndim == 2

    @property
    def probability_table(self) -> NDArray[np.float64]:
        """The probability [H, S, A] of each action at every step and state."""
        if not self.deterministic:
            return self.table.astype(np.float64)
        chances: NDArray[np.float64] = np.eye(self.n_actions)[self.table]
        return chances


@dataclass(frozen=True, eq=False)
class AgentPolicy(ActionTable):
    """One player's or agent's part of a joint policy: `policy(observation)` is its action.

    table: floats [H, S, A], the probability of each of its A actions. generator: draws its actions.
    """

    table: NDArray[np.float64] = field(repr=False)
    generator: np.random.Generator


@dataclass(frozen=True, eq=False)
class TabularPolicy(ActionTable, GymnasiumPolicy):
    """Policy of a finite MDP as a function: `policy(observation)` is an action.

    table: integers [H, S], one action per step and state, or floats [H, S, A] with rows of probabilities.
    env: its environment. generator: random generator for stochastic tables; by default a new one with a seed from the
    operating system. Raises ValueError if `table` is not a policy of `env`.
    """

    table: NDArray[Any] = field(repr=False)
    env: EnvConfig[FiniteMDP]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        table = np.array(self.table)
        self.mdp.value(table)  # raises ValueError for an invalid table
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @property
    def n_actions(self) -> int:
        return self.mdp.n_actions

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The exact expected return v of an episode.

        If the env is a `GymnasiumTable` with `reward_range` (low, high), H low + (high - low) v is the return in the
        environment's own rewards; those after an early end are 0.
        """
        return self.mdp.start_value(self.table)


def observation_index(observation: ArrayLike, table: NDArray[Any]) -> tuple[int, int]:
    """Return (steps taken, state), an index of `table` [H, S, ...]; raises ValueError after H steps."""
    found = np.asarray(observation)
    sizes = table.shape[:2]
    whole = found.shape == (2,) and np.issubdtype(found.dtype, np.integer)
    if not whole or (found < 0).any() or (found >= sizes).any():
        raise ValueError(
            f"observation must be integers (steps taken, state) below {sizes}, got {observation!r}; "
            "pass an observation of the environment, and reset it after the last step"
        )
    return int(found[0]), int(found[1])
