"""The planning step of DP-Nash-VI: optimistic and pessimistic value iteration on private counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.dp_nash_vi.postprocessing import (
    Expectations,
    Postprocessed,
    postprocess,
    private_expectations,
)
from dprl.algorithms.tabular import Released
from dprl.compiled import inlined, no_alloc_kernel
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import (
    LARGEST_VIOLATION,
    EquilibriumScratch,
    coarse_correlated_equilibrium,
    equilibrium_scratch,
)


class Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. per_gap: factor of P~(V_up - V_lo); per_deviation: of sqrt(Var / N~); per_count: of 1/N~.
    """

    e: float
    per_gap: float
    per_deviation: float
    per_count: float


class Scratch(NamedTuple):
    """What one step of planning works on: post-processed counts, expectations, and the equilibrium of one state."""

    counts: Postprocessed
    expected: Expectations
    equilibrium: EquilibriumScratch


class Planner(NamedTuple):
    """What planning reads besides private counts: the bonus, what is known of the game, and scratch.

    rewards float64[H, S*A*B]; start float64[S]: the distribution of the first state.
    """

    bonus: Bonus
    rewards: Float64Array
    start: Float64Array
    scratch: Scratch

    @classmethod
    def of(cls, game: MarkovGame, bonus: Bonus) -> Planner:
        """Return what planning in `game` with this bonus reads."""
        horizon, n_states, n_max, n_min = game.rewards.shape
        cells = n_states * n_max * n_min
        scratch = Scratch(
            Postprocessed.zeros(n_states, cells), Expectations.zeros(cells), equilibrium_scratch(n_max, n_min)
        )
        return cls(bonus, game.rewards.reshape(horizon, cells), game.start, scratch)


class Tables(NamedTuple):
    """What planning writes.

    policy float64[H, S, A, B]: the joint policy pi^k; optimistic, pessimistic float64[S]: V_up and V_lo of the first
    step; q_up, q_lo float64[S, A, B]: the payoffs that they are values of. output float64[H, S, A, B]: pi^out, and
    smallest_gap float64[1]: its gap. gap float64[1]: that of `policy`. missed float64[1]: how many equilibria so far
    were missed by more than LARGEST_VIOLATION; infeasible float64[1]: the share of cells of the last plan whose counts
    eq. (8) of [QW24] cannot meet.
    """

    policy: Float64Array
    optimistic: Float64Array
    pessimistic: Float64Array
    q_up: Float64Array
    q_lo: Float64Array
    output: Float64Array
    smallest_gap: Float64Array
    gap: Float64Array
    missed: Float64Array
    infeasible: Float64Array

    @classmethod
    def first(cls, game: MarkovGame) -> Tables:
        """Return tables of zeros, and gaps that any plan's is below.

        D15: the paper's first minimal gap is H, so a run whose gaps all are H would return nothing; here it returns its
        first policy.
        """
        shape = game.rewards.shape
        n_states = game.n_states
        return cls(
            policy=np.zeros(shape),
            optimistic=np.zeros(n_states),
            pessimistic=np.zeros(n_states),
            q_up=np.zeros(shape[1:]),
            q_lo=np.zeros(shape[1:]),
            output=np.zeros(shape),
            smallest_gap=np.full(1, np.inf),
            gap=np.full(1, np.inf),
            missed=np.zeros(1),
            infeasible=np.zeros(1),
        )


@no_alloc_kernel
def plan(counts: Released, planner: Planner, tables: Tables) -> tuple[bool, float]:
    """Plan from private counts; returns (True, share of cells of which both bounds are at their caps).

    D13: the caps are H-h+1 and 0 where the paper has H and 0; no reward beyond the steps left can come.

    Paper: [QW24] Algorithm 1, lines 4-17 and 20-22.
    """
    up, lo = tables.optimistic, tables.pessimistic
    horizon, n_states, n_max, n_min = tables.policy.shape
    cells = n_states * n_max * n_min
    steps = counts.values.reshape((horizon, n_states + 1, cells))
    scratch, q_up, q_lo = planner.scratch, tables.q_up.reshape(cells), tables.q_lo.reshape(cells)
    saturated, infeasible = 0, 0
    up[:] = 0.0  # line 4
    lo[:] = 0.0
    for h in range(horizon - 1, -1, -1):  # line 5
        infeasible += postprocess(steps[h], 0.25 * planner.bonus.e, scratch.counts)
        private_expectations(scratch.counts, planner.bonus.e, up, lo, scratch.expected)  # line 7
        saturated += bound_payoffs(scratch.expected, planner.rewards[h], float(horizon - h), planner.bonus, q_up, q_lo)
        for s in range(n_states):  # line 13
            policy, high, low = tables.policy[h, s], tables.q_up[s], tables.q_lo[s]
            violation = coarse_correlated_equilibrium(high, low, scratch.equilibrium, policy)  # line 14
            tables.missed[0] += not violation <= LARGEST_VIOLATION  # what is no number is missed, too
            up[s], lo[s] = mean(policy, high), mean(policy, low)  # line 15
    keep_smallest_gap(planner.start, tables)
    tables.infeasible[0] = infeasible / (horizon * cells)
    return True, saturated / (horizon * cells)


@inlined
def bound_payoffs(
    expected: Expectations, rewards: Float64Array, cap: float, bonus: Bonus, q_up: Float64Array, q_lo: Float64Array
) -> int:
    """Fill Q_up and Q_lo, float64[S*A*B]; return how many cells have both at their caps. Where N~ = 0, all have.

    Paper: [QW24] Algorithm 1, lines 8-11.
    """
    saturated = 0
    for j in range(q_up.shape[0]):
        visits, up, lo = expected.visits[j], expected.upper[j], expected.lower[j]
        known = visits > 0.0
        over_n = 1.0 / (visits if known else 1.0)
        width = bonus.per_gap * (up - lo) + bonus.per_deviation * math.sqrt(expected.variance[j] * over_n)
        width += bonus.per_count * over_n
        q_up[j] = min(cap, rewards[j] + up + width) if known else cap
        q_lo[j] = max(0.0, rewards[j] + lo - width) if known else 0.0
        saturated += (q_up[j] >= cap) & (q_lo[j] <= 0.0)
    return saturated


@inlined
def mean(policy: Float64Array, payoff: Float64Array) -> float:
    """Return the expected payoff float64[A, B] of a joint policy float64[A, B]."""
    total = 0.0
    for a in range(policy.shape[0]):
        for b in range(policy.shape[1]):
            total += policy[a, b] * payoff[a, b]
    return total


@inlined
def keep_smallest_gap(start: Float64Array, tables: Tables) -> None:
    """Write the gap (V_up - V_lo)(s_1), and keep the policy as the output if no gap before was as small."""
    gap = 0.0
    for s in range(start.shape[0]):
        gap += start[s] * (tables.optimistic[s] - tables.pessimistic[s])
    tables.gap[0] = gap
    if gap < tables.smallest_gap[0]:
        tables.smallest_gap[0] = gap
        source, target = tables.policy.reshape(tables.policy.size), tables.output.reshape(tables.output.size)
        for i in range(source.shape[0]):
            target[i] = source[i]
