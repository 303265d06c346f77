"""Policies as tables over steps and states: of an MDP, of a Markov game, and of cooperating agents."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs import Env, EnvConfig, FiniteMDP, LinearMixtureEnv, LinearMixtureMDP, MarkovGame, MarkovGameEnv, played


class GymnasiumPolicy:
    """Policy of a run in a Gymnasium environment. env: the environment's settings."""

    env: EnvConfig[Any]

    def make_env(self) -> gymnasium.Env[Any, Any]:
        """Make the policy's Gymnasium environment; a `GymnasiumTable` maps rewards to [0, 1]."""
        env_id = f"dprl.envs:dprl/{type(self.env).__name__}-v0"
        return gymnasium.make(env_id, **dataclasses.asdict(self.env))  # type: ignore[call-overload]


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
        return np.asarray(self.probability_table[observation_index(observation, self.table)])

    @property
    def deterministic(self) -> bool:
        """Whether the table names one action per step and state."""
        return self.table.ndim == 2

    @property
    def probability_table(self) -> NDArray[np.float64]:
        """The probability [H, S, A] of each action at every step and state."""
        table = np.eye(self.n_actions)[self.table] if self.deterministic else self.table
        return np.array(table, dtype=np.float64)


@dataclass(frozen=True, eq=False)
class AgentPolicy(ActionTable):
    """One player's or agent's part of a joint policy: `policy(observation)` is its action.

    table: floats [H, S, A], the probability of each of its A actions. generator: draws its actions.
    """

    table: NDArray[np.float64] = field(repr=False)
    generator: np.random.Generator


@dataclass(frozen=True, eq=False)
class _RunPolicy:
    """A run's table of a policy, its environment, and the generator of its actions, by default a new one.

    Raises ValueError if `table` is not a policy of `env`.
    """

    table: NDArray[Any] = field(repr=False)
    env: EnvConfig[Any]
    generator: np.random.Generator = field(default_factory=np.random.default_rng)
    plays: ClassVar[type[Any]] = object

    def __post_init__(self) -> None:
        table = np.array(self.table)
        self._built.value(table)  # raises ValueError for an invalid table
        table.setflags(write=False)
        object.__setattr__(self, "table", table)

    @cached_property
    def _built(self) -> Any:  # noqa: ANN401 - the class depends on the environment
        return played(self.env.build(), self.plays)


@dataclass(frozen=True, eq=False)
class TabularPolicy(_RunPolicy, ActionTable, GymnasiumPolicy):
    """Policy of a finite MDP as a function: `policy(observation)` is an action.

    table: integers [H, S], one action per step and state, or floats [H, S, A] with rows of probabilities. env: its
    environment; a linear mixture MDP is one of joint actions. generator: random generator for stochastic tables.
    """

    plays: ClassVar[type[Env]] = FiniteMDP

    @property
    def mdp(self) -> FiniteMDP:
        """The environment as arrays."""
        mdp: FiniteMDP = self._built
        return mdp

    @property
    def n_actions(self) -> int:
        return self.mdp.n_actions

    @property
    def start_value(self) -> float:
        """The exact expected return v of an episode.

        If the env is a `GymnasiumTable` with `reward_range` (low, high), H low + (high - low) v is the return in the
        environment's own rewards; those after an early end are 0.
        """
        return self.mdp.start_value(self.table)


@dataclass(frozen=True, eq=False)
class GamePolicy(_RunPolicy):
    """Joint policy of a two-player zero-sum Markov game: `policy(observation)` is a pair of actions, drawn jointly.

    table: floats [H, S, A, B], the probability of each pair of actions at every step and state, correlated or not.
    env: its game. generator: random generator of actions.
    """

    def __call__(self, observation: ArrayLike) -> tuple[int, int]:
        """Return the actions (max-player's, min-player's) at (steps taken, state), int64 [2].

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

    @property
    def game(self) -> MarkovGame:
        """The environment as arrays."""
        game: MarkovGame = self._built
        return game

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


@dataclass(frozen=True, eq=False)
class TeamPolicy(_RunPolicy):
    """Policies of all agents of a linear mixture MDP: `policy(observation)` is a tuple with each agent's action.

    table: floats [H, S, n, A], each agent's probabilities of its actions at every step and state. env: its
    environment. generator: random generator of actions.
    """

    def __post_init__(self) -> None:
        shape = (self.mdp.horizon, self.mdp.n_states, self.mdp.n_agents, self.mdp.n_actions)
        table = np.asarray(self.table)
        if table.dtype.kind != "f" or table.shape != shape:
            # The environment also accepts integers and joint actions, which are not one policy per agent.
            wrong = f"policy must be floats of shape {shape}, got {table.dtype} {table.shape}"
            raise ValueError(f"{wrong}; pass the probabilities of each agent's actions at every step and state")
        super().__post_init__()

    def __call__(self, observation: ArrayLike) -> tuple[int, ...]:
        """Return the actions of agents 0 to n-1 at (steps taken, state), int64 [2].

        Raises ValueError for an observation without an action.
        """
        return tuple(act(observation) for act in self.agents)

    @cached_property
    def agents(self) -> tuple[AgentPolicy, ...]:
        """The policies of all agents, 0 to n-1; they draw with the same generator."""
        return tuple(AgentPolicy(self.table[:, :, i], self.generator) for i in range(self.mdp.n_agents))

    @property
    def mdp(self) -> LinearMixtureMDP:
        """The environment as arrays."""
        mdp: LinearMixtureMDP = self._built
        return mdp

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


def observation_index(observation: ArrayLike, table: NDArray[Any]) -> tuple[int, int]:
    """Return (steps taken, state), an index of `table` [H, S, ...]; raises ValueError after H steps."""
    found = np.asarray(observation)
    sizes = table.shape[:2]
    whole = found.shape == (2,) and np.issubdtype(found.dtype, np.integer)
    if not whole or (found < 0).any() or (found >= sizes).any():
        wrong = f"observation must be integers (steps taken, state) below {sizes}, got {observation!r}"
        raise ValueError(f"{wrong}; pass an observation of the environment, and reset it after the last step")
    return int(found[0]), int(found[1])
