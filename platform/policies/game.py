"""Learned joint policy of a Markov game, and the policy of each player, as plain callables."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import EnvConfig, MarkovGame, MarkovGameEnv
from dprl.platform.policies.tabular import AgentPolicy, observation_index


@dataclass(frozen=True, eq=False)
class GamePolicy:
    """Joint policy of a two-player zero-sum Markov game, correlated or not.

    table: floats [H, S, A, B], the probability of each pair of actions at every step and state. env: its game.
    generator: random generator of actions; by default a new one with a seed from the operating system. Raises
    ValueError if `table` is not a joint policy of `env`.
    """

    table: NDArray[np.float64] = field(repr=False)
    env: EnvConfig[MarkovGame]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        table = np.array(self.table)
        self.game.marginals(table)  # raises ValueError for an invalid table
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def __call__(self, observation: ArrayLike) -> tuple[int, int]:
        """Return a pair of actions like `act`; `max_player` and `min_player` are the players' own policies."""
        return self.act(observation)

    def act(self, observation: ArrayLike) -> tuple[int, int]:
        """Return the pair of actions (max-player's, min-player's), drawn jointly, at (steps taken, state), int64 [2].

        Raises ValueError for an observation without an action.
        """
        chances = self.table[observation_index(observation, self.table)].ravel()
        a, b = divmod(int(self.generator.choice(chances.size, p=chances)), self.game.n_min_actions)
        return a, b

    @cached_property
    def max_player(self) -> AgentPolicy:
        """The max-player's marginal: its policy without knowledge of the min-player's action."""
        return AgentPolicy(self.game.marginals(self.table)[0], self.generator)

    @cached_property
    def min_player(self) -> AgentPolicy:
        """The min-player's marginal."""
        return AgentPolicy(self.game.marginals(self.table)[1], self.generator)

    @cached_property
    def game(self) -> MarkovGame:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The max-player's exact expected return of an episode with jointly drawn pairs of actions."""
        return float(self.game.start @ self.game.value(self.table)[0])

    @property
    def exploitability(self) -> float:
        """The exact duality gap V^{dagger,nu} - V^{mu,dagger} of the marginals mu and nu; 0 at a Nash equilibrium."""
        return self.game.exploitability(self.max_player.table, self.min_player.table)

    @property
    def env_config(self) -> dict[str, Any]:
        """The game's name and settings, for `dprl.envs.make_game` and RLlib's env_config."""
        return {"game": self.env.name, **dataclasses.asdict(self.env)}  # type: ignore[call-overload]

    def make_env(self) -> MarkovGameEnv:
        """Make the policy's PettingZoo environment."""
        return MarkovGameEnv(self.game)
