"""Compiled kernels of linear mixture MDPs: next states from sparse lists, exact values, exact optimum.

With NUMBA_DISABLE_JIT=1 plain Python gives the same bits: no kernel lets the compiler reorder or fuse float operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs.linear_mixture import NOTHING

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class SuccessorLists(NamedTuple):
    """Possible next states of each state, and their local features.

    first: int64 [S + 1]; the entries of state s are first[s] to first[s + 1] - 1. state: int64 [L], the state that
    follows, ascending within a list. sign: float64 [L, n], each -1, 0 or 1, and constant: float64 [L, n]: agent i's
    feature of entry l is (sign[l, i] a_i, constant[l, i]) when it acts by the vector a_i.
    """

    first: Integers
    state: Integers
    sign: Floats
    constant: Floats


NO_LISTS = SuccessorLists(*np.zeros((2, 0), dtype=np.int64), *np.zeros((2, 0, 0)))
"""Of an environment with other features."""


@no_alloc_kernel
def _probability(lists: SuccessorLists, drifts: Floats, actions: Integers, entry: int) -> float:
    """Return the probability of an entry of the state's list; actions [n]."""
    total = 0.0
    for i in range(actions.shape[0]):
        total += lists.sign[entry, i] * drifts[i, actions[i]] + lists.constant[entry, i]
    return total if total > NOTHING else 0.0


@no_alloc_kernel
def next_state(lists: SuccessorLists, drifts: Floats, state: int, actions: Integers, uniform: float) -> int:
    """Return the state that follows, for a uniform draw in [0, 1).

    drifts [n, A]: <a, theta_i> of each action of each agent; actions [n], one of each agent. A draw u picks the first
    state with u < the sum of the probabilities so far, the last possible one if rounding leaves none.
    """
    reached, chosen = 0.0, state
    for entry in range(lists.first[state], lists.first[state + 1]):
        share = _probability(lists, drifts, actions, entry)
        if share > 0.0:
            reached += share
            chosen = lists.state[entry]
            if uniform < reached:
                break
    return chosen


@kernel
def probabilities(lists: SuccessorLists, drifts: Floats, joint: Integers, dense: Floats) -> None:
    """Fill dense [S, A', S'], all 0, with the probabilities of the next state; joint [A', n] are actions of all."""
    for state in range(dense.shape[0]):
        for action in range(joint.shape[0]):
            for entry in range(lists.first[state], lists.first[state + 1]):
                dense[state, action, lists.state[entry]] = _probability(lists, drifts, joint[action], entry)


@no_alloc_kernel
def weigh(lists: SuccessorLists, after: Floats, state: int, slopes: Floats, levels: Floats) -> None:
    """Fill slopes [n] and levels [n] of a state with c and k: agent i's part of phi_V(s, a) is (c[i] a_i, k[i]).

    after [S]: the values V. phi_V(s, a) is the sum of phi(s' | s, a) V(s') over s'.
    """
    n = slopes.shape[0]
    # Two agents at a time, so that four independent sums can run in parallel.
    for i in range(0, n, 2):
        j = min(i + 1, n - 1)
        slope, level, other_slope, other_level = 0.0, 0.0, 0.0, 0.0
        for entry in range(lists.first[state], lists.first[state + 1]):
            value = after[lists.state[entry]]
            slope += lists.sign[entry, i] * value
            level += lists.constant[entry, i] * value
            other_slope += lists.sign[entry, j] * value
            other_level += lists.constant[entry, j] * value
        slopes[i], slopes[j] = slope, other_slope
        levels[i], levels[j] = level, other_level


@kernel
def policy_value(lists: SuccessorLists, rewards: Floats, means: Floats, values: Floats) -> None:
    """Fill values [H + 1, S] with the exact value of a policy; values[H] = 0.

    rewards [S]. means [H, S, n]: the mean of <a_i, theta_i> under the policy. No more of it matters, since
    probabilities are sums of one part for each agent: a joint policy has the value of its marginals.
    """
    horizon, n_states, n_agents = means.shape
    slopes, levels = np.empty(n_agents), np.empty(n_agents)
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        for state in range(n_states):
            weigh(lists, values[h + 1], state, slopes, levels)
            total = rewards[state]
            for i in range(n_agents):
                total += levels[i] + slopes[i] * means[h, state, i]
            values[h, state] = total


@no_alloc_kernel
def team_value(
    lists: SuccessorLists, rewards: Floats, drifts: Floats, chances: Floats, reached: Bools, values: Floats
) -> None:
    """Fill values [H + 1, S] where reached [H, S] with the exact value of agents who draw independently.

    rewards [S], drifts [n, A]; chances [H, S, n, A]. All successors of a reached state must be reached one step later.
    """
    horizon, n_states, n_agents, n_actions = chances.shape
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        for state in range(n_states):
            if not reached[h, state]:
                continue
            total = rewards[state]
            for i in range(n_agents if h < horizon - 1 else 0):
                mean, slope, level = 0.0, 0.0, 0.0
                for action in range(n_actions):
                    mean += chances[h, state, i, action] * drifts[i, action]
                for entry in range(lists.first[state], lists.first[state + 1]):
                    value = values[h + 1, lists.state[entry]]
                    slope += lists.sign[entry, i] * value
                    level += lists.constant[entry, i] * value
                total += level + slope * mean
            values[h, state] = total


@kernel
def greedy_value(
    lists: SuccessorLists, rewards: Floats, drifts: Floats, sense: float, values: Floats, policy: Integers
) -> None:
    """Fill values [H + 1, S] and policy [H, S, n] with the exact optimum; sense 1.0 for the most, -1.0 for the least.

    rewards [S], drifts [n, A]. Each agent's best action is its own affair, see `policy_value`; ties go to the lowest
    one. The sums run in the order of `policy_value`, so the value of the optimal policy has the same bits.
    """
    horizon, n_states, n_agents = policy.shape
    slopes, levels = np.empty(n_agents), np.empty(n_agents)
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        for state in range(n_states):
            weigh(lists, values[h + 1], state, slopes, levels)
            total = rewards[state]
            for i in range(n_agents):
                best = 0
                for action in range(1, drifts.shape[1]):
                    if sense * slopes[i] * drifts[i, action] > sense * slopes[i] * drifts[i, best]:
                        best = action
                policy[h, state, i] = best
                total += levels[i] + slopes[i] * drifts[i, best]
            values[h, state] = total
