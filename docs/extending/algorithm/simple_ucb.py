"""An algorithm of one's own: optimistic value iteration on private counts, with one error bound for all of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from dprl.algorithms.tabular import Released, TabularMDPConfig, learning_loop
from dprl.algorithms.tabular.greedy import GreedyTables, act_greedily, greedy_tables, sum_of_next_values
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.platform.plugins import register_algorithm
from dprl.privacy import Privatizer


class Bonus(NamedTuple):
    """Numbers that planning adds: `error` to visit counts, per_root / sqrt(D) and per_count / D to values."""

    error: float
    per_root: float
    per_count: float


@no_alloc_kernel
def plan(counts: Released, bonus: Bonus, tables: GreedyTables) -> tuple[bool, float]:
    """Plan by backward induction; return whether the policy changed, and the share of values at their cap."""
    policy, optimistic, q = tables
    horizon, n_states = policy.shape
    steps = counts.values.reshape((horizon, n_states + 2, q.shape[0]))  # transitions to each state, visits, rewards
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        visits, cap = steps[h, n_states], float(horizon - h)
        sum_of_next_values(steps[h], optimistic, q)  # q = R + sum_s' N(s') V(s')
        for j in range(q.shape[0]):
            d = max(1.0, visits[j] + bonus.error)
            q[j] = min(cap, max(0.0, (q[j] + bonus.per_count) / d + bonus.per_root / math.sqrt(d)))
        moved, full = act_greedily(q, cap, policy[h], optimistic)
        changed |= moved
        saturated += full
    return changed, saturated / (horizon * q.shape[0])


run = learning_loop(plan)


@register_algorithm
@dataclass(frozen=True)
class SimpleUCBConfig(TabularMDPConfig):
    """Simple-UCB, optimistic value iteration with one error bound for all private counts (a plugin's)."""

    name: ClassVar[str] = "simple_ucb"
    plan = staticmethod(plan)
    run = staticmethod(run)

    def bonus(self, env: FiniteMDP, privatizer: Privatizer, episodes: int) -> Bonus:
        """Return the bonus: no count is off by more than E, so R/D + sum N V/D lacks (3 + 2H + SH) E/D at most."""
        horizon, n_states, n_actions = env.rewards.shape
        error = self.precision_scale * max(privatizer.precision(self.beta / 2.0).values())
        log = math.log(4.0 * n_states * n_actions * horizon * episodes / self.beta)
        return Bonus(
            error=error,
            per_root=self.bonus_scale * (1 + horizon) * math.sqrt(log),
            per_count=self.bonus_scale * (3 + 2 * horizon + n_states * horizon) * error,
        )

    def tables(self, env: FiniteMDP, episodes: int) -> GreedyTables:  # noqa: ARG002
        """Return policy, values and q of zeros."""
        return greedy_tables(env)
