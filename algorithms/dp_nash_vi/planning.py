"""Planning of DP-Nash-VI: optimistic and pessimistic value iteration on post-processed private counts.

Post-processing is eqs. (8) and (9) of [QW24] in closed form. For every (s, a, b) eq. (8) asks for x >= 0 with
|sum x - N| <= E/4 that minimises max_s' |x(s') - n(s')|. Many x do.
D14: the one taken here is x(s') = max(0, n(s') + shift): shift = 0 where sum x then lies in the band, else the shift
that puts it on the band's nearer end. It is the Euclidean projection of n, and minimises sum phi(x(s') - n(s')) for
every convex even phi at once, hence the maximum, too. It is continuous in the counts and treats all s' alike.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.tabular import Released
from dprl.compiled import inlined, no_alloc_kernel
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import (
    LARGEST_VIOLATION,
    EquilibriumScratch,
    coarse_correlated_equilibrium,
    equilibrium_scratch,
)

_SMALLEST = 1e-300


class Postprocessed(NamedTuple):
    """The solution of eq. (8) for one step, and working memory to find it; X = S*A*B cells (s, a, b).

    counts: x, float64[S', X]. sums: their sums over s', float64[X].
    Scratch, float64[X] each: top, the largest noisy count of a cell to be shifted, else 0; level, its
    value after the shift; mass and size, sum (less top each) and number of the counts that stay positive.
    """

    counts: Float64Array
    sums: Float64Array
    top: Float64Array
    level: Float64Array
    mass: Float64Array
    size: Float64Array

    @classmethod
    def zeros(cls, n_states: int, cells: int) -> Postprocessed:
        """Return memory for the solutions of a step with that many states and cells."""
        return cls(np.zeros((n_states, cells)), *(np.zeros(cells) for _ in range(5)))


class _Expectations(NamedTuple):
    """Expectations of one step, float64[X] each: P~ V_up, P~ V_lo, Var_P~((V_up + V_lo)/2), and N~."""

    upper: Float64Array
    lower: Float64Array
    variance: Float64Array
    visits: Float64Array

    @classmethod
    def zeros(cls, cells: int) -> _Expectations:
        """Return memory for the expectations of a step with that many cells."""
        return cls(*(np.zeros(cells) for _ in range(4)))


@inlined
def postprocess(step: Float64Array, slack: float, found: Postprocessed) -> int:
    """Fill `found` from the released counts of one step, and return the number of cells without a feasible solution.

    step float64[S'+1, X]: transitions to s' along (s, a, b), then visits N; it is not written. slack: E/4. Nothing is
    feasible where N < -E/4; x = 0 there, the limit of the solutions as N rises to -E/4. Counts >= 0 whose sum lies in
    the band (exact counts, for instance) come back bit for bit.

    The equation is sum_s' max(0, n(s') - top + level) = total, by Newton's method from above, all cells at once. The
    levels only fall, so sets of positive counts only shrink, and a cell stays as it is from the first time that its set
    does not: at most S+2 passes. Differences from the largest count make the error a few roundings of the total,
    however large the shift is.

    Paper: [QW24] eq. (8).
    """
    counts, totals, top, level = found.counts, found.sums, found.top, found.level
    infeasible, moving = _start(step, slack, found)
    while moving > 0:
        moving = _lower_levels(step, found)
    for t in range(counts.shape[0]):
        noisy, row = step[t], counts[t]
        for j in range(totals.shape[0]):
            x = noisy[j] - top[j] + level[j]
            row[j] = x if x > 0.0 else 0.0
    return infeasible


@inlined
def _start(step: Float64Array, slack: float, found: Postprocessed) -> tuple[int, int]:
    """Set the totals, and levels that are high enough; return (cells without a solution, cells to be shifted)."""
    _, totals, top, level, mass, _ = found
    n_states = step.shape[0] - 1
    visits = step[n_states]
    mass[:] = 0.0
    top[:] = -np.inf
    for t in range(n_states):
        noisy = step[t]
        for j in range(totals.shape[0]):
            mass[j] += noisy[j] if noisy[j] > 0.0 else 0.0
            top[j] = max(top[j], noisy[j])
    infeasible, moving = 0, 0
    for j in range(totals.shape[0]):
        most = visits[j] + slack
        total = min(max(mass[j], visits[j] - slack), max(most, 0.0))
        shifted = total != mass[j]
        high = min(total, top[j]) if total < mass[j] else total
        infeasible += most < 0.0
        moving += shifted
        totals[j] = total
        level[j] = high if shifted else 0.0
        top[j] = top[j] if shifted else 0.0
    return infeasible, moving


@inlined
def _lower_levels(step: Float64Array, found: Postprocessed) -> int:
    """Take one step of Newton's method in every cell; return how many levels fell."""
    _, totals, top, level, mass, size = found
    mass[:] = 0.0
    size[:] = 0.0
    for t in range(step.shape[0] - 1):
        noisy = step[t]
        for j in range(totals.shape[0]):
            below = noisy[j] - top[j]
            positive = below > -level[j]
            mass[j] += below if positive else 0.0
            size[j] += 1.0 if positive else 0.0
    moving = 0
    for j in range(totals.shape[0]):
        lower = (totals[j] - mass[j]) / max(size[j], 1.0)
        moving += lower < level[j]
        level[j] = min(level[j], lower)
    return moving


