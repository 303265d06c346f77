"""DP-Nash-VI: optimistic Nash value iteration on private counts, self-play in two-player zero-sum Markov games.

With trust model none it is Nash-VI (Liu, Yu, Bai, Jin 2021) with a Bernstein bonus; on an MDP, a game where the
min-player has one action, it is DP-UCBVI (Qiao, Wang 2023).
"""

# [QW24] Algorithm 1, each line -> the function that does it, of this file if no other is named. Lines 12, 16, 17, 22
# and 23 end blocks. DP-UCBVI runs the same lines with B = 1 (DPUCBVIConfig.game).
#  1  input: K, epsilon, beta, Privatizer     -> algorithms/tabular/learner.py::TabularConfig.privatizer
#  2  N = 0; E, iota; C_1, C_2; Delta = H     -> privacy/queries/counts.py::CountQuery.open, _NashTables.first (D15),
#                                                _OptimisticNashConfig._sizes and _constants
#  3  for k = 1, ..., K                       -> algorithms/tabular/loop.py::learning_loop
#  4    V_up_{H+1} = V_lo_{H+1} = 0           -> plan
#  5    for h = H, ..., 1                     -> plan
#  6      for (s, a, b)                       -> plain_payoffs (lines 6 to 11); _bound_payoffs in kernels
#  7        P~ by eq. (1), from the counts of (8), (9) -> postprocess, private_expectations
#  8        gamma = C_1/H P~ (V_up - V_lo)    -> _bound_payoffs
#  9        Gamma = C_2 sqrt(Var iota / N~) + C_2 H S E iota / N~ + C_2 H^2 S iota / N~ -> _bound_payoffs
# 10        Q_up = min(r + P~ V_up + gamma + Gamma, H) -> _bound_payoffs, with the cap of D13
# 11        Q_lo = max(r + P~ V_lo - gamma - Gamma, 0) -> _bound_payoffs
# 13      for s                               -> plan
# 14        pi(s) = CCE(Q_up, Q_lo)           -> envs/games/equilibria.py::coarse_correlated_equilibrium
# 15        V_up, V_lo = E_pi Q_up, E_pi Q_lo -> plan
# 18    deploy pi^k, get a trajectory         -> play
# 19    update the private counts             -> privacy/queries/counts.py::send_and_aggregate
# 20    if (V_up - V_lo)(s_1) < Delta         -> plan, at its end, before line 18
# 21      Delta = this gap, pi^out = pi^k     -> plan
# 24  return the marginals of pi^out          -> DPNashVIConfig.policies

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeVar

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Int64Array, Metric
from dprl.algorithms.numerics import plain_nearest
from dprl.algorithms.tabular import Released, TabularConfig, learning_loop
from dprl.algorithms.tabular.loop import draw_visits
from dprl.algorithms.tabular.simulator import EpisodeBuffer, episode_buffer, visit_families, write_visits
from dprl.compiled import no_alloc_kernel, shows_numbers
from dprl.envs import Env, FiniteMDP
from dprl.envs.checks import require_number
from dprl.envs.dynamics import roll_out_stochastic
from dprl.envs.games import MarkovGame
from dprl.envs.games.dynamics import GapTables, duality_gap
from dprl.envs.games.equilibria import (
    LARGEST_VIOLATION,
    EquilibriumScratch,
    coarse_correlated_equilibrium,
    equilibrium_scratch,
)
from dprl.privacy import CountFamilies, CountPrivatizer, Streams
from dprl.privacy.randomness.bits import fill_uniform
from dprl.privacy.randomness.streams import block_generator


class _NashBonus(NamedTuple):
    """Coefficients of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. per_gap: factor of P~(V_up - V_lo); per_deviation: of sqrt(Var / N~); per_count: of 1/N~.
    """

    e: float
    per_gap: float
    per_deviation: float
    per_count: float


