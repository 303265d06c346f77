"""Interface of this folder: a linear mixture MDP of cooperating agents as sparse lists, and its exact solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dprl.envs.base import FiniteMDP
from dprl.envs.checks import require_distributions, require_integer, table
from dprl.envs.network_mdp.dynamics import (
    NOTHING,
    SuccessorLists,
    greedy_value,
    policy_value,
    probabilities,
)

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def action_vectors(dimension: int) -> Floats:
    """Return the actions of an agent as vectors [2^(d-1), d-1] of -1 and 1; action 0 is all -1, the last all 1."""
    length = dimension - 1
    bits = np.arange(2**length)[:, None] >> np.arange(length)[::-1] & 1
    return np.where(bits == 1, 1.0, -1.0)


@dataclass(frozen=True, eq=False)
class LinearMixtureMDP:
    """n agents with H steps and S states; all see the state, act at once, and maximise the mean of their rewards.

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
    common_rewards: float64 [S], the mean over agents.
    All arrays are copied, C-contiguous and read-only. Raises ValueError for arrays that are not such an MDP.
    Paper: [TH23] sec. 8, Assumption 3.
    """

    kind: ClassVar[str] = "linear mixture MDP of cooperating agents"

    name: str
    horizon: int
    lists: SuccessorLists
    theta: Floats
    rewards: Floats
    start: int
    # None only as an argument: it stands for one-hot vectors.
    reward_features: Floats = None  # type: ignore[assignment]
    drifts: Floats = field(init=False, repr=False)
    common_rewards: Floats = field(init=False, repr=False)

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
            "reward_features": _checked_features(self.reward_features, rewards.shape[1]),
            "drifts": np.ascontiguousarray(theta @ action_vectors(theta.shape[1] + 1).T),
            "common_rewards": rewards.mean(axis=0),
        }
        for array in (*lists, *arrays.values()):
            array.setflags(write=False)
        for key, value in {**arrays, "lists": lists}.items():
            object.__setattr__(self, key, value)

    def __reduce__(self) -> tuple[Callable[..., LinearMixtureMDP], tuple[object, ...]]:
        # Unpickled arrays are writeable; rebuilding makes them read-only again.
        given = (self.name, self.horizon, self.lists, self.theta, self.rewards, self.start, self.reward_features)
        return LinearMixtureMDP, given

    @property
    def n_agents(self) -> int:
        """n, the number of agents."""
        return int(self.theta.shape[0])

    @property
    def n_states(self) -> int:
        """S, the number of states."""
        return int(self.rewards.shape[1])

    @property
    def dimension(self) -> int:
        """d, the length of one agent's features; phi has n d numbers."""
        return int(self.theta.shape[1]) + 1

    @property
    def n_actions(self) -> int:
        """A = 2^(d-1), the number of actions of each agent."""
        return int(self.drifts.shape[1])

    @property
    def n_joint_actions(self) -> int:
        """A^n, the number of joint actions."""
        return int(self.n_actions**self.n_agents)

    def joint_actions(self) -> Integers:
        """Return the actions [A^n, n] of all agents that each joint action stands for; agent 0 changes slowest."""
        joint = np.unravel_index(np.arange(self.n_joint_actions), (self.n_actions,) * self.n_agents)
        return np.stack(joint, axis=1).astype(np.int64, order="C")

    def identity(self) -> tuple[NDArray[np.generic], ...]:
        """Return arrays that differ between any two MDPs."""
        return (*self.lists, self.theta, self.rewards, self.reward_features, np.array([self.start, self.horizon]))

    def reachable(self) -> NDArray[np.bool_]:
        """Return the states [H, S] that an episode can be in at each step, under any actions."""
        reached = np.zeros((self.horizon, self.n_states), dtype=np.bool_)
        reached[0, self.start] = True
        # A product of theta and signs is at most this much above what no action changes.
        most = self.lists.constant.sum(axis=1) + np.abs(self.lists.sign) @ np.abs(self.theta).sum(axis=1)
        before = np.repeat(np.arange(self.n_states), np.diff(self.lists.first))
        for h in range(1, self.horizon):
            reached[h, self.lists.state[(most > NOTHING) & reached[h - 1, before]]] = True
        return reached

    def transitions(self) -> Floats:
        """Return all probabilities [S, A^n, S'] of the next state; probabilities below 1e-12 are 0."""
        dense = np.zeros((self.n_states, self.n_joint_actions, self.n_states))
        probabilities(self.lists, self.drifts, self.joint_actions(), dense)
        return dense

    def joint(self) -> FiniteMDP:
        """Return the dense MDP of a single agent that chooses joint actions and gets the common reward."""
        dense = self.transitions()
        every_step = (self.horizon, *dense.shape)
        rewards = np.broadcast_to(self.common_rewards[:, None], every_step[:-1])
        return FiniteMDP(self.name, np.broadcast_to(dense, every_step), rewards, np.eye(self.n_states)[self.start])

    def value(self, policy: ArrayLike) -> Floats:
        """Return the exact value [H + 1, S] of a policy, the mean over agents; row H is 0.

        policy: integers [H, S], joint actions, or [H, S, n], an action of each agent; or probabilities [H, S, A^n] of
        joint actions, or [H, S, n, A] of agents who draw independently. Raises ValueError on anything else.
        """
        return self._value(self.common_rewards, self._means(policy))

    def agent_values(self, policy: ArrayLike) -> Floats:
        """Return the exact values [n, H + 1, S] of each agent's own rewards (see `value`)."""
        means = self._means(policy)
        return np.stack([self._value(rewards, means) for rewards in self.rewards])

    def uniform_value(self) -> Floats:
        """Return the exact value [H + 1, S] of acting uniformly at random."""
        return self._value(self.common_rewards, np.zeros((self.horizon, self.n_states, self.n_agents)))

    def start_value(self, policy: ArrayLike) -> float:
        """Return the exact expected return of a policy from the start, the mean over agents (see `value`)."""
        return float(self.value(policy)[0, self.start])

    def optimum(self) -> tuple[Floats, Integers]:
        """Return the optimal value [H + 1, S] and optimal actions [H, S, n]; ties go to the lowest action."""
        return self._extreme(1.0)

    def worst(self) -> tuple[Floats, Integers]:
        """Return the least value [H + 1, S] and actions [H, S, n] that have it; ties go to the lowest action."""
        return self._extreme(-1.0)

    def optimal_start_value(self) -> float:
        """Return the optimal expected return from the start, the mean over agents."""
        return float(self.optimum()[0][0, self.start])

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
        array = np.asarray(policy)
        places, agents = (self.horizon, self.n_states), np.arange(self.n_agents)
        whole = np.issubdtype(array.dtype, np.integer)
        if whole and array.shape in {places, (*places, self.n_agents)}:
            n_choices = self.n_joint_actions if array.ndim == 2 else self.n_actions
            if array.min() < 0 or array.max() >= n_choices:
                worst = array.min() if array.min() < 0 else array.max()
                raise ValueError(f"policy must hold actions in 0..{n_choices - 1}, got {worst}; pass action indices")
            actions = self.joint_actions()[array] if array.ndim == 2 else array
            return np.ascontiguousarray(self.drifts[agents, actions])
        if not whole and array.shape in {(*places, self.n_joint_actions), (*places, self.n_agents, self.n_actions)}:
            chances = table("policy", array, array.ndim)
            require_distributions("policy", chances)
            if array.ndim == 3:
                return np.ascontiguousarray(chances @ self.drifts[agents, self.joint_actions()])
            return np.ascontiguousarray((chances * self.drifts).sum(axis=-1))
        raise ValueError(
            f"policy must have shape {places} or {(*places, self.n_agents)} (whole numbers, actions), "
            f"{(*places, self.n_joint_actions)} or {(*places, self.n_agents, self.n_actions)} (probabilities), "
            f"got {array.dtype} {array.shape}; pass one row per step"
        )


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
        raise ValueError(
            f"lists.first must rise from 0 to {state.size}, got {first[0]} to {first[-1]} with a least step of "
            f"{np.diff(first).min()}; give each state a list"
        )
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
        raise ValueError(
            f"theta must leave every probability at least 0, got {least[entry]:g} for state {state[entry]} after "
            f"{before}; lower theta"
        )


