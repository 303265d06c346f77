"""Private-UCB-PO: optimistic policy optimisation on private counts ([CZ22] Algorithm 1).

With trust model none it is UCB-PO, the optimistic policy optimisation of Efroni, Shani, Rosenberg, Mannor (2020) for
stochastic rewards seen along the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.tabular import Released, learning_loop
from dprl.algorithms.tabular.cz22 import Bonus as QBonus
from dprl.algorithms.tabular.cz22 import CZ22Config, optimistic_q
from dprl.algorithms.tabular.exponential import exponential
from dprl.algorithms.tabular.simulator import play_stochastic, stochastic_regret
from dprl.compiled import inlined
from dprl.envs import FiniteMDP
from dprl.privacy import Privatizer


class Bonus(NamedTuple):
    """Numbers of planning. q: of eq. (1). eta: of the policy improvement after one episode."""

    q: QBonus
    eta: float


class Tables(NamedTuple):
    """What planning works on.

    policy float64[H, S, A]: probabilities; optimistic float64[S]: optimistic values of a step; q float64[H, S*A]: those
    of the last evaluation; log_weights float64[H, S*A]: logarithms of the policy, up to a constant that makes the
    largest one of each (h, s) 0. Sums of 10^6 steps stay exact enough, where products of probabilities would vanish.
    """

    policy: Float64Array
    optimistic: Float64Array
    q: Float64Array
    log_weights: Float64Array


@inlined
def improve(tables: Tables, step: float) -> None:
    """Multiply pi(a|s) by exp(step * Q(s, a)) and normalise.

    Costs to go are H-h+1 - Q, a shift that the normalisation removes.

    Paper: [CZ22] Algorithm 1, line 13.
    """
    n_actions = tables.policy.shape[2]
    policy, q, weights = tables.policy.reshape(-1), tables.q.reshape(-1), tables.log_weights.reshape(-1)
    for j in range(policy.shape[0]):
        weights[j] += step * q[j]
    for row in range(policy.shape[0] // n_actions):
        largest = weights[row * n_actions]
        for a in range(1, n_actions):
            largest = max(largest, weights[row * n_actions + a])
        for a in range(n_actions):
            weights[row * n_actions + a] -= largest
    for j in range(policy.shape[0]):
        policy[j] = exponential(weights[j])
    for row in range(policy.shape[0] // n_actions):
        total = 0.0
        for a in range(n_actions):
            total += policy[row * n_actions + a]
        share = 1.0 / total
        for a in range(n_actions):
            policy[row * n_actions + a] *= share


@inlined
def evaluate(counts: Released, bonus: Bonus, tables: Tables) -> float:
    """Optimistic evaluation of the policy; writes q and optimistic, returns the share of saturated cells.

    V = sum_a pi(a|s) Q.

    Paper: [CZ22] eq. (1) and Algorithm 1, lines 5-10.
    """
    policy, optimistic = tables.policy, tables.optimistic
    n_steps, n_states, n_actions = policy.shape
    pairs = n_states * n_actions
    steps = counts.values.reshape((n_steps, n_states + 2, pairs))
    saturated = 0
    optimistic[:] = 0.0  # line 5
    for h in range(n_steps - 1, -1, -1):  # line 6
        q = tables.q[h]
        cap = float(n_steps - h)
        optimistic_q(steps[h], optimistic, cap, bonus.q, q)  # lines 7-9
        for s in range(n_states):  # line 10
            value = 0.0
            for a in range(n_actions):
                x = q[s * n_actions + a]
                saturated += x == cap
                value += policy[h, s, a] * x
            optimistic[s] = value
    share: float = saturated / (n_steps * pairs)
    return share


@inlined
def plan(counts: Released, bonus: Bonus, tables: Tables) -> tuple[bool, float]:
    """Improve the policy on the values of the last plan, then evaluate it on the counts of today.

    Returns (did the policy change, share of saturated cells). An improvement after n > 1 new episodes is one step of
    length n eta. Before the first episode there is nothing to improve: pi^1 is uniform.

    Paper: [CZ22] Algorithm 1, line 13 of the episode before and lines 5-10.
    """
    step = counts.new * bonus.eta
    if step > 0.0:
        improve(tables, step)
    return step > 0.0, evaluate(counts, bonus, tables)


run = learning_loop(plan, play_stochastic, stochastic_regret)


@dataclass(frozen=True)
class PrivateUCBPOConfig(CZ22Config):
    """Private-UCB-PO, policy optimisation on private counts ([CZ22] Algorithm 1; with model none, UCB-PO)."""

    name: ClassVar[str] = "private_ucb_po"
    bounds_optimum: ClassVar[bool] = False
    theorem: ClassVar[str | None] = "[CZ22] Theorem 1"
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: Privatizer, episodes: int) -> Bonus:
        """Return L_c/sqrt(D) + 3 E_1/D + H (L_p/sqrt(D) + (S E_2 + 2 E_1)/D), as its coefficients, and eta.

        E_1 bounds the errors of visit and reward (or cost) counts, E_2 those of transition counts;
        eta = sqrt(2 ln A/(H^2 K)).

        Paper: [CZ22] Lemma 1 and Theorem 1.
        """
        horizon, n_states, n_actions = env.rewards.shape
        e1, e2 = self.precision_bounds(privatizer)
        cells = n_states * n_actions * horizon * episodes
        l_c = math.sqrt(2.0 * math.log(4.0 * cells / self.beta))
        l_p = math.sqrt(4.0 * n_states * math.log(6.0 * cells / self.beta))
        return Bonus(
            QBonus(
                e1=e1,
                per_root=self.bonus_scale * (l_c + horizon * l_p),
                per_count=self.bonus_scale * (3.0 * e1 + horizon * (n_states * e2 + 2.0 * e1)),
                costs=float(self.counts_losses),
            ),
            eta=math.sqrt(2.0 * math.log(n_actions) / (horizon**2 * episodes)),
        )

    def tables(self, env: FiniteMDP, episodes: int) -> Tables:  # noqa: ARG002
        """Return the uniform policy, and zeros."""
        horizon, n_states, n_actions = env.rewards.shape
        return Tables(
            policy=np.full((horizon, n_states, n_actions), 1.0 / n_actions),
            optimistic=np.zeros(n_states),
            q=np.zeros((horizon, n_states * n_actions)),
            log_weights=np.zeros((horizon, n_states * n_actions)),
        )
