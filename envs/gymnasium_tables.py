"""Environments of Gymnasium with a table of transitions, as finite-horizon MDPs."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium.envs.toy_text.blackjack import BlackjackEnv
from numpy.typing import NDArray

from dprl.envs.base import Env, FiniteMDP, stationary
from dprl.envs.blackjack import Outcomes, blackjack_table
from dprl.envs.checks import require_integers, require_size

__all__ = ["GymnasiumTable", "Step", "step_of"]


class Step(NamedTuple):
    """One step of an environment: transitions [S, A, S'], mean rewards [S, A] in [0, 1], start [S], raw range."""

    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    start: NDArray[np.float64]
    reward_range: tuple[float, float]


@dataclass(frozen=True)
class GymnasiumTable:
    """An environment of Gymnasium that has its transitions as a table, for a finite horizon.

    An environment has a table if `env.unwrapped` has `P` and `initial_state_distrib`, as FrozenLake, CliffWalking and
    Taxi have. The table of Blackjack is enumerated here. Rewards are means of each state and action. Unless they lie in
    [0, 1], they are mapped to it from `reward_range`; a value v of H steps then stands for H low + (high - low) v.
    After the end of an episode the rest of its H steps earns the raw reward 0, in a state that is added unless the
    table has one. Dynamics and rewards are the same at every step.

    Args:
        env_id: as in gymnasium.make. horizon: H, at least 1. kwargs: more arguments of gymnasium.make, as in a call:
            "map_name='8x8', is_slippery=False".

    Raises ValueError for an environment without a table, and for one that is too large.

    >>> lake = GymnasiumTable("FrozenLake-v1", horizon=6, kwargs="is_slippery=False")
    >>> lake.build().optimal_start_value()
    1.0
    >>> GymnasiumTable("CliffWalking-v1", horizon=20).reward_range
    (-100.0, 0.0)
    """

    name: ClassVar[str] = "gymnasium"
    builds: ClassVar[type[Env]] = FiniteMDP

    env_id: str = "FrozenLake-v1"
    horizon: int = 20
    kwargs: str = ""

    def __post_init__(self) -> None:
        require_integers(self, horizon=1)
        require_size(self.name, self.sizes, "horizon, or take a smaller environment")

    @property
    def sizes(self) -> tuple[int, int, int]:
        """H, S, and the number of actions."""
        return self.horizon, *self._table.rewards.shape

    @property
    def reward_range(self) -> tuple[float, float]:
        """The raw rewards that 0 and 1 stand for."""
        return self._table.reward_range

    @property
    def n_successors(self) -> int:
        """The largest number of possible next states of a state and an action."""
        return int((self._table.transitions > 0.0).sum(axis=2).max())

    @property
    def _table(self) -> Step:
        return _table(self.env_id, self.kwargs)

    def build(self) -> FiniteMDP:
        """Build the environment as arrays: transitions [H, S, A, S], rewards [H, S, A], start [S]."""
        transitions, rewards, start, _ = self._table
        return FiniteMDP(self.name, *stationary(self.horizon, transitions, rewards, start))


@lru_cache(maxsize=8)
def _table(env_id: str, kwargs: str) -> Step:
    outcomes, start = _table_of(_made(env_id, _arguments(kwargs)), env_id)
    return step_of(outcomes, start)


def _arguments(kwargs: str) -> dict[str, Any]:
    """Return the arguments of a call that are written as text. Raises ValueError."""
    try:
        call: Any = ast.parse(f"f({kwargs})", mode="eval").body
        if call.args or any(each.arg is None for each in call.keywords):
            raise ValueError
        return {each.arg: ast.literal_eval(each.value) for each in call.keywords}
    except (SyntaxError, ValueError, AttributeError):
        raise ValueError(
            f"kwargs must be arguments with plain values, got {kwargs!r}; write e.g. map_name='8x8', is_slippery=False"
        ) from None


def _made(env_id: str, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Return the environment without its wrappers. Raises ValueError."""
    if not isinstance(env_id, str):
        raise ValueError(f"env_id must be text, got {env_id!r}; write e.g. FrozenLake-v1")
    try:
        return gymnasium.make(env_id, **arguments).unwrapped
    except gymnasium.error.Error as error:
        why = " ".join(str(error).split())
        raise ValueError(f"env_id must be an environment of Gymnasium, got {env_id!r} ({why}); correct it") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        why = " ".join(str(error).split())
        raise ValueError(f"kwargs must be those of {env_id}, got {arguments} ({why}); correct them") from None


def _table_of(env: Any, env_id: str) -> tuple[Outcomes, NDArray[np.float64]]:  # noqa: ANN401 - Gymnasium names no type
    """Return the outcomes of an environment and the distribution of its first state. Raises ValueError."""
    if isinstance(env, BlackjackEnv):
        return blackjack_table(natural=env.natural and not env.sab, sab=env.sab)
    start = getattr(env, "initial_state_distrib", None)
    if not isinstance(getattr(env, "P", None), dict) or start is None:
        raise ValueError(
            f"env_id must be an environment with a table of transitions, got {env_id!r} without P and "
            "initial_state_distrib; register an environment of your own that builds a FiniteMDP"
        )
    return env.P, np.asarray(start, dtype=np.float64)


def step_of(outcomes: Outcomes, start: NDArray[np.float64]) -> Step:
    """Return the arrays of a table; raise ValueError if nothing can be learned. See `GymnasiumTable`."""
    n_states, n_actions = len(outcomes), len(outcomes[0])
    ends = {following for row in outcomes.values() for each in row.values() for _, following, _, ended in each if ended}
    resting = all(
        following == state and reward == 0.0
        for state in ends
        for each in outcomes[state].values()
        for _, following, reward, _ in each
    )
    size = n_states if resting else n_states + 1
    transitions, rewards = np.zeros((size, n_actions, size)), np.zeros((size, n_actions))
    for state, row in outcomes.items():
        for action, each in row.items():
            for chance, following, reward, ended in each:
                transitions[state, action, n_states if ended and not resting else following] += chance
                rewards[state, action] += chance * reward
    transitions[n_states:, :, n_states:] = 1.0
    transitions /= transitions.sum(axis=2, keepdims=True)
    low, high = float(rewards.min()), float(rewards.max())
    if low >= 0.0 and high <= 1.0:
        low, high = 0.0, 1.0
    elif low == high:
        raise ValueError(
            f"env_id must be an environment with rewards that differ, got {low:g} everywhere; nothing to learn"
        )
    scaled = np.clip((rewards - low) / (high - low), 0.0, 1.0)
    return Step(transitions, scaled, np.append(start, np.zeros(size - n_states)), (low, high))