@inlined
def private_expectations(
    found: Postprocessed, precision: float, upper: Float64Array, lower: Float64Array, out: _Expectations
) -> None:
    """Fill `out` with expectations under P~(s') = (x(s') + E/(2S)) / N~, N~ = sum x + E/2; zeros where N~ = 0.

    precision: E. upper, lower float64[S]: V_up and V_lo of the next step. The variance is taken about the middle of the
    range of (V_up + V_lo)/2: its error is a few roundings of the squared range, and it is never negative.

    Paper: [QW24] eq. (9), and Algorithm 1, lines 7-11.
    """
    n_states = upper.shape[0]
    smoothing = precision / (2 * n_states)
    middle = _middle(upper, lower)
    out.upper[:] = 0.0
    out.lower[:] = 0.0
    out.variance[:] = 0.0
    for t in range(n_states):
        row, up, lo = found.counts[t], upper[t], lower[t]
        deviation = 0.5 * (up + lo) - middle
        square = deviation * deviation
        for j in range(row.shape[0]):
            n = row[j] + smoothing
            out.upper[j] += n * up
            out.lower[j] += n * lo
            out.variance[j] += n * square
    for j in range(found.sums.shape[0]):
        visits = found.sums[j] + 0.5 * precision
        over_n = 1.0 / max(visits, _SMALLEST)
        up, lo = out.upper[j] * over_n, out.lower[j] * over_n
        mean = 0.5 * (up + lo) - middle
        out.visits[j] = visits
        out.upper[j] = up
        out.lower[j] = lo
        out.variance[j] = max(0.0, out.variance[j] * over_n - mean * mean)


@inlined
def _middle(upper: Float64Array, lower: Float64Array) -> float:
    """Return the middle of the range of (upper + lower)/2."""
    least, most = np.inf, -np.inf
    for t in range(upper.shape[0]):
        least = min(least, upper[t] + lower[t])
        most = max(most, upper[t] + lower[t])
    return 0.25 * (least + most)


class NashBonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. per_gap: factor of P~(V_up - V_lo); per_deviation: of sqrt(Var / N~); per_count: of 1/N~.
    """

    e: float
    per_gap: float
    per_deviation: float
    per_count: float


class _Scratch(NamedTuple):
    """Working memory of one step of planning: post-processed counts, expectations, and an equilibrium."""

    counts: Postprocessed
    expected: _Expectations
    equilibrium: EquilibriumScratch


class NashPlanner(NamedTuple):
    """Inputs of planning besides private counts: the bonus, the known parts of the game, and scratch.

    rewards float64[H, S*A*B]; start float64[S]: the distribution of the first state.
    """

    bonus: NashBonus
    rewards: Float64Array
    start: Float64Array
    scratch: _Scratch

    @classmethod
    def of(cls, game: MarkovGame, bonus: NashBonus) -> NashPlanner:
        """Return the inputs of planning in `game` with this bonus."""
        horizon, n_states, n_max, n_min = game.rewards.shape
        cells = n_states * n_max * n_min
        scratch = _Scratch(
            Postprocessed.zeros(n_states, cells), _Expectations.zeros(cells), equilibrium_scratch(n_max, n_min)
        )
        return cls(bonus, game.rewards.reshape(horizon, cells), game.start, scratch)


class NashTables(NamedTuple):
    """Results of planning.

    policy float64[H, S, A, B]: the joint policy pi^k; optimistic, pessimistic float64[S]: V_up and V_lo of the first
    step; q_up, q_lo float64[S, A, B]: the payoffs that they are values of. output float64[H, S, A, B]: pi^out, and
    smallest_gap float64[1]: its gap. gap float64[1]: that of `policy`. missed float64[1]: number of equilibria so far
    missed by more than LARGEST_VIOLATION; infeasible float64[1]: share of cells of the last plan with no solution of
    eq. (8) of [QW24].
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
        """Return tables of zeros, and gaps that any plan's is below.

        D15: the paper's first minimal gap is H, so a run with gaps of H only would return nothing; here it returns its
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
        saturated += _bound_payoffs(scratch.expected, planner.rewards[h], float(horizon - h), planner.bonus, q_up, q_lo)
        for s in range(n_states):  # line 13
            policy, high, low = tables.policy[h, s], tables.q_up[s], tables.q_lo[s]
            violation = coarse_correlated_equilibrium(high, low, scratch.equilibrium, policy)  # line 14
            tables.missed[0] += not violation <= LARGEST_VIOLATION  # NaN is missed, too
            up[s], lo[s] = _mean(policy, high), _mean(policy, low)  # line 15
    _keep_smallest_gap(planner.start, tables)
    tables.infeasible[0] = infeasible / (horizon * cells)
    return True, saturated / (horizon * cells)


@inlined
def _bound_payoffs(
    expected: _Expectations, rewards: Float64Array, cap: float, bonus: NashBonus, q_up: Float64Array, q_lo: Float64Array
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
def _mean(policy: Float64Array, payoff: Float64Array) -> float:
    """Return the expected payoff float64[A, B] of a joint policy float64[A, B]."""
    total = 0.0
    for a in range(policy.shape[0]):
        for b in range(policy.shape[1]):
            total += policy[a, b] * payoff[a, b]
    return total


@inlined
def _keep_smallest_gap(start: Float64Array, tables: NashTables) -> None:
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
