"""Private-UCB-VI: optimistic value iteration on private counts ([CZ22] Algorithm 2).

With trust model none it is UCB-VI with a Hoeffding bonus (Azar, Osband, Munos 2017) for step-dependent kernels.
"""

# [CZ22] Algorithm 2, each line -> the function that does it, of this file if no other is named. Rewards replace costs:
# max for min, and the bonus is added (`counts: costs` runs the printed signs, see optimistic_q).
#  1  C~, N~(s, a), N~(s, a, s') = 0                 -> privacy/queries/counts.py::CountQuery.open
#  2  precision levels E_1, E_2 of the Privatizer    -> CZ22Config.precision_bounds
#     its noise and the scale of it                  -> privacy/designs/counts.py::CountPrivacy.design, see dprl.privacy
#  3  for k = 1, ..., K                              -> algorithms/tabular/loop.py::learning_loop
#  4    V~_{H+1}(s) = 0                              -> plain_plan; plan is the same, compiled
#  5    for h = H, ..., 1                            -> plain_plan, plan
#  6      c~, P~ by eq. (1)                          -> plain_q; optimistic_q in kernels
#  7      beta = beta^c + beta^pv by Lemma 2         -> PrivateUCBVIConfig.bonus; divided by D in optimistic_q
#  8      Q~ = min(H-h+1, max(0, c~ + P~ V~ - beta)) -> plain_q; optimistic_q in kernels
#  9      V~(s) = min_a Q~(s, a)                     -> plain_plan; algorithms/tabular/greedy.py::act_greedily
# 10      pi(s) = argmin_a Q~(s, a)                  -> plain_plan; algorithms/tabular/greedy.py::act_greedily
# 11    roll out a trajectory by pi^k                -> algorithms/tabular/simulator.py::play
# 12    receive C~, N~ from the Privatizer           -> privacy/queries/counts.py::send_and_aggregate, release

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular import Released, TabularMDPConfig, learning_loop
from dprl.algorithms.tabular.greedy import GreedyTables, act_greedily
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer

Counts = Literal["rewards", "costs"]


class CZ22Bonus(NamedTuple):
    """Numbers of eq. (1), with bonus_scale and precision_scale multiplied in.

    e1: E_1, added to visit counts. per_root, per_count: factors of 1/sqrt(D), 1/D. costs: 1 if users count costs, or 0.
    """

    e1: float
    per_root: float
    per_count: float
    costs: float = 0.0


def plain_q(step: Float64Array, values: Float64Array, cap: float, bonus: CZ22Bonus) -> Float64Array:
    """Return upper bounds of the action values of a step, float64[S*A].

    step float64[S+2, S*A]: transitions, visits, and rewards or costs; values float64[S]: upper bounds of the next
    step's values; cap: H-h+1. With D = max(1, N + E_1),

    * rewards: Q = clip(R/D + sum_s' N(s')/D V(s') + bonus, 0, cap);
    * costs, as printed: cap - Q, where Q = clip(C/D + sum_s' N(s')/D (cap - 1 - V(s')) - bonus, 0, cap) bounds the
      costs to go from below (D25).

    Estimated transitions N(s')/D are neither normalised nor clipped, as printed. With E_1 > 0 they sum to less than 1
    and lower estimated rewards and estimated costs alike: only the cost form gains optimism from it.
    Paper: [CZ22] eq. (1).
    """
    d = np.maximum(1.0, step[-2] + bonus.e1)
    beta = bonus.per_root / np.sqrt(d) + bonus.per_count / d
    if bonus.costs == 0.0:
        return np.asarray(np.clip(step[-1] / d + values @ (step[:-2] / d) + beta, 0.0, cap))
    return np.asarray(cap - np.clip(step[-1] / d + (cap - 1.0 - values) @ (step[:-2] / d) - beta, 0.0, cap))


def plain_plan(counts: Released, bonus: CZ22Bonus, shape: tuple[int, int, int]) -> tuple[Int64Array, Float64Array]:
    """Return the greedy policy int64[H, S] and Q float64[H, S, A]; shape: H, S, A.

    Paper: [CZ22] Algorithm 2, lines 4-10.
    """
    horizon, n_states, _ = shape
    steps, q, values = counts.values.reshape(horizon, n_states + 2, -1), np.empty(shape), np.zeros(n_states)
    for h in reversed(range(horizon)):
        q[h] = plain_q(steps[h], values, float(horizon - h), bonus).reshape(shape[1:])
        values = q[h].max(axis=1)
    return q.argmax(axis=2), q