class _Estimates(NamedTuple):
    """Expectations under P~ of one step, and scratch to find them; X = S*A*B cells (s, a, b).

    counts: the solution x of eq. (8), float64[S', X]. sums: their sums over s', float64[X]. upper, lower, variance,
    visits float64[X]: P~ V_up, P~ V_lo, Var_P~((V_up + V_lo)/2), and N~. Scratch, float64[X] each: top, the largest
    noisy count of a cell to be shifted, else 0; level, its value after the shift; mass and size, sum (less top each)
    and number of the counts that stay positive.
    """

    counts: Float64Array
    sums: Float64Array
    upper: Float64Array
    lower: Float64Array
    variance: Float64Array
    visits: Float64Array
    top: Float64Array
    level: Float64Array
    mass: Float64Array
    size: Float64Array

    @classmethod
    def zeros(cls, n_states: int, cells: int) -> _Estimates:
        return cls(np.zeros((n_states, cells)), *(np.zeros(cells) for _ in range(9)))


class _NashPlanner(NamedTuple):
    """Inputs of planning besides private counts: the bonus, the known parts of the game, and scratch.

    rewards float64[H, S*A*B]; start float64[S]: the distribution of the first state. Scratch: found; equilibrium.
    """

    bonus: _NashBonus
    rewards: Float64Array
    start: Float64Array
    found: _Estimates
    equilibrium: EquilibriumScratch

    @classmethod
    def of(cls, game: MarkovGame, bonus: _NashBonus) -> _NashPlanner:
        horizon, n_states, n_max, n_min = game.rewards.shape
        cells = n_states * n_max * n_min
        rewards, found = game.rewards.reshape(horizon, cells), _Estimates.zeros(n_states, cells)
        return cls(bonus, rewards, game.start, found, equilibrium_scratch(n_max, n_min))


class _NashTables(NamedTuple):
    """Results of planning.

    policy float64[H, S, A, B]: the joint policy pi^k; optimistic, pessimistic float64[S]: V_up and V_lo of the first
    step; q_up, q_lo float64[S, A, B]: payoffs with these values. output float64[H, S, A, B]: pi^out; smallest_gap
    float64[1]: its gap. gap float64[1]: the gap of `policy`. missed float64[1]: number of equilibria so far missed by
    more than LARGEST_VIOLATION; infeasible float64[1]: share of cells of the last plan with no solution of eq. (8).
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
    def first(cls, game: MarkovGame) -> _NashTables:
        """Return tables of zeros, with gaps above that of any plan.

        D15: the paper's first minimal gap is H, so a run with only such gaps returns nothing; here, its first policy.
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


def plain_payoffs(
    step: Float64Array, rewards: Float64Array, up: Float64Array, lo: Float64Array, cap: float, bonus: _NashBonus
) -> tuple[Float64Array, Float64Array]:
    """Return Q_up and Q_lo of one step, float64[X] each, X = S*A*B; `plan` is the same for all steps, compiled.

    step float64[S+1, X]: transitions to s' along (s, a, b), then visits; rewards float64[X]; up, lo float64[S]: V_up
    and V_lo of the next step; cap: H-h+1 (D13).
    Paper: [QW24] Algorithm 1, lines 6-11, with eq. (8) and eq. (9).
    """
    noise, middle = bonus.e / (2.0 * len(up)), 0.5 * (up + lo)
    x = np.stack([plain_counts(cell[:-1], cell[-1], 0.25 * bonus.e) for cell in step.T], axis=1)
    visits = (x + noise).sum(axis=0)
    known, n = visits > 0.0, np.where(visits > 0.0, visits, 1.0)
    p = (x + noise) / n
    variance = (p * (middle[:, None] - middle @ p) ** 2).sum(axis=0)
    width = bonus.per_gap * ((up - lo) @ p) + bonus.per_deviation * np.sqrt(variance / n) + bonus.per_count / n
    q_up, q_lo = np.minimum(cap, rewards + up @ p + width), np.maximum(0.0, rewards + lo @ p - width)
    return np.where(known, q_up, cap), np.where(known, q_lo, 0.0)


def plain_counts(noisy: Float64Array, visits: float, slack: float) -> Float64Array:
    """Return the x >= 0 nearest to the noisy counts float64[S] with |sum x - visits| <= slack (D14), or else 0.

    Paper: [QW24] eq. (8).
    """
    positive = np.maximum(noisy, 0.0)
    total = min(max(positive.sum(), visits - slack), max(visits + slack, 0.0))
    if total == positive.sum():
        return np.asarray(positive)
    return plain_nearest(noisy, total)


