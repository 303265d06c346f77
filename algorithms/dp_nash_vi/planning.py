"""Planning of DP-Nash-VI: optimistic and pessimistic value iteration on post-processed private counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.dp_nash_vi.postprocessing import (
    Expectations,
    Postprocessed,
    leave_out,
    possible_expectations,
    postprocess,
    private_expectations,
)
from dprl.algorithms.tabular import Released
from dprl.algorithms.tabular.simulator import ALL_STATES
from dprl.compiled import no_alloc_kernel
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import (
    LARGEST_VIOLATION,
    EquilibriumScratch,
    coarse_correlated_equilibrium,
    equilibrium_scratch,
)


class NashBonus(NamedTuple):
    """Coefficients of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. per_gap: factor of P~(V_up - V_lo); per_deviation: of sqrt(Var / N~); per_count: of 1/N~.
    """

    e: float
    per_gap: float
    per_deviation: float
    per_count: float


class _Scratch(NamedTuple):
    """Working memory of one step of planning: post-processed counts, expectations, and an equilibrium."""

    counts: Postprocessed
    expected: Expectations
    equilibrium: EquilibriumScratch


class NashPlanner(NamedTuple):
    """Inputs of planning besides private counts: the bonus, the known parts of the game, and scratch.

    rewards float64[H, S*A*B]; start float64[S]: the distribution of the first state; successors int64[L, R, S*A*B]: the
    possible next states, the only ones that are counted, -1 after the last, L = 0 if they are not known;
    kept float64[R+1, S*A*B]: scratch for them.
    """

    bonus: NashBonus
    rewards: Float64Array
    start: Float64Array
    scratch: _Scratch
    successors: Int64Array
    kept: Float64Array

    @classmethod
    def of(cls, game: MarkovGame, bonus: NashBonus, successors: Int64Array = ALL_STATES) -> NashPlanner:
        """Return the inputs of planning in `game` with this bonus."""
        horizon, n_states, n_max, n_min = game.rewards.shape
        cells, width = n_states * n_max * n_min, successors.shape[1] or n_states
        scratch = _Scratch(
            Postprocessed.zeros(width, cells), Expectations.zeros(cells), equilibrium_scratch(n_max, n_min)
        )
        rewards = game.rewards.reshape(horizon, cells)
        return cls(bonus, rewards, game.start, scratch, successors, np.zeros((width + 1, cells)))


class NashTables(NamedTuple):
    """Results of planning.

    policy float64[H, S, A, B]: the joint policy pi^k; optimistic, pessimistic float64[S]: V_up and V_lo of the first
    step; q_up, q_lo float64[S, A, B]: payoffs with these values. output float64[H, S, A, B]: pi^out; smallest_gap
    float64[1]: its gap. gap float64[1]: the gap of `policy`. missed float64[1]: number of equilibria so far missed by
    more than LARGEST_VIOLATION; infeasible float64[1]: share of cells of the last plan with no solution of eq. (8) of
    [QW24].
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
    def first(cls, game: MarkovGame) -> NashTables:
        """Return tables of zeros, with gaps above that of any plan.

        D15: the paper's first minimal gap is H, so a run with only gaps of H would return nothing; here it returns its
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
def plan(counts: Released, planner: NashPlanner, tables: NashTables) -> tuple[bool, float]:
    """Plan from private counts; returns (True, share of cells with both bounds at their caps).

    D13: the caps are H-h+1 and 0, the paper's are H and 0; the rewards of the remaining steps are at most H-h+1.

    Paper: [QW24] Algorithm 1, lines 4-17 and 20-22.
    """
    up, lo = tables.optimistic, tables.pessimistic
    horizon, n_states, n_max, n_min = tables.policy.shape
    cells = n_states * n_max * n_min
    steps = counts.values.reshape((horizon, planner.kept.shape[0], cells))
    scratch, q_up, q_lo = planner.scratch, tables.q_up.reshape(cells), tables.q_lo.reshape(cells)
    saturated, infeasible, layers = 0, 0, planner.successors.shape[0]
    up[:] = 0.0  # line 4
    lo[:] = 0.0
    for h in range(horizon - 1, -1, -1):  # line 5
        if layers > 0:
            infeasible += _expect_possible(steps[h], planner.successors[min(h, layers - 1)], planner, (up, lo))
        else:
            infeasible += postprocess(steps[h], 0.25 * planner.bonus.e, scratch.counts)
            private_expectations(scratch.counts, planner.bonus.e, up, lo, scratch.expected)  # line 7
        saturated += _bound_payoffs(scratch.expected, planner.rewards[h], float(horizon - h), planner.bonus, q_up, q_lo)
        for s in range(n_states):  # line 13
            policy, high, low = tables.policy[h, s], tables.q_up[s], tables.q_lo[s]
            violation = coarse_correlated_equilibrium(high, low, scratch.equilibrium, policy)  # line 14
            tables.missed[0] += not violation <= LARGEST_VIOLATION  # NaN is missed, too
            up[s], lo[s] = _mean(policy, high), _mean(policy, low)  # line 15
    _keep_smallest_gap(planner.start, tables)
    tables.infeasible[0] = infeasible / (horizon * cells)
    return True, saturated / (horizon * cells)


@no_alloc_kernel
def _expect_possible(
    step: Float64Array, after: Int64Array, planner: NashPlanner, bounds: tuple[Float64Array, Float64Array]
) -> int:
    """Do line 7 with the possible next states after int64[R, S*A*B] alone; bounds: V_up and V_lo of the next step."""
    found, e = planner.scratch.counts, planner.bonus.e
    leave_out(step, after, planner.kept)
    infeasible = postprocess(planner.kept, 0.25 * e, found)
    possible_expectations(found, e, after, bounds, planner.scratch.expected)
    return infeasible


@no_alloc_kernel
def _bound_payoffs(
    expected: Expectations, rewards: Float64Array, cap: float, bonus: NashBonus, q_up: Float64Array, q_lo: Float64Array
) -> int:
    """Fill Q_up and Q_lo, float64[S*A*B]; return the number of cells with both at their caps, e.g. if N~ = 0.

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


@no_alloc_kernel
def _mean(policy: Float64Array, payoff: Float64Array) -> float:
    """Return the expected payoff float64[A, B] of a joint policy float64[A, B]."""
    total = 0.0
    for a in range(policy.shape[0]):
        for b in range(policy.shape[1]):
            total += policy[a, b] * payoff[a, b]
    return total


@no_alloc_kernel
def _keep_smallest_gap(start: Float64Array, tables: NashTables) -> None:
    """Write the gap (V_up - V_lo)(s_1), and keep the policy as the output if its gap is the smallest so far."""
    gap = 0.0
    for s in range(start.shape[0]):
        gap += start[s] * (tables.optimistic[s] - tables.pessimistic[s])
    tables.gap[0] = gap
    if gap < tables.smallest_gap[0]:
        tables.smallest_gap[0] = gap
        source, target = tables.policy.reshape(tables.policy.size), tables.output.reshape(tables.output.size)
        for i in range(source.shape[0]):
            target[i] = source[i]