@no_alloc_kernel
def optimistic_q(steps: Float64Array, h: int, values: Float64Array, bonus: CZ22Bonus, q: Float64Array) -> None:
    """Fill q float64[S*A] for step h, counted from 0, as `plain_q` does.

    steps float64[H, S+2, S*A].
    Paper: [CZ22] eq. (1).
    """
    step, start, cap = steps[h], 0.0, float(steps.shape[0] - h)
    width, sign, reach = step.shape[0] - 2, 1.0, 0.0
    if bonus.costs > 0.0:  # the costs to go, times -1: -C(s,a) - sum_s' N(s,a,s') (cap - 1 - V(s'))
        start, sign, reach = cap, -1.0, cap - 1.0
    visits, third = step[width], step[width + 1]
    for j in range(q.shape[0]):
        q[j] = sign * third[j]
    for next_state in range(width):
        row, v = step[next_state], values[next_state] - reach
        for j in range(q.shape[0]):
            q[j] += row[j] * v
    for j in range(q.shape[0]):
        over_d = 1.0 / max(1.0, visits[j] + bonus.e1)
        bound = start + ((q[j] + bonus.per_count) * over_d + bonus.per_root * math.sqrt(over_d))
        q[j] = min(cap, max(0.0, bound))


@no_alloc_kernel
def plan(counts: Released, bonus: CZ22Bonus, tables: GreedyTables) -> tuple[bool, float]:
    """Optimistic value iteration; writes the greedy policy, returns (did it change, share of saturated cells).

    Ties go to the lowest action.
    Paper: [CZ22] eq. (1) and Algorithm 2, lines 4-10.
    """
    policy, optimistic, q = tables
    horizon = policy.shape[0]
    steps = counts.values.reshape((horizon, -1, q.shape[0]))
    changed, saturated = False, 0
    optimistic[:] = 0.0  # line 4
    for h in range(horizon - 1, -1, -1):  # line 5
        cap = float(horizon - h)
        optimistic_q(steps, h, optimistic, bonus, q)  # lines 6-8
        moved, full = act_greedily(q, cap, policy[h], optimistic)  # lines 9-10
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * q.shape[0])


run = learning_loop(plan)


@dataclass(frozen=True)
class CZ22Config(TabularMDPConfig):
    """Settings of both algorithms of [CZ22].

    Args:
        counts: 'rewards' (default) or 'costs' 1 - r, the form printed in the paper. The noise is the same; without
            noise the two differ only at pairs without visits and with a bonus below the cap.
    """

    counts: Counts = "rewards"

    @property
    def counts_losses(self) -> bool:
        return self.counts == "costs"

    def precision_bounds(self, privatizer: CountPrivatizer) -> tuple[float, float]:
        """Return the error bounds E_1 of visit and reward (or cost) counts, and E_2 of transition counts.

        precision_scale is multiplied in.
        """
        bounds = privatizer.precision(self.beta)
        third = bounds["losses" if self.counts_losses else "rewards"]
        return self.precision_scale * max(bounds["visits"], third), self.precision_scale * bounds["transitions"]


@dataclass(frozen=True)
class PrivateUCBVIConfig(CZ22Config):
    """Private-UCB-VI, optimistic value iteration on private counts ([CZ22] Algorithm 2; with model none, UCB-VI)."""

    name: ClassVar[str] = "private_ucb_vi"
    tuned: ClassVar[tuple[float, float] | None] = (0.03, 0.0003)
    theorem: ClassVar[str | None] = "[CZ22] Theorem 2"
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> CZ22Bonus:
        """Return the bonus L_c/sqrt(D) + 3 E_1/D + H L_c/sqrt(D) + H (S E_2 + 2 E_1)/D, as its coefficients.

        E_1 bounds the errors of visit and reward (or cost) counts, E_2 those of transition counts.
        Paper: [CZ22] Lemma 2, with L_c of Lemma 1.
        """
        horizon, n_states, n_actions = env.rewards.shape
        e1, e2 = self.precision_bounds(privatizer)
        steps = horizon * episodes
        l_c = math.sqrt(2.0 * math.log(4.0 * n_states * n_actions * steps / self.beta))
        return CZ22Bonus(
            e1=e1,
            per_root=self.bonus_scale * (1 + horizon) * l_c,
            per_count=self.bonus_scale * (3.0 * e1 + horizon * (n_states * e2 + 2.0 * e1)),
            costs=float(self.counts_losses),
        )
