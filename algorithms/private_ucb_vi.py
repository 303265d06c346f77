"""Private-UCB-VI: optimistic value iteration on private counts ([CZ22] Algorithm 2).

With trust model none it is UCB-VI with a Hoeffding bonus (Azar, Osband, Munos 2017) for step-dependent kernels.
"""

# [CZ22] Algorithm 2, each line -> the function that does it, of this file if no other is named. Rewards replace costs:
# max for min, and the bonus is added (`counts: costs` runs the printed signs, see optimistic_q).
#  1  C~, N~(s, a), N~(s, a, s') = 0                 -> privacy/queries/counts.py::CountQuery.open
#  2  precision levels E_1, E_2 of the Privatizer    -> algorithms/tabular/cz22.py::CZ22Config.precision_bounds
#  3  for k = 1, ..., K                              -> algorithms/tabular/loop.py::learning_loop
#  4    V~_{H+1}(s) = 0                              -> plan
#  5    for h = H, ..., 1                            -> plan
#  6      c~, P~ by eq. (1)                          -> algorithms/tabular/cz22.py::optimistic_q
#  7      beta = beta^c + beta^pv by Lemma 2         -> PrivateUCBVIConfig.bonus; divided by D in optimistic_q
#  8      Q~ = min(H-h+1, max(0, c~ + P~ V~ - beta)) -> algorithms/tabular/cz22.py::optimistic_q
#  9      V~(s) = min_a Q~(s, a)                     -> algorithms/tabular/greedy.py::act_greedily
# 10      pi(s) = argmin_a Q~(s, a)                  -> algorithms/tabular/greedy.py::act_greedily
# 11    roll out a trajectory by pi^k                -> algorithms/tabular/simulator.py::play
# 12    receive C~, N~ from the Privatizer           -> privacy/queries/count_kernels.py::send_and_release

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dprl.algorithms.tabular import Released, learning_loop
from dprl.algorithms.tabular.cz22 import CZ22Bonus, CZ22Config, optimistic_q
from dprl.algorithms.tabular.greedy import GreedyTables, act_greedily
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer


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
class PrivateUCBVIConfig(CZ22Config):
    """Private-UCB-VI, optimistic value iteration on private counts ([CZ22] Algorithm 2; with model none, UCB-VI)."""

    name: ClassVar[str] = "private_ucb_vi"
    tuned: ClassVar[tuple[float, float] | None] = (0.03, 0.0003)
    theorem: ClassVar[str | None] = "[CZ22] Theorem 2"
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> CZ22Bonus:
        """Return the bonus L_c/sqrt(D) + 3 E_1/D + H L_c/sqrt(D) + H (S E_2 + 2 E_1)/D, as its coefficients.

        With known transitions, S in S E_2 is the number of possible next states.

        E_1 bounds the errors of visit and reward (or cost) counts, E_2 those of transition counts.

        Paper: [CZ22] Lemma 2, with L_c of Lemma 1.
        """
        horizon, n_states, n_actions = env.rewards.shape
        e1, e2 = self.precision_bounds(privatizer)
        steps = horizon * episodes
        l_c = math.sqrt(2.0 * math.log(4.0 * n_states * n_actions * steps / self.beta))
        successors = self.successors(env)
        n_next = successors.shape[1] or n_states
        return CZ22Bonus(
            e1=e1,
            per_root=self.bonus_scale * (1 + horizon) * l_c,
            per_count=self.bonus_scale * (3.0 * e1 + horizon * (n_next * e2 + 2.0 * e1)),
            costs=float(self.counts_losses),
            successors=successors,
        )
