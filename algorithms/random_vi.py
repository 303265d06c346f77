"""random_vi: value iteration on costs drawn at random around their private estimates.

It is our own, in the spirit of randomized value functions (Osband, Van Roy, Wen 2016). The variance of a draw is the
estimated sampling variance plus the known one of the privacy noise, mixed with a prior's at few visits.
"""

# Our pseudo-code, each line -> the function that does it, of this file if no other is named.
#  1  deviations of the noise of released counts                 -> RandomVIConfig.bonus
#  2  for k = 1, ..., K; lines 3 to 10 at 1 % more               -> algorithms/tabular/loop.py::learning_loop,
#                                                                   algorithms/tabular/loop.py::run_in_blocks
#  3    z(h, s, a) standard normal, all independent              -> plan
#  4    V~_{H+1} = 0; for h = H, ..., 1                          -> plain_plan; plan is the same, compiled
#  5      c(s') = H-h - V~(s')                                   -> plan
#  6      x = counts >= 0 nearest to N~                          -> algorithms/numerics.py::plain_nearest, fill_nearest
#  7      mean, deviation of the cost by x, L~, N~               -> estimate_cost
#  8      both mixed with a prior, the less N~ exceeds its noise -> plan
#  9      Q~ = H-h+1 - mean + scale z deviation                  -> plan
# 10      pi(s) = argmax_a Q~, V~ = clip(max_a Q~, 0, H-h+1)     -> algorithms/tabular/greedy.py::act_greedily
# 11    roll out pi^k, count transitions and losses              -> algorithms/tabular/simulator.py::play
# 12    receive N~, L~ from the privatizer                       -> privacy/queries/counts.py::send_and_aggregate

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.numerics import plain_nearest
from dprl.algorithms.tabular import Preset, Released, StationaryMDPConfig, learning_loop
from dprl.algorithms.tabular.greedy import act_greedily
from dprl.compiled import kernel, no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer, Streams
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.sampling import SILENT, Noise, fill_noise

_NEAREST_STEPS = 12


class _Draws(NamedTuple):
    """The numbers of the draws.

    times int64[n], deviations float64[n]: numbers of users, and the standard deviation of a released cell after them,
    precision_scale multiplied in; per_root: if n = 0, the deviation after one user, which grows with the root of their
    number; transitions, losses: number of released cells that make one; scale: bonus_scale; normal: stream of draws.
    """

    times: Int64Array
    deviations: Float64Array
    per_root: float
    transitions: int
    losses: int
    scale: float
    normal: Noise


class _Tables(NamedTuple):
    """Arrays of planning.

    policy int64[H, S]; optimistic float64[S]: values of the draw, no bounds; cost float64[S]: cap less those of the
    next step; q float64[S*A]; drawn float64[H*S*A]; nearest float64[S']: scratch.
    """

    policy: Int64Array
    optimistic: Float64Array
    cost: Float64Array
    q: Float64Array
    drawn: Float64Array
    nearest: Float64Array


def plain_plan(
    counts: Float64Array, deviation: float, drawn: Float64Array, summands: tuple[int, int]
) -> tuple[Int64Array, Float64Array]:
    """Return the policy int64[H, S] by one draw, and its values float64[S] of the first step.

    counts float64[H, S+2, S, A]: transitions, visits, losses; deviation: of a released cell's noise;
    drawn float64[H, S, A]: z; summands: numbers of released cells that make a transition count and a loss count. The
    prior has mean cap/4 and deviation cap/2; the weight of the estimates is N^2 / (N^2 + variance of N + 1).
    """
    horizon, _, n_states, n_actions = counts.shape
    policy, values = np.zeros((horizon, n_states), dtype=np.int64), np.zeros(n_states)
    for h in reversed(range(horizon)):
        cap, q = float(horizon - h), np.zeros((n_states, n_actions))
        cost = cap - 1.0 - values
        for s, a in np.ndindex(n_states, n_actions):
            visits, losses = counts[h, n_states, s, a], counts[h, n_states + 1, s, a]
            n, weight = max(visits, 1.0), max(visits, 0.0) ** 2
            weight /= weight + n_states * summands[0] * deviation**2 + 1.0
            law = plain_nearest(counts[h, :n_states, s, a], n) / n
            mean, loss = law @ cost, np.clip(losses / n, 0.0, 1.0)
            sampling = max(law @ cost**2 - mean**2, 0.0) + loss * (1.0 - loss) + (1.0 + (cap - 1.0) ** 2) / n
            noise = summands[0] * ((cost - cost.mean()) ** 2).sum() + summands[1]
            known = min(np.sqrt(sampling / n + deviation**2 * noise / n**2), cap)
            centre = weight * (loss + mean) + (1.0 - weight) * cap / 4.0
            width = np.sqrt(weight * known**2 + (1.0 - weight) * cap**2 / 4.0)
            q[s, a] = cap - centre + drawn[h, s, a] * width
        policy[h], values = q.argmax(axis=1), np.clip(q.max(axis=1), 0.0, cap)
    return policy, values


@no_alloc_kernel
def fill_nearest(step: Float64Array, pair: int, total: float, nearest: Float64Array) -> None:
    """Fill nearest float64[S'] as `plain_nearest` does for step[:, pair], but the sum is only near `total`."""
    shift = 0.0
    for _ in range(_NEAREST_STEPS):  # Newton: x = max(N - shift, 0)
        left, number = -total, 0.0
        for t in range(nearest.shape[0]):
            above = step[t, pair] - shift
            left += max(above, 0.0)
            number += 1.0 if above > 0.0 else 0.0
        shift += left / max(number, 1.0)
    for t in range(nearest.shape[0]):
        nearest[t] = max(step[t, pair] - shift, 0.0)


