"""Interfaces of this folder: an environment, the spec that builds one, and finite-horizon MDPs as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs.checks import require_distributions, table
from dprl.envs.dynamics import deterministic_value, optimal_value, stochastic_value

_NO_STATE = -1
_ROUNDING = 1e-12


class Env(Protocol):
    """Environment; each algorithm `plays` one class of them."""

    kind: ClassVar[str]
    """Name of the class for messages."""
    # `holds_records = True`: it holds users' records, so a config releases one policy of it, under secret noise.

    @property
    def name(self) -> str:
        """The registry name of the spec that built it."""


E_co = TypeVar("E_co", bound=Env, covariant=True)
T = TypeVar("T")


class EnvConfig(Protocol[E_co]):
    """A named, validated description of an environment; its fields are the keys of the config file."""

    name: ClassVar[str]
    builds: ClassVar[type[Env]]

    def build(self) -> E_co:
        """Build the environment; equal specs build equal arrays, bit for bit."""


@dataclass(frozen=True, eq=False)
class FiniteMDP:
    """A finite-horizon MDP with H steps, S states, A actions and rewards that are maximised.

    name: the registry name of the spec that built it.
    transitions: float64 [H, S, A, S'], probabilities of the next state; rows sum to 1. Steps that share one array, as
        from `stationary`, still share it.
    rewards: float64 [H, S, A] in [0, 1], deterministic given (h, s, a).
    start: float64 [S], distribution of the first state.
    cdf, start_cdf: cumulative probabilities for sampling; exactly 1 from the last possible state on, so a
        draw below 1 never picks a state of probability 0.
    layers: number of stored steps of transitions and cdf: 1 if all steps are equal, else H.
    All arrays are copied and read-only; each step is C-contiguous. Raises ValueError for arrays that are not an MDP.

    >>> stay_or_move = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    >>> mdp = FiniteMDP("two states", *stationary(3, stay_or_move, np.array([[0.0, 0.0], [1.0, 0.0]]), start=0))
    >>> mdp.optimal_start_value()  # moves first, then stays where each step is worth 1
    2.0
    >>> mdp.start_value(np.zeros((3, 2), dtype=np.int64))  # always stays
    0.0
    >>> mdp.start_value(np.full((3, 2, 2), 0.5))  # draws both actions with equal chances
    0.5
    """

    kind: ClassVar[str] = "finite MDP"

    name: str
    transitions: NDArray[np.float64]
    rewards: NDArray[np.float64]
    start: NDArray[np.float64]
    cdf: NDArray[np.float64] = field(init=False, repr=False)
    start_cdf: NDArray[np.float64] = field(init=False, repr=False)
    layers: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        transitions = table("transitions", distinct_steps(self.transitions), 4)
        rewards = table("rewards", self.rewards, 3)
        start = table("start", self.start, 1)
        found, expected = np.shape(self.transitions), (*rewards.shape, rewards.shape[1])
        if found != expected:
            rule = f"transitions must have shape [H, S, A, S] = {expected} to match rewards"
            raise ValueError(f"{rule}, got {found}; reshape one")
        if start.shape != (expected[1],):
            raise ValueError(f"start must have shape [S] = {(expected[1],)}, got {start.shape}; give one per state")
        require_distributions("transitions", transitions)
        require_distributions("start", start)
        transitions, start = _normalised(transitions), _normalised(start)
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
            raise ValueError(f"rewards must lie in [0, 1], got {worst:g}; rescale the rewards")
        steps = rewards.shape[0], *transitions.shape[1:]
        arrays = {
            "transitions": np.broadcast_to(transitions, steps),
            "rewards": rewards,
            "start": start,
            "cdf": np.broadcast_to(_cumulative(transitions), steps),
            "start_cdf": _cumulative(start),
        }
        for key, array in arrays.items():
            array.setflags(write=False)
            object.__setattr__(self, key, array)
        object.__setattr__(self, "layers", transitions.shape[0])

    def __reduce__(self) -> tuple[Callable[..., FiniteMDP], tuple[object, ...]]:
        # Unpickled arrays are writeable; rebuilding makes them read-only again.
        return unpickled, (FiniteMDP, self.name, self.transitions[: self.layers], self.rewards, self.start)

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

    @property
    def stationary(self) -> bool:
        """Whether transitions and rewards are the same at every step."""
        arrays = (self.transitions[: self.layers], self.rewards)
        return all(bool((array == array[0]).all()) for array in arrays)

    def successors(self) -> NDArray[np.int64]:
        """Return the possible next states of each pair, int64[layers, R, S*A], rising; _NO_STATE after the last.

        R is the largest number of possible next states.
        """
        possible = self.transitions[: self.layers].reshape(self.layers, -1, self.n_states) > 0.0
        numbers = possible.sum(axis=2)
        found = np.full((self.layers, int(numbers.max()), numbers.shape[1]), _NO_STATE)
        layer, pair, state = np.nonzero(possible)
        rank = np.arange(state.shape[0]) - np.repeat(np.cumsum(numbers) - numbers.ravel(), numbers.ravel())
        found[layer, rank, pair] = state
        return found

    def value(self, policy: ArrayLike) -> NDArray[np.float64]:
        """Return the exact value [H + 1, S] of a policy by backward induction; row H is 0.

        policy: integers [H, S], one action per step and state, or floats [H, S, A], whose rows are probabilities.
        Raises ValueError on any other shape, an unknown action, or a row that is no distribution.
        """
        array, transitions = np.asarray(policy), self.transitions[: self.layers]
        values = np.empty((self.horizon + 1, self.n_states))
        shape = self.rewards.shape
        if array.shape == shape[:2]:
            if not np.issubdtype(array.dtype, np.integer):
                raise ValueError(f"policy of shape [H, S] must hold integers, got {array.dtype}; pass action indices")
            if array.min() < 0 or array.max() >= self.n_actions:
                rule = f"policy must hold actions in 0..{self.n_actions - 1}"
                raise ValueError(f"{rule}, got {array.min() if array.min() < 0 else array.max()}; pass action indices")
            deterministic_value(transitions, self.rewards, np.array(array, dtype=np.int64, order="C"), values)
        elif array.shape == shape:
            probabilities = table("policy", array, 3)
            require_distributions("policy", probabilities)
            stochastic_value(transitions, self.rewards, probabilities, values)
        else:
            rule = f"policy must have shape {shape[:2]} (actions) or {shape} (probabilities)"
            raise ValueError(f"{rule}, got {array.shape}; pass one row per step")
        return values

    def start_value(self, policy: ArrayLike) -> float:
        """Return the exact expected return of a policy from the start distribution (see `value`)."""
        return float(self.start @ self.value(policy)[0])

    def optimum(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the optimal value [H + 1, S] and an optimal policy [H, S]; ties go to the lowest action."""
        values = np.empty((self.horizon + 1, self.n_states))
        policy = np.empty((self.horizon, self.n_states), dtype=np.int64)
        optimal_value(self.transitions[: self.layers], self.rewards, values, policy)
        return values, policy

    def optimal_start_value(self) -> float:
        """Return the optimal expected return from the start distribution."""
        return float(self.start @ self.optimum()[0][0])


def stationary(
    horizon: int, transitions: NDArray[np.float64], rewards: NDArray[np.float64], start: NDArray[np.float64] | int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the arrays of an MDP or a game with the same dynamics and rewards at each of H = `horizon` steps.

    transitions [S, ..., S'], rewards [S, ...]. start: distribution [S] of the first state, or the start state itself.
    """
    first = start if isinstance(start, np.ndarray) else np.eye(rewards.shape[0])[start]
    every_step = np.broadcast_to(transitions, (horizon, *transitions.shape))
    return every_step, np.broadcast_to(rewards, (horizon, *rewards.shape)), first


def distinct_steps(steps: ArrayLike) -> ArrayLike:
    """Return the first step of an array that repeats one in memory, as from `stationary`; others unchanged."""
    if isinstance(steps, np.ndarray) and steps.ndim > 1 and steps.strides[0] == 0:
        return steps[:1]
    return steps


def unpickled(kind: Callable[..., T], name: str, transitions: NDArray[np.float64], *others: NDArray[np.float64]) -> T:
    """Rebuild an MDP or a game from its distinct steps."""
    steps = np.broadcast_to(transitions, (others[0].shape[0], *transitions.shape[1:]))
    return kind(name, steps, *others)


def _normalised(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return distributions [..., S] with sums of 1 up to rounding."""
    total = chances.sum(axis=-1, keepdims=True)
    off = np.abs(total - 1.0) > _ROUNDING
    return np.where(off, chances / total, chances) if off.any() else chances


def _cumulative(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    sums = np.minimum(np.cumsum(probabilities, axis=-1), 1.0)
    # From the last possible state on: rounding of the sum must not leave a gap below 1 for impossible states.
    possible = probabilities > 0.0
    left = np.cumsum(possible[..., ::-1], axis=-1, dtype=np.int64)[..., ::-1] - possible
    return np.ascontiguousarray(np.where(left == 0, 1.0, sums))
