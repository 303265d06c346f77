"""Private-UCB-PO: optimistic policy optimisation on private counts ([CZ22] Algorithm 1).

With trust model none it is UCB-PO (Efroni, Shani, Rosenberg, Mannor 2020) with stochastic rewards seen along the way.
"""

# [CZ22] Algorithm 1, each line -> the function that does it, of this file if no other is named. Rewards replace costs:
# bonus and eta Q~ are added (`counts: costs` runs the printed signs, see optimistic_q).
#  1  pi^1(a|s) = 1/A                                -> PrivateUCBPOConfig.tables
#  2  C~, N~(s, a), N~(s, a, s') = 0                 -> privacy/queries/counts.py::CountQuery.open
#  3  precision levels E_1, E_2 of the Privatizer    -> algorithms/private_ucb_vi.py::CZ22Config.precision_bounds
#  4  for k = 1, ..., K                              -> algorithms/tabular/loop.py::learning_loop
#  5    V~_{H+1}(s) = 0                              -> plain_evaluation; _evaluate is the same, compiled
#  6    for h = H, ..., 1                            -> plain_evaluation, _evaluate
#  7      c~, P~ by eq. (1)                          -> algorithms/private_ucb_vi.py::optimistic_q
#  8      beta = beta^c + H beta^p by Lemma 1        -> PrivateUCBPOConfig.bonus; divided by D in optimistic_q
#  9      Q~ = min(H-h+1, max(0, c~ + P~ V~ - beta)) -> algorithms/private_ucb_vi.py::optimistic_q
# 10      V~(s) = sum_a Q~(s, a) pi(a|s)             -> _evaluate
# 11    roll out a trajectory by pi^k                -> algorithms/tabular/simulator.py::play_stochastic
# 12    receive C~, N~ from the Privatizer           -> privacy/queries/counts.py::send_and_aggregate
# 13    pi^{k+1} proportional to pi^k exp(-eta Q~)   -> _improve, at the start of the next plan

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array
from dprl.algorithms.numerics import exponential
from dprl.algorithms.private_ucb_vi import CZ22Bonus, CZ22Config, optimistic_q, plain_q
from dprl.algorithms.tabular import Released, learning_loop
from dprl.algorithms.tabular.simulator import play_stochastic, stochastic_regret
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer


class _Bonus(NamedTuple):
    """Numbers of planning. q: of eq. (1). eta: of the policy improvement after one episode."""

    q: CZ22Bonus
    eta: float


class _Tables(NamedTuple):
    """Arrays of planning.

    policy float64[H, S, A]: probabilities; optimistic float64[S]: optimistic values of a step; q float64[H, S*A]: those
    of the last evaluation; log_weights float64[H, S*A]: logarithms of the policy, up to a constant that makes the
    largest one of each (h, s) 0. Sums of 10^6 steps are exact enough; products of probabilities would underflow.
    """

    policy: Float64Array
    optimistic: Float64Array
    q: Float64Array
    log_weights: Float64Array


def plain_evaluation(counts: Released, policy: Float64Array, bonus: _Bonus) -> tuple[Float64Array, Float64Array]:
    """Return optimistic Q float64[H, S, A] of a policy float64[H, S, A], and V float64[S] of the first step.

    Paper: [CZ22] Algorithm 1, lines 5-10.
    """
    horizon, n_states, _ = policy.shape
    steps, q, values = counts.values.reshape(horizon, n_states + 2, -1), np.empty(policy.shape), np.zeros(n_states)
    for h in reversed(range(horizon)):
        q[h] = plain_q(steps[h], values, float(horizon - h), bonus.q).reshape(policy.shape[1:])
        values = (policy[h] * q[h]).sum(axis=1)
    return q, values


def plain_improvement(policy: Float64Array, q: Float64Array, eta: float) -> Float64Array:
    """Return the policy proportional to pi exp(eta Q). Paper: [CZ22] Algorithm 1, line 13."""
    weights = policy * np.exp(eta * q)
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


