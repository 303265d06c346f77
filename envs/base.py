"""The contract of this folder: a finite-horizon MDP as arrays, and the spec that builds one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs.dynamics import deterministic_value, optimal_value, stochastic_value

__all__ = ["Env", "EnvConfig", "FiniteMDP", "require_integer", "require_size"]

# Rounding of a sum of a few thousand float64 probabilities stays far below this.
_SUM_TOLERANCE = 1e-9
# Learners keep several tables of this size; 10^8 float64 entries are 0.8 GB each.
_MAX_ENTRIES = 10**8


class Env(Protocol):
    """What is acted in for a fixed number of steps, as arrays: it can be rolled out, and solved exactly."""

    kind: ClassVar[str]
    """What it is, in words."""

    @property
    def name(self) -> str:
        """The registry name of the spec that built it."""

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""

    @property
    def n_states(self) -> int:
        """S, the number of states."""


E_co = TypeVar("E_co", bound=Env, covariant=True)


class EnvConfig(Protocol[E_co]):
    """A named, validated description of an environment; its fields are the keys of the config file."""

    name: ClassVar[str]
    builds: ClassVar[type[Env]]

    def build(self) -> E_co:
        """Build the environment; equal specs build equal arrays, bit for bit."""


def require_integer(key: str, value: object, minimum: int) -> None:
    """Raise a ValueError unless value is an integer of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise ValueError(f"{key} must be an integer of at least {minimum}, got {value!r}; set {key}: {minimum} or more")


