"""Settings and planning steps of both algorithms of [CZ22]."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from dprl.algorithms.base import Float64Array, check_choice
from dprl.algorithms.tabular.greedy import sum_of_next_costs, sum_of_next_values
from dprl.algorithms.tabular.learner import TabularMDPConfig
from dprl.compiled import inlined
from dprl.privacy import CountPrivatizer

Counts = Literal["rewards", "costs"]


class CZ22Bonus(NamedTuple):
    """Numbers of eq. (1), with bonus_scale and precision_scale multiplied in.

    e1: E_1, added to every visit count. per_root: factor of 1/sqrt(D). per_count: factor of 1/D. costs: 1 if users
    count costs, 0 if they count rewards.
    """

    e1: float
    per_root: float
    per_count: float
    costs: float = 0.0


@inlined
def optimistic_q(step: Float64Array, values: Float64Array, cap: float, bonus: CZ22Bonus, q: Float64Array) -> None:
    """Fill q float64[S*A] with upper bounds of the action values of one step.

    step float64[S+2, S*A]: transitions, visits, and rewards or costs; values float64[S]: upper bounds of the next
    step's values; cap: H-h+1. With D = max(1, N + E_1),

    * rewards: Q = clip(R/D + sum_s' N(s')/D V(s') + bonus, 0, cap);
    * costs, as printed: cap - Q, where Q = clip(C/D + sum_s' N(s')/D (cap - 1 - V(s')) - bonus, 0, cap) bounds the
      costs to go from below (D25).

    Estimated transitions N(s')/D are neither normalised nor clipped, as printed. With E_1 > 0 they sum to less than 1
    and lower estimated rewards and estimated costs alike: only the cost form gains optimism from it.

    Paper: [CZ22] eq. (1).
    """
    start = 0.0
    if bonus.costs > 0.0:
        sum_of_next_costs(step, values, cap - 1.0, q)
        start = cap
    else:
        sum_of_next_values(step, values, q)
    visits = step[values.shape[0]]
    for j in range(q.shape[0]):
        over_d = 1.0 / max(1.0, visits[j] + bonus.e1)
        bound = start + ((q[j] + bonus.per_count) * over_d + bonus.per_root * math.sqrt(over_d))
        q[j] = min(cap, max(0.0, bound))


@dataclass(frozen=True)
class CZ22Config(TabularMDPConfig):
    """Settings of both algorithms of [CZ22].

    Args:
        counts: 'rewards' (default) or 'costs' 1 - r, the form that the paper prints. The noise is the same; without
            noise the two differ only at pairs that nobody has visited and a bonus below the cap.
    """

    counts: Counts = "rewards"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("counts", self.counts, get_args(Counts))

    @property
    def counts_losses(self) -> bool:
        """Whether users count costs."""
        return self.counts == "costs"

    def precision_bounds(self, privatizer: CountPrivatizer) -> tuple[float, float]:
        """Return E_1, the error bound of visit and reward (or cost) counts, and E_2, that of transition counts.

        precision_scale is multiplied in.
        """
        bounds = privatizer.precision(self.beta).bounds
        third = bounds["losses" if self.counts_losses else "rewards"]
        return self.precision_scale * max(bounds["visits"], third), self.precision_scale * bounds["transitions"]
