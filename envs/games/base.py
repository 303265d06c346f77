"""Interface of this folder: a finite-horizon two-player zero-sum Markov game as arrays, and its exact solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs.base import FiniteMDP, distinct_steps, unpickled
from dprl.envs.checks import require_distributions, table
from dprl.envs.games.dynamics import GapTables, gap_tables, stage_payoffs
from dprl.envs.games.equilibria import matrix_game

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class MarkovGame:
    """A two-player zero-sum game with H steps, S states, A actions of the max-player and B of the min-player.

    The max-player collects the rewards, the min-player pays them; both act at once.

    name: the registry name of the spec that built it.
    transitions: float64 [H, S, A, B, S'], probabilities of the next state; rows sum to 1.
    rewards: float64 [H, S, A, B] in [0, 1], deterministic given (h, s, a, b).
    start: float64 [S], distribution of the first state.
    joint: the same arrays as an MDP; its action a * B + b is the pair (a, b).
    All arrays are copied and read-only; each step is C-contiguous. Raises ValueError for arrays that are not a game.
    Paper: [QW24] section 2.
    """

    kind: ClassVar[str] = "two-player zero-sum Markov game"

    name: str
    transitions: Floats
    rewards: Floats
    start: Floats
    joint: FiniteMDP = field(init=False, repr=False)

    def __post_init__(self) -> None:
        transitions = table("transitions", distinct_steps(self.transitions), 5)
        rewards = table("rewards", self.rewards, 4)
        start = table("start", self.start, 1)
        horizon, n_states, n_max, n_min = rewards.shape
        if np.shape(self.transitions) != (*rewards.shape, n_states):
            rule = f"transitions must have shape [H, S, A, B, S] = {(*rewards.shape, n_states)} to match rewards"
            raise ValueError(f"{rule}, got {np.shape(self.transitions)}; reshape one of them")
        pairs = (horizon, n_states, n_max * n_min)
        steps = np.broadcast_to(transitions.reshape(-1, *pairs[1:], n_states), (*pairs, n_states))
        joint = FiniteMDP(self.name, steps, rewards.reshape(pairs), start)
        # Views of read-only arrays: the game and its joint MDP share one memory.
        object.__setattr__(self, "joint", joint)
        object.__setattr__(self, "transitions", joint.transitions.reshape(*rewards.shape, n_states))
        object.__setattr__(self, "rewards", joint.rewards.reshape(rewards.shape))
        object.__setattr__(self, "start", joint.start)

    def __reduce__(self) -> tuple[Callable[..., MarkovGame], tuple[object, ...]]:
        # Unpickled arrays are writeable; rebuilding makes them read-only again.
        return unpickled, (MarkovGame, self.name, self.transitions[: self.joint.layers], self.rewards, self.start)

    @classmethod
    def from_mdp(cls, mdp: FiniteMDP) -> MarkovGame:
        """Return the game of an MDP: a min-player with a single action, B = 1."""
        return cls(mdp.name, mdp.transitions[:, :, :, None], mdp.rewards[..., None], mdp.start)

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self.rewards.shape[0])

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return int(self.rewards.shape[1])

    @property
    def n_max_actions(self) -> int:
        """A, the number of actions of the max-player."""
        return int(self.rewards.shape[2])

    @property
    def n_min_actions(self) -> int:
        """B, the number of actions of the min-player."""
        return int(self.rewards.shape[3])

    def marginals(self, policy: ArrayLike) -> tuple[Floats, Floats]:
        """Return the marginals (max-player [H, S, A], min-player [H, S, B]) of a joint policy [H, S, A, B].

        Raises ValueError unless policy[h, s] is a distribution over pairs of actions, as all methods do.
        """
        probabilities = self._joint_policy(policy)
        return probabilities.sum(axis=3), probabilities.sum(axis=2)

    def value(self, policy: ArrayLike) -> Floats:
        """Return the exact value [H + 1, S] of a joint policy [H, S, A, B], correlated or not; row H is 0."""
        return self.joint.value(self._joint_policy(policy).reshape(self.joint.rewards.shape))

    def best_response_to_min(self, min_player: ArrayLike) -> tuple[Floats, Integers]:
        """Return V^{dagger,nu} [H + 1, S], the most against a min-player nu [H, S, B], and actions [H, S] that get it.

        Ties go to the lowest action.
        """
        policy = self._policy("min_player", min_player, (*self.rewards.shape[:2], self.n_min_actions))
        return self._against(policy, "hsabt,hsb->hsat", self.rewards).optimum()

    def best_response_to_max(self, max_player: ArrayLike) -> tuple[Floats, Integers]:
        """Return V^{mu,dagger} [H + 1, S], the least against a max-player mu [H, S, A], and actions [H, S] that get it.

        Ties go to the lowest action.
        """
        policy = self._policy("max_player", max_player, self.rewards.shape[:3])
        # The least sum of rewards r is the number of steps less the largest sum of 1 - r.
        values, actions = self._against(policy, "hsabt,hsa->hsbt", 1.0 - self.rewards).optimum()
        return np.arange(self.horizon, -1, -1.0)[:, None] - values, actions

    def _against(self, policy: Floats, subscripts: str, rewards: Floats) -> FiniteMDP:
        """Return the MDP of one player against the other one's policy."""
        chances = np.einsum(subscripts, self.transitions, policy)
        means = np.einsum(subscripts.replace("t", ""), rewards, policy)
        return FiniteMDP(self.name, chances, np.clip(means, 0.0, 1.0), self.start)

    def exploitability(self, max_player: ArrayLike, min_player: ArrayLike) -> float:
        """Return the duality gap V^{dagger,nu} - V^{mu,dagger} of a pair of policies from the start distribution.

        max_player: mu [H, S, A]. min_player: nu [H, S, B]. It is 0 exactly at a Nash equilibrium, up to rounding.
        """
        upper = self.best_response_to_min(min_player)[0][0]
        lower = self.best_response_to_max(max_player)[0][0]
        return float(self.start @ (upper - lower))

    def nash(self) -> tuple[Floats, Floats, Floats]:
        """Return the Nash values [H + 1, S] and equilibrium policies (max-player [H, S, A], min-player [H, S, B]).

        By backward induction: the Nash equilibrium of every step and state is that of a matrix game, solved as
        `matrix_game` says. The values are unique, the policies need not be.
        """
        values = np.zeros((self.horizon + 1, self.n_states))
        max_player = np.empty(self.rewards.shape[:3])
        min_player = np.empty((*self.rewards.shape[:2], self.n_min_actions))
        payoffs = np.empty(self.rewards.shape[1:])
        for h in reversed(range(self.horizon)):
            stage_payoffs(self.transitions[h], self.rewards[h], values[h + 1], payoffs)
            for s in range(self.n_states):
                values[h, s], max_player[h, s], min_player[h, s] = matrix_game(payoffs[s])
        return values, max_player, min_player

    def gap_tables(self) -> GapTables:
        """Return the game for the compiled `duality_gap`; tables are shared, results and working memory are not."""
        tables, memory = self._gap_tables[:3], self._gap_tables[3:]
        return GapTables(*tables, *map(np.zeros_like, memory))

    @cached_property
    def _gap_tables(self) -> GapTables:
        return gap_tables(self.transitions[: self.joint.layers], self.rewards, self.joint.successors())

    def _joint_policy(self, policy: ArrayLike) -> Floats:
        return self._policy("policy", policy, self.rewards.shape)

    @staticmethod
    def _policy(key: str, policy: ArrayLike, shape: tuple[int, ...]) -> Floats:
        probabilities = table(key, policy, len(shape))
        if probabilities.shape != shape:
            raise ValueError(f"{key} must have shape {shape}, got {probabilities.shape}; pass a row per step and state")
        require_distributions(key, probabilities.reshape(*shape[:2], -1))
        return probabilities
