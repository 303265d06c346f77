"""bernstein_vi: optimistic value iteration with empirical Bernstein bounds on private counts.

It is our own algorithm: the bounds of [CZ22] Algorithm 2 in a form that is less sensitive to noise, for any counter or
kind of report. docs/proofs/bernstein_vi.md derives every line and proves that its values are optimistic.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named.
#  1  E, E_L, iota for the users so far, by epochs           -> BernsteinVIConfig.bonus, epoch_ends
#  2  for k = 1, ..., K; lines 3 to 9 at 1 % more            -> algorithms/tabular/loop.py::learning_loop,
#                                                               algorithms/tabular/loop.py::run_in_blocks
#  3    N~ projected on equal totals and flow                -> restore_totals_and_flow
#  4    V~_{H+1} = 0; for h = H, ..., 1                      -> plain_plan (lines 4 to 9); plan is the same, compiled
#  5      c(s') = H-h - V~(s')                               -> plan, cost_of_next
#  6      nearest = sum of x c, x >= 0 nearest to N~; and other sums -> sum_up
#  7      slack by the empirical Bernstein bound, and E      -> bound_values
#  8      Q~ = H-h+1 - (L~ + nearest - scale slack) / max(1, N~ + E) -> bound_values
#  9      pi(s) = argmax_a Q~, V~ = clip(max_a Q~, 0, H-h+1) -> algorithms/tabular/greedy.py::act_greedily
# 10    roll out pi^k, count transitions and losses          -> algorithms/tabular/simulator.py::play
# 11    receive N~, L~ from the privatizer                   -> privacy/queries/counts.py::send_and_aggregate

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.numerics import plain_nearest
from dprl.algorithms.tabular import Preset, Released, StationaryMDPConfig, learning_loop
from dprl.algorithms.tabular.greedy import act_greedily
from dprl.algorithms.tabular.simulator import ALL_STATES, possible_successors
from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer

_FIRST_EPOCH = 1024
_FUNCTIONS = 4  # Fixed functions of V* with bounded noise: u, u^2, (1 - u)^2 and 1, with u = (W - V*) / W.
_NEAREST_STEPS = 6
# With these weights, the bound of docs/proofs/bernstein_vi.md, step 3, holds for every number of visits.
_VARIANCE, _RANGE = 2.4, 2.8


class _Bonus(NamedTuple):
    """The numbers of the bounds.

    ends int64[J]: number of users at the end of each epoch; e, e_losses float64[J]: E of weighted sums of transitions
    and E_L of losses until then, precision_scale multiplied in; iota: logarithm of the union bound; scale: bonus_scale;
    consistent: whether totals and flow of the counts are restored; successors int64[L, R, S*A]: the possible next
    states, the only ones counted, -1 after the last; L = 0 if they are not known.
    """

    ends: Int64Array
    e: Float64Array
    e_losses: Float64Array
    iota: float
    scale: float
    consistent: bool
    successors: Int64Array


class _Tables(NamedTuple):
    """Arrays of planning.

    policy int64[H, S]; optimistic float64[S]; transitions float64[L, R, S*A]: consistent counts, L = H, or 1 if steps
    are pooled; R: number of counted next states; excess float64[H+1, S]: scratch; cost float64[S]: cap less optimistic
    values of the next step; costs float64[R, S*A]: those of the next states; sums float64[7, S*A]: see `sum_up`.
    """

    policy: Int64Array
    optimistic: Float64Array
    transitions: Float64Array
    excess: Float64Array
    cost: Float64Array
    costs: Float64Array
    sums: Float64Array


def plain_plan(
    counts: Float64Array, e: float, e_losses: float, iota: float, scale: float
) -> tuple[Float64Array, Float64Array]:
    """Return upper bounds of Q* float64[H, S, A], not yet clipped, and the values float64[S] of the first step.

    counts float64[H, S+2, S, A]: transitions, visits (not read) and losses; e, e_losses, iota, scale: see `_Bonus`, for
    the users so far. A bound is the cap H-h+1 less a lower bound of the cost: the loss 1 - r plus the next cap less V*
    at s'. docs/proofs/bernstein_vi.md, steps 2 to 7.
    """
    horizon, _, n_states, n_actions = counts.shape
    q, values, variance = np.empty((horizon, n_states, n_actions)), np.zeros(n_states), _VARIANCE * iota
    for h in reversed(range(horizon)):
        cap = float(horizon - h)
        reach, cost = cap - 1.0, cap - 1.0 - values
        for s, a in np.ndindex(n_states, n_actions):
            row, loss = counts[h, :n_states, s, a], counts[h, n_states + 1, s, a]
            x, n = np.maximum(row, 0.0), row.sum()
            mean = x @ cost / x.sum() if x.any() else 0.0
            spread = x @ (cost - mean) ** 2 + 1.25 * reach**2 * e + variance * reach**2
            fewer = max(min(loss + e_losses, n - loss + e + e_losses), 0.0)
            slack = reach * (x.sum() - n + e) + e_losses + _RANGE * cap * iota
            least = loss + x @ cost - slack - np.sqrt(variance * spread) - np.sqrt(variance * fewer)
            estimate = loss + plain_nearest(row, max(n, 0.0)) @ cost
            q[h, s, a] = cap - (estimate - scale * (estimate - least)) / max(1.0, n + e)
        values = np.clip(q[h].max(axis=1), 0.0, cap)
    return q, values


@no_alloc_kernel
def restore_totals_and_flow(transitions: Float64Array, users: int, excess: Float64Array) -> None:
    """Project transitions float64[H, S', S*A] onto the consistent counts of `users` episodes, in place.

    In k-1 episodes every step has k-1 transitions, and as many episodes arrive in a state as leave it one step later.
    The orthogonal projection on these equations has a closed form: the equations of one step concern sums over s' or
    over (s, a), and once the totals hold they are orthogonal to each other.

    excess float64[H+1, S]: scratch. With totals restored, lambda_h(s) = (arrivals in s at step h - departures from s at
    step h+1) / (2 S A) is taken from the cells that lead to s and given to those that leave it.
    """
    horizon, n_states, pairs = transitions.shape
    n_actions = pairs // n_states
    for h in range(horizon):
        step, total = transitions[h], 0.0
        for t in range(n_states):
            for j in range(pairs):
                total += step[t, j]
        share = (users - total) / step.size
        for t in range(n_states):
            for j in range(pairs):
                step[t, j] += share
    excess[:] = 0.0
    for h in range(1, horizon):
        arriving, leaving = transitions[h - 1], transitions[h]
        for t in range(n_states):
            for j in range(pairs):
                excess[h, t] += arriving[t, j] / (2 * pairs)
                excess[h, j // n_actions] -= leaving[t, j] / (2 * pairs)
    for h in range(horizon):
        for t in range(n_states):
            for j in range(pairs):
                transitions[h, t, j] += excess[h, j // n_actions] - excess[h + 1, t]


@no_alloc_kernel
def cost_of_next(cost: Float64Array, after: Int64Array, step: Float64Array, costs: Float64Array) -> None:
    """Fill costs float64[R, S*A] with the cost float64[S] of each next state after int64[R, S*A].

    Counts in step float64[R, S*A] without a next state are noise only, and become 0.
    """
    for r in range(costs.shape[0]):
        for j in range(costs.shape[1]):
            if after[r, j] >= 0:
                costs[r, j] = cost[after[r, j]]
            else:
                costs[r, j] = 0.0
                step[r, j] = 0.0


@no_alloc_kernel
def sum_up(step: Float64Array, costs: Float64Array, sums: Float64Array) -> None:
    """Sum over s' for every (s, a): step and costs float64[S', S*A].

    Fills sums float64[7, S*A]: visits N; mass and lack, the sums of max(N(s'), 0) and of max(-N(s'), 0); first and
    second, those of max(N(s'), 0) c(s') and max(N(s'), 0) c(s')^2; nearest, that of x(s') c(s') with x the nearest
    non-negative counts of the same total (S <= 6; with more states x can exceed them); the last row is scratch.
    """
    visits, mass, lack, first = sums[0], sums[1], sums[2], sums[3]
    second, nearest, shift = sums[4], sums[5], sums[6]
    pairs = shift.shape[0]
    sums[:] = 0.0
    for s in range(step.shape[0]):
        row, c = step[s], costs[s]
        for j in range(pairs):
            positive = max(row[j], 0.0)
            visits[j] += row[j]
            mass[j] += positive
            lack[j] += positive - row[j]
            first[j] += positive * c[j]
            second[j] += positive * c[j] * c[j]
    for _ in range(_NEAREST_STEPS):  # Newton: x = max(N - shift, 0)
        for j in range(pairs):
            total, number = -max(visits[j], 0.0), 0.0
            for s in range(step.shape[0]):
                above = step[s, j] - shift[j]
                total += max(above, 0.0)
                number += 1.0 if above > 0.0 else 0.0
            shift[j] += total / max(number, 1.0)
    for s in range(step.shape[0]):
        row, c = step[s], costs[s]
        for j in range(pairs):
            nearest[j] += max(row[j] - shift[j], 0.0) * c[j]


@no_alloc_kernel
def bound_values(sums: Float64Array, losses: Float64Array, cap: float, bonus: _Bonus, epoch: int) -> None:
    """Turn the sums of a step into upper bounds of Q*, written to row 0: not yet clipped at the cap."""
    visits, mass, lack, first, second, nearest = sums[0], sums[1], sums[2], sums[3], sums[4], sums[5]
    e, e_losses, reach = bonus.e[epoch], bonus.e_losses[epoch], cap - 1.0
    variance = _VARIANCE * bonus.iota
    floor = variance * reach * reach + 1.25 * reach * reach * e
    for j in range(visits.shape[0]):
        n, loss = visits[j], losses[j]
        spread = max(second[j] - first[j] * first[j] / max(mass[j], 1e-300), 0.0)
        fewer = max(min(loss + e_losses, n - loss + e + e_losses), 0.0)
        slack = reach * (e + lack[j]) + e_losses + _RANGE * cap * bonus.iota
        slack += math.sqrt(variance * (spread + floor)) + math.sqrt(variance * fewer)
        estimate = loss + nearest[j]
        slack -= first[j] - nearest[j]  # the nearest counts less than the positive ones
        visits[j] = cap - (estimate - bonus.scale * slack) / max(1.0, n + e)


@kernel
def plan(counts: Released, bonus: _Bonus, tables: _Tables) -> tuple[bool, float]:
    """Plan as `plain_plan` does, on consistent counts; return (did the policy change, share of saturated cells).

    A bound at or above the cap is saturated, and the value is then the cap. Among several saturated actions the policy
    takes the one with the highest bound before clipping.
    """
    policy, optimistic, transitions, excess, cost, costs, sums = tables
    horizon = policy.shape[0]
    layers, width, pairs = transitions.shape
    values = counts.values.reshape((layers, -1, pairs))
    transitions[:] = values[:, :width]
    if bonus.consistent and counts.users > 0:
        restore_totals_and_flow(transitions, counts.users, excess)
    epoch = int(np.searchsorted(bonus.ends, counts.users))
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        cap = float(horizon - h)
        cost[:] = cap - 1.0 - optimistic
        layer = h if layers == horizon else 0
        if bonus.successors.shape[0] > 0:
            cost_of_next(cost, bonus.successors[layer], transitions[layer], costs)
        else:
            for s in range(width):
                costs[s] = cost[s]
        sum_up(transitions[layer], costs, sums)
        bound_values(sums, values[layer, width + 1], cap, bonus, epoch)
        moved, full = act_greedily(sums[0], cap, policy[h], optimistic)
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * pairs)


run = learning_loop(plan)


@dataclass(frozen=True)
class BernsteinVIConfig(StationaryMDPConfig):
    """Optimistic value iteration with empirical Bernstein bounds on private counts (ours).

    By default it replans whenever the number of episodes has grown by 1 %, which its theorem covers, with tuned scales,
    which only `preset: proved` replaces by those of the theorem.

    Args:
        known_transitions: the possible transitions are public, their probabilities are not; no others are counted, so
            large environments with few successors of each state need no table of all pairs.
    """

    replan_growth: float = 0.01
    preset: Preset = "tuned"
    known_transitions: bool = False
    name: ClassVar[str] = "bernstein_vi"
    tuned: ClassVar[tuple[float, float] | None] = (0.01, 0.003)
    theorem: ClassVar[str | None] = "docs/bernstein_vi.md, Theorem 1 (optimism)"
    pooled_theorem: ClassVar[str] = "docs/bernstein_vi.md, Theorem 2 (optimism)"
    counts_losses: ClassVar[bool] = True
    weighs_counts: ClassVar[bool] = True
    plan = staticmethod(plan)
    run = staticmethod(run)

    def successors(self, env: FiniteMDP) -> Int64Array:
        return possible_successors(env, self.layers(env)) if self.known_transitions else ALL_STATES

    @property
    def covered_by(self) -> str | None:
        """The theorem that proves optimism of a run with these settings; it holds on any fixed schedule of plans."""
        if self.bonus_scale < 1.0 or self.precision_scale < 1.0:
            return None
        return self.pooled_theorem if self.stationary else self.theorem

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:
        pairs, successors = env.horizon * env.n_states * env.n_actions, self.successors(env)
        width = successors.shape[1] or env.n_states
        visits = env.horizon // self.layers(env) * episodes
        ends = epoch_ends(episodes)
        share = self.beta / (4 * len(ends))

        def bounds(family: str, cells: int, number: int) -> Float64Array:
            bound = privatizer.query.weighted_precision
            return self.precision_scale * np.array([bound(family, cells, number, users, share) for users in ends])

        return _Bonus(
            ends=np.array(ends, dtype=np.int64),
            e=bounds("transitions", width, _FUNCTIONS * pairs),
            e_losses=bounds("losses", 1, pairs),
            iota=math.log(8.0 * pairs * visits / self.beta),
            scale=self.bonus_scale,
            # Pooled or ranked counts have no closed form: users' last states, and so the flow, are unknown. An
            # orthogonal projection of Gaussian noise, continuous or discrete, increases no bound of a weighted sum.
            consistent=not (self.stationary or self.known_transitions)
            and getattr(privatizer.query.law, "norm", None) == "l2",
            successors=successors,
        )

    def tables(self, env: FiniteMDP, episodes: int) -> _Tables:  # noqa: ARG002
        horizon, n_states, n_actions = env.rewards.shape
        pairs, width = n_states * n_actions, self.successors(env).shape[1] or n_states
        return _Tables(
            policy=np.zeros((horizon, n_states), dtype=np.int64),
            optimistic=np.zeros(n_states),
            transitions=np.zeros((self.layers(env), width, pairs)),
            excess=np.zeros((horizon + 1, n_states)),
            cost=np.zeros(n_states),
            costs=np.zeros((width, pairs)),
            sums=np.zeros((7, pairs)),
        )


def epoch_ends(episodes: int) -> list[int]:
    """Return the numbers of users at the ends of epochs: each is twice the one before, and the last one is K."""
    ends = [_FIRST_EPOCH]
    while ends[-1] < episodes:
        ends.append(2 * ends[-1])
    return [*ends[:-1], episodes]
