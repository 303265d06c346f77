"""Settings and planning steps of both algorithms of [CZ22]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dprl.algorithms.base import Float64Array, Int64Array
from dprl.algorithms.tabular.greedy import sum_of_next_costs, sum_of_next_values, sum_of_possible
from dprl.algorithms.tabular.learner import TabularMDPConfig
from dprl.algorithms.tabular.simulator import ALL_STATES, possible_successors
from dprl.compiled import no_alloc_kernel
from dprl.envs import FiniteMDP
from dprl.privacy import CountPrivatizer

Counts = Literal["rewards", "costs"]


class CZ22Bonus(NamedTuple):
    """Numbers of eq. (1), with bonus_scale and precision_scale multiplied in.

    e1: E_1, added to every visit count. per_root: factor of 1/sqrt(D). per_count: factor of 1/D. costs: 1 if users
    count costs, 0 if they count rewards. successors int64[L, R, S*A]: the possible next states, the only ones that are
    counted, see `possible_successors`; L = 0 if they are unknown.
    """

    e1: float
    per_root: float
    per_count: float
    costs: float = 0.0
    successors: Int64Array = ALL_STATES


@no_alloc_kernel
def optimistic_q(steps: Float64Array, h: int, values: Float64Array, bonus: CZ22Bonus, q: Float64Array) -> None:
    """Fill q float64[S*A] with upper bounds of the action values of step h, counted from 0.

    steps float64[H, S+2, S*A]: transitions, visits, and rewards or costs; values float64[S]: upper bounds of the next
    step's values; cap: H-h+1. With D = max(1, N + E_1),

    * rewards: Q = clip(R/D + sum_s' N(s')/D V(s') + bonus, 0, cap);
    * costs, as printed: cap - Q, where Q = clip(C/D + sum_s' N(s')/D (cap - 1 - V(s')) - bonus, 0, cap) bounds the
      costs to go from below (D25).

    Estimated transitions N(s')/D are neither normalised nor clipped, as printed. With E_1 > 0 they sum to less than 1
    and lower estimated rewards and estimated costs alike: only the cost form gains optimism from it.

    Paper: [CZ22] eq. (1).
    """
    step, start, cap = steps[h], 0.0, float(steps.shape[0] - h)
    if bonus.successors.shape[0] > 0:
        after = bonus.successors[min(h, bonus.successors.shape[0] - 1)]
        start = cap if bonus.costs > 0.0 else 0.0
        sum_of_possible(step, after, values, (-1.0, cap - 1.0) if bonus.costs > 0.0 else (1.0, 0.0), q)
    elif bonus.costs > 0.0:
        sum_of_next_costs(step, values, cap - 1.0, q)
        start = cap
    else:
        sum_of_next_values(step, values, q)
    visits = step[step.shape[0] - 2]
    for j in range(q.shape[0]):
        over_d = 1.0 / max(1.0, visits[j] + bonus.e1)
        bound = start + ((q[j] + bonus.per_count) * over_d + bonus.per_root * math.sqrt(over_d))
        q[j] = min(cap, max(0.0, bound))


@dataclass(frozen=True)
class CZ22Config(TabularMDPConfig):
    """Settings of both algorithms of [CZ22].

    Args:
        counts: 'rewards' (default) or 'costs' 1 - r, the form printed in the paper. The noise is the same; without
            noise the two differ only at pairs without visits and with a bonus below the cap.
        known_transitions: the possible transitions are public, their probabilities are not. Only these are counted,
            and large environments with few next states need no full table. No theorem of the paper covers that.
    """

    counts: Counts = "rewards"
    known_transitions: bool = False

    @property
    def counts_losses(self) -> bool:
        """Whether users count costs."""
        return self.counts == "costs"

    @property
    def covered_by(self) -> str | None:
        """The paper's theorem, unless only possible transitions are counted."""
        return None if self.known_transitions else super().covered_by

    def successors(self, env: FiniteMDP) -> Int64Array:
        """Return the next states that are counted: the possible ones if they are known."""
        return possible_successors(env, env.horizon) if self.known_transitions else ALL_STATES

    def precision_bounds(self, privatizer: CountPrivatizer) -> tuple[float, float]:
        """Return the error bounds E_1 of visit and reward (or cost) counts, and E_2 of transition counts.

        precision_scale is multiplied in.
        """
        bounds = privatizer.precision(self.beta).bounds
        third = bounds["losses" if self.counts_losses else "rewards"]
        return self.precision_scale * max(bounds["visits"], third), self.precision_scale * bounds["transitions"]