def _checked_features(given: ArrayLike | None, n_states: int) -> Floats:
    """Return a copy of the reward features [S, p], one-hot vectors for None. Raises ValueError."""
    if given is None:
        return np.eye(n_states)
    features = table("reward_features", given, 2)
    if features.shape[0] != n_states:
        raise ValueError(
            f"reward_features must have one row for each of {n_states} states, got {features.shape[0]}; match rewards"
        )
    if features.min() < 0.0:
        raise ValueError(f"reward_features must be at least 0, got {features.min():g}; shift or drop that feature")
    largest = features.sum(axis=1).max()
    if largest > 1.0 + NOTHING:
        raise ValueError(f"reward_features must sum to at most 1 over each row, got {largest:g}; scale them down")
    rank = int(np.linalg.matrix_rank(features))
    if rank < features.shape[1]:
        raise ValueError(
            f"reward_features must have full column rank {features.shape[1]}, got rank {rank}; drop the columns that "
            "others add up to"
        )
    return features


def _whole_numbers(key: str, value: ArrayLike) -> Integers:
    array = np.asarray(value)
    if array.ndim != 1 or array.size == 0 or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"{key} must be a non-empty row of whole numbers, got {array.dtype} {array.shape}; pass int64")
    return np.array(array, dtype=np.int64, order="C")
