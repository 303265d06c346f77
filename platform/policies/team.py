"""Learned policies of cooperating agents with independent actions, as plain callables."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import EnvConfig, LinearMixtureEnv, LinearMixtureMDP
from dprl.platform.policies.tabular import AgentPolicy


@dataclass(frozen=True, eq=False)
class TeamPolicy:
    """Policies of all agents of a linear mixture MDP: `policy(observation)` is a tuple with each agent's action.

    table: floats [H, S, n, A], each agent's probabilities of its actions at every step and state. env: its
    environment. generator: random generator of actions; by default a new one with a seed from the operating system.
    Raises ValueError if `table` does not fit `env`.
    """

    table: NDArray[np.float64] = field(repr=False)
    env: EnvConfig[LinearMixtureMDP]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        table, mdp = np.array(self.table), self.mdp
        shape = (mdp.horizon, mdp.n_states, mdp.n_agents, mdp.n_actions)
        if table.dtype.kind != "f" or table.shape != shape:
            # The environment also accepts integers and joint actions, which are not one policy per agent.
            raise ValueError(
                f"policy must be floats of shape {shape}, got {table.dtype} {table.shape}; pass the probabilities of "
                "each agent's actions at every step and state"
            )
        mdp.value(table)  # raises ValueError for other mistakes
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def __call__(self, observation: ArrayLike) -> tuple[int, ...]:
        """Return the actions of agents 0 to n-1 at (steps taken, state), int64 [2].

        Raises ValueError for an observation without an action.
        """
        return tuple(act(observation) for act in self.agents)

    def agent(self, number: int) -> AgentPolicy:
        """Return the policy of one agent, 0 to n-1. Raises ValueError for another number."""
        if not 0 <= number < len(self.agents):
            raise ValueError(f"agent must be in 0..{len(self.agents) - 1}, got {number}; choose one of the agents")
        return self.agents[number]

    @cached_property
    def agents(self) -> tuple[AgentPolicy, ...]:
        """The policies of all agents; they draw with the same generator."""
        return tuple(AgentPolicy(self.table[:, :, i], self.generator) for i in range(self.mdp.n_agents))

    @cached_property
    def mdp(self) -> LinearMixtureMDP:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The exact expected return of an episode, the mean over agents."""
        return self.mdp.start_value(self.table)

    @property
    def env_config(self) -> dict[str, Any]:
        """The environment's name and settings, for `dprl.envs.make_mixture` and RLlib's env_config."""
        return {"mixture": self.env.name, **dataclasses.asdict(self.env)}  # type: ignore[call-overload]

    def make_env(self) -> LinearMixtureEnv:
        """Make the policy's PettingZoo environment."""
        return LinearMixtureEnv(self.mdp)
