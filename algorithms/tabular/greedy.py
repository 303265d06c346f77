"""Parts of value iteration: sums over next states, the greedy step, and the tables of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP


class GreedyTables(NamedTuple):
    """Arrays of planning: policy int64[H, S]; optimistic values float64[S] of a step; q float64[S*A]."""

    policy: Int64Array
    optimistic: Float64Array
    q: Float64Array


def greedy_tables(mdp: FiniteMDP) -> GreedyTables:
    """Return tables of zeros."""
    horizon, n_states, n_actions = mdp.rewards.shape
    policy = np.zeros((horizon, n_states), dtype=np.int64)
    return GreedyTables(policy, np.zeros(n_states), np.zeros(n_states * n_actions))


@no_alloc_kernel
def sum_of_next_values(step: Float64Array, values: Float64Array, q: Float64Array) -> None:
    """Fill q float64[S*A] with R(s,a) + sum_s' N(s,a,s') V(s').

    step float64[S+2, S*A]: transitions, visits, rewards; values float64[S]. The sum over s' is outermost so that the
    innermost loop runs along (s, a) without gaps.
    """
    n_states = values.shape[0]
    rewards = step[n_states + 1]
    for j in range(q.shape[0]):
        q[j] = rewards[j]
    for next_state in range(n_states):
        row, v = step[next_state], values[next_state]
        for j in range(q.shape[0]):
            q[j] += row[j] * v


@no_alloc_kernel
def act_greedily(q: Float64Array, cap: float, policy: Int64Array, values: Float64Array) -> tuple[bool, int]:
    """Write the greedy actions into policy int64[S] and V = clip(max_a Q, 0, cap) into values float64[S].

    Ties go to the lowest action. Returns whether an action changed, and how many cells of q float64[S*A] reach the cap.
    """
    n_actions = q.shape[0] // policy.shape[0]
    changed, saturated = False, 0
    for s in range(policy.shape[0]):
        best, action = q[s * n_actions], 0
        for a in range(n_actions):
            x = q[s * n_actions + a]
            saturated += x >= cap
            if x > best:
                best, action = x, a
        changed |= policy[s] != action
        policy[s] = action
        values[s] = min(cap, max(0.0, best))
    return changed, saturated