def require_size(name: str, horizon: int, n_states: int, n_actions: int) -> None:
    """Raise a ValueError if the transitions [H, S, A, S'] would not fit in memory."""
    entries = int(horizon) * int(n_states) ** 2 * int(n_actions)
    if entries > _MAX_ENTRIES:
        raise ValueError(
            f"{name} needs horizon x n_states^2 x n_actions <= {_MAX_ENTRIES} array entries, got {entries}; "
            "lower horizon, n_states or n_actions"
        )


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A finite-horizon MDP with H steps, S states, A actions and rewards that are maximised.

    name: the registry name of the spec that built it.
    transitions: float64 [H, S, A, S'], probabilities of the next state; rows sum to 1.
    rewards: float64 [H, S, A] in [0, 1], deterministic given (h, s, a).
    start: float64 [S], distribution of the first state.
    cdf, start_cdf: cumulative probabilities for sampling; exactly 1 from the last possible state on, so a
        draw below 1 never picks a state of probability 0.
    All arrays are copied, C-contiguous and read-only. Raises ValueError on arrays that are no MDP.
    """

    kind: ClassVar[str] = "finite MDP"

    name: str
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    start: NDArray[np.float64]
    cdf: NDArray[np.float64] = field(init=False, repr=False)
    start_cdf: NDArray[np.float64] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        transitions = table("transitions", self.transitions, 4)
        rewards = table("rewards", self.rewards, 3)
        start = table("start", self.start, 1)
        _require_shapes(transitions, rewards, start)
        require_distributions("transitions", transitions)
        require_distributions("start", start)
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
            raise ValueError(f"rewards must lie in [0, 1], got {worst:g}; rescale the rewards")
        arrays = {
            "transitions": transitions,
            "rewards": rewards,
            "start": start,
            "cdf": _cumulative(transitions),
            "start_cdf": _cumulative(start),
        }
        for key, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, key, array)

    def __reduce__(self) -> tuple[Callable[..., FiniteMDP], tuple[object, ...]]:
        # Arrays come back from a pickle writeable; rebuilding makes them read-only again.
        return FiniteMDP, (self.name, self.transitions, self.rewards, self.start)

    @property
    def horizon(self) -> int:
        """H, the number of steps of an episode."""
        return int(self.rewards.shape[0])

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return int(self.rewards.shape[1])

    @property
    def n_actions(self) -> int:
        """A, the number of actions."""
        return int(self.rewards.shape[2])

    def value(self, policy: ArrayLike) -> NDArray[np.float64]:
        """Return the exact value [H + 1, S] of a policy by backward induction; row H is 0.

        policy: integers [H, S], one action per step and state, or floats [H, S, A], whose rows are
        probabilities. Raises ValueError on any other shape, on an unknown action, or on a row that is no
        distribution.
        """
        array = np.asarray(policy)
        values = np.empty((self.horizon + 1, self.n_states))
        shape = self.rewards.shape
        if array.shape == shape[:2]:
            deterministic_value(self.transitions, self.rewards, self._actions(array), values)
        elif array.shape == shape:
            probabilities = table("policy", array, 3)
            require_distributions("policy", probabilities)
            stochastic_value(self.transitions, self.rewards, probabilities, values)
        else:
            raise ValueError(
                f"policy must have shape {shape[:2]} (actions) or {shape} (probabilities), "
                f"got {array.shape}; pass one row per step"
            )
        return values

    def start_value(self, policy: ArrayLike) -> float:
        """Return the exact expected return of a policy from the start distribution (see `value`)."""
        return float(self.start @ self.value(policy)[0])

    def optimum(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the optimal value [H + 1, S] and an optimal policy [H, S]; ties go to the lowest action."""
        values = np.empty((self.horizon + 1, self.n_states))
        policy = np.empty((self.horizon, self.n_states), dtype=np.int64)
        optimal_value(self.transitions, self.rewards, values, policy)
        return values, policy

    def optimal_start_value(self) -> float:
        """Return the optimal expected return from the start distribution."""
        return float(self.start @ self.optimum()[0][0])

    def _actions(self, array: NDArray[np.generic]) -> NDArray[np.int64]:
        if not np.issubdtype(array.dtype, np.integer):
            raise ValueError(f"policy of shape [H, S] must hold integers, got {array.dtype}; pass action indices")
        if array.min() < 0 or array.max() >= self.n_actions:
            worst = array.min() if array.min() < 0 else array.max()
            raise ValueError(f"policy must hold actions in 0..{self.n_actions - 1}, got {worst}; pass action indices")
        return np.array(array, dtype=np.int64, order="C")


def table(key: str, value: ArrayLike, dimensions: int) -> NDArray[np.float64]:
    """Return a copy of value as a C-contiguous float64 array; raise a ValueError unless it is finite and fits."""
    try:
        array = np.array(value, dtype=np.float64, order="C")
    except (TypeError, ValueError):
        raise ValueError(f"{key} must be an array of numbers, got {type(value).__name__}; pass float64") from None
    if array.ndim != dimensions or array.size == 0:
        raise ValueError(
            f"{key} must be a non-empty array of {dimensions} dimensions, got shape {array.shape}; "
            "give all of its axes, none of length 0"
        )
    if not np.isfinite(array).all():
        raise ValueError(f"{key} must be finite, got NaN or infinity; remove these entries")
    return array


def _require_shapes(transitions: NDArray[np.float64], rewards: NDArray[np.float64], start: NDArray[np.float64]) -> None:
    horizon, n_states, n_actions = rewards.shape
    expected = (horizon, n_states, n_actions, n_states)
    if transitions.shape != expected:
        raise ValueError(
            f"transitions must have shape [H, S, A, S] = {expected} to match rewards, "
            f"got {transitions.shape}; reshape one of them"
        )
    if start.shape != (n_states,):
        raise ValueError(f"start must have shape [S] = {(n_states,)}, got {start.shape}; give one entry per state")


def require_distributions(key: str, array: NDArray[np.float64]) -> None:
    """Raise a ValueError unless every row of the last axis is a probability distribution."""
    if array.min() < 0.0:
        raise ValueError(f"{key} must hold probabilities >= 0, got {array.min():g}; remove negative entries")
    sums = array.sum(axis=-1).ravel()
    worst = sums[np.abs(sums - 1.0).argmax()]
    if abs(worst - 1.0) > _SUM_TOLERANCE:
        raise ValueError(f"{key} must sum to 1 over the last axis, got a sum of {worst:.12g}; normalise the rows")


def _cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.minimum(np.cumsum(probabilities, axis=-1), 1.0)
    # From the last possible state on: rounding of the sum must not leave a gap below 1 for impossible states.
    possible = probabilities > 0.0
    left = np.cumsum(possible[..., ::-1], axis=-1, dtype=np.int64)[..., ::-1] - possible
    return np.ascontiguousarray(np.where(left == 0, 1.0, sums))
