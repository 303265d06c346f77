"""Compiled kernels of finite-horizon MDPs: roll-out, exact values, exact optimum.

With NUMBA_DISABLE_JIT=1 plain Python gives the same bits: no kernel lets the compiler reorder or fuse float operations.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dprl.compiled import kernel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@kernel
def _first_above(cdf: Floats, draw: float) -> int:
    """Return the first i with draw < cdf[i], the last one for a draw of 1 or more."""
    i = 0
    while i < cdf.shape[0] - 1 and draw >= cdf[i]:
        i += 1
    return i


@kernel
def roll_out(
    cdf: Floats, start_cdf: Floats, policy: Integers, uniforms: Floats, states: Integers, actions: Integers
) -> None:
    """Run one episode of a deterministic policy on given uniform draws.

    cdf [L, S, A, S'] and start_cdf [S] are cumulative probabilities that end in 1, L = H, or 1 if all steps are alike,
    here and of `transitions` below; policy [H, S]; uniforms [H + 1] in [0, 1): the first picks s_1, entry h + 1 the
    state after step h. A draw u picks the first state t with u < cdf[t]. Fills states [H + 1] and actions [H].
    """
    state = states[0] = _first_above(start_cdf, uniforms[0])
    for h in range(policy.shape[0]):
        action = policy[h, state]
        actions[h] = action
        state = states[h + 1] = _first_above(cdf[min(h, cdf.shape[0] - 1), state, action], uniforms[h + 1])


@kernel
def roll_out_stochastic(
    cdf: Floats, start_cdf: Floats, policy: Floats, uniforms: Floats, states: Integers, actions: Integers
) -> None:
    """Run one episode of a stochastic policy [H, S, A] on given uniform draws.

    As `roll_out`, with uniforms [2H + 1]: entry 2h + 1 picks the action of step h, entry 2h + 2 the state after it. A
    draw u picks the first action a with u < policy[.., 0] + ... + policy[.., a], the last one if rounding leaves none.
    """
    horizon, _, n_actions = policy.shape
    state = states[0] = _first_above(start_cdf, uniforms[0])
    for h in range(horizon):
        action, reached = 0, policy[h, state, 0]
        while action < n_actions - 1 and uniforms[2 * h + 1] >= reached:
            action += 1
            reached += policy[h, state, action]
        actions[h] = action
        state = states[h + 1] = _first_above(cdf[min(h, cdf.shape[0] - 1), state, action], uniforms[2 * h + 2])


@kernel
def expectation(row: Floats, after: Floats) -> float:
    """Return the mean of the next step's values `after` [S'] under the probabilities `row` [S']."""
    # A plain loop: at these sizes it is faster than BLAS, and its fixed order of sums makes all exact values agree.
    total = 0.0
    for t in range(row.shape[0]):
        total += row[t] * after[t]
    return total


@kernel
def deterministic_value(transitions: Floats, rewards: Floats, policy: Integers, values: Floats) -> None:
    """Fill values [H + 1, S] with the exact value of policy [H, S]; values[H] = 0.

    transitions [L, S, A, S'], rewards [H, S, A]. values[h, s]: expected sum of rewards of steps h..H-1 (from 0) from s.
    """
    horizon, n_states = policy.shape
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        after, chances = values[h + 1], transitions[min(h, transitions.shape[0] - 1)]
        for s in range(n_states):
            action = policy[h, s]
            values[h, s] = rewards[h, s, action] + expectation(chances[s, action], after)


@kernel
def stochastic_value(transitions: Floats, rewards: Floats, policy: Floats, values: Floats) -> None:
    """Fill values [H + 1, S] with the exact value of the stochastic policy [H, S, A]; values[H] = 0.

    A policy that puts probability 1 on one action gives the same bits as `deterministic_value`.
    """
    horizon, n_states, n_actions = policy.shape
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        after, chances = values[h + 1], transitions[min(h, transitions.shape[0] - 1)]
        for s in range(n_states):
            mean = 0.0
            for action in range(n_actions):
                total = rewards[h, s, action] + expectation(chances[s, action], after)
                mean += policy[h, s, action] * total
            values[h, s] = mean


@kernel
def optimal_value(transitions: Floats, rewards: Floats, values: Floats, policy: Integers) -> None:
    """Fill values [H + 1, S] and policy [H, S] with the exact optimum; ties go to the lowest action.

    The sums run in the order of `deterministic_value`, so the optimal policy's value has the same bits, and regret 0.
    """
    horizon, n_states = policy.shape
    n_actions = rewards.shape[2]
    values[horizon] = 0.0
    for h in range(horizon - 1, -1, -1):
        after, chances = values[h + 1], transitions[min(h, transitions.shape[0] - 1)]
        for s in range(n_states):
            for action in range(n_actions):
                total = rewards[h, s, action] + expectation(chances[s, action], after)
                if action == 0 or total > values[h, s]:
                    values[h, s] = total
                    policy[h, s] = action