@no_alloc_kernel
def plan(counts: Released, planner: _NashPlanner, tables: _NashTables) -> tuple[bool, float]:
    """Plan from private counts; returns (True, share of cells with both bounds at their caps).

    D13: the caps are H-h+1 and 0, the paper's are H and 0; the rewards of the remaining steps are at most H-h+1.
    Paper: [QW24] Algorithm 1, lines 4-17 and 20-22.
    """
    up, lo = tables.optimistic, tables.pessimistic
    horizon, n_states, n_max, n_min = tables.policy.shape
    cells, e, found = n_states * n_max * n_min, planner.bonus.e, planner.found
    steps = counts.values.reshape((horizon, n_states + 1, cells))
    q_up, q_lo = tables.q_up.reshape(cells), tables.q_lo.reshape(cells)
    saturated, infeasible = 0, 0
    up[:] = 0.0  # line 4
    lo[:] = 0.0
    for h in range(horizon - 1, -1, -1):  # line 5
        infeasible += postprocess(steps[h], 0.25 * e, found)  # line 7
        private_expectations(found, e, up, lo)
        saturated += _bound_payoffs(found, planner.rewards[h], float(horizon - h), planner.bonus, q_up, q_lo)
        for s in range(n_states):  # line 13
            policy, high, low = tables.policy[h, s], tables.q_up[s], tables.q_lo[s]
            violation = coarse_correlated_equilibrium(high, low, planner.equilibrium, policy)  # line 14
            tables.missed[0] += not violation <= LARGEST_VIOLATION  # NaN is missed, too
            above, below = 0.0, 0.0
            for a in range(n_max):  # line 15
                for b in range(n_min):
                    above += policy[a, b] * high[a, b]
                    below += policy[a, b] * low[a, b]
            up[s], lo[s] = above, below
    gap = 0.0
    for s in range(n_states):
        gap += planner.start[s] * (up[s] - lo[s])
    tables.gap[0] = gap
    if gap < tables.smallest_gap[0]:  # lines 20 and 21
        tables.smallest_gap[0] = gap
        source, target = tables.policy.reshape(tables.policy.size), tables.output.reshape(tables.output.size)
        for i in range(source.shape[0]):
            target[i] = source[i]
    tables.infeasible[0] = infeasible / (horizon * cells)
    return True, saturated / (horizon * cells)


