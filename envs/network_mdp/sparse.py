"""A linear mixture MDP of agents with sign features as sparse lists, and its exact solution in closed forms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs.checks import require_integer, table
from dprl.envs.linear_mixture import NOTHING, LinearMixtureMDP, checked_features
from dprl.envs.network_mdp.dynamics import SuccessorLists, greedy_value, next_state, policy_value, probabilities

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def action_vectors(dimension: int) -> Floats:
    """Return the actions of an agent as vectors [2^(d-1), d-1] of -1 and 1; action 0 is all -1, the last all 1."""
    length = dimension - 1
    bits = np.arange(2**length)[:, None] >> np.arange(length)[::-1] & 1
    return np.where(bits == 1, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class SignMixture(LinearMixtureMDP):
    """A linear mixture MDP with vectors of signs as actions of an agent, and with closed forms of phi_V.

    Each agent has A = 2^(d-1) actions, vectors a_i in {-1, 1}^(d-1) in the order of `action_vectors`. The probability
    of an entry l of the list of state s is linear in features and in parameters that learners do not know,
    <phi, theta*> = sum_i (sign[l, i] <a_i, theta_i> + constant[l, i]), the same at every step, with
    phi_i = (sign[l, i] a_i, constant[l, i]) and theta* = (theta_1, 1, ..., theta_n, 1).

    name: the registry name of the spec that built it.
    horizon: H, steps of an episode.
    lists: possible next states of each state; see SuccessorLists.
    theta: float64 [n, d-1], the parameters theta_i.
    rewards: float64 [n, S] in [0, 1], of agent i for being in s, for any action.
    start: the first state of all episodes.
    reward_features: float64 [S, p], psi(s); agents estimate the mean reward as <psi(s), w>; each row has
    nonnegative numbers that sum to at most 1, so no norm of it is above 1, and the p columns are linearly independent.
    By default p = S, and psi(s) is the one-hot vector of s.
    drifts: float64 [n, A], <a, theta_i> of each action, for the kernels.
    All arrays are copied, C-contiguous and read-only. Raises ValueError for arrays that are not such an MDP.
    Paper: [TH23] sec. 8, Assumption 3.
    """

    name: str
    horizon: int
    lists: SuccessorLists
    theta: Floats
    rewards: Floats
    start: int
    # None only as an argument: it stands for one-hot vectors.
    reward_features: Floats = None  # type: ignore[assignment]
    drifts: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        require_integer("horizon", self.horizon, 1)
        require_integer("start", self.start, 0)
        theta, rewards = table("theta", self.theta, 2), table("rewards", self.rewards, 2)
        lists = _checked_lists(self.lists, theta, rewards)
        if rewards.min() < 0.0 or rewards.max() > 1.0:
            worst = rewards.min() if rewards.min() < 0.0 else rewards.max()
            raise ValueError(f"rewards must lie in [0, 1], got {worst:g}; rescale the rewards")
        if self.start >= rewards.shape[1]:
            raise ValueError(f"start must be in 0..{rewards.shape[1] - 1}, got {self.start}; choose one of the states")
        arrays = {
            "theta": theta,
            "rewards": rewards,
            "reward_features": checked_features(self.reward_features, rewards.shape[1]),
            "drifts": np.ascontiguousarray(theta @ action_vectors(theta.shape[1] + 1).T),
        }
        for array in (*lists, *arrays.values()):
            array.setflags(write=False)
        for key, value in {**arrays, "lists": lists}.items():
            object.__setattr__(self, key, value)

    def __reduce__(self) -> tuple[Callable[..., SignMixture], tuple[object, ...]]:
        # Unpickled arrays are writeable; rebuilding makes them read-only again.
        given = (self.name, self.horizon, self.lists, self.theta, self.rewards, self.start, self.reward_features)
        return SignMixture, given

    @property
    def length(self) -> int:
        """D - 1, the length of an action's vector; phi has n d numbers."""
        return int(self.theta.shape[1])

    @property
    def dimension(self) -> int:
        return self.n_agents * (self.length + 1)

    @property
    def n_actions(self) -> int:
        return int(self.drifts.shape[1])

    def identity(self) -> tuple[NDArray[np.generic], ...]:
        return (*self.lists, self.theta, self.rewards, self.reward_features, np.array([self.start, self.horizon]))

    def reachable(self) -> NDArray[np.bool_]:
        reached = np.zeros((self.horizon, self.n_states), dtype=np.bool_)
        reached[0, self.start] = True
        # A product of theta and signs is at most this much above what no action changes.
        most = self.lists.constant.sum(axis=1) + np.abs(self.lists.sign) @ np.abs(self.theta).sum(axis=1)
        before = np.repeat(np.arange(self.n_states), np.diff(self.lists.first))
        for h in range(1, self.horizon):
            reached[h, self.lists.state[(most > NOTHING) & reached[h - 1, before]]] = True
        return reached

    def transitions(self) -> Floats:
        dense = np.zeros((1, self.n_states, self.n_joint_actions, self.n_states))
        probabilities(self.lists, self.drifts, self.joint_actions(), dense[0])
        return dense

    def after(self, step: int, state: int, actions: Integers, uniform: float) -> int:
        del step
        return int(next_state(self.lists, self.drifts, state, actions, uniform))

    def value(self, policy: ArrayLike) -> Floats:
        return self._value(self.common_rewards, self._means(policy))

    def agent_values(self, policy: ArrayLike) -> Floats:
        means = self._means(policy)
        return np.stack([self._value(rewards, means) for rewards in self.rewards])

    def optimum(self) -> tuple[Floats, Integers]:
        return self._extreme(1.0)

    def worst(self) -> tuple[Floats, Integers]:
        return self._extreme(-1.0)

    def _extreme(self, sense: float) -> tuple[Floats, Integers]:
        values = np.empty((self.horizon + 1, self.n_states))
        policy = np.empty((self.horizon, self.n_states, self.n_agents), dtype=np.int64)
        greedy_value(self.lists, self.common_rewards, self.drifts, sense, values, policy)
        return values, policy

    def _value(self, rewards: Floats, means: Floats) -> Floats:
        values = np.empty((self.horizon + 1, self.n_states))
        policy_value(self.lists, rewards, means, values)
        return values

    def _means(self, policy: ArrayLike) -> Floats:
        """Return the mean [H, S, n] of <a_i, theta_i> under a policy. Raises ValueError."""
        found, agents = self.checked_policy(policy), np.arange(self.n_agents)
        if np.issubdtype(found.dtype, np.integer):
            actions = self.joint_actions()[found] if found.ndim == 2 else found
            return np.ascontiguousarray(self.drifts[agents, actions])
        if found.ndim == 3:
            return np.ascontiguousarray(found @ self.drifts[agents, self.joint_actions()])
        return np.ascontiguousarray((found * self.drifts).sum(axis=-1))