@no_alloc_kernel
def estimate_cost(
    step: Float64Array, pair: int, cost: Float64Array, cap: float, noise: tuple[float, float], nearest: Float64Array
) -> tuple[float, float]:
    """Return mean and standard deviation of the cost of one (s, a) of a step, before any prior.

    step float64[S+2, S*A]: transitions, visits, losses; cost float64[S]: that of the next state; noise: variances of
    the noise of one transition count and of one loss count.
    """
    n_states = cost.shape[0]
    visits = max(step[n_states, pair], 1.0)
    fill_nearest(step, pair, visits, nearest)
    first, second, centre, spread = 0.0, 0.0, 0.0, 0.0
    for t in range(n_states):
        first += nearest[t] / visits * cost[t]
        second += nearest[t] / visits * cost[t] * cost[t]
        centre += cost[t] / n_states
    for t in range(n_states):
        spread += (cost[t] - centre) ** 2  # the total is known: only differences of costs matter
    loss = min(max(step[n_states + 1, pair] / visits, 0.0), 1.0)
    sampling = max(second - first * first, 0.0) + loss * (1.0 - loss) + (1.0 + (cap - 1.0) ** 2) / visits
    variance = sampling / visits + (noise[0] * spread + noise[1]) / (visits * visits)
    return loss + first, math.sqrt(variance)


@kernel
def plan(counts: Released, draws: _Draws, tables: _Tables) -> tuple[bool, float]:
    """Plan as `plain_plan` does; return (did the policy change, share of saturated cells)."""
    policy, optimistic, cost, q, drawn, nearest = tables
    horizon, n_states = policy.shape
    pairs = q.shape[0]
    values = counts.values.reshape((-1, n_states + 2, pairs))
    one, last = draws.per_root * math.sqrt(counts.users), draws.times.shape[0] - 1  # of one released cell's noise
    if last >= 0 and counts.users > 0:
        one = draws.deviations[min(np.searchsorted(draws.times, counts.users), last)]
    one = one**2
    noise = draws.transitions * one, draws.losses * one
    fill_noise(drawn, draws.normal, np.uint64(counts.users) * np.uint64(drawn.shape[0]))
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        cap = float(horizon - h)
        cost[:] = cap - 1.0 - optimistic
        step = values[h if values.shape[0] == horizon else 0]
        for j in range(pairs):
            visits = max(step[n_states, j], 0.0)
            mean, deviation = estimate_cost(step, j, cost, cap, noise, nearest)
            known = visits * visits / (visits * visits + n_states * noise[0] + 1.0)
            mean = known * mean + (1.0 - known) * 0.25 * cap
            deviation = math.sqrt(known * min(deviation, cap) ** 2 + (1.0 - known) * 0.25 * cap * cap)
            q[j] = cap - mean + draws.scale * drawn[h * pairs + j] * deviation
        moved, full = act_greedily(q, cap, policy[h], optimistic)
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * pairs)


run = learning_loop(plan)


@dataclass(frozen=True)
class RandomVIConfig(StationaryMDPConfig):
    """Value iteration on random draws around private counts, with the variances of data and noise (ours).

    bonus_scale multiplies the deviation of the draws, precision_scale the noise's part of it; with `preset: proved`
    neither is rescaled. No theorem covers it. By default it plans, with one draw, after every 1 % more episodes.
    """

    replan_growth: float = 0.01
    preset: Preset = "tuned"
    name: ClassVar[str] = "random_vi"
    tuned: ClassVar[tuple[float, float] | None] = (0.3, 0.1)
    counts_losses: ClassVar[bool] = True
    plan = staticmethod(plan)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.beta != RandomVIConfig.beta:
            raise ValueError(f"beta must be left out with {self.name}, got {self.beta:g}; it has no confidence bounds")

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Draws:
        """Return the deviations of the noise, without draws, so that plans use the means."""
        del env, episodes
        query = privatizer.query
        times, deviations, per_root = query.deviations()
        transitions, _, losses = query.families.families
        return _Draws(
            times=times,
            deviations=self.precision_scale * deviations,
            per_root=self.precision_scale * per_root,
            transitions=query.encoding.summands(transitions),
            losses=query.encoding.summands(losses),
            scale=self.bonus_scale,
            normal=SILENT,
        )

    def bonus_of_run(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int, streams: Streams) -> _Draws:
        """Return the deviations of the noise, with the run's stream of draws."""
        normal = Gaussian(1.0).noise(streams.key("exploration", self.name))
        return self.bonus(env, privatizer, episodes)._replace(normal=normal)

    def tables(self, env: FiniteMDP, episodes: int) -> _Tables:  # noqa: ARG002
        horizon, n_states, n_actions = env.rewards.shape
        pairs = n_states * n_actions
        return _Tables(
            policy=np.zeros((horizon, n_states), dtype=np.int64),
            optimistic=np.zeros(n_states),
            cost=np.zeros(n_states),
            q=np.zeros(pairs),
            drawn=np.zeros(horizon * pairs),
            nearest=np.zeros(n_states),
        )