@no_alloc_kernel
def _bound_payoffs(
    expected: _Estimates, rewards: Float64Array, cap: float, bonus: _NashBonus, q_up: Float64Array, q_lo: Float64Array
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


# Eqs. (8) and (9) of [QW24] in closed form.
#
# For every (s, a, b), eq. (8) asks for an x >= 0 with |sum x - N| <= E/4 that minimises max_s' |x(s') - n(s')|; it is
# not unique. D14: `postprocess` takes x(s') = max(0, n(s') + shift), with shift = 0 if sum x then lies in the band,
# else the shift that moves it to the nearer end of the band. It is the Euclidean projection of n, and minimises sum
# phi(x(s') - n(s')) for every convex even phi, hence also the maximum. It is continuous in the counts and treats all s'
# alike.

_SMALLEST = 1e-300


@no_alloc_kernel
def postprocess(step: Float64Array, slack: float, found: _Estimates) -> int:
    """Fill `found` from the released counts of one step, and return the number of cells without a feasible solution.

    step float64[S'+1, X]: transitions to s' along (s, a, b), then visits N; read only. slack: E/4. If N < -E/4, nothing
    is feasible, and x = 0, the limit of the solutions as N rises to -E/4. Counts >= 0 with a sum in the band (exact
    counts, for instance) are returned bit for bit.

    The equation sum_s' max(0, n(s') - top + level) = total is solved by Newton's method from above, for all cells at
    once. Levels only fall, so sets of positive counts only shrink, and a cell is done once its set stays the same: at
    most S+2 passes. Differences from the largest count keep the error to a few roundings of the total.
    Paper: [QW24] eq. (8).
    """
    counts, totals, top, level, mass, size = found.counts, found.sums, found.top, found.level, found.mass, found.size
    visits, cells = step[counts.shape[0]], totals.shape[0]
    # The totals, and levels above the solutions.
    mass[:] = 0.0
    top[:] = -np.inf
    for t in range(counts.shape[0]):
        noisy = step[t]
        for j in range(cells):
            mass[j] += noisy[j] if noisy[j] > 0.0 else 0.0
            top[j] = max(top[j], noisy[j])
    infeasible, moving = 0, 0
    for j in range(cells):
        most = visits[j] + slack
        total = min(max(mass[j], visits[j] - slack), max(most, 0.0))
        shifted = total != mass[j]
        high = min(total, top[j]) if total < mass[j] else total
        infeasible += most < 0.0
        moving += shifted
        totals[j] = total
        level[j] = high if shifted else 0.0
        top[j] = top[j] if shifted else 0.0
    # One step of Newton's method in every cell, until no level falls.
    while moving > 0:
        mass[:] = 0.0
        size[:] = 0.0
        for t in range(counts.shape[0]):
            noisy = step[t]
            for j in range(cells):
                below = noisy[j] - top[j]
                positive = below > -level[j]
                mass[j] += below if positive else 0.0
                size[j] += 1.0 if positive else 0.0
        moving = 0
        for j in range(cells):
            lower = (totals[j] - mass[j]) / max(size[j], 1.0)
            moving += lower < level[j]
            level[j] = min(level[j], lower)
    for t in range(counts.shape[0]):
        noisy, row = step[t], counts[t]
        for j in range(cells):
            x = noisy[j] - top[j] + level[j]
            row[j] = x if x > 0.0 else 0.0
    return infeasible


@no_alloc_kernel
def private_expectations(found: _Estimates, precision: float, upper: Float64Array, lower: Float64Array) -> None:
    """Fill in expectations under P~(s') = (x(s') + E/(2S)) / N~, N~ = sum x + E/2; zeros where N~ = 0.

    precision: E. upper, lower float64[S]: V_up and V_lo of the next step. The variance is computed around the middle of
    the range of (V_up + V_lo)/2, so its error is a few roundings of the squared range, and it is never negative.
    Paper: [QW24] eq. (9), and Algorithm 1, lines 7-11.
    """
    n_states = upper.shape[0]
    smoothing = precision / (2 * n_states)
    least, most = np.inf, -np.inf
    for t in range(n_states):
        least, most = min(least, upper[t] + lower[t]), max(most, upper[t] + lower[t])
    middle = 0.25 * (least + most)
    found.upper[:] = 0.0
    found.lower[:] = 0.0
    found.variance[:] = 0.0
    for t in range(n_states):
        row, up, lo = found.counts[t], upper[t], lower[t]
        deviation = 0.5 * (up + lo) - middle
        square = deviation * deviation
        for j in range(row.shape[0]):
            n = row[j] + smoothing
            found.upper[j] += n * up
            found.lower[j] += n * lo
            found.variance[j] += n * square
    for j in range(found.sums.shape[0]):
        visits = found.sums[j] + 0.5 * precision
        over_n = 1.0 / max(visits, _SMALLEST)
        up, lo = found.upper[j] * over_n, found.lower[j] * over_n
        mean = 0.5 * (up + lo) - middle
        found.visits[j] = visits
        found.upper[j] = up
        found.lower[j] = lo
        found.variance[j] = max(0.0, found.variance[j] * over_n - mean * mean)


E = TypeVar("E", bound=Env)
Constants = Literal["given", "proved"]

GAP = Metric("gap", "last", "reward", of="deployed", covered=True)
"""(V_up - V_lo)(s_1) of the policy deployed last: a bound on its regret if all confidence bounds hold."""
SMALLEST_GAP = Metric(
    name="smallest_gap",
    over="last",
    unit="reward",
    of="output",
    short="gap",
    definition="the least V_up - V_lo at the start of all plans of a run; where a theorem covers the run, it bounds "
    "the exploitability of that plan's policy, the output of the run",
    covered=True,
)
"""The same of the output policy."""
EXPLOITABILITY = Metric(
    name="exploitability",
    over="last",
    unit="reward",
    of="output",
    short="exploit.",
    definition="the gain of best responses against the marginals of the output policy, "
    "V^{dagger,nu} - V^{mu,dagger}, exact; regret in a game is its sum over the policies deployed",
    covered=True,
)
"""V^{dagger,nu} - V^{mu,dagger}, exact, of the output policy's marginals."""
INFEASIBLE = Metric("infeasible", "last", covered=True)
"""The share of cells of the last plan where eq. (8) of [QW24] has no solution."""
ALWAYS_ENOUGH = math.sqrt(2.0)
"""With C_1 >= 1 and C_2 at least this, the bounds hold for any noise and any sizes."""
_DIGITS = 1e-6


@dataclass(frozen=True)
class _Sizes:
    """Sizes in the condition: S states, H steps, K episodes, the bound E on all noise, and iota."""

    n_states: int
    horizon: int
    episodes: int
    e: float
    iota: float

    @property
    def trivial(self) -> bool:
        """Whether there is nothing to estimate: a single state, so that P~ = P, or a single step."""
        return self.n_states == 1 or self.horizon == 1


def enough(c1: float, c2: float, sizes: _Sizes) -> bool:
    """Return whether the theorem proves the bounds for C_1 = c1 and C_2 = c2.

    Paper: docs/proofs/dp_nash_vi.md, inequality (5).
    """
    n_states, f, e, iota = sizes.n_states, sizes.horizon, sizes.e, sizes.iota
    if sizes.trivial:
        return True
    if c1 <= 0.0:
        return False
    c1 = min(c1, 1.0)
    rho = 2.0 * c1 / (3.0 * f)
    log_sets = (n_states - 1) * math.log(2.0) + math.log1p(-(2.0 ** (1 - n_states)))
    tau = 1.0 + log_sets / iota
    visits = 10.0 / 3.0 if e > 0.0 else 7.0 / 3.0
    deviation = max(0.0, ALWAYS_ENOUGH - c2) * (f / 2.0) * math.sqrt(iota * (sizes.episodes + e))
    noise = e * n_states * (f - 1) * (1.25 + rho / 2.0)
    chance = 3.0 * f**2 / (8.0 * c1) + visits * (f - 1) + 3.0 * f * (f - 1) / (4.0 * c1) * (1.0 + rho) ** 2 * tau
    return deviation + noise + iota * chance <= c2 * f * n_states * iota * (e + f)


def least_scale(sizes: _Sizes) -> float:
    """Return the least c, to six digits from above, such that C_1 = C_2 = c is enough.

    Paper: docs/proofs/dp_nash_vi.md, Corollary 3.
    """
    if sizes.trivial:
        return 0.0
    low, high = 0.0, ALWAYS_ENOUGH
    while high - low > _DIGITS * high:
        middle = 0.5 * (low + high)
        if enough(middle, middle, sizes):
            high = middle
        else:
            low = middle
    return high


@shows_numbers
class _GameSimulator(NamedTuple):
    """The game and its users for compiled loops; a user is one episode of both players.

    transitions, cdf float64[L, S, A*B, S'], start, start_cdf: of the game's joint MDP; model: its arrays by (s, a, b),
    and values of best responses; episodes: K; key uint64[5]: of the stream of transitions; device: a user's.
    """

    transitions: Float64Array
    cdf: Float64Array
    start: Float64Array
    start_cdf: Float64Array
    model: GapTables
    episodes: int
    key: np.ndarray
    device: EpisodeBuffer

    def identity(self) -> tuple[np.ndarray, ...]:
        return self.model.transitions, self.model.rewards, self.model.after, self.start, self.key


def count_families(game: MarkovGame) -> CountFamilies:
    """Return N(h,s,a,b,s') and N(h,s,a,b); rewards are known. A user is the pair of players of an episode.

    Paper: [QW24] sec. 2.2 and sec. 3.
    """
    pairs = game.n_max_actions * game.n_min_actions
    players = 1 if game.n_min_actions == 1 else 2  # a player with nothing to choose has no data
    families = visit_families(game.n_states, pairs)
    return CountFamilies(game.horizon, families, paper="[QW24]", players=players, by_bound=True)


@no_alloc_kernel
def play(simulator: _GameSimulator, policy: Float64Array, user: int) -> None:
    """User side: play episode `user` under the joint `policy` float64[H, S, A, B]; write the record to `device`.

    Paper: [QW24] Algorithm 1, line 18.
    """
    own = simulator.device
    horizon, n_states, n_max, n_min = policy.shape
    joint = policy.reshape((horizon, n_states, n_max * n_min))
    fill_uniform(own.uniforms, simulator.key, np.uint64(user) * np.uint64(own.uniforms.shape[0]))
    roll_out_stochastic(simulator.cdf, simulator.start_cdf, joint, own.uniforms, own.states, own.actions)
    write_visits(own.states, own.actions, (n_states, n_max * n_min), own.cells, own.amounts)


@no_alloc_kernel
def regret(simulator: _GameSimulator, policy: Float64Array) -> float:
    """Return V^{dagger,nu} - V^{mu,dagger} for the marginals mu, nu of the joint `policy` float64[H, S, A, B].

    Both players' best responses are exact. Values are weighted by the distribution of the first state.
    Paper: [QW24] sec. 2.1.
    """
    horizon, n_states, n_max, n_min = policy.shape
    duality_gap(simulator.model, policy.reshape((horizon, n_states, n_max * n_min)))
    total = 0.0
    for s in range(n_states):
        total += simulator.start[s] * (simulator.model.upper[s] - simulator.model.lower[s])
    return total


def add_block(
    privatizer: CountPrivatizer, simulator: _GameSimulator, policy: Float64Array, first: int, users: int
) -> None:
    """Add `users` users to a privatizer, from `first` on, who play the joint `policy` float64[H, S, A, B]."""
    joint, generator = policy.reshape(*policy.shape[:2], -1), block_generator(simulator.key, first)

    def draw(sizes: Int64Array | None) -> Int64Array:
        law = simulator.transitions, simulator.start, joint
        return draw_visits(*law, users if sizes is None else sizes, generator)

    privatizer.add_block(first, users, draw)


run = learning_loop(plan, play, regret, add_block)


@dataclass(frozen=True)
class _OptimisticNashConfig(TabularConfig[E]):
    """The settings of DP-Nash-VI, for every class of environments that it can treat as games.

    Args:
        constants: choice of the bonus's constants, which the paper leaves open. 'given': C_1 = c1 and C_2 = c2.
            'proved': both are the least number for which Theorem 1 of docs/dp_nash_vi.md covers the run's noise.
        c1, c2: at least 0; left out with 'proved'.
    """

    constants: Constants = "given"
    c1: float = 1.0
    c2: float = 1.0
    theorem: ClassVar[str | None] = "docs/dp_nash_vi.md, Theorem 1 (gap)"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED, GAP, SMALLEST_GAP, EXPLOITABILITY, INFEASIBLE)
    plan = staticmethod(plan)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key, value in (("c1", self.c1), ("c2", self.c2)):
            require_number(key, value, 0.0)
            if self.constants == "proved" and value != 1.0:
                raise ValueError(f"{key} must be left out with constants proved, got {value!r}; write constants: given")

    @property
    def covered_by(self) -> str | None:
        """The theorem that proves the bounds V_up and V_lo of all runs with these settings, for any noise."""
        scale = self.bonus_scale
        given = scale * self.c1 >= 1.0 and scale * self.c2 >= ALWAYS_ENOUGH
        proved = scale >= 1.0 if self.constants == "proved" else given
        return self.theorem if proved and self.precision_scale >= 1.0 else None

    @abstractmethod
    def game(self, env: E) -> MarkovGame:
        """Return the environment as a game."""

    def families(self, env: E) -> CountFamilies:
        return count_families(self.game(env))

    def simulator(self, env: E, episodes: int, streams: Streams) -> _GameSimulator:
        game = self.game(env)
        return _GameSimulator(
            transitions=game.joint.transitions[: game.joint.layers],
            cdf=game.joint.cdf[: game.joint.layers],
            start=game.start,
            start_cdf=game.joint.start_cdf,
            model=game.gap_tables(),
            episodes=episodes,
            key=streams.key("env"),
            device=episode_buffer(game.horizon, n_families=2),
        )

    def bonus(self, env: E, privatizer: CountPrivatizer, episodes: int) -> _NashPlanner:
        """Return c (gamma + Gamma) as its coefficients, E, and the known parts of the game.

        With probability 1 - beta/3 errors are at most E/4 (Assumption 3.1, Lemma 5.8); iota = ln(30 H S A B K / beta).
        Paper: [QW24] Algorithm 1, lines 2, 8 and 9.
        """
        game = self.game(env)
        sizes = self._sizes(game, privatizer, episodes)
        c1, c2 = self._constants(sizes)
        bonus = _NashBonus(
            e=sizes.e,
            per_gap=c1 / sizes.horizon,
            per_deviation=c2 * math.sqrt(sizes.iota),
            per_count=c2 * sizes.horizon * sizes.n_states * sizes.iota * (sizes.e + sizes.horizon),
        )
        return _NashPlanner.of(game, bonus)

    def _sizes(self, game: MarkovGame, privatizer: CountPrivatizer, episodes: int) -> _Sizes:
        bounds = privatizer.precision(self.beta / 3)
        iota = math.log(30.0 * game.rewards.size * episodes / self.beta)
        e = 4.0 * self.precision_scale * max(bounds["visits"], bounds["transitions"])
        return _Sizes(game.n_states, game.horizon, episodes, e, iota)

    def _constants(self, sizes: _Sizes) -> tuple[float, float]:
        c1, c2 = self.c1, self.c2
        if self.constants == "proved":
            c1 = c2 = least_scale(sizes)
        return self.bonus_scale * c1, self.bonus_scale * c2

    def covered(self, env: E, privatizer: CountPrivatizer, episodes: int) -> str | None:
        """Return the theorem that proves the bounds V_up and V_lo of a run, on any schedule of plans."""
        sizes = self._sizes(self.game(env), privatizer, episodes)
        proved = self.precision_scale >= 1.0 and enough(*self._constants(sizes), sizes)
        return self.theorem if proved else self.covered_by

    def derived(self, env: E, privatizer: CountPrivatizer, episodes: int) -> dict[str, float]:
        sizes = self._sizes(self.game(env), privatizer, episodes)
        c1, c2 = self._constants(sizes)
        return {"c1": c1, "c2": c2, "e": sizes.e}

    def tables(self, env: E, episodes: int) -> _NashTables:  # noqa: ARG002
        return _NashTables.first(self.game(env))

    def measure(self, simulator: _GameSimulator, tables: _NashTables) -> dict[str, float]:
        """Return gap, smallest gap, exploitability and infeasible share.

        Raises RuntimeError if an equilibrium was missed, because then no bound would hold.
        """
        if tables.missed[0] != 0.0:
            rule = f"equilibria must be met to {LARGEST_VIOLATION:g} of the largest payoff"
            raise RuntimeError(f"{rule}, got {tables.missed[0]:.0f} that are not; report this experiment")
        return {
            GAP.name: float(tables.gap[0]),
            SMALLEST_GAP.name: float(tables.smallest_gap[0]),
            EXPLOITABILITY.name: float(regret(simulator, tables.output)),
            INFEASIBLE.name: float(tables.infeasible[0]),
        }


