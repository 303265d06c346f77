"""PUCB: optimistic planning where private counts are large, the highest value elsewhere (Vietri et al. 2020).

UBEV (Dann, Lattimore, Brunskill 2017) on counts with joint differential privacy. [CZ22] sec. 4 reports a gap in its
analysis: Lemma 18 treats private estimates as true costs and transitions, and the bonus cannot cover the error, because
its value function is not a fixed one; at best, the leading term of the regret has a further factor sqrt(S). Privacy and
optimism do not depend on that lemma.

The text of the paper was not at hand, so the formulas are not checked against it.
* T of the paper is taken as the number of episodes K, and its beta' as beta/(2SAH): Hoeffding's inequality for rewards
  and for P V*, over all cells and counts, then fails with probability at most beta.
* E is one bound for all three families. If 2 E < 1, a count must be at least 1, because estimates divide by it.
* Q is also clipped at 0 from below. If the confidence bounds hold, at the paper's constants, it is not negative.

The paper covers trust model jdp. Bonus and threshold need only E, so ldp runs too, as a variant without a source. With
model none (E = 0) it is close to UBEV but not the same: ln(K/beta') replaces UBEV's iterated logarithm, H the largest
next value, and one clip of Q replaces UBEV's two, of reward and of value.
"""

# PUCB as read here (the lines are ours), each line -> the function that does it, of this file if no other is named.
#  1  N~, R~ = 0                                       -> privacy/queries/counts.py::CountQuery.open
#  2  E bounds the errors of all private counts        -> PUCBConfig.bonus
#  3  for k = 1, ..., K                                -> algorithms/tabular/loop.py::learning_loop
#  4    V~_{H+1}(s) = 0; for h = H, ..., 1             -> plain_plan; plan is the same, compiled
#  5      R~ + sum_s' N~(s') V~(s')                    -> algorithms/tabular/greedy.py::sum_of_next_values
#  6      conf = (H+1) phi + psi, see bonus            -> PUCBConfig.bonus, plan
#  7      Q~ = clip(line 5 / N~ + conf, 0, H) if N~ >= max(2 E, 1), else H -> plan
#  8      pi(s) = argmax_a Q~(s, a), V~(s) = its value -> algorithms/tabular/greedy.py::act_greedily
#  9    roll out a trajectory by pi^k                  -> algorithms/tabular/simulator.py::play
# 10    receive N~, R~ from the private counters       -> privacy/queries/counts.py::send_and_aggregate

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular import Released, TabularMDPConfig, learning_loop
from dprl.algorithms.tabular.greedy import GreedyTables, act_greedily, sum_of_next_values
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer


class _Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. enough: the least visit count for which an estimate is used. per_root: factor of 1/sqrt(max(1, N - E)).
    per_count and per_square: factors of 1/N and 1/N^2.
    """

    e: float
    enough: float
    per_root: float
    per_count: float
    per_square: float


def plain_plan(counts: Released, bonus: _Bonus, shape: tuple[int, int, int]) -> tuple[Int64Array, Float64Array]:
    """Return the greedy policy int64[H, S] and Q float64[H, S, A]; shape: H, S, A.

    Estimated transitions are neither normalised nor clipped.
    Paper: Vietri, Balle, Krishnamurthy, Wu 2020, PrivQ.
    """
    horizon, n_states, _ = shape
    steps, q, values = counts.values.reshape(horizon, n_states + 2, -1), np.empty(shape), np.zeros(n_states)
    for h in reversed(range(horizon)):
        n = np.maximum(bonus.enough, steps[h, n_states])
        conf = bonus.per_root / np.sqrt(np.maximum(1.0, n - bonus.e)) + bonus.per_count / n + bonus.per_square / n**2
        estimated = np.clip((steps[h, n_states + 1] + values @ steps[h, :n_states]) / n + conf, 0.0, horizon)
        q[h] = np.where(steps[h, n_states] >= bonus.enough, estimated, horizon).reshape(shape[1:])
        values = q[h].max(axis=1)
    return q.argmax(axis=2), q


@no_alloc_kernel
def plan(counts: Released, bonus: _Bonus, tables: GreedyTables) -> tuple[bool, float]:
    """Plan as `plain_plan` does; return (did the policy change, share of cells with Q = H).

    Paper: Vietri, Balle, Krishnamurthy, Wu 2020, PrivQ.
    """
    policy, optimistic, q = tables
    horizon, n_states = policy.shape
    steps = counts.values.reshape((horizon, n_states + 2, q.shape[0]))
    cap = float(horizon)
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        visits = steps[h, n_states]
        sum_of_next_values(steps[h], optimistic, q)
        for j in range(q.shape[0]):
            n = max(bonus.enough, visits[j])
            over_n = 1.0 / n
            conf = bonus.per_root / math.sqrt(max(1.0, n - bonus.e))
            conf += (bonus.per_count + bonus.per_square * over_n) * over_n
            estimated = min(cap, max(0.0, q[j] * over_n + conf))
            q[j] = estimated if visits[j] >= bonus.enough else cap
        moved, full = act_greedily(q, cap, policy[h], optimistic)
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * q.shape[0])


run = learning_loop(plan)


@dataclass(frozen=True)
class PUCBConfig(TabularMDPConfig):
    """PUCB, optimism where private counts are large (Vietri et al. 2020), formulas not checked against the source.

    [CZ22] reports a gap in its regret analysis.
    """

    name: ClassVar[str] = "pucb"
    tuned: ClassVar[tuple[float, float] | None] = (0.003, 0.03)
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:
        """Return conf = (H+1) sqrt(2 ln(K/beta')/max(1, N - E)) + (1+SH)(3 E/N + 2 E^2/N^2), as its coefficients.

        beta' = beta/(2SAH); E bounds the errors of all counts.
        Paper: Vietri, Balle, Krishnamurthy, Wu 2020, PrivQ.
        """
        horizon, n_states, n_actions = env.rewards.shape
        e = self.precision_scale * max(privatizer.precision(self.beta).values())
        cells = n_states * n_actions * horizon
        phi = math.sqrt(2.0 * math.log(2.0 * cells * episodes / self.beta))
        psi = 1 + n_states * horizon
        return _Bonus(
            e=e,
            enough=max(2.0 * e, 1.0),
            per_root=self.bonus_scale * (horizon + 1) * phi,
            per_count=self.bonus_scale * psi * 3.0 * e,
            per_square=self.bonus_scale * psi * 2.0 * e * e,
        )
