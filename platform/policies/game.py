"""A learned joint policy of a Markov game, and each player's part of it as a plain callable."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import EnvConfig, MarkovGame, MarkovGameEnv
from dprl.platform.policies.action_table import ActionTable, place


@dataclass(frozen=True, eq=False)
class PlayerPolicy(ActionTable):
    """One player's part of a GamePolicy as a function: `policy(observation)` is that player's action.

    table: floats [H, S, A], or [H, S, B] for the min-player; rows are probabilities. generator: actions are drawn
    with it.
    """

    table: NDArray[np.float64] = field(repr=False)
    generator: np.random.Generator

    @property
    def n_actions(self) -> int:
        """The number of the player's actions."""
        return int(self.table.shape[2])


@dataclass(frozen=True, eq=False)
class GamePolicy:
    """A joint policy of a two-player zero-sum Markov game, correlated or not.

    table: floats [H, S, A, B], the probability of each pair of actions at every step and state. env: the game that
    it is for. generator: what actions are drawn with; by default a new one with a seed from the operating system.
    Raises ValueError if `table` is no joint policy of `env`.
    """

    table: NDArray[np.float64] = field(repr=False)
    env: EnvConfig[MarkovGame]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)

    def __post_init__(self) -> None:
        table = np.array(self.table)
        self.game.marginals(table)  # says what is wrong with it
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    def __call__(self, observation: ArrayLike) -> tuple[int, int]:
        """Return a pair of actions, as `act`; the players' own policies are `max_player` and `min_player`."""
        return self.act(observation)

    def act(self, observation: ArrayLike) -> tuple[int, int]:
        """Return the pair of actions (max-player's, min-player's), drawn together, at (steps taken, state), int64 [2].

        Raises ValueError for an observation without an action.
        """
        chances = self.table[place(observation, self.table)].ravel()
        a, b = divmod(int(self.generator.choice(chances.size, p=chances)), self.game.n_min_actions)
        return a, b

    @cached_property
    def max_player(self) -> PlayerPolicy:
        """The max-player's marginal: what it plays without knowing what the min-player drew."""
        return PlayerPolicy(self.game.marginals(self.table)[0], self.generator)

    @cached_property
    def min_player(self) -> PlayerPolicy:
        """The min-player's marginal."""
        return PlayerPolicy(self.game.marginals(self.table)[1], self.generator)

    @cached_property
    def game(self) -> MarkovGame:
        """The environment as arrays."""
        return self.env.build()

    @property
    def start_value(self) -> float:
        """The max-player's exact expected return of an episode in which pairs of actions are drawn together."""
        return float(self.game.start @ self.game.value(self.table)[0])

    @property
    def exploitability(self) -> float:
        """The exact duality gap V^{dagger,nu} - V^{mu,dagger} of the marginals mu and nu; 0 at a Nash equilibrium."""
        return self.game.exploitability(self.max_player.table, self.min_player.table)

    @property
    def env_config(self) -> dict[str, Any]:
        """The game's name and settings, as `dprl.envs.make_game` and the env_config of RLlib take them."""
        return {"game": self.env.name, **dataclasses.asdict(self.env)}  # type: ignore[call-overload]

    def make_env(self) -> MarkovGameEnv:
        """Make the PettingZoo environment that the policy is for."""
        return MarkovGameEnv(self.game)