@dataclass(frozen=True)
class DPNashVIConfig(_OptimisticNashConfig[MarkovGame]):
    """DP-Nash-VI, optimistic Nash value iteration on private counts ([QW24] Algorithm 1; with model none, Nash-VI)."""

    name: ClassVar[str] = "dp_nash_vi"
    plays: ClassVar[type[Env]] = MarkovGame

    def game(self, env: MarkovGame) -> MarkovGame:
        return env

    def policies(self, tables: _NashTables) -> dict[str, np.ndarray]:
        """Return pi^out float64[H, S, A, B] as 'policy', and its marginals 'max_player' and 'min_player'.

        Paper: [QW24] Algorithm 1, line 24.
        """
        output = tables.output.copy()
        return {"policy": output, "max_player": output.sum(axis=3), "min_player": output.sum(axis=2)}


@dataclass(frozen=True)
class DPUCBVIConfig(_OptimisticNashConfig[FiniteMDP]):
    """DP-UCBVI (Qiao, Wang 2023), value iteration with a Bernstein bonus: DP-Nash-VI without a second player."""

    name: ClassVar[str] = "dp_ucbvi"
    tuned: ClassVar[tuple[float, float] | None] = (0.0003, 0.03)
    plays: ClassVar[type[Env]] = FiniteMDP

    def game(self, env: FiniteMDP) -> MarkovGame:
        """Return the MDP as a game with B = 1."""
        return MarkovGame.from_mdp(env)

    def policy(self, tables: _NashTables) -> Float64Array:
        return tables.policy[..., 0].copy()

    def policies(self, tables: _NashTables) -> dict[str, np.ndarray]:
        return {"policy": tables.output[..., 0].copy()}