def _checked_lists(given: SuccessorLists, theta: Floats, rewards: Floats) -> SuccessorLists:
    """Return copies of the lists. Raises ValueError unless they are transitions for these parameters."""
    n_agents, n_states = rewards.shape
    first = _whole_numbers("lists.first", given.first)
    state = _whole_numbers("lists.state", given.state)
    sign, constant = table("lists.sign", given.sign, 2), table("lists.constant", given.constant, 2)
    if theta.shape[0] != n_agents:
        raise ValueError(f"theta must have one row for each of {n_agents} agents, got {theta.shape[0]}; match rewards")
    for key, array, shape in (
        ("first", first, (n_states + 1,)),
        ("sign", sign, (state.size, n_agents)),
        ("constant", constant, (state.size, n_agents)),
    ):
        if array.shape != shape:
            raise ValueError(f"lists.{key} must have shape {shape}, got {array.shape}; match rewards and lists.state")
    if first[0] != 0 or first[-1] != state.size or np.diff(first).min() < 1:
        got = f"{first[0]} to {first[-1]} with a least step of {np.diff(first).min()}"
        raise ValueError(f"lists.first must rise from 0 to {state.size}, got {got}; give each state a list")
    if state.min() < 0 or state.max() >= n_states:
        worst = state.min() if state.min() < 0 else state.max()
        raise ValueError(f"lists.state must hold states in 0..{n_states - 1}, got {worst}; pass state indices")
    lists = SuccessorLists(first, state, sign, constant)
    _require_probabilities(lists, theta)
    return lists


def _require_probabilities(lists: SuccessorLists, theta: Floats) -> None:
    """Raise a ValueError unless every list is a distribution, whatever the agents do."""
    first, state, sign, constant = lists
    rises = np.diff(state) > 0
    rises[first[1:-1] - 1] = True
    if not rises.all():
        entry = int(np.argmin(rises)) + 1
        raise ValueError(f"lists.state must rise within a list, got {state[entry]} at entry {entry}; sort the lists")
    if not np.isin(sign, (-1.0, 0.0, 1.0)).all():
        odd = sign[~np.isin(sign, (-1.0, 0.0, 1.0))][0]
        raise ValueError(f"lists.sign must hold -1, 0 and 1, got {odd:g}; put numbers into theta or constant")
    leans = np.abs(np.add.reduceat(sign, first[:-1], axis=0)).max()
    if leans > 0.0:
        raise ValueError(f"lists.sign must sum to 0 over each list, got {leans:g}; balance the signs")
    sums = np.add.reduceat(constant.sum(axis=1), first[:-1])
    worst = sums[np.abs(sums - 1.0).argmax()]
    if abs(worst - 1.0) > NOTHING:
        raise ValueError(f"lists.constant must sum to 1 over each list, got a sum of {worst:.12g}; normalise the lists")
    # Of all actions the worst for an entry are those whose products with theta have the wrong signs.
    least = constant.sum(axis=1) - np.abs(sign) @ np.abs(theta).sum(axis=1)
    if least.min() < -NOTHING:
        entry = int(least.argmin())
        before = int(np.searchsorted(first, entry, side="right")) - 1
        rule = "theta must leave every probability at least 0"
        raise ValueError(f"{rule}, got {least[entry]:g} for state {state[entry]} after {before}; lower theta")


def _whole_numbers(key: str, value: ArrayLike) -> Integers:
    array = np.asarray(value)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{key} must be a non-empty row of whole numbers, got {array.dtype} {array.shape}; pass int64")
    return np.array(array, dtype=np.int64, order="C")
