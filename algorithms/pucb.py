"""PUCB: optimistic planning where private counts are large, the highest value elsewhere (Vietri et al. 2020).

UBEV (Dann, Lattimore, Brunskill 2017) on counts with joint differential privacy. [CZ22] sec. 4 reports a gap in its
analysis: Lemma 18 takes private estimates for true costs and transitions, and the bonus cannot cover the error, because
the value function in it is not a fixed one; at best, the leading term of the regret has a further factor sqrt(S).
Privacy and optimism do not rest on that lemma.

The formulas follow this project's specification. The paper's text was not at hand: they are not checked against it.
* T of the paper is taken as the number of episodes K, and its beta' as beta/(2SAH): Hoeffding's inequality for rewards
  and for P V*, over all cells and counts, then fails with probability at most beta.
* E is one bound for all three families. Where 2 E < 1 a count must be at least 1, since estimates divide by it.
* Q is clipped at 0 from below, too. Where the confidence bounds hold, at the paper's constants, it is not negative.

The paper covers trust model jdp. Bonus and threshold need nothing but E, so ldp runs as well, a variant without a
source. With model none (E = 0) it is close to UBEV, not the same: ln(K/beta') stands for UBEV's iterated logarithm, H
for the largest next value, and one clip of Q for UBEV's two, of reward and of value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular import Released, TabularConfig, learning_loop
from dprl.envs import FiniteMDP
from dprl.privacy import Privatizer, kernel


class Bonus(NamedTuple):
    """The numbers of the exploration bonus, with bonus_scale and precision_scale multiplied in.

    e: E. enough: the visit count from which an estimate is used. per_root: factor of 1/sqrt(max(1, N - E)). per_count
    and per_square: factors of 1/N and 1/N^2.
    """

    e: float
    enough: float
    per_root: float
    per_count: float
    per_square: float


class Tables(NamedTuple):
    """What planning works on: policy int64[H, S]; optimistic values float64[S] of a step; q float64[S*A]."""

    policy: Int64Array
    optimistic: Float64Array
    q: Float64Array


@kernel
def plan(counts: Released, bonus: Bonus, tables: Tables) -> tuple[bool, float]:
    """Private planning; writes the greedy policy, returns (did it change, share of cells with Q = H).

    Q = clip(R/N + sum_s' N(s')/N V(s') + conf, 0, H) where N >= max(2 E, 1), else H. Estimated transitions are neither
    normalised nor clipped. Ties go to the lowest action.

    Paper: Vietri, Balle, Krishnamurthy, Wu 2020, PrivQ.
    """
    policy, optimistic, q = tables
    horizon, n_states = policy.shape
    pairs = q.shape[0]
    n_actions = pairs // n_states
    block = pairs * (n_states + 2)
    cap = float(horizon)
    changed, saturated = False, 0
    optimistic[:] = 0.0
    for h in range(horizon - 1, -1, -1):
        step = counts.values[h * block : (h + 1) * block]
        visits = step[n_states * pairs : (n_states + 1) * pairs]
        rewards = step[(n_states + 1) * pairs :]
        # R + sum_s' N(s') V(s'). The sum is outermost so that the innermost loop runs along (s, a) without gaps.
        for j in range(pairs):
            q[j] = rewards[j]
        for next_state in range(n_states):
            row = step[next_state * pairs : (next_state + 1) * pairs]
            v = optimistic[next_state]
            for j in range(pairs):
                q[j] += row[j] * v
        for j in range(pairs):
            n = max(bonus.enough, visits[j])
            over_n = 1.0 / n
            conf = bonus.per_root / math.sqrt(max(1.0, n - bonus.e))
            conf += (bonus.per_count + bonus.per_square * over_n) * over_n
            estimated = min(cap, max(0.0, q[j] * over_n + conf))
            q[j] = estimated if visits[j] >= bonus.enough else cap
        for s in range(n_states):
            best, action = -1.0, 0
            for a in range(n_actions):
                x = q[s * n_actions + a]
                saturated += x == cap
                if x > best:
                    best, action = x, a
            changed |= policy[h, s] != action
            policy[h, s] = action
            optimistic[s] = best
    return changed, saturated / (horizon * pairs)


run = learning_loop(plan)


@dataclass(frozen=True)
class PUCBConfig(TabularConfig):
    """PUCB, optimistic planning where private counts are large (Vietri et al. 2020; its regret analysis has a gap)."""

    name: ClassVar[str] = "pucb"
    plan = staticmethod(plan)
    run = staticmethod(run)

    @property
    def covered_by(self) -> None:
        """None whatever the settings: the published theorem has a gap ([CZ22] sec. 4)."""

    def bonus(self, mdp: FiniteMDP, privatizer: Privatizer, episodes: int) -> Bonus:
        """Return conf = (H+1) sqrt(2 ln(K/beta')/max(1, N - E)) + (1+SH)(3 E/N + 2 E^2/N^2), as its coefficients.

        beta' = beta/(2SAH); E bounds the errors of all counts.

        Paper: Vietri, Balle, Krishnamurthy, Wu 2020, PrivQ.
        """
        horizon, n_states, n_actions = mdp.rewards.shape
        e = self.precision_scale * max(privatizer.precision(self.beta).bounds.values())
        cells = n_states * n_actions * horizon
        phi = math.sqrt(2.0 * math.log(2.0 * cells * episodes / self.beta))
        psi = 1 + n_states * horizon
        return Bonus(
            e=e,
            enough=max(2.0 * e, 1.0),
            per_root=self.bonus_scale * (horizon + 1) * phi,
            per_count=self.bonus_scale * psi * 3.0 * e,
            per_square=self.bonus_scale * psi * 2.0 * e * e,
        )

    def tables(self, mdp: FiniteMDP, episodes: int) -> Tables:  # noqa: ARG002
        """Return policy, values and q of zeros."""
        horizon, n_states, n_actions = mdp.rewards.shape
        return Tables(
            policy=np.zeros((horizon, n_states), dtype=np.int64),
            optimistic=np.zeros(n_states),
            q=np.zeros(n_states * n_actions),
        )
