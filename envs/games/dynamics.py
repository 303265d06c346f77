"""Compiled kernels of two-player zero-sum Markov games: best responses, and the gap between them.

With NUMBA_DISABLE_JIT=1 plain Python gives the same bits: no kernel lets the compiler reorder or fuse float operations.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs.dynamics import expectation

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_FEW = 8  # A sum over possible next states reads values in any order: this pays off if it skips most of the states.


class GapTables(NamedTuple):
    """Layout of a game for `duality_gap`, its result and its working memory.

    Contiguous along (s, a, b), to process all pairs of all states in parallel, read-only:
    transitions: float64 [L, S', S*A*B], probabilities of s' after (s, a, b), L = H or 1 for all steps.
    rewards: float64 [H, S*A*B]. after: int64 [L, R, S*A*B]: if next states are few, transitions contain only the R
    possible ones instead of all S'; the padding has probability 0. Otherwise L = 0.

    upper, lower: float64 [S], the result: V^{dagger,nu} and V^{mu,dagger} of the first step.
    max_payoffs, min_payoffs: float64 [S*A*B], reward plus upper resp. lower value after (s, a, b).
    max_player, min_player: float64 [A] and [B], the marginals of one state.
    """

    transitions: Floats
    rewards: Floats
    after: Integers
    upper: Floats
    lower: Floats
    max_payoffs: Floats
    min_payoffs: Floats
    max_player: Floats
    min_player: Floats


def gap_tables(transitions: Floats, rewards: Floats, successors: Integers) -> GapTables:
    """Lay out transitions [L, S, A, B, S'] and rewards [H, S, A, B] of a game for `duality_gap`.

    successors: of the joint MDP, see `FiniteMDP.successors`.
    """
    horizon, n_states, n_max, n_min = rewards.shape
    cells = n_states * n_max * n_min
    by_next = np.moveaxis(transitions, -1, 1).reshape(-1, n_states, cells)
    few = _FEW * successors.shape[1] <= n_states
    after = np.maximum(successors, 0) if few else np.zeros((0, 0, 0), dtype=np.int64)
    if few:
        by_next = np.take_along_axis(by_next, after, axis=1) * (successors >= 0)
    tables = np.array(by_next, order="C"), np.array(rewards.reshape(horizon, cells), order="C"), after
    for array in tables:
        array.setflags(write=False)
    return GapTables(*tables, *(np.zeros(size) for size in (n_states, n_states, cells, cells, n_max, n_min)))


@kernel
def stage_payoffs(transitions: Floats, rewards: Floats, after: Floats, payoffs: Floats) -> None:
    """Fill payoffs [S, A, B] = r_h + P_h V for one step: the matrix game of every state.

    transitions [S, A, B, S'], rewards [S, A, B], after V [S'] the values of the next step.
    """
    n_states, n_max, n_min = rewards.shape
    for s in range(n_states):
        for a in range(n_max):
            for b in range(n_min):
                payoffs[s, a, b] = rewards[s, a, b] + expectation(transitions[s, a, b], after)


@no_alloc_kernel
def _payoffs(after: Floats, rewards: Floats, scratch: GapTables) -> None:
    # Two next states at a time halve the traffic of the payoffs (a quarter of the time at S = 10, A = B = 4); the
    # order of each sum, next states first, reward last, is that of `FiniteMDP.value`: equal cases have equal bits.
    upper, lower, high, low = scratch.upper, scratch.lower, scratch.max_payoffs, scratch.min_payoffs
    n_states, cells = after.shape
    high[:] = 0.0
    low[:] = 0.0
    for pair in range(n_states // 2):
        t = 2 * pair
        up, up_next, down, down_next = upper[t], upper[t + 1], lower[t], lower[t + 1]
        row, row_next = after[t], after[t + 1]
        for i in range(cells):
            high[i] = (high[i] + row[i] * up) + row_next[i] * up_next
            low[i] = (low[i] + row[i] * down) + row_next[i] * down_next
    for t in range(n_states - n_states % 2, n_states):
        up, down, row = upper[t], lower[t], after[t]
        for i in range(cells):
            high[i] += row[i] * up
            low[i] += row[i] * down
    for i in range(cells):
        high[i] += rewards[i]
        low[i] += rewards[i]


@no_alloc_kernel
def _payoffs_of_few(chances: Floats, after: Integers, rewards: Floats, scratch: GapTables) -> None:
    # The order of each sum is that of `_payoffs`, without the terms that are 0: the bits are the same.
    upper, lower, high, low = scratch.upper, scratch.lower, scratch.max_payoffs, scratch.min_payoffs
    high[:] = 0.0
    low[:] = 0.0
    for r in range(after.shape[0]):
        row, states = chances[r], after[r]
        for i in range(rewards.shape[0]):
            high[i] += row[i] * upper[states[i]]
            low[i] += row[i] * lower[states[i]]
    for i in range(rewards.shape[0]):
        high[i] += rewards[i]
        low[i] += rewards[i]


@no_alloc_kernel
def _responses(policy: Floats, s: int, scratch: GapTables) -> None:
    # Plain sums of a few terms, and selections instead of branches: faster here than short vector loops.
    max_player, min_player = scratch.max_player, scratch.min_player
    n_max, n_min = max_player.shape[0], min_player.shape[0]
    cells = slice(s * n_max * n_min, (s + 1) * n_max * n_min)
    high, low = scratch.max_payoffs[cells], scratch.min_payoffs[cells]
    for a in range(n_max):
        total = 0.0
        for b in range(n_min):
            total += policy[a * n_min + b]
        max_player[a] = total
    for b in range(n_min):
        total = 0.0
        for a in range(n_max):
            total += policy[a * n_min + b]
        min_player[b] = total
    best = -np.inf
    for a in range(n_max):
        total = 0.0
        for b in range(n_min):
            total += min_player[b] * high[a * n_min + b]
        best = total if total > best else best
    scratch.upper[s] = best
    best = np.inf
    for b in range(n_min):
        total = 0.0
        for a in range(n_max):
            total += max_player[a] * low[a * n_min + b]
        best = total if total < best else best
    scratch.lower[s] = best


@no_alloc_kernel
def duality_gap(tables: GapTables, policy: Floats) -> None:
    """Fill tables.upper [S] = V^{dagger,nu}_1 and tables.lower [S] = V^{mu,dagger}_1 for the marginals of a policy.

    policy: float64 [H, S, A*B], row (h, s) the distribution of the pairs a * B + b. The regret of an episode from
    state s is upper[s] - lower[s].
    Paper: [QW24] section 2.
    """
    horizon, n_states, _ = policy.shape
    tables.upper[:] = 0.0
    tables.lower[:] = 0.0
    for step in range(horizon):
        h = horizon - 1 - step
        reached = n_states if step > 0 else 0  # nothing follows the last step
        layer = min(h, tables.transitions.shape[0] - 1)
        if tables.after.shape[0] > 0:
            _payoffs_of_few(tables.transitions[layer], tables.after[layer], tables.rewards[h], tables)
        else:
            _payoffs(tables.transitions[layer, :reached], tables.rewards[h], tables)
        for s in range(n_states):
            _responses(policy[h, s], s, tables)
