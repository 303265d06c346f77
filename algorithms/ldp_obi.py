"""LDP-OBI: optimistic backward induction on private counts, confidence sets in the L1 norm (Garcelon et al. 2021).

Optimism with UCRL2's radius (Jaksch, Ortner, Auer 2010) for a finite horizon, on counts that users privatise. The bonus
bounds the L1 error of a whole transition vector, hence its factor sqrt(S).

The formulas are written from memory. The paper's text was not available, so they are not checked against it. At
alpha = 1 the terms in 1/D are those of [CZ22] Lemma 1. Known differences:
* The paper's kernel is the same at every step ([CZ22] Table 1, footnote 2). Here it may differ between steps, as in
  [CZ22]'s comparison, with counts per step. The logarithm is the same: SAH cells of k counts are SA cells of Hk.
* The bounds c_1..c_4 on the errors of counts are the privatizer's, the same for all episodes; the paper's grow with k.
* A transition count is divided by the visit count, not by a sum of noisy transition counts; c_3 = c_2, as in [CZ22].
* alpha > 1 is the paper's condition; the value 2 is a choice of this project.
* Values are also clipped at 0 from below. If the confidence bounds hold, at the paper's constants, none is negative.

The paper covers trust model ldp. The bonus needs only the bounds, so jdp and none run too, without a source.
"""

# LDP-OBI as read here (the lines are ours), each line -> the function that does it, of this file if no other is named.
#  1  N~, R~ = 0                                                   -> privacy/queries/counts.py::CountQuery.open
#  2  c_1, c_2, c_4 bound the errors of private counts             -> LDPOBIConfig.bonus
#  3  for k = 1, ..., K                                            -> algorithms/tabular/loop.py::learning_loop
#  4    V~_{H+1}(s) = 0; for h = H, ..., 1                         -> plain_plan; plan is the same, compiled
#  5      D = max(1, N~ + alpha c_2)                               -> plain_plan, plan
#  6      beta^r, beta^p (radii of rewards and, in L1, of transitions) -> LDPOBIConfig.bonus; divided by D in plan
#  7      R~ + sum_s' N~(s') V~(s')                                -> algorithms/tabular/greedy.py::sum_of_next_values
#  8      Q~ = line 7 / D + beta^r + (H-h+1) beta^p                -> plan
#  9      pi(s) = argmax_a Q~(s, a), V~ = clip(max_a Q~, 0, H-h+1) -> algorithms/tabular/greedy.py::act_greedily
# 10    roll out a trajectory by pi^k                              -> algorithms/tabular/simulator.py::play
# 11    the user sends a private report; the server adds it   -> privacy/queries/counts.py::send_and_aggregate

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
from dprl.envs.checks import require_number
from dprl.privacy import CountPrivatizer


class _Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    added: alpha c_2, added to every visit count. log_union: ln(4 pi^2 SAH/(3 beta)); ln k^3 is added to it.
    reward_ and transition_: of beta^r and of beta^p; root: factor of sqrt(L/D); count: factor of 1/D.
    """

    added: float
    log_union: float
    reward_root: float
    reward_count: float
    transition_root: float
    transition_count: float


def plain_plan(counts: Released, bonus: _Bonus, shape: tuple[int, int, int]) -> tuple[Int64Array, Float64Array]:
    """Return the greedy policy int64[H, S] and Q float64[H, S, A]; shape: H, S, A.

    Estimated transitions are neither normalised nor clipped.
    Paper: Garcelon, Perchet, Pike-Burke, Pirotta 2021, LDP-OBI.
    """
    horizon, n_states, _ = shape
    steps, q, values = counts.values.reshape(horizon, n_states + 2, -1), np.empty(shape), np.zeros(n_states)
    root_l = math.sqrt(bonus.log_union + 3.0 * math.log(counts.users + 1.0))
    for h in reversed(range(horizon)):
        cap, d = float(horizon - h), np.maximum(1.0, steps[h, n_states] + bonus.added)
        beta_r = bonus.reward_root * root_l / np.sqrt(d) + bonus.reward_count / d
        beta_p = bonus.transition_root * root_l / np.sqrt(d) + bonus.transition_count / d
        estimated = (steps[h, n_states + 1] + values @ steps[h, :n_states]) / d
        q[h] = (estimated + beta_r + cap * beta_p).reshape(shape[1:])
        values = np.clip(q[h].max(axis=1), 0.0, cap)
    return q.argmax(axis=2), q


@no_alloc_kernel
def plan(counts: Released, bonus: _Bonus, tables: GreedyTables) -> tuple[bool, float]:
    """Plan as `plain_plan` does; return (did the policy change, share of cells with Q >= H-h+1).

    Paper: Garcelon, Perchet, Pike-Burke, Pirotta 2021, LDP-OBI.
    """
    policy, optimistic, q = tables
    horizon, n_states = policy.shape
    steps = counts.values.reshape((horizon, n_states + 2, q.shape[0]))
    root_l = math.sqrt(bonus.log_union + 3.0 * math.log(counts.users + 1.0))
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        visits = steps[h, n_states]
        cap = float(horizon - h)
        per_root = (bonus.reward_root + cap * bonus.transition_root) * root_l
        per_count = bonus.reward_count + cap * bonus.transition_count
        sum_of_next_values(steps[h], optimistic, q)
        for j in range(q.shape[0]):
            over_d = 1.0 / max(1.0, visits[j] + bonus.added)
            q[j] = (q[j] + per_count) * over_d + per_root * math.sqrt(over_d)
        moved, full = act_greedily(q, cap, policy[h], optimistic)
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * q.shape[0])


run = learning_loop(plan)


@dataclass(frozen=True)
class LDPOBIConfig(TabularMDPConfig):
    """LDP-OBI, L1 confidence sets on local reports (Garcelon et al. 2021), formulas not checked against the source.

    Transition kernels may differ between steps.

    Args:
        alpha: at least 1, the number of error bounds added to a visit count; the paper requires more than 1.
    """

    alpha: float = 2.0
    name: ClassVar[str] = "ldp_obi"
    tuned: ClassVar[tuple[float, float] | None] = (0.1, 0.0001)
    plan = staticmethod(plan)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_number("alpha", self.alpha, 1.0)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:  # noqa: ARG002
        """Return the coefficients of beta^r and beta^p.

        beta^r = sqrt(2 L/D) + ((alpha+1) c_2 + c_1)/D and beta^p = sqrt(14 S L/D) + (S c_4 + (alpha+1) c_2)/D with
        L = ln(4 pi^2 SAH k^3/(3 beta)); c_1, c_2, c_4 bound the errors of reward, visit and transition counts.
        Paper: Garcelon, Perchet, Pike-Burke, Pirotta 2021, LDP-OBI.
        """
        horizon, n_states, n_actions = env.rewards.shape
        bounds = privatizer.precision(self.beta)
        c1, c2, c4 = (self.precision_scale * bounds[name] for name in ("rewards", "visits", "transitions"))
        cells = n_states * n_actions * horizon
        return _Bonus(
            added=self.alpha * c2,
            log_union=math.log(4.0 * math.pi**2 * cells / (3.0 * self.beta)),
            reward_root=self.bonus_scale * math.sqrt(2.0),
            reward_count=self.bonus_scale * ((self.alpha + 1.0) * c2 + c1),
            transition_root=self.bonus_scale * math.sqrt(14.0 * n_states),
            transition_count=self.bonus_scale * (n_states * c4 + (self.alpha + 1.0) * c2),
        )