@no_alloc_kernel
def _improve(tables: _Tables, step: float) -> None:
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


@no_alloc_kernel
def _evaluate(counts: Released, bonus: _Bonus, tables: _Tables) -> float:
    """Optimistic evaluation of the policy; writes q and optimistic, returns the share of saturated cells.

    Paper: [CZ22] eq. (1) and Algorithm 1, lines 5-10.
    """
    policy, optimistic = tables.policy, tables.optimistic
    n_steps, n_states, n_actions = policy.shape
    pairs = n_states * n_actions
    steps = counts.values.reshape((n_steps, -1, pairs))
    saturated = 0
    optimistic[:] = 0.0  # line 5
    for h in range(n_steps - 1, -1, -1):  # line 6
        q = tables.q[h]
        cap = float(n_steps - h)
        optimistic_q(steps, h, optimistic, bonus.q, q)  # lines 7-9
        for s in range(n_states):  # line 10
            value = 0.0
            for a in range(n_actions):
                x = q[s * n_actions + a]
                saturated += x == cap
                value += policy[h, s, a] * x
            optimistic[s] = value
    share: float = saturated / (n_steps * pairs)
    return share


@no_alloc_kernel
def plan(counts: Released, bonus: _Bonus, tables: _Tables) -> tuple[bool, float]:
    """Improve the policy on the values of the last plan, then evaluate it on the current counts.

    Returns (did the policy change, share of saturated cells). An improvement after n > 1 new episodes is one step of
    length n eta. Before the first episode there is nothing to improve: pi^1 is uniform.
    Paper: [CZ22] Algorithm 1, line 13 of the episode before and lines 5-10.
    """
    step = counts.new * bonus.eta
    if step > 0.0:
        _improve(tables, step)
    return step > 0.0, _evaluate(counts, bonus, tables)


run = learning_loop(plan, play_stochastic, stochastic_regret)


@dataclass(frozen=True)
class PrivateUCBPOConfig(CZ22Config):
    """Private-UCB-PO, policy optimisation on private counts ([CZ22] Algorithm 1; with model none, UCB-PO)."""

    name: ClassVar[str] = "private_ucb_po"
    tuned: ClassVar[tuple[float, float] | None] = (0.01, 0.003)
    theorem: ClassVar[str | None] = "[CZ22] Theorem 1"
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int) -> _Bonus:
        """Return L_c/sqrt(D) + 3 E_1/D + H (L_p/sqrt(D) + (S E_2 + 2 E_1)/D), as its coefficients, and eta.

        E_1 bounds errors of visit and reward (or cost) counts, E_2 of transition counts; eta = sqrt(2 ln A/(H^2 K)).
        Paper: [CZ22] Lemma 1 and Theorem 1.
        """
        horizon, n_states, n_actions = env.rewards.shape
        e1, e2 = self.precision_bounds(privatizer)
        cells = n_states * n_actions * horizon * episodes
        l_c = math.sqrt(2.0 * math.log(4.0 * cells / self.beta))
        l_p = math.sqrt(4.0 * n_states * math.log(6.0 * cells / self.beta))
        return _Bonus(
            CZ22Bonus(
                e1=e1,
                per_root=self.bonus_scale * (l_c + horizon * l_p),
                per_count=self.bonus_scale * (3.0 * e1 + horizon * (n_states * e2 + 2.0 * e1)),
                costs=float(self.counts_losses),
            ),
            eta=math.sqrt(2.0 * math.log(n_actions) / (horizon**2 * episodes)),
        )

    def tables(self, env: FiniteMDP, episodes: int) -> _Tables:  # noqa: ARG002
        horizon, n_states, n_actions = env.rewards.shape
        return _Tables(
            policy=np.full((horizon, n_states, n_actions), 1.0 / n_actions),
            optimistic=np.zeros(n_states),
            q=np.zeros((horizon, n_states * n_actions)),
            log_weights=np.zeros((horizon, n_states * n_actions)),
        )
