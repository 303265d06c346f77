"""Learned policy of an MDP as a plain callable."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from dprl.envs import EnvConfig, FiniteMDP
from dprl.platform.policies.action_table import ActionTable


@dataclass(frozen=True, eq=False)
class TabularPolicy(ActionTable):
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
        self.mdp.value(table)  # says what is wrong with it
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return self.mdp.n_actions

    @cached_property
    def mdp(self) -> FiniteMDP:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The exact expected return of an episode."""
        return self.mdp.start_value(self.table)

    @property
    def env_id(self) -> str:
        """Environment id for `gymnasium.make`; the part before the colon is imported first."""
        return f"dprl.envs:dprl/{type(self.env).__name__}-v0"

    @property
    def env_settings(self) -> dict[str, Any]:
        """Additional keywords for `gymnasium.make`."""
        return dataclasses.asdict(self.env)  # type: ignore[call-overload, no-any-return]

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the policy's Gymnasium environment."""
        return gymnasium.make(self.env_id, **self.env_settings)
